"""Golden vectors of advantage estimators: verl's own functions, and NumPy where there is no function to call.

    OMP_NUM_THREADS=1 python make_advantage.py     # needs numpy, torch, verl==0.9.1; writes advantage.json

What is real: `compute_*_advantage` of `verl.trainer.ppo.core_algos`, unchanged, in double precision but for the
components of `gdpo`, which verl itself makes float32 (they are numbers that float32 holds exactly). verl works on
token-level rewards: the last sampled token carries the reward.

What is an oracle (`"by": "numpy"`): `max_rl` and `length_penalised` from prime-rl's orchestrator/algo/{max_rl,grpo}.py,
`gigpo` and `step_episode` from the GiGPO paper and ROLL's pipeline/agentic/utils.py, `pairwise_difference` from its
formula, each written here, in loops, independently of the Rust code.
"""

import json
import random
from collections import defaultdict
from pathlib import Path

import numpy
import torch
import verl
from verl.trainer.ppo import core_algos

HERE = Path(__file__).parent


def distribution(draw):
    """log-probability of a sampled token and the sum of squared probabilities, of a real distribution."""
    logits = [draw.gauss(0, 2) for _ in range(5)]
    total = sum(numpy.exp(logits))
    chances = [float(numpy.exp(logit) / total) for logit in logits]
    return float(numpy.log(draw.choices(chances, chances)[0])), sum(chance**2 for chance in chances)


def rollout(draw, reward, unscored=False):
    steps = [
        dict(reward=draw.choice([0.0, 0.5, 1.0, -0.25]), state=draw.randint(0, 2), tokens=draw.randint(1, 2))
        for _ in range(draw.randint(1, 3))
    ]
    tokens = sum(step["tokens"] for step in steps)
    statistics = [distribution(draw) for _ in range(tokens)]
    return dict(
        reward=None if unscored else reward, tokens=tokens, steps=steps, greedy_reward=draw.choice([0.0, 1.0, 0.375]),
        components=[draw.choice([0.0, 1.0]), draw.randint(-8, 8) / 8, 0.5],
        logprob=[logprob for logprob, _ in statistics], squares=[squares for _, squares in statistics],
        value=[draw.gauss(0.3, 0.5) for _ in range(tokens)],
        bootstrap=draw.choice([None, draw.uniform(0, 1)]),
    )


def batch(seed, groups, unscored=0.0):
    """Groups of rollouts; `groups` gives the rewards of each."""
    draw = random.Random(seed)
    found = []
    for rewards in groups:
        members = [rollout(draw, reward, draw.random() < unscored) for reward in rewards]
        for own, member in enumerate(members):
            member["wins"] = [draw.choice([0.0, 0.5, 1.0]) if own != other else 0.0 for other in range(len(members))]
        found.append(members)
    return found


BATCHES = {
    "varied": batch(1, [[0.0, 1.0, 1.0, 0.25], [-3.0, 0.1, 7.5, 0.3], [2.0, 2.0, 5.0, 5.0]]),
    "binary": batch(2, [[0, 1, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0], [1, 1, 0, 1]]),
    "pairs": batch(3, [[0.3, 0.9], [-1.0, -1.0], [4.0, 0.0], [1.0, 1.0001]]),
    "uneven": batch(4, [[1.0], [0.0, 2.0, 0.5], [0.75], [3.0, -1.0], [0.5, 0.25, 1.0, 1.5, 2.0]]),
}
UNSCORED = {"unscored": batch(6, [[0.0, 1.0, 1.0, 0.25], [2.0, 0.1, 1.5, 0.3], [1.0, 1.0], [0.5, 2.0, 1.0]], 0.3)}


# --- verl ---------------------------------------------------------------------------------------------------


class Padded:
    """A batch as verl's tensors: (rollouts, positions)."""

    def __init__(self, groups):
        self.all = [member for members in groups for member in members]
        self.index = numpy.array([at for at, members in enumerate(groups) for _ in members])
        width = max(member["tokens"] for member in self.all)
        self.mask = self.rows(lambda member: [1.0] * member["tokens"], width)
        self.width = width
        self.rewards = self.rows(lambda member: [0.0] * (member["tokens"] - 1) + [member["reward"]], width)

    def rows(self, of, width):
        rows = [of(member) for member in self.all]
        return torch.tensor([row + [0.0] * (width - len(row)) for row in rows], dtype=torch.float64)

    def stream(self, name):
        return self.rows(lambda member: member[name], self.width)

    def lists(self, advantages):
        return [row[: member["tokens"]] for row, member in zip(advantages.tolist(), self.all)]


