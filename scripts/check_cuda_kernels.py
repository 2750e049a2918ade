"""Compiles every CUDA kernel with the real NVRTC, which needs no GPU, and prints what each takes of a card.

    python scripts/check_cuda_kernels.py [--nvrtc FOLDER] [--arch sm_80 sm_90]

NVRTC: `pip install --target FOLDER nvidia-cuda-nvrtc`, or the nvidia folder of a PyTorch wheel; without --nvrtc the
packages of this Python and LD_LIBRARY_PATH are searched. Fails if a source does not compile, or if a kernel spills more
than 64 bytes of registers.
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
SHARED = {"sm_80": 163 << 10, "sm_86": 99 << 10, "sm_89": 99 << 10, "sm_90": 227 << 10, "sm_100": 227 << 10}
SPILL_BYTES_MAX = 64


def tile(head_dim, shared):
    """As `tile_of` in ops/attention.rs."""
    stride = (head_dim + 15) // 16 * 16 + 4
    fits = [t for t in (64, 32) if 4 * (4 * t * stride + t * (t + 4)) <= shared]
    return fits[0] if fits else 16


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
    parser.add_argument("--arch", nargs="+", default=["sm_80", "sm_90"], choices=sorted(SHARED))
    arguments = parser.parse_args()
    nvrtc = load(arguments.nvrtc)
    read = lambda name: open(os.path.join(KERNELS, name)).read()
    spilled = []
    print(f"{'arch':7}{'program':40}{'kernel':32}{'registers':>10}{'spilled bytes':>15}")
    for arch in arguments.arch:
        for path in sorted(glob.glob(os.path.join(KERNELS, "*.cu"))):
            name = os.path.basename(path)
            variants, headers = [[]], ["common.cuh"]
            if name == "attention.cu":
                variants = [[f"-DHEAD_DIM={d}", f"-DTILE={tile(d, SHARED[arch])}"] for d in HEAD_DIMS]
            elif name == "attention_mma.cu":
                headers.append("mma.cuh")
                variants = [[f"-DHEAD_DIM={d}"] for d in HEAD_DIMS if d % 16 == 0 and d <= 128]
            for macros in variants:
                options = [f"--gpu-architecture={arch}", "--std=c++17", "--ptxas-options=-v", *macros]
                source = "\n".join(map(read, [*headers, name]))
                log = compile_one(nvrtc, name, source, options)
                parts = re.split(r"Compiling entry function '(\w+)'", log)
                for kernel, text in zip(parts[1::2], parts[2::2]):
                    registers = int(re.search(r"Used (\d+) registers", text)[1])
                    spills = sum(int(n) for n in re.findall(r"(\d+) bytes spill", text))
                    program = " ".join([name, *(macro[2:] for macro in macros)])
                    print(f"{arch:7}{program:40}{kernel:32}{registers:10}{spills:15}")
                    if spills > SPILL_BYTES_MAX:
                        spilled.append(f"{kernel} of {program} on {arch}")
    if spilled:
        sys.exit(f"registers are spilled: {', '.join(spilled)}")


main()
