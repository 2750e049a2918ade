#!/usr/bin/env bash
# Builds what is shipped, says how large it is, and tries it where nothing else is installed:
#   - a wheel for glibc, with support for NVIDIA GPUs (scripts/wheel.sh);
#   - a static program for any Linux, CPU only.
#
#   scripts/release.sh [OUT_DIR]      OUT_DIR: target/release-VERSION
#
# Needs, besides what scripts/wheel.sh needs: musl-gcc (apt install musl-tools), the Rust target
# (rustup target add x86_64-unknown-linux-musl), and chroot: as root, or with user namespaces.
set -euo pipefail
cd "$(dirname "$0")/.."
target=x86_64-unknown-linux-musl
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
built=${CARGO_TARGET_DIR:-target}
out=$(realpath -m "${1:-$built/release-$version}")

grep -q "^## $version" CHANGELOG.md || { echo "CHANGELOG.md has no section for $version" >&2; exit 1; }
command -v musl-gcc >/dev/null || { echo "musl-gcc is missing: apt install musl-tools" >&2; exit 1; }
[ -d "$(rustc --print sysroot)/lib/rustlib/$target" ] \
  || { echo "the Rust target is missing: rustup target add $target" >&2; exit 1; }
# bare ROOT PROGRAM ...: runs a program that sees nothing but ROOT, not even variables.
chroot=("$(command -v chroot)")
[ "$(id -u)" = 0 ] || chroot=("$(command -v unshare)" --map-root-user "${chroot[@]}")
bare() { local root=$1; shift; env -i "${chroot[@]}" "$root" "$@"; }
bare / /bin/true || { echo "chroot does not work here: run as root, or allow user namespaces" >&2; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"

# try_in ROOT: the program in ROOT trains, is interrupted by its last step, goes on, and evaluates.
try_in() {
  local root=$1
  mkdir -p "$root/tmp"
  bare "$root" /burnish --version
  bare "$root" /burnish train quickstart run.dir=run train.max_steps=2 eval.tasks=20 checkpoint.every=1 >"$work/log"
  bare "$root" /burnish train --resume run train.max_steps=3 >>"$work/log"
  bare "$root" /burnish eval run
  test -s "$root/run/report.html"
  test -s "$root/run/checkpoints/step_3/model.safetensors"
}

echo "== a static program"
cargo build --locked --profile dist --target "$target" -p burnish
program=$out/burnish-$version-$target
cp "$built/$target/dist/burnish" "$program"
if ldd "$program" 2>/dev/null | grep -q '=>'; then
  echo "$program is not static:"; ldd "$program"; exit 1
fi
mkdir "$work/static"
cp "$program" "$work/static/burnish"
try_in "$work/static"

echo "== a wheel"
bash scripts/wheel.sh "$out"
wheel=$(ls -t "$out"/burnish-"$version"-*.whl | head -1)
mkdir "$work/glibc"
python3 -m zipfile -e "$wheel" "$work/wheel"
cp "$work"/wheel/burnish-*.data/scripts/burnish "$work/glibc/burnish"
chmod +x "$work/glibc/burnish"
# Beside the program, only the libraries of glibc.
ldd "$work/glibc/burnish" | grep -o '/[^ ]*' | while read -r library; do
  mkdir -p "$work/glibc$(dirname "$library")"
  cp -L "$library" "$work/glibc$library"
done
try_in "$work/glibc"

echo "== $version"
stat -c '%n: %s bytes' "$program" "$wheel"