class Interleaved(Padded):
    """The same with tokens of tools between those that were sampled, which verl's mask leaves out."""

    def __init__(self, groups):
        draw = random.Random(11)
        self.places = []
        for member in (member for members in groups for member in members):
            at, places = 0, []
            for _ in range(member["tokens"]):
                places.append(at)
                at += 1 + draw.choice([0, 0, 1, 3])
            self.places.append(places)
        super().__init__(groups)

    def rows(self, of, width):
        rows = torch.zeros(len(self.all), max(places[-1] for places in self.places) + 1, dtype=torch.float64)
        for row, member, places in zip(rows, self.all, self.places):
            row[places] = torch.tensor(of(member), dtype=torch.float64)
        return rows

    def lists(self, advantages):
        return [row[places].tolist() for row, places in zip(advantages, self.places)]


class Config(dict):
    """What verl reads of an `AlgoConfig`."""

    def __getattr__(self, name):
        return self[name]


def by_verl(estimator, name, settings):
    padded = Padded(BATCHES[name])
    rewards, mask, index = padded.rewards.clone(), padded.mask, padded.index
    outcome = dict(token_level_rewards=rewards, response_mask=mask, index=index)
    if estimator == "gae":
        # A rollout that was cut off: verl knows no bootstrap, but γ times it on top of the last reward is the same.
        for row, member in enumerate(padded.all):
            rewards[row, member["tokens"] - 1] += settings["gamma"] * (member["bootstrap"] or 0.0)
        advantages, returns = core_algos.compute_gae_advantage_return(
            rewards, padded.stream("value"), mask, settings["gamma"], settings["lambda"]
        )
        return dict(advantages=padded.lists(advantages), returns=padded.lists(returns))
    if estimator == "rloo":
        found = core_algos.compute_rloo_outcome_advantage(**outcome)
    if estimator == "reinforce_plus_plus":
        found = core_algos.compute_reinforce_plus_plus_outcome_advantage(rewards, mask, Config(gamma=settings["gamma"]))
    if estimator == "reinforce_plus_plus_baseline":
        found = core_algos.compute_reinforce_plus_plus_baseline_outcome_advantage(**outcome)
    if estimator == "remax":
        greedy = torch.tensor([member["greedy_reward"] for member in padded.all], dtype=torch.float64)
        found = core_algos.compute_remax_outcome_advantage(rewards, greedy, mask)
    if estimator == "opo":
        found = core_algos.compute_opo_outcome_advantage(**outcome)
    if estimator == "gpg":
        found = core_algos.compute_gpg_outcome_advantage(**outcome, f_norm=settings["f_norm"])
    if estimator == "grpo_passk":
        config = Config(norm_adv_by_std_in_grpo=settings["scale_by_std"])
        found = core_algos.compute_grpo_passk_outcome_advantage(**outcome, config=config)
    if estimator == "grpo":
        found = core_algos.compute_grpo_outcome_advantage(
            **outcome, norm_adv_by_std_in_grpo=settings["scale"] == "group"
        )
    if estimator == "optimal_token_baseline":
        found = core_algos.compute_optimal_token_baseline_advantage(
            **outcome, old_log_probs=padded.stream("logprob"), sum_pi_squared=padded.stream("squares"),
            handle_zero_tail=settings["handle_zero_tail"],
        )
    if estimator == "tir_optimal_token_baseline":
        padded = Interleaved(BATCHES[name])
        found = core_algos.compute_multi_turn_optimal_token_baseline_advantage(
            padded.rewards, padded.mask, index,
            old_log_probs=padded.stream("logprob"), sum_pi_squared=padded.stream("squares"),
            handle_zero_tail=settings["handle_zero_tail"],
        )
    if estimator == "gdpo":
        names = ["a", "b", "c"]
        components = {name: [member["components"][at] for member in padded.all] for at, name in enumerate(names)}
        attention = torch.cat([torch.ones(len(mask), 1), mask], dim=1).long()
        found = core_algos.compute_gdpo_outcome_advantage(
            **outcome, norm_adv_by_std_in_grpo=settings["scale_by_std"],
            config=Config(gdpo_reward_keys=names, gdpo_reward_weights=settings["weights"] or None),
            non_tensor_batch=components,
            batch=dict(prompts=torch.ones(len(mask), 1), attention_mask=attention),
        )
    return dict(advantages=padded.lists(found[0]))


