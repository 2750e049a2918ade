#!/usr/bin/env bash
# Compiles the emulated driver, cuBLAS and NVRTC into FOLDER, as libcuda.so, with a libown.so that it needs, libcublas.so and
# libnvrtc.so.
#
#   build.sh FOLDER KERNELS ...      attention kernels: HEAD_DIM:TILE in f32, HEAD_DIM:ROWS:COLUMNS on tensor cores, HEAD_DIM
#                                    for those of 9.0
set -euo pipefail
folder=$1; shift
sources=$(dirname "$0")
# A card refuses an access to an address that is no multiple of its width; here it ends the program (SIGILL).
aligned="-fsanitize=alignment -fsanitize-undefined-trap-on-error"
compile() {
  local source=$1 object=$2; shift 2
  # As many at once as there are cores.
  while (($(jobs -rp | wc -l) >= $(nproc))); do wait -n; done
  g++ -std=c++17 -O1 -fPIC -fno-semantic-interposition -Wno-unknown-pragmas -Wno-psabi $aligned "$@" \
    -c "$sources/$source" -o "$folder/$object" &
  compilers+=("$!")
}
driver=() compilers=()
add() { compile "$@"; driver+=("$folder/$2"); }
add driver.cpp driver.o -O2 -fno-sanitize=alignment
add kernels.cpp kernels.o
for tensor in 0 1; do
  for by_channel in 0 1; do
    add delta.cpp "delta-$tensor-$by_channel.o" "-DTENSOR=$tensor" "-DBY_CHANNEL=$by_channel"
  done
done
for kernel in "$@"; do
  case $kernel in
    *:*:*)
      IFS=: read -r dim rows columns <<<"$kernel"
      add attention.cpp "attention-mma-$kernel.o" "-DHEAD_DIM=$dim" "-DROWS=$rows" "-DCOLUMNS=$columns" ;;
    *:*) add attention.cpp "attention-$kernel.o" "-DHEAD_DIM=${kernel%:*}" "-DTILE=${kernel#*:}" ;;
    *) add attention.cpp "attention-wgmma-$kernel.o" "-DHEAD_DIM=$kernel" ;;
  esac
done
compile cublas.cpp cublas.o -O2
compile nvrtc.cpp nvrtc.o
compile own.cpp own.o
for compiler in "${compilers[@]}"; do wait "$compiler"; done
link() { local name=$1; shift; g++ -shared -Wl,-Bsymbolic "-Wl,-soname,lib$name.so" -o "$folder/lib$name.so" "$@"; }
link own "$folder/own.o"
link cuda "${driver[@]}" "-L$folder" -lown '-Wl,-rpath,$ORIGIN'
link cublas "$folder/cublas.o" "-L$folder" -lcuda
link nvrtc "$folder/nvrtc.o"
