"""Golden vectors of KL estimators, of the adaptive coefficient and of the overlong punishment.

    HF_HUB_OFFLINE=1 python make_kl.py             # needs torch, transformers, trl==1.16.*; writes kl.json

`trl`: k3 with and without the ratio, by `GRPOTrainer.compute_loss` of TRL 1.16, unchanged, with advantages of 0 and
beta 1 (see make_trl.py). `torch`: all four estimators, written down here from their definitions and differentiated by
autograd in double precision. `adaptive`: the update of Ziegler et al. 2019, section 2.2, with the constant K_beta of
their equation replaced by n / horizon as in their code. `overlong`: equation 13 of DAPO, times the penalty, in exact
fractions.
"""

import json
import random
from fractions import Fraction
from pathlib import Path

import torch
from make_trl import evaluate, rounded, trainer

TOKENS = 24


def tokens():
    """Log-probs of single tokens: policy, proximal, reference; some equal, some far apart."""
    draw = random.Random(11)
    policy = [-draw.expovariate(0.7) - 0.01 for _ in range(TOKENS)]
    proximal = [value - draw.choice([0.0, 0.01, 0.3, -0.3, 1.5]) for value in policy]
    reference = [value + draw.choice([0.0, 1e-6, 0.1, -0.1, 1.0, -1.0, 5.0, -5.0]) for value in policy]
    return dict(policy=policy, proximal=proximal, reference=reference)


ESTIMATORS = {
    "k1": lambda policy, reference: policy - reference,
    "k2": lambda policy, reference: (policy - reference) ** 2 / 2,
    "k3": lambda policy, reference: torch.exp(reference - policy) - 1 - (reference - policy),
    "abs": lambda policy, reference: torch.abs(policy - reference),
}


def by_torch(streams, estimator, corrected):
    policy = torch.tensor(streams["policy"], dtype=torch.float64, requires_grad=True)
    proximal, reference = (torch.tensor(streams[name], dtype=torch.float64) for name in ["proximal", "reference"])
    value = ESTIMATORS[estimator](policy, reference)
    if corrected:
        value = value * torch.exp(policy - proximal)
    value.sum().backward()
    return dict(estimator=estimator, corrected=corrected, value=value.tolist(), derivative=policy.grad.tolist())


def by_trl(streams, corrected):
    """One token a row, all in one loss: `bnpo` divides by the number of tokens."""
    made = trainer(
        loss_type="bnpo", beta=1.0, use_bias_correction_kl=corrected, per_device_train_batch_size=TOKENS,
    )
    rows = {name: [[value] for value in values] for name, values in streams.items()}
    rows |= dict(entropy=[[0.0]] * TOKENS, mask=[[1]] * TOKENS, advantages=[0.0] * TOKENS)
    loss, gradient = evaluate(made, rows, TOKENS)
    return dict(corrected=corrected, mean=loss, derivative=[TOKENS * row[0] for row in gradient])


def adaptive(target, horizon, start):
    """kl: what was measured; n: over how many sequences; coef: the coefficient afterwards."""
    draw, coef, steps = random.Random(3), start, []
    for _ in range(12):
        kl, n = draw.choice([0.0, 0.5, 0.95, 1.0, 1.1, 1.5, 9.0]) * target, draw.choice([8, 64, 512])
        error = min(max((kl - target) / target, -0.2), 0.2)
        coef = coef * (1 + (n / horizon) * error)
        steps.append(dict(kl=kl, n=n, coef=coef))
    return dict(target_kl=target, horizon=horizon, start=start, steps=steps)


def overlong(tokens_max, length, penalty):
    rewards = []
    for tokens in range(tokens_max + 3):
        if tokens <= tokens_max - length:
            reward = Fraction(0)
        elif tokens <= tokens_max:
            reward = Fraction(tokens_max - length - tokens, length)
        else:
            reward = Fraction(-1)
        rewards.append(float(reward * Fraction(penalty)))
    return dict(tokens_max=tokens_max, length=length, penalty=penalty, rewards=rewards)


if __name__ == "__main__":
    streams = tokens()
    found = dict(
        tokens=streams,
        trl=[by_trl(streams, corrected) for corrected in [False, True]],
        torch=[by_torch(streams, name, corrected) for name in ESTIMATORS for corrected in [False, True]],
        adaptive=[adaptive(0.1, 10000, 0.001), adaptive(0.02, 640, 0.2)],
        overlong=[overlong(10, 4, 1.0), overlong(7, 7, 0.5), overlong(9, 3, 2.0)],
    )
    found = {name: value if name == "tokens" else rounded(value) for name, value in found.items()}
    text = json.dumps(found, allow_nan=False).replace('{"', '\n{"')
    (Path(__file__).parent / "kl.json").write_text(text.lstrip() + "\n")
