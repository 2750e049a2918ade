"""Golden vectors of off-policy corrections, aggregations, KL forms and entropy terms, by verl's and TRL's own functions.

    HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 python make_correction.py
    # needs torch, transformers, trl==1.16.*, verl==0.9.1 in one place; writes correction.json

What is real, unchanged, in double precision:

- verl: `compute_rollout_correction_and_rejection_mask` (which calls `compute_rollout_correction_weights`,
  `compute_rollout_rejection_mask` and `compute_offpolicy_metrics`), `compute_policy_loss_vanilla`,
  `compute_policy_loss_bypass_mode`, `agg_loss`, `kl_penalty`.
- TRL: `GRPOTrainer._generate_and_score_completions` for the importance ratios (see make_trl.py for what is replaced
  around it) and `GRPOTrainer.compute_loss` for all else. `use_vllm` is set after the trainer is built: no vLLM runs.

Each case says the correction twice: in the framework's words, and as `[loss.correction]`.

`loglinear` is written down here from AReaL's `compute_prox_logp_approximations`, an independent implementation.
"""

import json
import random
from pathlib import Path
from types import SimpleNamespace

import torch
import trl
import verl
from make_trl import batch as ragged
from make_trl import rounded, trainer
from verl.trainer.ppo import core_algos
from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_and_rejection_mask

HERE = Path(__file__).parent
TOKENS_MAX = 7
SEED = 199


def batch(seed, rows=6, columns=6, spread=1.2):
    """make_trl.py's ragged streams, closer together, with a behavior policy; entropies are exact in f32, as TRL's."""
    draw = random.Random(seed)
    streams = ragged(seed, rows, columns)
    moves = [0.0, 0.02, -0.02, 0.4, -0.4, 0.9, -1.1]
    move = lambda value: value - spread * draw.choice(moves) * draw.uniform(0.5, 1)
    streams["proximal"] = [[move(value) for value in row] for row in streams["policy"]]
    streams["behavior"] = [[move(value) for value in row] for row in streams["proximal"]]
    streams["entropy"] = [[draw.randrange(0, 2048) / 1024 for _ in row] for row in streams["policy"]]
    return streams


BATCH = batch(SEED)
# One row that no statistic rejects.
BATCH["behavior"][3] = [value - 1e-4 for value in BATCH["proximal"][3]]


def double(name):
    return torch.tensor(BATCH[name], dtype=torch.float64)


MASK = double("mask")

# --- verl: weights, masks and metrics ------------------------------------------------------------------------


def weight(level, **bounds):
    return dict(level=level, **bounds)


def reject(statistic, **bounds):
    return [dict(statistic=statistic, **bounds)]


# (`[loss.correction]`, keywords of verl's function)
VERL = [
    ({}, {}),
    ({"weight": weight("token", max=2.0)}, dict(rollout_is="token", rollout_is_threshold=2.0)),
    ({"weight": weight("sequence", max=2.0)}, dict(rollout_is="sequence", rollout_is_threshold=2.0)),
    (
        {"weight": weight("token", action="mask", min=0.6, max=1.7)},
        dict(rollout_is="token", rollout_is_threshold="0.6_1.7"),
    ),
    (
        {"weight": weight("sequence", action="mask", min=0.3, max=3.0)},
        dict(rollout_is="sequence", rollout_is_threshold="0.3_3"),
    ),
    (
        {"weight": weight("token", max=1.5, batch_normalize=True)},
        dict(rollout_is="token", rollout_is_threshold=1.5, rollout_is_batch_normalize=True),
    ),
    (
        {"weight": weight("sequence", max=1.5, batch_normalize=True)},
        dict(rollout_is="sequence", rollout_is_threshold=1.5, rollout_is_batch_normalize=True),
    ),
]
VERL += [
    ({"reject": reject(name, max=value)}, dict(rollout_rs=name, rollout_rs_threshold=value))
    for name, value in [
        ("token_k1", 1.6), ("token_k2", 0.1), ("token_k3", 0.1),
        ("seq_sum_k1", 1.9), ("seq_sum_k2", 0.5), ("seq_sum_k3", 0.5),
        ("seq_mean_k1", 1.2), ("seq_mean_k2", 0.1), ("seq_mean_k3", 0.1),
        ("seq_max_k2", 0.3), ("seq_max_k3", 0.3),
    ]
]
VERL += [
    # What the first rejects, the second keeps, and the other way round.
    (
        {"reject": reject("token_k1", min=0.9, max=1.3) + reject("seq_sum_k1", max=1.9)},
        dict(rollout_rs="token_k1,seq_sum_k1", rollout_rs_threshold="0.9_1.3,1.9"),
    ),
    (
        {"reject": reject("token_k1", min=0.5, max=1.3), "weight": weight("token", max=1.4)},
        dict(rollout_is="token", rollout_is_threshold=1.4, rollout_rs="token_k1", rollout_rs_threshold="0.5_1.3"),
    ),
    (
        {
            "reject": reject("seq_mean_k1", min=0.7, max=1.6) + reject("token_k3", max=0.12),
            "weight": weight("sequence", max=2.0),
        },
        dict(
            rollout_is="sequence", rollout_is_threshold=2.0,
            rollout_rs="seq_mean_k1,token_k3", rollout_rs_threshold="0.7_1.6,0.12",
        ),
    ),
]


