#!/usr/bin/env bash
# Ours on an NVIDIA GPU, beside the CPU and beside PyTorch on the same card: one JSON line a row.
#
#   bench/gpu.sh PYTHON [--device cuda:0] [--out FILE] [--units N] [STAGE ...]    all stages if none is given
#   bench/gpu.sh --list                                               the stages; each takes less than eight minutes
#
# Needs the binaries burnish and burnish-bench, built by
#   cargo build --release -p burnish -p burnish-bench
# and looked for in BURNISH_BINARIES (default: target/release), and a PYTHON with torch, transformers and numpy. NVRTC and
# cuBLAS are taken from PYTHON's own nvidia packages where the loader does not find them. docs/gpu.md says more.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# -eq 0 ]; then sed -n '2,11s/^# \{0,1\}//p' bench/gpu.sh; exit 2; fi
if [ "$1" = --list ]; then exec python3 bench/gpu.py --list; fi
python=$1; shift
libraries=$("$python" - <<'PY'
import glob, os, site
folders = [path for root in site.getsitepackages() for path in glob.glob(os.path.join(root, "nvidia", "**", "lib"), recursive=True)]
print(":".join(folders))
PY
)
export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$libraries"
exec "$python" bench/gpu.py --binaries "${BURNISH_BINARIES:-${CARGO_TARGET_DIR:-target}/release}" \
  --cache "${BURNISH_BENCH_CACHE:-target/bench}" "$@"