def verl_cases():
    wanted = [
        ("grpo", dict(scale="group", epsilon=1e-6, group_of_one="raw")),
        ("grpo", dict(scale="none", group_of_one="raw")),
        ("rloo", {}),
        ("reinforce_plus_plus", dict(gamma=1.0)),
        ("reinforce_plus_plus", dict(gamma=0.9)),
        ("reinforce_plus_plus_baseline", {}),
        ("remax", {}),
        ("opo", {}),
        ("gpg", dict(alpha="nonzero_rewards", f_norm=1.0)),
        ("gpg", dict(alpha="nonzero_rewards", f_norm=0.4)),
        ("grpo_passk", dict(scale_by_std=True)),
        ("grpo_passk", dict(scale_by_std=False)),
        ("optimal_token_baseline", dict(handle_zero_tail=True)),
        ("optimal_token_baseline", dict(handle_zero_tail=False)),
        ("tir_optimal_token_baseline", dict(handle_zero_tail=True)),
        ("tir_optimal_token_baseline", dict(handle_zero_tail=False)),
        ("gdpo", dict(weights=[], scale_by_std=True, epsilon=1e-6, whiten="tokens")),
        ("gdpo", dict(weights=[1.0, 0.25, 2.0], scale_by_std=True, epsilon=1e-6, whiten="tokens")),
        ("gdpo", dict(weights=[1.0, 0.25, 2.0], scale_by_std=False, whiten="tokens")),
        ("gae", {"gamma": 1.0, "lambda": 1.0}),
        ("gae", {"gamma": 0.95, "lambda": 0.9}),
        ("gae", {"gamma": 1.0, "lambda": 0.0}),
    ]
    cases = []
    for estimator, settings in wanted:
        for name, groups in BATCHES.items():
            ones = any(len(members) == 1 for members in groups)
            if estimator == "grpo_passk" and ones:
                continue  # which verl refuses
            found = by_verl(estimator, name, settings)
            # Only sampled tokens count, so it is the estimator without tools.
            own = estimator.removeprefix("tir_")
            by = "verl" if own == estimator else f"verl's {estimator}"
            cases.append(dict(by=by, estimator=own, settings=settings, batch=name, **found))
    return cases


# --- NumPy --------------------------------------------------------------------------------------------------


def scored(members):
    return [member for member in members if member["reward"] is not None]


def spread(members, of):
    """One entry a member: what `of` says of a scored one."""
    return [None if member["reward"] is None else of(member) for member in members]


def max_rl(groups, _):
    found = []
    for members in groups:
        mean = numpy.mean([member["reward"] for member in scored(members)] or [0.0])
        found += spread(members, lambda member: 0.0 if mean <= 0 else (member["reward"] - mean) / mean)
    return found


def length_penalised(groups, settings):
    found = []
    for members in groups:
        present = scored(members)
        rewards = numpy.array([member["reward"] for member in present])
        tokens = numpy.array([member["tokens"] for member in present], dtype=float)
        turns = numpy.array([len(member["steps"]) for member in present], dtype=float)
        if len(present):
            fraction = settings["output_tokens_weight"] * tokens / max(tokens.max(), 1)
            fraction = fraction + settings["turns_weight"] * turns / max(turns.max(), 1)
            rewards = rewards - max(rewards.mean(), 0.0) * fraction
            rewards = rewards - rewards.mean()
        values = iter(rewards.tolist())
        found += spread(members, lambda _: next(values))
    return found


def pairwise_difference(groups, settings):
    found = []
    for members in groups:
        shares = {}
        for own, member in enumerate(members):
            beaten = [
                member["wins"][other] for other, sibling in enumerate(members)
                if other != own and sibling["reward"] is not None
            ]
            if member["reward"] is not None and beaten:
                shares[own] = numpy.mean(beaten)
        mean = numpy.mean(list(shares.values()) or [0.0])
        std = numpy.std(list(shares.values()), ddof=1) + 1e-4 if settings["scale_by_std"] and len(shares) > 1 else 1.0
        values = [(shares[own] - mean) / std if own in shares else 0.0 for own in range(len(members))]
        found += [None if member["reward"] is None else value for member, value in zip(members, values)]
    return found


