"""Writes adamw.json: 20 steps of torch.optim.AdamW behind torch.nn.utils.clip_grad_norm_.

The weight matrix decays, the bias does not. The gradients grow and shrink, so that some steps are clipped and
some are not; the learning rate changes from step to step.

    python make_adamw.py        (written with torch 2.15)
"""

import json
import pathlib

import torch

torch.manual_seed(0)
STEPS, CLIP = 20, 1.0
SETTING = {"beta1": 0.9, "beta2": 0.95, "epsilon": 1e-8, "weight_decay": 0.1}

weight = torch.nn.Parameter(torch.randn(5, 7))
bias = torch.nn.Parameter(torch.randn(5))
initial = [weight.detach().flatten().tolist(), bias.detach().tolist()]

optimizer = torch.optim.AdamW(
    [{"params": [weight], "weight_decay": SETTING["weight_decay"]}, {"params": [bias], "weight_decay": 0.0}],
    betas=(SETTING["beta1"], SETTING["beta2"]),
    eps=SETTING["epsilon"],
)
steps = []
for step in range(STEPS):
    lr = 0.02 * (1 + step % 5)
    scale = 0.02 if step % 3 == 0 else 0.5
    for group in optimizer.param_groups:
        group["lr"] = lr
    weight.grad = scale * torch.randn(5, 7)
    bias.grad = scale * torch.randn(5)
    grads = [weight.grad.flatten().tolist(), bias.grad.tolist()]
    norm = torch.nn.utils.clip_grad_norm_([weight, bias], CLIP)
    optimizer.step()
    steps.append(
        {
            "lr": lr,
            "grads": grads,
            "norm": norm.item(),
            "params": [weight.detach().flatten().tolist(), bias.detach().tolist()],
        }
    )

golden = {"grad_norm_max": CLIP, **SETTING, "initial": initial, "steps": steps}
path = pathlib.Path(__file__).with_name("adamw.json")
path.write_text(json.dumps(golden, separators=(",", ":")) + "\n")
