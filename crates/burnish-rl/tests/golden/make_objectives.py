"""Golden vectors of objectives: losses and gradients by the frameworks' own functions.

    HF_HUB_OFFLINE=1 python make_objectives.py trl            # needs what make_trl.py needs
    python make_objectives.py verl                            # needs torch, verl==0.9.1
    python make_objectives.py prime-rl path/to/loss.py        # needs torch
    python make_objectives.py klear path/to/core_algos.py     # needs torch, verl==0.9.1

Each writes its part of objectives.json, in double precision, on the same batches. What is real: TRL 1.16's
`GRPOTrainer.compute_loss`, run as in make_trl.py; the registered losses of verl's `core_algos`; `default_loss_fn` and
`ipo_loss_fn` of prime-rl's `src/prime_rl/trainer/rl/loss.py` (commit 559b447), whose imports are stood in for;
`compute_gppo_loss_general_beta` of Kwai-Klear/CE-GPPO's `verl/trainer/ppo/core_algos.py` (commit 10558fe). A case says
which objective of ours, with which settings, it is compared with.
"""

import importlib.util
import json
import math
import random
import sys
import types
from pathlib import Path

import torch

HERE = Path(__file__).parent
FILE = HERE / "objectives.json"
MOVES = {
    "near": [0.0, 3e-4, -3e-4, 2e-3, -2e-3, 0.01, -0.01, 0.1, -0.1],
    "far": [0.0, 0.01, 0.3, -0.3, 0.6, -0.6, 1.5, -1.5, 9.0, -9.0],
    "on_policy": [0.0],
    "no_advantage": [0.3, -0.3, 9.0, -9.0],
}


