"""Golden vectors of the loss `dgpo`.

    OMP_NUM_THREADS=1 python make_dgpo.py     # needs numpy; writes dgpo.json

An oracle: the paper's code is not public, so no framework has it. The loss is written here from the formula in the head of
its Rust file, by other means: the sums of exponentials as they stand, without a log-sum-exp, and derivatives by complex
steps, which are exact to the last digits.
"""

import json
import random
from pathlib import Path

import numpy

HERE = Path(__file__).parent
STEP = 1e-30


def rounded(value):
    return float(f"{value:.14g}")


def item(policies, members, s):
    """The loss of one item; `policies` has an array of log-probs for each member, real or complex."""
    def score(member, policy):
        kept = numpy.array(member["mask"], dtype=bool)
        if s["score"] == "mean":
            return policy[kept].sum() / kept.sum()
        return s["beta"] * (policy[kept] - numpy.array(member["reference"])[kept]).sum()

    sides = {(sign, direction): [] for sign in (1, -1) for direction in (0, 1)}
    for member, policy in zip(members, policies):
        if any(member["mask"]) and member["advantage"] != 0:
            sign = 1 if member["advantage"] > 0 else -1
            sides[sign, member["direction"]].append(score(member, policy))

    def g(positives, negatives):
        if not positives or not negatives:
            return 0.0
        tau, margin = s["temperature"], s["margin"]
        up = sum(numpy.exp(p / tau) for p in positives)
        return -numpy.log(up / (up + sum(numpy.exp((n + margin) / tau) for n in negatives)))

    positives = sides[1, 0] + sides[1, 1]
    negatives = sides[-1, 0] + sides[-1, 1]
    if not positives:
        return 0.0
    mean = sum(positives) / len(positives)
    if not negatives:
        return -s["nll_coef"] * mean if s["nll_of_unopposed"] else 0.0
    if len({member["direction"] for member in members}) == 2:
        w = s["mixed_weight"]
        parts = g(sides[1, 0], sides[-1, 0]) + g(sides[1, 1], sides[-1, 1]) + w * g(positives, negatives)
        group = parts / (2 + w)
    else:
        group = g(positives, negatives)
    variance = sum((p - mean) ** 2 for p in positives) / len(positives)
    return group + s["variance_coef"] * variance - s["nll_coef"] * mean


def evaluate(items, s):
    sequences = sum(len(members) for members in items)
    loss, gradient = 0.0, []
    for members in items:
        weight = len(members) / sequences
        own = [numpy.array(member["policy"], dtype=complex) for member in members]
        loss += weight * numpy.real(item(own, members, s))
        for at, member in enumerate(members):
            for token in range(len(member["policy"])):
                moved = [policy.copy() for policy in own]
                moved[at][token] += 1j * STEP
                gradient.append(rounded(weight * numpy.imag(item(moved, members, s)) / STEP))
    return rounded(loss), gradient


def batch(seed, sizes, directions):
    draw = random.Random(seed)
    items = []
    for size in sizes:
        members = []
        for at in range(size):
            tokens = draw.randint(1, 5)
            policy = [rounded(-draw.expovariate(0.8) - 0.01) for _ in range(tokens)]
            members.append(dict(
                direction=directions(draw, at, size),
                advantage=draw.choice([1.0, 0.5, -0.25, -2.0, 0.0]),
                policy=policy,
                reference=[rounded(value - draw.uniform(-1, 1)) for value in policy],
                mask=[int(draw.random() < 0.85) for _ in range(tokens)],
            ))
        items.append(members)
    return items


DEFAULTS = dict(score="mean", beta=0.1, temperature=0.5, margin=0.25, variance_coef=0.1, nll_coef=0.1,
                nll_of_unopposed=True, mixed_weight=1.0)
BATCHES = dict(
    halves=batch(1, [8, 8, 6], lambda draw, at, size: int(at >= size // 2)),
    ragged=batch(2, [1, 3, 7, 2, 5], lambda draw, at, size: draw.randint(0, 1)),
    one_way=batch(3, [4, 6, 2], lambda draw, at, size: 0),
    pairs=batch(4, [2] * 8, lambda draw, at, size: at),
)
SETTINGS = [
    {}, dict(temperature=1.0, margin=0.5), dict(variance_coef=0.0), dict(nll_coef=0.0, mixed_weight=0.0),
    dict(score="log_ratio", beta=0.5), dict(score="log_ratio", temperature=1.0, margin=0.0, mixed_weight=3.0),
    dict(nll_of_unopposed=False, variance_coef=2.0),
]

cases = []
for name, items in BATCHES.items():
    for settings in SETTINGS:
        loss, d_policy = evaluate(items, {**DEFAULTS, **settings})
        cases.append(dict(batch=name, settings=settings, loss=loss, d_policy=d_policy))
text = json.dumps(dict(batches=BATCHES, cases=cases), separators=(",", ":"))
(HERE / "dgpo.json").write_text(text + "\n")
print(len(cases), "cases,", len(text), "bytes")
