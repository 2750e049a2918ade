"""Compiles every CUDA kernel with the real NVRTC, which needs no GPU, and prints what each takes of a card.

    python scripts/check_cuda_kernels.py [--nvrtc FOLDER] [--arch sm_80 sm_90 ...] [--all]

NVRTC: `pip install --target FOLDER nvidia-cuda-nvrtc`, or the nvidia folder of a PyTorch wheel; without --nvrtc the
packages of this Python and LD_LIBRARY_PATH are searched. Prints one line per
program and card, or per kernel with --all: registers of the largest kernel, spilled bytes, shared memory that attention
asks for. Fails if a source does not compile, if a kernel spills more than 128 bytes of registers, if products of 9.0 wait
for each other, or if attention in bf16 has no kernel on tensor cores for heads of 64 and 128 on a card that has them.
"""

import argparse
import ctypes
import glob
import os
import re
import sys

KERNELS = os.path.join(os.path.dirname(__file__), "../crates/burnish-tensor/src/cuda/kernels")
HEAD_DIMS = [6, 16, 32, 64, 80, 96, 128, 256]
# Shared memory that a block may have, in bytes.
SHARED = {
    "sm_75": 64 << 10,
    "sm_80": 163 << 10,
    "sm_86": 99 << 10,
    "sm_89": 99 << 10,
    "sm_90": 227 << 10,
    "sm_100": 227 << 10,
    "sm_120": 99 << 10,
}
SPILL_BYTES_MAX = 128
# Where a warp that only gathers numbers has 24 registers (attention_wgmma.cu).
SPILL_BYTES_MAX_24 = 192


def fma(head_dim, shared):
    """The macros of attention.cu and its bytes of shared memory, as `method_of` in ops/attention.rs has them."""
    stride = (head_dim + 15) // 16 * 16 + 4
    size = lambda t: 4 * (4 * t * stride + t * (t + 4))
    tile = next((t for t in (64, 32) if size(t) <= shared), 16)
    return [f"-DHEAD_DIM={head_dim}", f"-DTILE={tile}"], size(tile)


def mma(head_dim, shared):
    """The same for attention_mma.cu; None if no tiles fit."""
    decoding = 2 * 17 * 16 * (head_dim + 8)
    size = lambda rows, columns: max(decoding, 2 * (2 * rows + 4 * columns) * (head_dim + 8) + 4 * 2 * columns)
    order = ((64, 64), (64, 32)) if head_dim <= 128 else ((128, 32), (64, 32))
    tiles = next((tiles for tiles in order if size(*tiles) <= shared), None)
    if tiles is None:
        return None
    return [f"-DHEAD_DIM={head_dim}", f"-DROWS={tiles[0]}", f"-DCOLUMNS={tiles[1]}"], size(*tiles)


def wgmma(head_dim, columns=128, stages=2):
    """The most bytes of shared memory of a kernel of attention_wgmma.cu, as `wgmma_bytes` in ops/attention.rs has them."""
    return 1024 + 2 * head_dim * (2 * 128 + 2 * stages * columns) + 16 * (stages + 1) + 8 * (4 * stages + 2)


HEADERS = {
    "attention_mma.cu": ["mma.cuh", "walk.cuh"],
    "attention_wgmma.cu": ["mma.cuh", "hopper.cuh", "walk.cuh"],
    "few_rows.cu": ["mma.cuh"],
    "delta.cu": ["mma.cuh", "delta.cuh"],
    "delta_backward.cu": ["mma.cuh", "delta.cuh"],
}


def variants(name, arch):
    """Pairs of macros and bytes of shared memory of a file for a card; none if the card can't run it."""
    if name == "attention.cu":
        return [fma(d, SHARED[arch]) for d in HEAD_DIMS]
    if name == "attention_wgmma.cu":
        return [([f"-DHEAD_DIM={d}"], wgmma(d)) for d in (64, 128)] if arch == "sm_90" else []
    if name.startswith("delta"):
        # Shared memory of the largest kernel: four operands and a tile in f32, or ten operands in bf16. That is more than
        # 7.5 has.
        size = lambda tensor: 64 * (10 * 2 * 72 if tensor else 5 * 4 * 68)
        both = [(tensor, by_channel) for tensor in (0, 1) for by_channel in (0, 1) if size(0) <= SHARED[arch]]
        return [([f"-DTENSOR={t}", f"-DBY_CHANNEL={c}"], size(t)) for t, c in both]
    if name == "few_rows.cu":
        return [([], 0)] if arch != "sm_75" else []
    if name != "attention_mma.cu":
        return [([], 0)]
    if arch == "sm_75":
        return []  # no bf16 on tensor cores
    found = {d: mma(d, SHARED[arch]) for d in HEAD_DIMS if d % (16 if d <= 128 else 32) == 0}
    missing = [d for d in (64, 128) if found[d] is None]
    if missing:
        sys.exit(f"attention on tensor cores does not fit {arch} for heads of {missing}")
    return [variant for variant in found.values() if variant]