def verl_correction(keywords, rows=slice(None)):
    proto, mask, metrics = compute_rollout_correction_and_rejection_mask(
        double("proximal")[rows], double("behavior")[rows], MASK[rows], **keywords
    )
    return proto.batch["rollout_is_weights"] if proto is not None else None, mask, metrics


KEPT_METRICS = [
    "kl", "k3_kl", "chi2_token", "chi2_seq", "training_ppl", "rollout_ppl", "training_log_ppl", "rollout_log_ppl",
    "log_ppl_diff", "log_ppl_abs_diff", "ppl_ratio", "rollout_is_mean", "rollout_is_seq_mean",
    "rollout_is_ratio_fraction_high", "rollout_is_ratio_fraction_low", "rollout_is_seq_fraction_high",
    "rollout_is_seq_fraction_low", "rollout_rs_masked_fraction", "rollout_rs_seq_masked_fraction",
]


def verl_case(config, keywords):
    weights, mask, _ = verl_correction(keywords)
    # verl's means over sequences count one without a token as one of log-probability 0; see correction/diagnostics.rs.
    metrics = verl_correction(keywords, MASK.sum(dim=1) > 0)[2]
    wanted = {f"rollout_corr/{name}" for name in KEPT_METRICS}
    return dict(
        correction=config, weights=None if weights is None else rounded(weights.tolist()),
        kept=mask.int().tolist(), metrics={key: rounded(value) for key, value in metrics.items() if key in wanted},
    )


# --- verl: the whole loss -------------------------------------------------------------------------------------


class Config(SimpleNamespace):
    """What verl's losses read of an `ActorConfig`."""

    def get(self, name, default=None):
        return getattr(self, name, default)


def verl_loss(config, keywords, mode, coefficient, bypass=False):
    policy = double("policy").requires_grad_()
    advantages = double("advantages").unsqueeze(1).expand_as(policy)
    # The tokens that are counted, which the actor finds in the response mask that rejection has shrunk.
    if bypass:
        # verl's actor counts before this loss rejects.
        mask = counted = MASK
    else:
        weights, mask, _ = verl_correction(keywords)
        counted = mask
    info = dict(
        dp_size=1, batch_num_tokens=int(counted.sum()), global_batch_size=len(mask), loss_scale_factor=TOKENS_MAX
    )
    settings = Config(
        clip_ratio=0.2, clip_ratio_low=0.2, clip_ratio_high=0.28, clip_ratio_c=1e12, global_batch_info=info,
        policy_loss=Config(rollout_correction=Config(loss_type="ppo_clip", **keywords)),
    )
    if bypass:
        loss, _ = core_algos.compute_policy_loss_bypass_mode(
            double("behavior"), policy, advantages, mask, mode, settings
        )
    else:
        loss, _ = core_algos.compute_policy_loss_vanilla(
            double("proximal"), policy, advantages, mask, mode, settings, weights
        )
        if coefficient:
            kl = core_algos.kl_penalty(policy, double("reference"), "low_var_kl")
            loss = loss + coefficient * core_algos.agg_loss(kl, mask, mode, **info)
    loss.backward()
    return dict(
        correction={**config, **(dict(bypass=True) if bypass else {})}, loss_agg_mode=mode, kl_loss_coef=coefficient,
        loss=rounded(loss.item()), gradient=rounded(policy.grad.tolist()),
    )


MODES = ["token-mean", "token-sum", "seq-mean-token-sum", "seq-mean-token-sum-norm", "seq-mean-token-mean"]


