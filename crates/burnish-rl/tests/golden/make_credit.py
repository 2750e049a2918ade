"""Golden vectors of the estimators that no framework has: `rdpo` and `skpo`, which learn from step to step, and `vineppo`.

    OMP_NUM_THREADS=1 python make_credit.py     # needs numpy; writes credit.json

An oracle. Each is written here from the formulas in the head of its Rust file, by other means: mid-ranks
by sorting, `numpy.quantile`, `numpy.cov`, `numpy.linalg.eigh`. A case is a few steps; what one taught is used by the next.
"""

import json
import random
from collections import defaultdict
from pathlib import Path

import numpy

HERE = Path(__file__).parent


# --- rdpo ---------------------------------------------------------------------------------------------------


def mid_ranks(values):
    """1 for the least; ties share the mean of their places."""
    order = sorted(values)
    return [numpy.mean([place + 1 for place, other in enumerate(order) if other == value]) for value in values]


class Rdpo:
    def __init__(self, quantile=True, magnitude="range", reference=(), blend=0.5, z_max=3.0, whitening=True,
                 shrinkage=0.05, epsilon=1e-6, rows_min=4, covariance_decay=0.9, reference_decay=0.9, weights=(),
                 normalise="rollouts"):
        self.__dict__.update(locals())
        self.seen_references, self.averages = {}, {}

    def step(self, groups):
        dims = max(len(member["components"]) for members in groups for member in members)
        scored = [[member for member in members if member["reward"] is not None] for members in groups]
        ranges = defaultdict(list)
        for members in scored:
            for dim in range(dims):
                values = self.values(members, dim)
                if values and max(values) > min(values):
                    ranges[dim].append(max(values) - min(values))
        for dim, found in ranges.items():
            new = float(numpy.quantile(found, 0.9))
            old = self.seen_references.get(dim)
            decay = self.reference_decay
            self.seen_references[dim] = new if old is None else decay * old + (1 - decay) * new
        rows = defaultdict(list)
        for members in scored:
            active = tuple(dim for dim in range(dims) if len(set(self.values(members, dim))) > 1)
            for member in members if active else []:
                rows[active].append((member, [self.a(members, member, dim) for dim in active]))
        sums = {}
        for active, found in rows.items():
            matrix = numpy.array([row for _, row in found])
            sigma = numpy.atleast_2d(numpy.cov(matrix.T, bias=True))
            decay, old = self.covariance_decay, self.averages.get(active)
            self.averages[active] = sigma if old is None else decay * old + (1 - decay) * sigma
            if len(found) < self.rows_min * len(active):
                sigma = self.averages[active]
            if self.whitening:
                sigma = (1 - self.shrinkage) * sigma + self.shrinkage * numpy.diag(numpy.diag(sigma))
                values, vectors = numpy.linalg.eigh(sigma + self.epsilon * numpy.eye(len(active)))
                scales = [value**-0.5 if value > 1e-10 * values.max() else 0.0 for value in values]
                matrix = matrix @ (vectors @ numpy.diag(scales) @ vectors.T)
            weights = [self.weights[dim] if dim < len(self.weights) else 1.0 for dim in active]
            for (member, _), row in zip(found, matrix):
                sums[id(member)] = float(numpy.dot(row, weights))
        if self.normalise == "rollouts" and sums:
            spread = numpy.std(list(sums.values()), ddof=1) + 1e-4
            mean = numpy.mean(list(sums.values()))
            sums = {member: (value - mean) / spread for member, value in sums.items()}
        return [None if member["reward"] is None else sums.get(id(member), 0.0) for members in groups for member in members]

    @staticmethod
    def values(members, dim):
        return [member["components"][dim] for member in members if member["components"][dim] is not None]

    def a(self, members, member, dim):
        own, values = member["components"][dim], self.values(members, dim)
        if own is None:
            return 0.0
        z = (own - numpy.mean(values)) / (numpy.std(values, ddof=1) + 1e-4)
        if not self.quantile:
            place = z
        else:
            place = 2 * (mid_ranks(values)[values.index(own)] - 0.5) / len(values) - 1
        if self.magnitude == "none":
            return place
        if self.magnitude == "blend":
            return self.blend * place + (1 - self.blend) * float(numpy.clip(z, -self.z_max, self.z_max)) / self.z_max
        known = self.reference[dim] if dim < len(self.reference) else 0.0
        return place * min(1.0, (max(values) - min(values)) / (known or self.seen_references[dim]))


def rdpo_steps(seed, sizes, missing=0.0, constant=0.0):
    draw = random.Random(seed)
    steps = []
    for groups in sizes:
        step = []
        for size in groups:
            # Some groups differ in some components only, and some hardly.
            still = [draw.random() < constant for _ in range(4)]
            scale = draw.choice([0.05, 1.0, 1.0])
            members = []
            for _ in range(size):
                style = draw.random()
                row = [
                    float(draw.random() < 0.5), float(style < 0.4), draw.choice([0.0, 0.25, 0.5, 0.75, 1.0]) * 0.5,
                    scale * draw.gauss(2 * style, 1),
                ]
                row = [0.5 if fixed else value for fixed, value in zip(still, row)]
                row = [None if draw.random() < missing else value for value in row]
                reward = None if draw.random() < missing else sum(value or 0.0 for value in row)
                members.append(dict(reward=reward, components=row))
            step.append(members)
        steps.append(step)
    return steps