def batch(name, seed, rows=6, columns=5):
    """Ragged streams with holes in the mask; log-probs of either policy are below 0."""
    draw = random.Random(seed)
    policy, old, mask, advantages = [], [], [], []
    for row in range(rows):
        moves = [draw.choice(MOVES[name]) * draw.uniform(0.5, 1) for _ in range(columns)]
        if name == "near":  # whole sequences on either side of narrow bounds
            moves = [draw.choice([0.03, 1.0]) * move for move in moves]
        lower = [-draw.expovariate(0.9) - 0.01 - abs(move) for move in moves]
        policy.append([low + max(move, 0.0) for low, move in zip(lower, moves)])
        old.append([value - move for value, move in zip(policy[-1], moves)])
        length = draw.randint(3, columns)
        mask.append([int(at < length and (at == 0 or draw.random() < 0.9)) for at in range(columns)])
        advantages.append(0.0 if name == "no_advantage" else (-1) ** (row // 2) * draw.uniform(0.1, 2.0))
    advantages[1] = 0.0  # a rollout of a group without variance
    mask[2] = [0] * columns  # a rollout of which nothing is trained
    return dict(policy=policy, proximal=old, mask=mask, advantages=advantages)


# Seeds under which the batches reach every bound of every objective: tests/it/frameworks.rs counts them.
BATCHES = {name: batch(name, seed) for seed, name in enumerate(MOVES, start=46)}


def double(values):
    return torch.tensor(values, dtype=torch.float64)


def streams(name):
    """Policy (with gradient), proximal, mask and advantages of a batch."""
    found = BATCHES[name]
    policy = double(found["policy"]).requires_grad_()
    advantages = double(found["advantages"]).unsqueeze(1).expand_as(policy)
    return policy, double(found["proximal"]), double(found["mask"]), advantages


def rounded(value):
    """14 significant digits of every number."""
    return [rounded(part) for part in value] if isinstance(value, list) else float(f"{value:.14g}")


def case(what, name, objective, config, aggregation, loss, gradient):
    return dict(
        what=what, batch=name, objective=objective, config=config, aggregation=aggregation,
        loss=None if loss is None else rounded(loss), gradient=rounded(gradient),
    )


def loaded(name, path):
    """The module in a file."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


# --- TRL ----------------------------------------------------------------------------------------------------


def trl_cases():
    import make_trl

    def one(name, objective, config, aggregation, **settings):
        made = make_trl.trainer(beta=0.0, steps_per_generation=1, **settings)
        rows = BATCHES[name]
        filled = [[0.0] * len(row) for row in rows["policy"]]
        torch.set_default_dtype(torch.float64)  # SAPO's temperatures are made in it
        loss, gradient = make_trl.evaluate(
            made, dict(rows, reference=filled, entropy=filled), sum(map(sum, rows["mask"]))
        )
        torch.set_default_dtype(torch.float32)
        what = " ".join(f"{key}={value}" for key, value in settings.items())
        return case(what, name, objective, config, aggregation, loss, gradient)

    sequence = dict(importance_sampling_level="sequence")
    found = []
    for name in BATCHES:
        for low, high in [(0.2, 0.28), (3e-4, 4e-4)]:
            config = dict(epsilon_low=low, epsilon_high=high)
            clip = dict(epsilon=low, epsilon_high=high, **sequence)
            found.append(one(name, "gspo", config, "grpo", loss_type="grpo", **clip))
            found.append(one(name, "luspo", config, "grpo", loss_type="luspo", **clip))
        for cap in [1.5, 5.0]:
            config = dict(bounds="cap", epsilon_high=cap)
            found.append(one(name, "cispo", config, "dapo", loss_type="cispo", epsilon_high=cap))
        found.append(one(name, "sapo", {}, "grpo", loss_type="sapo"))
        found.append(one(name, "vespo", {}, "dapo", loss_type="vespo"))
        config = dict(epsilon_low=0.2, epsilon_high=0.28, dual_clip=3.0)
        found.append(
            one(name, "ppo_clip", config, "dapo", loss_type="dapo", epsilon=0.2, epsilon_high=0.28, delta=3.0)
        )
    return found


# --- verl ---------------------------------------------------------------------------------------------------


def verl_cases():
    from verl.trainer.ppo import core_algos
    from verl.workers.config import ActorConfig, PolicyLossConfig

    modes = {"token-mean": "bnpo", "seq-mean-token-mean": "grpo"}

    def one(name, loss_mode, objective, config, mode, policy_loss=None, **settings):
        policy, old, mask, advantages = streams(name)
        info = dict(dp_size=1, batch_num_tokens=int(mask.sum()), global_batch_size=len(mask))
        made = ActorConfig(
            strategy="fsdp", rollout_n=1, ppo_micro_batch_size_per_gpu=1,
            policy_loss=PolicyLossConfig(**(policy_loss or {})), **settings,
        )
        made.global_batch_info.update(info)
        function = core_algos.get_policy_loss_fn(loss_mode)
        loss, _ = function(old, policy, advantages, mask, mode, made)
        loss.backward()
        return case(loss_mode, name, objective, config, modes[mode], loss.item(), policy.grad.tolist())

    tokens, sequences = modes
    bounds = dict(clip_ratio_low=0.2, clip_ratio_high=0.28)
    ours = dict(epsilon_low=0.2, epsilon_high=0.28)
    divergences = dict(divergence_low=0.2, divergence_high=0.28)
    found = []
    for name in BATCHES:
        for low, high in [(0.2, 0.28), (3e-4, 4e-4)]:
            clip = dict(clip_ratio_low=low, clip_ratio_high=high)
            config = dict(level="token", epsilon_low=low, epsilon_high=high)
            found.append(one(name, "gspo", "gspo", config, sequences, **clip))
            config = dict(epsilon_low=low, epsilon_high=high)
            found.append(one(name, "geo_mean", "gmpo", config, sequences, **clip))
        found.append(one(name, "sapo", "sapo", {}, sequences))
        found.append(one(name, "sapo", "sapo", dict(tau_pos=2.0, tau_neg=0.5), sequences, tau_pos=2.0, tau_neg=0.5))
        found.append(one(name, "cispo", "cispo", ours, tokens, **bounds))
        wide = dict(clip_ratio_low=1.0, clip_ratio_high=4.0)
        found.append(one(name, "cispo", "cispo", dict(bounds="wide"), tokens, **wide))
        upper = dict(clip_ratio_low=1.0, clip_ratio_high=0.28)
        found.append(one(name, "cispo", "cispo", dict(bounds="upper", epsilon_high=0.28), tokens, **upper))
        found.append(one(name, "gpg", "reinforce", {}, tokens))
        correction = dict(loss_type="reinforce", rollout_is="token", rollout_is_threshold=2.0)
        weighted = dict(rollout_correction=correction)
        found.append(one(name, "bypass_mode", "reinforce", dict(ratio_max=2.0), tokens, policy_loss=weighted))
        found.append(one(name, "dro", "dro", dict(beta=0.3), tokens, policy_loss=dict(dro_beta=0.3)))
        for ratio_max in [3.0, 20.0]:
            config = dict(divergences, ratio_max=ratio_max)
            cap = dict(bounds, clip_ratio_c=ratio_max)
            found.append(one(name, "dppo_tv", "dppo_tv", config, tokens, **cap))
            found.append(one(name, "dppo_kl", "dppo_kl", config, tokens, **cap))
        found.append(one(name, "vanilla", "ppo_clip", dict(ours, dual_clip=3.0), tokens, **bounds, clip_ratio_c=3.0))
    return found


# --- prime-rl -----------------------------------------------------------------------------------------------


def prime_rl_module(path):
    """loss.py of prime-rl, whose type checkers and configuration classes are stood in for."""

    class Anything:
        def __class_getitem__(cls, _):
            return cls

    def stand_in(name, **members):
        module = types.ModuleType(name)
        module.__dict__.update(members)
        sys.modules[name] = module

    stand_in("beartype", beartype=lambda function: function)
    stand_in("jaxtyping", Bool=Anything, Float=Anything, Int=Anything, jaxtyped=lambda **_: lambda function: function)
    stand_in("prime_rl")
    stand_in("prime_rl.configs")
    names = ["CustomLossConfig", "DefaultLossConfig", "IPOLossConfig", "LossConfig"]
    stand_in("prime_rl.configs.trainer", **{name: types.SimpleNamespace for name in names})
    stand_in("prime_rl.utils")
    stand_in("prime_rl.utils.utils", import_object=None)
    return loaded("prime_rl_loss", path)


def prime_rl_cases(path):
    module = prime_rl_module(path)

    def one(name, what, settings, objective, config, with_value):
        policy, old, mask, advantages = streams(name)
        rows = lambda tensor: list(tensor.unbind(0))
        loss, _ = module.compute_loss(
            rows(policy), rows(old), None, rows(advantages), rows(mask.bool()), None, None, None,
            lambda inputs: getattr(module, what)(inputs, types.SimpleNamespace(**settings)), int(mask.sum()), 1, 1,
        )
        loss.backward()
        value = loss.item() if with_value else None
        return case(what, name, objective, config, "bnpo", value, policy.grad.tolist())

    found = []
    for name in BATCHES:
        for tau in [1e-3, 0.1]:
            settings = dict(dppo_mask_low=0.2, dppo_mask_high=0.1, adv_tau=1.0, kl_tau=tau)
            config = dict(divergence_low=0.2, divergence_high=0.1, ratio_max=0.0, anchor="behavior", kl_tau=tau)
            # The value of its surrogate differs; its gradient is ours.
            found.append(one(name, "default_loss_fn", settings, "dppo_tv", config, False))
            settings = dict(ipo_threshold=0.1, adv_tau=1.0, kl_tau=tau)
            config = dict(threshold=0.1, kl_tau=tau)
            found.append(one(name, "ipo_loss_fn", settings, "prime_rl_symmetric", config, True))
    return found


# --- Klear --------------------------------------------------------------------------------------------------


def klear_cases(path):
    module = loaded("klear", path)
    found = []
    for name in BATCHES:
        # It always clips twice: far above every ratio, that changes nothing.
        for beta1, beta2, dual_clip in [(1.0, 1.0, 1e12), (0.5, 0.75, 1e12), (1.0, 1.0, 3.0)]:
            policy, old, mask, advantages = streams(name)
            loss, *_ = module.compute_gppo_loss_general_beta(
                old, policy, advantages, mask, cliprange_low=0.2, cliprange_high=0.28, clip_ratio_c=dual_clip,
                gppo_loss_beta1=beta1, gppo_loss_beta2=beta2,
            )
            loss.backward()
            config = dict(epsilon_low=0.2, epsilon_high=0.28, beta1=beta1, beta2=beta2)
            config["dual_clip"] = dual_clip if dual_clip < 1e12 else 0.0
            what = "compute_gppo_loss_general_beta"
            found.append(case(what, name, "gppo", config, "bnpo", loss.item(), policy.grad.tolist()))
    return found


if __name__ == "__main__":
    part, *arguments = sys.argv[1:]
    makers = {"trl": trl_cases, "verl": verl_cases, "prime-rl": prime_rl_cases, "klear": klear_cases}
    written = json.loads(FILE.read_text()) if FILE.exists() else dict(cases={})
    written["batches"] = BATCHES
    written["cases"][part] = makers[part](*arguments)
    for one in written["cases"][part]:
        assert all(math.isfinite(number) for row in one["gradient"] for number in row), one
    text = json.dumps(written, allow_nan=False, sort_keys=True)
    FILE.write_text(text.replace('{"aggregation"', '\n{"aggregation"') + "\n")