def verl_losses():
    both, masks = VERL[-1], VERL[-2]
    normalised = next(case for case in VERL if case[1].get("rollout_is_batch_normalize"))
    cases = [verl_loss(*VERL[1], mode, 0.0) for mode in MODES]
    cases += [verl_loss(*chosen, mode, 0.04) for chosen in [both, masks] for mode in MODES]
    cases += [verl_loss(*normalised, "token-mean", 0.04)]
    # In bypass mode verl rejects inside the loss, after tokens were counted: only where none are, it is comparable.
    only_rejects = next(case for case in VERL if case[1].get("rollout_rs") == "seq_mean_k2")
    cases += [verl_loss(*chosen, "seq-mean-token-mean", 0.0, bypass=True) for chosen in [VERL[7], only_rejects]]
    cases += [verl_loss({}, {}, "token-mean", 0.0, bypass=True)]
    return cases


# --- verl: aggregation and KL ---------------------------------------------------------------------------------


def aggregation_case(mode):
    loss = double("policy").requires_grad_()
    value = core_algos.agg_loss(
        loss, MASK, mode, dp_size=1, batch_num_tokens=int(MASK.sum()), global_batch_size=len(MASK),
        loss_scale_factor=TOKENS_MAX,
    )
    value.backward()
    return dict(loss_agg_mode=mode, value=rounded(value.item()), gradient=rounded(loss.grad.tolist()))


def kl_cases():
    draw = random.Random(5)
    logprobs = [-draw.expovariate(0.7) - 0.01 for _ in range(24)]
    references = [value + draw.choice([0.0, 1e-6, 0.1, -0.1, 1.0, -1.0, 2.6, 9.0, -9.0, -25.0]) for value in logprobs]
    cases = []
    for name in ["k1", "abs", "k2", "k3", "k1+", "abs+", "k3+"]:
        policy = torch.tensor(logprobs, dtype=torch.float64, requires_grad=True)
        value = core_algos.kl_penalty(policy, torch.tensor(references, dtype=torch.float64), name)
        value.sum().backward()
        cases.append(dict(estimator=name, value=rounded(value.tolist()), derivative=rounded(policy.grad.tolist())))
    return dict(policy=logprobs, reference=references, cases=cases)


# --- TRL ------------------------------------------------------------------------------------------------------


def importance_ratios(made):
    """By the code that scores a generation."""
    rows, columns = MASK.shape
    ids = [[2] * columns] * rows
    made._generate = lambda prompts: (
        [[2]] * rows, ids, BATCH["mask"], ["a"] * rows, BATCH["behavior"], {}, None, None,
    )
    made._get_per_token_logps_and_entropies = lambda *_, **__: (double("proximal"), None, None)
    output = made._generate_and_score_completions([{"prompt": "a"} for _ in range(rows)])
    return output["importance_sampling_ratio"]


def trl_loss(correction, loss_type="dapo", beta=0.04, ratios=False, sampled=False, **settings):
    made = trainer(
        loss_type=loss_type, beta=beta, epsilon=0.2, epsilon_high=0.28, per_device_train_batch_size=len(MASK), **settings,
    )
    torch.set_default_dtype(torch.float64)
    extra = {}
    made.use_vllm = ratios
    if ratios:
        extra["importance_sampling_ratio"] = importance_ratios(made)
    if ratios or sampled:
        extra["sampling_per_token_logps"] = double("behavior")
    policy, entropy = double("policy").requires_grad_(), double("entropy").requires_grad_()
    made._get_per_token_logps_and_entropies = lambda *_, **__: (policy, entropy, None)
    mask = torch.tensor(BATCH["mask"])
    inputs = dict(
        prompt_ids=torch.full((len(mask), 1), 2), prompt_mask=torch.ones(len(mask), 1, dtype=torch.long),
        completion_ids=torch.full_like(mask, 2), completion_mask=torch.ones_like(mask), tool_mask=mask,
        advantages=double("advantages"), old_per_token_logps=double("proximal"),
        ref_per_token_logps=double("reference"), num_items_in_batch=mask.sum(), **extra,
    )
    loss = made.compute_loss(made.model, inputs)
    loss.backward()
    torch.set_default_dtype(torch.float32)
    terms = {key: settings[key] for key in ["top_entropy_quantile", "entropy_coef"] if key in settings}
    d_entropy = entropy.grad if entropy.grad is not None else torch.zeros_like(entropy)
    return dict(
        loss={"aggregation": loss_type, "beta": beta, "correction": correction, **terms}, value=rounded(loss.item()),
        gradient=rounded(policy.grad.tolist()), d_entropy=rounded(d_entropy.tolist()),
    )


