#!/usr/bin/env bash
# Ours beside the peers, unit by unit, one JSON line a row.
#
#   bench/peers.sh PYTHON [--out FILE] [--pairs N] [ROW ...]     ROW: a row or the beginning of its name; all if none is given
#   bench/peers.sh PYTHON --list                                 the rows with their bars
#   bench/peers.sh PYTHON --check                                the comparer's arithmetic checks itself
#
# PYTHON has torch, transformers, trl, accelerate and datasets. Models are made under target/bench (BURNISH_BENCH_CACHE).
set -euo pipefail
if [ $# -eq 0 ]; then sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2; fi
python=$1; shift
cd "$(dirname "$0")/.."
case " $* " in *" --list "* | *" --check "*) exec "$python" bench/compare.py "$@" ;; esac
cargo build --locked --release -p burnish-bench -p burnish >&2
target=${CARGO_TARGET_DIR:-target}
exec "$python" bench/compare.py --binaries "$target/release" --cache "${BURNISH_BENCH_CACHE:-target/bench}" "$@"