def load(folder):
    roots = [folder] if folder else [*sys.path, *os.environ.get("LD_LIBRARY_PATH", "").split(":")]
    found = [
        path
        for root in roots
        if root
        for pattern in ("libnvrtc.so*", "nvidia/*/lib/libnvrtc.so*", "**/libnvrtc.so*" if folder else "libnvrtc.so*")
        for path in sorted(glob.glob(os.path.join(root, pattern), recursive=True))
    ]
    if not found:
        sys.exit("no libnvrtc found: pip install --target FOLDER nvidia-cuda-nvrtc, then --nvrtc FOLDER")
    return ctypes.CDLL(found[0])


def compile_one(nvrtc, name, source, options):
    """The log of ptxas; exits where the source does not compile."""
    program = ctypes.c_void_p()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), name.encode(), 0, None, None)
    texts = [option.encode() for option in options]
    status = nvrtc.nvrtcCompileProgram(program, len(texts), (ctypes.c_char_p * len(texts))(*texts))
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    if status != 0:
        sys.exit(f"{name} {options}: NVRTC status {status}\n{log.value.decode()}")
    return log.value.decode()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nvrtc")
    parser.add_argument("--arch", nargs="+", default=list(SHARED), choices=list(SHARED))
    parser.add_argument("--all", action="store_true", help="one line per kernel")
    arguments = parser.parse_args()
    nvrtc = load(arguments.nvrtc)
    read = lambda name: open(os.path.join(KERNELS, name)).read()
    spilled = []
    print(f"{'arch':8}{'program':48}{'kernel':32}{'registers':>10}{'spilled':>9}{'shared':>9}")
    for arch in arguments.arch:
        for path in sorted(glob.glob(os.path.join(KERNELS, "*.cu"))):
            name = os.path.basename(path)
            source = "\n".join(map(read, ["common.cuh", *HEADERS.get(name, []), name]))
            # Instructions that later cards do not have need an architecture of their own.
            is_own = name == "attention_wgmma.cu"
            for macros, shared in variants(name, arch):
                options = [f"--gpu-architecture={arch}{'a' if is_own else ''}", "--std=c++17", "--ptxas-options=-v", *macros]
                log = compile_one(nvrtc, name, source, options)
                parts = re.split(r"Compiling entry function '(\w+)'", log)
                rows = []
                for kernel, text in zip(parts[1::2], parts[2::2]):
                    registers = int(re.search(r"Used (\d+) registers", text)[1])
                    spills = sum(int(n) for n in re.findall(r"(\d+) bytes spill", text))
                    rows.append((registers, spills, kernel))
                program = " ".join([name, *(macro[2:] for macro in macros)])
                if not rows:
                    sys.exit(f"{program} on {arch}: no report of ptxas in\n{log}")
                spills_max = SPILL_BYTES_MAX_24 if is_own else SPILL_BYTES_MAX
                spilled += [f"{kernel} of {program} on {arch}" for _, n, kernel in rows if n > spills_max]
                # Where products wait for each other, ptxas says so, and why.
                if "wgmma.mma_async instructions are serialized" in log:
                    sys.exit(f"{program} on {arch}: {re.search('.*are serialized.*', log)[0]}")
                if not arguments.all:
                    rows = [(max(row[0] for row in rows), sum(row[1] for row in rows), f"(largest of {len(rows)})")]
                for registers, spills, kernel in rows:
                    print(f"{arch:8}{program:48}{kernel:32}{registers:10}{spills:9}{shared or '':>9}", flush=True)
    if spilled:
        sys.exit(f"registers are spilled: {', '.join(spilled)}")


main()
