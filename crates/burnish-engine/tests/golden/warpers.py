"""Which ids transformers' warpers keep, on random and on tied logits.

Run: /path/to/python warpers.py   (torch 2.15, transformers 5.23) -> warpers.json beside it
"""

import functools
import json
import pathlib

import torch
from transformers.generation.logits_process import (
    LogitsProcessorList,
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

# Which of equally likely ids top-p drops is left open by transformers (torch.sort is not stable). Sort stably.
torch.sort = functools.partial(torch.sort, stable=True)

V = 48
SETTINGS = [  # temperature, top_k, top_p, min_p
    (1.0, 0, 1.0, 0.0),
    (0.5, 0, 1.0, 0.0),
    (1.0, 1, 1.0, 0.0),
    (1.0, 7, 1.0, 0.0),
    (1.0, 100, 1.0, 0.0),
    (1.0, 0, 0.9, 0.0),
    (1.0, 0, 0.3, 0.0),
    (1.0, 0, 0.001, 0.0),
    (1.0, 0, 1.0, 0.05),
    (1.0, 0, 1.0, 0.5),
    (1.0, 0, 1.0, 1.0),
    (0.7, 20, 0.8, 0.0),
    (1.3, 20, 0.95, 0.1),
    (2.0, 12, 0.5, 0.02),
]


def warpers(temperature, top_k, top_p, min_p):
    made = LogitsProcessorList([TemperatureLogitsWarper(temperature)])
    if top_k:
        made.append(TopKLogitsWarper(top_k))
    if top_p < 1:
        made.append(TopPLogitsWarper(top_p))
    if min_p:
        made.append(MinPLogitsWarper(min_p))
    return made


def main():
    torch.manual_seed(5)
    wide = torch.randn(V) * 3
    flat = torch.randn(V) * 0.3
    tied = (torch.randn(V) * 2).round() / 2
    holes = torch.randn(V) * 2
    holes[torch.randperm(V)[:10]] = -torch.inf  # ids that the tokenizer does not have
    rows = [wide, flat, tied, holes]
    cases = []
    for row, logits in enumerate(rows):
        for setting in SETTINGS:
            warped = warpers(*setting)(None, logits[None].clone())[0]
            kept = torch.isfinite(warped).nonzero()[:, 0].tolist()
            cases.append({"row": row, "sampling": setting, "kept": kept})
    out = {
        "rows": [[x if x > -1e30 else None for x in row.tolist()] for row in rows],
        "cases": cases,
    }
    path = pathlib.Path(__file__).with_suffix(".json")
    path.write_text(json.dumps(out, separators=(",", ":")) + "\n")


main()
