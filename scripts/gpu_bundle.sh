#!/usr/bin/env bash
# Packs what a machine with a GPU needs to try and measure this program, where there is no cargo: stripped binaries, and
# the tests of burnish-tensor, which run on the GPU there. Says how large it is, and tries it in an empty folder.
#
#   scripts/gpu_bundle.sh [--profile release|dist] [OUT_DIR]      OUT_DIR: target/gpu-bundle, or under CARGO_TARGET_DIR
#
# In OUT_DIR: burnish, burnish-bench, burnish-tensor-tests, and try.sh, which runs the tests on the first GPU:
#   OUT_DIR/try.sh [FILTER]
# For measuring, BURNISH_BINARIES=OUT_DIR bench/gpu.sh PYTHON from a checkout. Needs the Rust toolchain and strip
# (binutils). Fails if the folder is larger than 60 MiB packed.
set -euo pipefail
profile=release
out=
while [ $# -gt 0 ]; do
  case $1 in
    --profile) profile=${2:-}; shift ;;
    -*) sed -n '5s/^# *//p' "$0"; exit 2 ;;
    *) [ -z "$out" ] || { sed -n '5s/^# *//p' "$0"; exit 2; }; out=$(realpath -m "$1") ;;
  esac
  shift || true
done
case $profile in dist | release) ;; *) echo "--profile is dist or release, not '$profile'" >&2; exit 2 ;; esac
command -v strip >/dev/null || { echo "strip is missing: apt install binutils" >&2; exit 1; }
cd "$(dirname "$0")/.."
built=${CARGO_TARGET_DIR:-target}
out=${out:-$(realpath -m "$built/gpu-bundle")}
mib_max=60

cargo build --locked --profile "$profile" -p burnish -p burnish-bench
tests=$(cargo test --locked --profile "$profile" -p burnish-tensor --lib --no-run --message-format=json \
  | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -1)
[ -x "$tests" ] || { echo "cargo named no test program of burnish-tensor" >&2; exit 1; }

rm -rf "$out"
mkdir -p "$out"
for program in burnish burnish-bench; do strip -o "$out/$program" "$built/$profile/$program"; done
strip -o "$out/burnish-tensor-tests" "$tests"
cat >"$out/try.sh" <<'TRY'
#!/usr/bin/env bash
# The tests of burnish-tensor on the first GPU; FILTER: part of their names. NVRTC and cuBLAS are taken from the nvidia
# packages of python3 where the loader does not find them.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
libraries=$(python3 -c 'import glob, site
print(":".join(p for s in site.getsitepackages() for p in glob.glob(s + "/nvidia/**/lib", recursive=True)))' || true)
export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$libraries" BURNISH_TEST_GPU=1
"$here/burnish" --version
exec "$here/burnish-tensor-tests" "${1:-cuda}"
TRY
chmod +x "$out/try.sh"
tar -czf "$out.tar.gz" -C "$(dirname "$out")" "$(basename "$out")"

# It starts elsewhere, without this checkout's folders and variables.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar -xzf "$out.tar.gz" -C "$work"
(cd "$work" && for program in "burnish --version" "burnish-bench --help" "burnish-tensor-tests --list"; do
  env -i "$work/$(basename "$out")"/$program >"$work/said" || { echo "$program fails in an empty folder" >&2; exit 1; }
  head -1 "$work/said"
done)

stat -c '%n: %s bytes' "$out"/* "$out.tar.gz"
bytes=$(stat -c %s "$out.tar.gz")
[ "$bytes" -le $((mib_max << 20)) ] || { echo "$out.tar.gz is larger than $mib_max MiB" >&2; exit 1; }
