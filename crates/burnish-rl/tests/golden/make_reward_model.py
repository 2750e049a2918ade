"""Golden vectors of reward models: losses, gradients and metrics.

    python make_reward_model.py     # needs torch, trl==1.16.*; writes reward_model.json

What is real: `RewardTrainer.compute_loss`, unchanged, and `torch.nn.functional.binary_cross_entropy_with_logits`. What is
replaced: the trainer, by an object with the few things that the function looks at, and the model, which returns rewards made
from a leaf tensor. All in double precision.
"""

import json
import random
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

import torch
from trl import RewardTrainer

PAIRS = 5


def trainer(center):
    alone = SimpleNamespace(gather=lambda value: value, gather_for_metrics=lambda value: value)
    return SimpleNamespace(
        model=SimpleNamespace(training=True), args=SimpleNamespace(center_rewards_coefficient=center),
        accelerator=alone, _metrics=defaultdict(lambda: defaultdict(list)), _total_train_tokens=0, _tp_size=1,
    )


def main():
    draw = random.Random(5)
    # Ties and rewards that are far apart are among them.
    chosen = [draw.gauss(0, 2) for _ in range(PAIRS - 2)] + [1.5, 40.0]
    rejected = [draw.gauss(0, 2) for _ in range(PAIRS - 2)] + [1.5, -45.0]
    pairs = []
    for center in [None, 0.01, 0.5]:
        leaf = torch.tensor(chosen + rejected, dtype=torch.float64, requires_grad=True)
        own = trainer(center)
        inputs = {"attention_mask": torch.ones(2 * PAIRS, 3)}
        loss = RewardTrainer.compute_loss(own, lambda **_: SimpleNamespace(logits=leaf[:, None]), inputs)
        loss.backward()
        metrics = {name: own._metrics["train"][name][0] for name in ["accuracy", "margin", "mean_reward"]}
        pairs.append({"center": center or 0.0, "loss": loss.item(), "gradient": leaf.grad.tolist(), "metrics": metrics})
    labels = [draw.random() < 0.5 for _ in chosen + rejected]
    leaf = torch.tensor(chosen + rejected, dtype=torch.float64, requires_grad=True)
    target = torch.tensor(labels, dtype=torch.float64)
    loss = torch.nn.functional.binary_cross_entropy_with_logits(leaf, target)
    loss.backward()
    outcome = {"labels": labels, "loss": loss.item(), "gradient": leaf.grad.tolist()}
    golden = {"chosen": chosen, "rejected": rejected, "pairs": pairs, "outcome": outcome}
    Path(__file__).with_name("reward_model.json").write_text(json.dumps(golden) + "\n")


main()
