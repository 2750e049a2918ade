"""Writes schedules.json: learning rates of transformers' schedules, update by update.

    python make_schedules.py        (written with torch 2.15, transformers 5.23)
"""

import json
import pathlib

import torch
from transformers.optimization import (
    get_constant_schedule_with_warmup,
    get_cosine_schedule_with_warmup,
    get_cosine_with_min_lr_schedule_with_warmup,
    get_linear_schedule_with_warmup,
    get_polynomial_decay_schedule_with_warmup,
)

PEAK, STEPS = 3e-4, 40


def rates(make):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=PEAK)
    schedule = make(optimizer)
    out = []
    for _ in range(STEPS + 1):
        out.append(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
    return out


cases = []
for warmup in (0, 7):
    for decay, final_share, make in [
        ("constant", 0.0, lambda o: get_constant_schedule_with_warmup(o, warmup)),
        ("linear", 0.0, lambda o: get_linear_schedule_with_warmup(o, warmup, STEPS)),
        (
            "linear",
            0.2,
            lambda o: get_polynomial_decay_schedule_with_warmup(o, warmup, STEPS, lr_end=0.2 * PEAK, power=1.0),
        ),
        ("cosine", 0.0, lambda o: get_cosine_schedule_with_warmup(o, warmup, STEPS)),
        (
            "cosine",
            0.1,
            lambda o: get_cosine_with_min_lr_schedule_with_warmup(o, warmup, STEPS, min_lr_rate=0.1),
        ),
    ]:
        cases.append({"decay": decay, "warmup": warmup, "final_share": final_share, "lr": rates(make)})

path = pathlib.Path(__file__).with_name("schedules.json")
path.write_text(json.dumps({"peak": PEAK, "steps": STEPS, "cases": cases}, separators=(",", ":")) + "\n")
