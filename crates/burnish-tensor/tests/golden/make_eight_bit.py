"""Golden vectors of 8-bit moments, by bitsandbytes on a CPU: its maps, its quantisation, its AdamW.

Its library for CPUs quantises f32 by a table that is coarse near 0. For other types it searches the nearest value, as its
kernels for GPUs do for all, so numbers go through f64 here.

    pip install torch bitsandbytes numpy
    python make_eight_bit.py > eight_bit.json
"""

import json

import bitsandbytes as bnb
import bitsandbytes.backends.cpu.ops as cpu
import bitsandbytes.functional as F
import torch


def numbers(x):
    return [float(f"{v:.9g}") for v in x.detach().double().flatten().tolist()]


def nearest(x, code):
    return torch.ops.bitsandbytes.quantize_blockwise(x.double(), code, 256)


def quantise_into(x, code, absmax_out, codes_out, blocksize):
    codes, absmax = nearest(x, code)
    codes_out.copy_(codes)
    absmax_out.copy_(absmax)


cpu._quant_blockwise_fp32_direct = quantise_into


def quantised(x, code):
    codes, absmax = nearest(x, code)
    return {"x": numbers(x), "codes": codes.tolist(), "absmax": numbers(absmax)}


torch.manual_seed(7)
signed, unsigned = F.create_dynamic_map(True), F.create_dynamic_map(False)
spread = torch.randn(600) * torch.exp(torch.randn(600) * 3)
spread[256:300] = 0.0

count, steps = 520, 5
hyper = {"lr": 0.02, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "weight_decay": 0.1}
parameter = torch.nn.Parameter(torch.randn(count))
before = numbers(parameter)
optimizer = bnb.optim.AdamW8bit(
    [parameter],
    lr=hyper["lr"],
    betas=(hyper["beta1"], hyper["beta2"]),
    eps=hyper["eps"],
    weight_decay=hyper["weight_decay"],
    min_8bit_size=0,
)
gradients = []
for _ in range(steps):
    parameter.grad = torch.randn(count) * torch.exp(torch.randn(count))
    gradients.append(numbers(parameter.grad))
    optimizer.step()
state = optimizer.state[parameter]
print(
    json.dumps(
        {
            "versions": {"bitsandbytes": bnb.__version__, "torch": torch.__version__},
            "signed": numbers(signed),
            "unsigned": numbers(unsigned),
            "of_signed": quantised(spread, signed),
            "of_unsigned": quantised(spread.abs(), unsigned),
            "adamw": {
                "hyper": hyper,
                "before": before,
                "gradients": gradients,
                "after": numbers(parameter),
                "m": {"codes": state["state1"].tolist(), "absmax": numbers(state["absmax1"])},
                "v": {"codes": state["state2"].tolist(), "absmax": numbers(state["absmax2"])},
            },
        }
    )
)