# --- skpo ---------------------------------------------------------------------------------------------------


class Skpo:
    def __init__(self, single_stream=False, upstream_weight=1.0, upstream_normalisation="mean_std", reward_min=0.0,
                 reward_max=1.0, prior_successes=1.0, prior_failures=1.0, kl_half=0.1, retention_min=0.5):
        self.__dict__.update(locals())
        self.counts = {}

    def value(self, task):
        alpha, beta = self.counts.get(task, (self.prior_successes, self.prior_failures))
        return self.reward_min + (self.reward_max - self.reward_min) * alpha / (alpha + beta)

    def normalised(self, values):
        """Of those that are not None."""
        found = [value for value in values if value is not None]
        if self.upstream_normalisation == "identity":
            return values
        if len(set(found)) < 2:
            return [None if value is None else 0.0 for value in values]
        mean, spread = numpy.mean(found), numpy.std(found, ddof=1) + 1e-4
        return [None if value is None else (value - mean) / spread for value in values]

    def step(self, groups):
        clip = lambda reward: min(max(reward, self.reward_min), self.reward_max)
        beginnings, answers = [], []
        for members in groups:
            rewards = [member["reward"] for member in members if member["reward"] is not None]
            better = numpy.mean([clip(reward) for reward in rewards]) - self.value(members[0]["task"]) if rewards else None
            beginnings.append(better if any(member["upstream"] for member in members) else None)
            for member in members:
                if member["reward"] is None:
                    answers.append(None)
                elif self.single_stream:
                    answers.append(clip(member["reward"]) - self.value(member["task"]))
                else:
                    spread = numpy.std(rewards, ddof=1) + 1e-4 if len(set(rewards)) > 1 else 1.0
                    answers.append((member["reward"] - numpy.mean(rewards)) / spread)
        if self.single_stream:
            answers = self.normalised(answers)
        found, at = [], 0
        for members, beginning in zip(groups, self.normalised(beginnings)):
            for member in members:
                up = None if beginning is None else self.upstream_weight * beginning
                found.append(up if member["upstream"] else answers[at])
                at += 1
        tasks = defaultdict(list)
        for member in (member for members in groups for member in members if member["reward"] is not None):
            tasks[member["task"]].append(member)
        for task, members in tasks.items():
            alpha, beta = self.counts.get(task, (self.prior_successes, self.prior_failures))
            keep = max(2 ** (-numpy.mean([member["kl"] for member in members]) / self.kl_half), self.retention_min)
            span = self.reward_max - self.reward_min
            shares = [(clip(member["reward"]) - self.reward_min) / span for member in members]
            self.counts[task] = (keep * alpha + sum(shares), keep * beta + sum(1 - share for share in shares))
        return found


def skpo_steps(seed, steps, kinds, missing=0.0, upstream=1.0):
    draw = random.Random(seed)
    found = []
    for _ in range(steps):
        step = []
        for task in draw.sample(["a", "b", "c", "d", "e"], 4) + ["a"]:
            kl = round(draw.uniform(0, 0.2), 3)
            with_upstream = draw.random() < upstream
            members = [dict(reward=None, upstream=True, task=task, kl=kl)] if with_upstream else []
            for _ in range(4):
                reward = None if draw.random() < missing else draw.choice(kinds)
                members.append(dict(reward=reward, upstream=False, task=task, kl=kl))
            step.append(members)
        found.append(step)
    return found


# --- fapo ---------------------------------------------------------------------------------------------------


class Fapo:
    def __init__(self, right_min=0.5, **settings):
        self.right_min, self.penalty = right_min, settings.get("lambda", 1.0)

    def step(self, groups):
        found = []
        for members in groups:
            right = {at: member["reward"] >= self.right_min for at, member in enumerate(members) if member["reward"] is not None}
            flawed = {at for at, member in enumerate(members) if member["flaw"]}
            earned = {at: (1 - self.penalty * (at in flawed)) if is_right else -1.0 for at, is_right in right.items()}
            values = list(earned.values())
            spread = numpy.std(values, ddof=1) + 1e-4 if len(set(values)) > 1 else 1.0
            centre = numpy.mean(values) if values else 0.0
            found.extend((earned[at] - centre) / spread if at in earned else None for at in range(len(members)))
        return found


def fapo_steps(seed, sizes, kinds, missing=0.0, unread=0.0):
    draw = random.Random(seed)
    def member():
        flaw = None if draw.random() < unread else float(draw.random() < 0.4)
        return dict(reward=None if draw.random() < missing else draw.choice(kinds), flaw=flaw)
    return [[[member() for _ in range(size)] for size in step] for step in sizes]


# --- vineppo ------------------------------------------------------------------------------------------------


