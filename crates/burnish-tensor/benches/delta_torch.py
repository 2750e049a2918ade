"""Times what the benchmarks `delta_rule` and `short_conv` of ops.rs do, in torch: forward and backward.

    python delta_torch.py [THREADS]          needs torch and transformers 5.23
"""

import sys
import time

import torch
from transformers.models.qwen3_next.modeling_qwen3_next import causal_conv1d_fn, torch_chunk_gated_delta_rule

torch.set_num_threads(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
torch.manual_seed(0)
heads, dim = 4, 64
q, k, v = (torch.randn(16, 256, heads, dim, requires_grad=True) for _ in range(3))
log_decay = (-torch.rand(16, 256, heads)).requires_grad_()
beta = torch.rand(16, 256, heads).requires_grad_()
x = torch.randn(16, 3 * heads * dim, 256, requires_grad=True)
weight = torch.randn(3 * heads * dim, 4, requires_grad=True)


def delta():
    out, _ = torch_chunk_gated_delta_rule(q, k, v, g=log_decay, beta=beta, use_qk_l2norm_in_kernel=True)
    out.sum().backward()


def conv():
    causal_conv1d_fn(x, weight, activation="silu").sum().backward()


for name, run in [("delta_rule", delta), ("short_conv", conv)]:
    times = []
    for _ in range(12):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    times.sort()
    print(f"{name}: fastest {1e3 * times[0]:.1f} ms, median {1e3 * times[len(times) // 2]:.1f} ms, {torch.get_num_threads()} threads")
