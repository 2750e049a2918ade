"""Golden vectors of GRPO by verl's own functions, on the batches and the rewards of trl.json.

    python make_verl.py            # needs torch, verl==0.9.1; reads trl.json, writes verl.json

What is real: `compute_grpo_outcome_advantage`, `compute_policy_loss_vanilla`, `kl_penalty` and `agg_loss` of
`verl.trainer.ppo.core_algos`, unchanged, in double precision. What is put together here, as verl's `ppo_loss` in
`verl/workers/utils/losses.py` does: the policy's loss plus `kl_loss_coef` times the aggregated KL penalty. One
micro-batch, one process.
"""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy
import torch
import verl
from verl.trainer.ppo import core_algos

HERE = Path(__file__).parent
TRL = json.loads((HERE / "trl.json").read_text())
TOKENS_MAX = TRL["losses"]["completion_tokens_max"]


class Config(SimpleNamespace):
    """What `compute_policy_loss_vanilla` reads of an `ActorConfig`."""

    def get(self, name, default):
        return getattr(self, name, default)


def rounded(value):
    """14 digits of every number."""
    return [rounded(part) for part in value] if isinstance(value, list) else float(f"{value:.14g}")


def loss_case(name, mode, coefficient, dual_clip):
    batch = TRL["losses"]["batches"][name]
    double = lambda stream: torch.tensor(batch[stream], dtype=torch.float64)
    policy = double("policy").requires_grad_()
    mask = double("mask")
    advantages = double("advantages").unsqueeze(1).expand_as(policy)
    # What verl's actor hands over for a minibatch, in one process.
    info = dict(
        dp_size=1, batch_num_tokens=int(mask.sum()), global_batch_size=len(mask), loss_scale_factor=TOKENS_MAX
    )
    config = Config(
        clip_ratio=0.2, clip_ratio_low=0.2, clip_ratio_high=0.28, clip_ratio_c=dual_clip, global_batch_info=info,
    )
    loss, metrics = core_algos.compute_policy_loss_vanilla(
        double("proximal"), policy, advantages, mask, mode, config
    )
    if coefficient:
        kl = core_algos.kl_penalty(policy, double("reference"), "low_var_kl")
        loss = loss + coefficient * core_algos.agg_loss(kl, mask, mode, **info)
    loss.backward()
    return dict(
        batch=name, loss_agg_mode=mode, kl_loss_coef=coefficient, clip_ratio_c=dual_clip, loss=rounded(loss.item()),
        gradient=rounded(policy.grad.tolist()), pg_clipfrac=metrics["actor/pg_clipfrac"],
    )


def advantage_case(case, by_std):
    rewards = torch.tensor(case["rewards"], dtype=torch.float64)
    groups = numpy.arange(len(rewards)) // case["group_size"]
    advantages, _ = core_algos.compute_grpo_outcome_advantage(
        rewards.unsqueeze(1), torch.ones(len(rewards), 1), groups, norm_adv_by_std_in_grpo=by_std
    )
    return dict(
        name=case["name"], group_size=case["group_size"], norm_adv_by_std_in_grpo=by_std, rewards=case["rewards"],
        advantages=rounded(advantages.squeeze(1).tolist()),
    )


# Far above every ratio, the bound of dual-clip PPO changes nothing; at 3, verl's default, it does.
losses = [
    loss_case(name, mode, coefficient, dual_clip)
    for name in ["ragged", "on_policy", "groups_of_one"]
    for mode in ["token-mean", "seq-mean-token-mean", "seq-mean-token-sum-norm"]
    for coefficient in [0.0, 0.04]
    for dual_clip in [1e12, 3.0]
]
scored = [case for case in TRL["advantages"] if case["scale"] == "group" and None not in case["rewards"]]
advantages = [advantage_case(case, by_std) for case in scored for by_std in [True, False]]
written = dict(verl=verl.__version__, torch=torch.__version__, losses=losses, advantages=advantages)
(HERE / "verl.json").write_text(json.dumps(written) + "\n")