def returns(member, gamma):
    rewards = [step["reward"] for step in member["steps"]]
    return [sum(gamma**later * reward for later, reward in enumerate(rewards[at:])) for at in range(len(rewards))]


def normalise(value, population, method):
    """ROLL's `get_score_normalize_fn`, of one value."""
    population = numpy.array(population)
    if method == "identity":
        return value
    if method == "mean":
        return value - population.mean()
    if len(population) < 2 or population.std(ddof=1) <= 1e-6:
        return 0.0
    normalised = (value - population.mean()) / (population.std(ddof=1) + 1e-6)
    return float(numpy.clip(normalised, -1, 3)) if method == "asym_clip" else normalised


def by_turns(groups, settings, population_of_turns):
    """`w_E·norm(R) + w_S·norm(G)`, turn by turn; the last argument says what a turn is compared with."""
    found = []
    for members in groups:
        present = scored(members)
        times = lambda member: len(member["steps"]) if settings.get("count_steps") else 1
        episodes = [member["reward"] for member in present for _ in range(times(member))]
        turns = population_of_turns(members)

        def credit(member):
            whole = normalise(member["reward"], episodes, settings["normalisation"])
            values = zip(member["steps"], returns(member, settings["gamma"]))
            return [
                settings["episode_weight"] * whole
                + settings["step_weight"] * normalise(value, turns(step), settings["normalisation"])
                for step, value in values
            ]

        found += spread(members, credit)
    return found


def gigpo(groups, settings):
    def population(members):
        states = defaultdict(list)
        for member in scored(members):
            for step, value in zip(member["steps"], returns(member, settings["gamma"])):
                states[step["state"]].append(value)
        return lambda step: states[step["state"]]

    return by_turns(groups, settings, population)


def step_episode(groups, settings):
    def population(members):
        chosen = [member for members in groups for member in members] if settings["batch"] else members
        values = [value for member in scored(chosen) for value in returns(member, settings["gamma"])]
        return lambda step: values

    return by_turns(groups, settings, population)


def numpy_cases():
    parts = [(1.0, 1.0), (1.0, 0.0), (0.0, 1.0), (0.5, 2.0)]
    weights = [dict(episode_weight=episode, step_weight=step, gamma=0.95) for episode, step in parts]
    methods = ["mean_std", "mean", "asym_clip", "identity"]
    wanted = [(max_rl, {})] + [(pairwise_difference, dict(scale_by_std=by_std)) for by_std in [False, True]]
    for output, turns in [(0.25, 0.1), (0.0, 1.0)]:
        wanted.append((length_penalised, dict(output_tokens_weight=output, turns_weight=turns)))
    for own, method in zip(weights, methods):
        wanted += [(gigpo, dict(own, normalisation=method, count_steps=count)) for count in [False, True]]
        wanted += [(step_episode, dict(own, normalisation=method, batch=batch)) for batch in [False, True]]
    cases = []
    for function, settings in wanted:
        for name in ["varied", "binary", "uneven", "unscored"]:
            values = function({**BATCHES, **UNSCORED}[name], settings)
            case = dict(by="numpy", estimator=function.__name__, settings=settings, batch=name, advantages=values)
            cases.append(case)
    return cases


def rounded(value):
    """14 digits of every number."""
    if isinstance(value, (list, tuple)):
        return [rounded(part) for part in value]
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    return float(f"{value:.14g}") if isinstance(value, (float, numpy.floating)) else value


def per_rollout(case):
    """One number in place of a list of equal ones, to keep the file small."""
    short = lambda row: row[0] if isinstance(row, list) and len(set(row)) == 1 else row
    if case["by"] == "verl" and case["estimator"] not in ("gae", "optimal_token_baseline"):
        case["advantages"] = [short(row) for row in case["advantages"]]
    return case


if __name__ == "__main__":
    # The batches are read back from the file: what is compared was computed from exactly these numbers.
    BATCHES, UNSCORED = rounded(BATCHES), rounded(UNSCORED)
    cases = [per_rollout(rounded(case)) for case in verl_cases() + numpy_cases()]
    written = dict(verl=verl.__version__, torch=torch.__version__, batches={**BATCHES, **UNSCORED}, cases=cases)
    text = json.dumps(written, allow_nan=False).replace('{"by"', '\n{"by"').replace(": [[{", ":\n[[{")
    (HERE / "advantage.json").write_text(text + "\n")
