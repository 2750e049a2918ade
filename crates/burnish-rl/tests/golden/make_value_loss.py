"""Golden vectors of the critic's loss by verl's own function.

    python make_value_loss.py      # needs torch, verl==0.9.1; writes value_loss.json

What is real: `compute_value_loss` of `verl.trainer.ppo.core_algos`, unchanged, in double precision, with its mean over
tokens. Values, old values and returns are random; ragged masks; one row is left out entirely.
"""

import json
from pathlib import Path

import torch
from verl.trainer.ppo.core_algos import compute_value_loss

ROWS, COLUMNS = 5, 7


def main():
    torch.manual_seed(3)
    draw = lambda: torch.randn(ROWS, COLUMNS, dtype=torch.float64)  # noqa: E731
    old, returns = draw(), draw()
    values = old + 0.6 * draw()
    mask = (torch.rand(ROWS, COLUMNS) < 0.7).double()
    mask[2] = 0
    cases = []
    for clip_range in [0.1, 0.5, 2.0]:
        leaf = values.clone().requires_grad_()
        loss, clipped = compute_value_loss(leaf, returns, old, mask, clip_range)
        loss.backward()
        cases.append({
            "clip_range": clip_range, "loss": loss.item(), "clipped": float(clipped),
            "gradient": leaf.grad.flatten().tolist(),
        })
    golden = {
        "columns": COLUMNS, "values": values.flatten().tolist(), "old": old.flatten().tolist(),
        "returns": returns.flatten().tolist(), "mask": [bool(one) for one in mask.flatten()], "cases": cases,
    }
    Path(__file__).with_name("value_loss.json").write_text(json.dumps(golden) + "\n")


main()
