#!/usr/bin/env bash
# Instructions of one training step and one decoding step on the reference shape (c), one thread, beside the committed
# numbers. Times are noisy, instructions are not. valgrind has no AVX-512: what it counts is the AVX2 path.
#
#   bench/instructions.sh             fails if a step takes 5 % more instructions than bench/instructions.json says
#   bench/instructions.sh --update    writes bench/instructions.json
set -euo pipefail
cd "$(dirname "$0")/.."
committed=bench/instructions.json
room=5
if ! command -v valgrind >/dev/null; then
  echo "bench/instructions.sh needs valgrind: apt-get install valgrind (Debian, Ubuntu), dnf install valgrind (Fedora)" >&2
  exit 1
fi
cargo build --locked --release --quiet -p burnish-bench
bench=${CARGO_TARGET_DIR:-target}/release/burnish-bench
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# count KIND STEPS: instructions of the whole process, into a file.
count() {
  valgrind --tool=cachegrind --cache-sim=no --cachegrind-out-file=/dev/null "$bench" count "$1" "$2" 2>"$work/log-$1-$2" \
    || { cat "$work/log-$1-$2" >&2; exit 1; }
  sed -n 's/.*I *refs: *//p' "$work/log-$1-$2" | tr -d ', ' >"$work/$1-$2"
}
# The difference between two numbers of steps leaves the start out. Training steps are slow here and all alike, the
# trainer is made in the first: 1 and 2. Decoding: 2 and 6.
count train 2 & longest=$!
count train 1
count decode 2
count decode 6
wait "$longest"
train=$(($(cat "$work/train-2") - $(cat "$work/train-1")))
decode=$((($(cat "$work/decode-6") - $(cat "$work/decode-2")) / 4))

if [ "${1:-}" = --update ]; then
  printf '{\n  "train": %s,\n  "decode": %s\n}\n' "$train" "$decode" >"$committed"
  cat "$committed"
  exit 0
fi
failed=0
# compare NAME MEASURED
compare() {
  local allowed
  allowed=$(sed -n "s/.*\"$1\": *\([0-9]*\).*/\1/p" "$committed")
  echo "instructions of a $1 step: $2, committed $allowed"
  if [ $(($2 * 100)) -gt $((allowed * (100 + room))) ]; then
    echo "that is more than $room % above: make it cheaper, or say why and run bench/instructions.sh --update" >&2
    failed=1
  elif [ $(($2 * 100)) -lt $((allowed * (100 - room))) ]; then
    echo "that is more than $room % below: run bench/instructions.sh --update, so that it stays"
  fi
}
compare train "$train"
compare decode "$decode"
exit $failed