def trl_losses():
    cases = []
    for mode, level, action in [
        ("token_truncate", "token", "truncate"), ("token_mask", "token", "mask"),
        ("sequence_truncate", "sequence", "truncate"), ("sequence_mask", "sequence", "mask"),
    ]:
        for low in [None, 0.6]:
            correction = {"weight": weight(level, action=action, max=1.2, min=low or 0.0)}
            bounds = dict(vllm_importance_sampling_clip_max=1.2, vllm_importance_sampling_clip_min=low)
            cases.append(trl_loss(correction, ratios=True, vllm_importance_sampling_mode=mode, **bounds))
    opsm = {"off_policy_mask_threshold": 0.1}
    cases += [trl_loss(opsm, loss_type, sampled=True, off_policy_mask_threshold=0.1) for loss_type in ["grpo", "dapo"]]
    both = {**opsm, "weight": weight("sequence", action="mask", max=3.0)}
    cases += [
        trl_loss(
            both, ratios=True, off_policy_mask_threshold=0.1, vllm_importance_sampling_mode="sequence_mask",
            top_entropy_quantile=0.5, entropy_coef=0.02,
        )
    ]
    for share in [0.0, 0.2, 0.55, 0.9]:
        cases.append(trl_loss({}, "grpo", top_entropy_quantile=share))
    for loss_type in ["grpo", "bnpo", "dr_grpo", "dapo"]:
        cases.append(trl_loss({}, loss_type, entropy_coef=0.1))
    cases += [trl_loss({}, "dr_grpo", 0.0, top_entropy_quantile=0.2, entropy_coef=-0.3)]
    return cases


def adaptive_entropy():
    """The coefficient of each step, and what the step used, by TRL, over steps whose tokens all have one entropy."""
    settings = dict(entropy_target=0.5, entropy_coef_delta=0.03, entropy_coef_min=0.01, entropy_coef_max=0.1)
    made = trainer(
        loss_type="bnpo", beta=0.0, use_adaptive_entropy=True, entropy_coef=0.05, per_device_train_batch_size=2, **settings,
    )
    steps = []
    for level in [0.75, 0.25, 0.25, 0.5, 0.375, 1.0, 1.0, 0.625, 2.0, 0.125, 0.125]:
        policy = torch.full((2, 3), -1.0, dtype=torch.float64, requires_grad=True)
        entropy = torch.full((2, 3), level, dtype=torch.float64, requires_grad=True)
        made._get_per_token_logps_and_entropies = lambda *_, **__: (policy, entropy, None)
        ones = torch.ones(2, 3, dtype=torch.long)
        inputs = dict(
            prompt_ids=torch.full((2, 1), 2), prompt_mask=torch.ones(2, 1, dtype=torch.long), completion_ids=2 * ones,
            completion_mask=ones, advantages=torch.zeros(2, dtype=torch.float64), num_items_in_batch=ones.sum(),
        )
        before = made.entropy_coef
        made.compute_loss(made.model, inputs).backward()
        applied = -entropy.grad.sum().item()
        steps.append(dict(coef=before, entropy=level, applied=rounded(applied), next=rounded(made.entropy_coef)))
    return dict(
        settings=dict(target_entropy=0.5, delta=0.03, coef_min=0.01, coef_max=0.1), steps=steps,
    )


# --- AReaL ----------------------------------------------------------------------------------------------------


def loglinear():
    """One token each: sampled by version `sampled` (-1: unknown), trained at version `current`."""
    cases = []
    for sampled, current in [(7, 7), (6, 7), (5, 7), (3, 7), (0, 7), (8, 7), (-1, 7), (0, 1), (0, 0)]:
        behavior, policy = -1.25, -0.4
        share = 0.0
        if sampled >= 0 and current > sampled:
            share = min(max(((current - 1) - sampled) / (current - sampled), 0.0), 1.0)
        proximal = behavior + share * (policy - behavior)
        cases.append(dict(behavior=behavior, policy=policy, sampled=sampled, current=current, proximal=proximal))
    return cases


def written(found):
    text = json.dumps(found, allow_nan=False)
    for key in ['{"correction"', '{"loss"', '{"loss_agg_mode"', '{"estimator"', '{"coef"']:
        text = text.replace(key, "\n" + key)
    return text + "\n"


if __name__ == "__main__":
    assert trl.__version__.startswith("1.16."), trl.__version__
    found = dict(
        trl=trl.__version__, verl=verl.__version__, torch=torch.__version__, tokens_max=TOKENS_MAX, batch=BATCH,
        verl_corrections=[verl_case(*case) for case in VERL], verl_losses=verl_losses(),
        aggregations=[aggregation_case(mode) for mode in MODES], kl=kl_cases(), trl_losses=trl_losses(),
        adaptive_entropy=adaptive_entropy(), loglinear=loglinear(),
    )
    (HERE / "correction.json").write_text(written(found))
