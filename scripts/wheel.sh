#!/usr/bin/env bash
# Builds the wheel, the program with the Python package beside it, and tries it in a fresh virtual environment.
#
#   scripts/wheel.sh [--profile dist|release] [OUT_DIR]      OUT_DIR: target/wheels, or under CARGO_TARGET_DIR
#
# Needs the Rust toolchain, Python 3.9 or newer with venv (PYTHON names one), and the network for maturin and pandas.
set -euo pipefail
profile=dist
out=
while [ $# -gt 0 ]; do
  case $1 in
    --profile) profile=${2:-}; shift ;;
    -*) sed -n '4s/^# *//p' "$0"; exit 2 ;;
    *) [ -z "$out" ] || { sed -n '4s/^# *//p' "$0"; exit 2; }; out=$(realpath -m "$1") ;;
  esac
  shift || true
done
case $profile in dist | release) ;; *) echo "--profile is dist or release, not '$profile'" >&2; exit 2 ;; esac
cd "$(dirname "$0")/.."
out=${out:-$(realpath -m "${CARGO_TARGET_DIR:-target}/wheels")}
python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' \
  || { echo "$python is not Python 3.9 or newer; name one: PYTHON=python3.12 $0" >&2; exit 1; }
"$python" -c 'import venv, ensurepip' 2>/dev/null \
  || { echo "$python has no venv: apt install python3-venv, or name another: PYTHON=python3.12 $0" >&2; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1

echo "== build ($profile)"
"$python" -m venv "$work/build"
"$work/build/bin/pip" install --quiet maturin==1.16.0
mkdir "$work/wheel"
"$work/build/bin/maturin" build --profile "$profile" --out "$work/wheel"
name=$(basename "$work"/wheel/burnish-*.whl)
mkdir -p "$out"
mv "$work/wheel/$name" "$out"
wheel=$out/$name
echo "$wheel: $(stat -c %s "$wheel") bytes"

# try COMMAND ...: runs a command of the fresh environment, which sees neither the source tree nor another burnish.
try() { env -u BURNISH -u PYTHONPATH PATH="$work/fresh/bin:$PATH" "$@"; }

echo "== try it"
"$python" -m venv "$work/fresh"
try pip install --quiet --no-index "$wheel"
try burnish --version
try python -c 'import burnish; print(burnish.__version__, burnish.__file__)'
# What the package can use but does not need, so that no test has a reason to be skipped.
try pip install --quiet "${wheel}[pandas]" tomli
try python -m unittest discover -v -s python/tests 2>&1 | tee "$work/log"
if grep -q ' skipped ' "$work/log"; then
  echo "tests were skipped" >&2; exit 1
fi
echo "$wheel works"