def vineppo(groups, every, whiten):
    """What each token was worth is a step function of its place; its credit is the difference of two of them."""
    found = []
    for members in groups:
        start = numpy.mean([member["reward"] for member in members if member["reward"] is not None])
        for member in members:
            if member["reward"] is None:
                found.append(None)
                continue
            known = {0: start, member["tokens"]: member["reward"]}
            for at, worth in enumerate(member["continued"]):
                if worth is not None and (at + 1) * every < member["tokens"]:
                    known[(at + 1) * every] = worth
            cuts = sorted(known)
            ends = numpy.searchsorted(cuts, numpy.arange(member["tokens"]), side="right")
            found.append([known[cuts[end]] - known[cuts[end - 1]] for end in ends])
    values = numpy.concatenate([own for own in found if own is not None])
    mean, divisor = 0.0, 1.0
    if whiten == "tokens":
        mean, divisor = values.mean(), numpy.sqrt(values.var(ddof=1) + 1e-8)
    return [None if own is None else [(value - mean) / divisor for value in own] for own in found]


def dense_groups(seed, every, missing):
    draw = random.Random(seed)
    groups = []
    for size in [4, 3, 5]:
        members = []
        for _ in range(size):
            tokens = draw.randint(1, 4 * every + 1)
            cuts = len(range(every, tokens, every))
            continued = [None if draw.random() < missing else draw.randint(0, 8) / 8 for _ in range(cuts)]
            reward = None if draw.random() < missing else draw.choice([0.0, 1.0, 0.3])
            members.append(dict(reward=reward, tokens=tokens, continued=continued))
        groups.append(members)
    return groups


# --- the file -----------------------------------------------------------------------------------------------


def rounded(value):
    """14 digits of every number."""
    if isinstance(value, (list, tuple)):
        return [rounded(part) for part in value]
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    return float(f"{value:.14g}") if isinstance(value, (float, numpy.floating)) else value


STEPS = rounded({
    "rdpo_plain": rdpo_steps(1, [[4] * 6, [4] * 6]),
    "rdpo_few": rdpo_steps(2, [[4], [5, 3], [4]]),
    "rdpo_ragged": rdpo_steps(3, [[6, 2, 5, 1, 4, 6], [3, 6, 4, 4, 5], [4, 2]], missing=0.15, constant=0.3),
    "skpo_binary": skpo_steps(4, 3, [0.0, 1.0]),
    "skpo_ragged": skpo_steps(5, 3, [-0.5, 0.0, 0.25, 1.0, 1.75], missing=0.2, upstream=0.7),
    "fapo_binary": fapo_steps(9, [[4, 6], [8, 3]], [0.0, 1.0]),
    "fapo_ragged": fapo_steps(10, [[5, 1, 7, 4], [2, 6, 6]], [-0.5, 0.0, 0.4, 0.75, 1.0], missing=0.2, unread=0.3),
})
CASES = [
    (Rdpo, {}),
    (Rdpo, dict(normalise="none")),
    (Rdpo, dict(whitening=False, normalise="none")),
    (Rdpo, dict(quantile=False, magnitude="none")),
    (Rdpo, dict(quantile=False, normalise="none", covariance_decay=0.5)),
    (Rdpo, dict(magnitude="blend", blend=0.25, z_max=1.0, normalise="none")),
    (Rdpo, dict(magnitude="none", shrinkage=0.0, epsilon=0.0, rows_min=1, normalise="none")),
    (Rdpo, dict(reference=[0.0, 2.0, 0.25], weights=[1.0, 0.5, 2.0], reference_decay=0.5)),
    (Skpo, {}),
    (Skpo, dict(upstream_normalisation="identity", upstream_weight=0.5)),
    (Skpo, dict(single_stream=True, reward_min=-0.5, reward_max=1.5)),
    (Fapo, {}),
    (Fapo, {"lambda": 0.5, "right_min": 0.3}),
    (Fapo, {"lambda": 2.5}),
    (Skpo, dict(kl_half=0.02, retention_min=0.1, prior_successes=3.0, prior_failures=2.0)),
]

if __name__ == "__main__":
    cases = []
    for estimator, settings in CASES:
        name = estimator.__name__.lower()
        for steps in (key for key in STEPS if key.startswith(name)):
            learner = estimator(**settings)
            advantages = [learner.step(step) for step in STEPS[steps]]
            cases.append(dict(estimator=name, settings=settings, steps=steps, advantages=rounded(advantages)))
    dense = []
    for seed, every, whiten, missing in [(6, 1, "none", 0.0), (7, 3, "none", 0.2), (8, 4, "tokens", 0.1)]:
        groups = rounded(dense_groups(seed, every, missing))
        dense.append(dict(every=every, whiten=whiten, groups=groups, advantages=rounded(vineppo(groups, every, whiten))))
    text = json.dumps(dict(steps=STEPS, cases=cases, dense=dense), allow_nan=False)
    text = text.replace('{"estimator"', '\n{"estimator"').replace('{"every"', '\n{"every"').replace(": [[[{", ":\n[[[{")
    (HERE / "credit.json").write_text(text + "\n")
