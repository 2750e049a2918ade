"""Golden vectors of research objectives by their frameworks' own functions.

    pip download trinity-rft==0.6.0 areal==1.0.4 --no-deps    # unzip each wheel
    python make_research.py TRINITY AREAL                     # their folders; needs torch, verl==0.9.1, ray; writes research.json

What is real, unchanged, in double precision: verl's `compute_policy_loss_clip_cov` and `compute_policy_loss_kl_cov`;
Trinity-RFT's `RECPolicyLossFn`, `OPMDPolicyLossFn` and `RECGroupedAdvantage`; AReaL's `_apply_m2po_masking`, cut out of
its module, which needs a cluster to be imported. torch's `randperm` is the identity while Clip-Cov runs, so that its
choice is known: the first candidates, row by row. Trinity's mean over tokens has 1e-8 more of them, which is taken out.

What is written here, from the published formulas, with torch's autograd for the gradient: MDPO, M2PO's algorithm 1 (by
taking the largest away one by one), Kimi's sequence-level OPMD, and the clipped surrogate behind AReaL's mask.
"""

import ast
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import torch
import verl
from verl.trainer.ppo import core_algos

HERE = Path(__file__).parent
TRINITY, AREAL = sys.argv[1:3]
sys.path.insert(0, TRINITY)
from trinity.algorithm.advantage_fn.rec_advantage import RECGroupedAdvantage  # noqa: E402
from trinity.algorithm.policy_loss_fn.opmd_policy_loss import OPMDPolicyLossFn  # noqa: E402
from trinity.algorithm.policy_loss_fn.rec_policy_loss import RECPolicyLossFn  # noqa: E402


def functions(path, names):
    """The functions `names` of a module that cannot be imported."""
    tree = ast.parse(path.read_text())
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in names]
    space = {"torch": torch}
    exec(compile(tree, str(path), "exec"), space)
    return [space[name] for name in names]


[areal_mask, _] = functions(
    Path(AREAL) / "areal/trainer/ppo/actor.py", ["_apply_m2po_masking", "_get_m2po_loss_mask"]
)


class Config(SimpleNamespace):
    """What verl's functions read of an `ActorConfig`."""

    def get(self, name, default):
        return getattr(self, name, default)


def rounded(value):
    """14 digits of every number."""
    return [rounded(part) for part in value] if isinstance(value, list) else float(f"{value:.14g}")


def batch(seed, rows, columns, spread, extreme):
    """Ragged sequences with holes, a group of two without variance, and some log-ratios of `extreme` either way."""
    generator = torch.Generator().manual_seed(seed)
    normal = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)
    uniform = lambda *shape: torch.rand(*shape, generator=generator, dtype=torch.float64)
    policy = -3 * uniform(rows, columns)
    lengths = 1 + (columns * uniform(rows)).long()
    mask = (torch.arange(columns) < lengths[:, None]) & (uniform(rows, columns) < 0.85)
    mask[:, 0] = True
    far = (uniform(rows, columns) < 0.15) * extreme * normal(rows, columns).sign()
    proximal = policy - spread * normal(rows, columns) - far
    behavior = proximal - spread * normal(rows, columns)
    advantages = normal(rows)
    advantages[:2] = 0.0
    return dict(
        policy=rounded(policy.tolist()), proximal=rounded(proximal.tolist()), behavior=rounded(behavior.tolist()),
        advantages=rounded(advantages.tolist()), mask=mask.tolist(),
    )


BATCHES = dict(
    near=batch(1, 6, 7, 0.15, 0.0), far=batch(2, 8, 6, 0.3, 2.5), single=batch(3, 9, 1, 0.3, 1.0),
    on_policy=batch(4, 4, 5, 0.0, 0.0),
)


class Streams:
    def __init__(self, name):
        double = lambda stream: torch.tensor(BATCHES[name][stream], dtype=torch.float64)
        self.policy, self.proximal, self.behavior = double("policy"), double("proximal"), double("behavior")
        self.policy.requires_grad_()
        self.mask = torch.tensor(BATCHES[name]["mask"])
        self.advantages = double("advantages").unsqueeze(1).expand_as(self.policy)
        self.tokens = int(self.mask.sum())

    def token_mean(self, values):
        return (values * self.mask).sum() / self.tokens


def case(objective, settings, name, loss, aggregation="bnpo", **more):
    streams = Streams(name)
    loss = loss(streams)
    loss.backward()
    return dict(
        objective=objective, config=settings, batch=name, aggregation=aggregation, loss=rounded(loss.item()),
        gradient=rounded(streams.policy.grad.tolist()), **more,
    )


def verl_loss(function, low, high, **policy_loss):
    def loss(streams):
        info = dict(dp_size=1, batch_num_tokens=streams.tokens, global_batch_size=len(streams.mask), loss_scale_factor=1)
        config = Config(
            clip_ratio=0.2, clip_ratio_low=low, clip_ratio_high=high, global_batch_info=info,
            policy_loss=SimpleNamespace(**policy_loss),
        )
        mask = streams.mask.double()
        # The function writes into what it derives from its inputs.
        value, metrics = function(
            streams.proximal, streams.policy, streams.advantages.clone(), mask, "token-mean", config
        )
        loss.metrics = metrics
        return value

    return loss


def clip_cov(name, ratio, low, high):
    settings = dict(clip_cov_ratio=ratio, clip_cov_lb=0.05, clip_cov_ub=2.0)
    loss = verl_loss(core_algos.compute_policy_loss_clip_cov, low, high, **settings)
    randperm, torch.randperm = torch.randperm, lambda count: torch.arange(count)
    found = case("clip_cov", dict(settings, epsilon_low=low, epsilon_high=high), name, loss)
    torch.randperm = randperm
    tokens = Streams(name).tokens
    return dict(found, chosen=round(loss.metrics["actor/pg_clipfrac"] * tokens))


def kl_cov(name, ratio, coefficient):
    settings = dict(kl_cov_ratio=ratio, ppo_kl_coef=coefficient)
    return case("kl_cov", settings, name, verl_loss(core_algos.compute_policy_loss_kl_cov, 0.2, 0.2, **settings))


def trinity_loss(function):
    def loss(streams):
        value, _ = function(
            logprob=streams.policy, old_logprob=streams.proximal,
            action_mask=streams.mask.double(), advantages=streams.advantages,
        )
        return value * (streams.tokens + 1e-8) / streams.tokens

    return loss


def rec(name, clip, weight):
    loss = RECPolicyLossFn(
        epsilon_low=0.2, epsilon_high=0.3, epsilon_low_prime=0.6, epsilon_high_prime=2.0, clip_mode=clip.replace("_", "-"),
        weight={"none": "none", "is": "importance_sampling"}[weight],
    )
    return case("rec", dict(clip=clip, weight=weight, epsilon_high=0.3), name, trinity_loss(loss))


def surrogate(streams, ratio, low, high):
    losses = -streams.advantages * ratio
    return torch.maximum(losses, -streams.advantages * torch.clamp(ratio, 1 - low, 1 + high))


def m2po_policy(name, threshold):
    def loss(streams):
        log_ratio = (streams.policy - streams.behavior).detach()
        pulled = (streams.advantages * log_ratio > 0) & streams.mask
        candidates = sorted((log_ratio[row, column].item() ** 2, row, column) for row, column in pulled.nonzero().tolist())
        kept = streams.mask.clone()
        while candidates and sum(moment for moment, _, _ in candidates) / len(candidates) > threshold:
            _, row, column = candidates.pop()
            kept[row, column] = False
        return streams.token_mean(-streams.advantages * torch.exp(streams.policy - streams.behavior) * kept)

    return case("m2po", dict(m2_threshold=threshold), name, loss)


def m2po_proximal(name, threshold):
    def loss(streams):
        kept = areal_mask(streams.behavior, streams.proximal, streams.mask, threshold)
        return streams.token_mean(surrogate(streams, torch.exp(streams.policy - streams.proximal), 0.2, 0.2) * kept)

    return case("m2po", dict(m2_threshold=threshold, moment="proximal"), name, loss)


def mdpo(name, inverse_step):
    def loss(streams):
        x = streams.policy - streams.proximal
        ratio = torch.exp(x)
        return streams.token_mean(-ratio * streams.advantages + inverse_step * (ratio * x - ratio + 1))

    return case("mdpo", dict(inverse_step=inverse_step), name, loss)


def kimi(name, tau):
    def loss(streams):
        total = lambda values: (values * streams.mask).sum(1)
        reward = total(-streams.advantages * streams.policy)
        return (reward + tau / 2 * total(streams.policy - streams.proximal).square()).mean()

    return case("opmd_kimi", dict(tau=tau), name, loss, aggregation="grpo")


def dropped(rewards):
    """Advantages of one group after RED-Drop, in ascending order: those of equal rewards are alike."""
    rollouts = [SimpleNamespace(reward=reward, action_mask=torch.ones(1)) for reward in rewards]
    RECGroupedAdvantage(drop="balance").calculate_group_advantage("", rollouts)
    return dict(rewards=rewards, advantages=sorted(rollout.advantages.item() for rollout in rollouts))


off_policy = ["near", "far", "single"]
cases = [clip_cov(name, ratio, low, high)
         for name in BATCHES for ratio in [0.0002, 0.2, 1.0] for low, high in [(1.0, 1.0), (0.2, 0.28)]]
cases += [kl_cov(name, ratio, coefficient)
          for name in BATCHES for ratio, coefficient in [(0.0002, 1.0), (0.3, 0.5), (1.0, 1.0)]]
cases += [rec(name, clip, weight)
          for name in off_policy for clip in ["none", "one_side", "two_side", "ring"] for weight in ["none", "is"]]
cases += [case("red", dict(mode="weight", temperature=temperature), name,
               trinity_loss(RECPolicyLossFn(weight="advantage", temp=temperature)))
          for name in off_policy for temperature in [1.0, 0.5]]
cases += [case("opmd", dict(variant="k2", tau=tau), name,
               trinity_loss(RECPolicyLossFn(regularizer="k2", regularizer_coef=tau / 2)))
          for name in BATCHES for tau in [1.0, 0.1]]
cases += [case("opmd", dict(variant="minimal", tau=0.5), name, trinity_loss(OPMDPolicyLossFn(tau=0.5)))
          for name in off_policy]
cases += [kimi(name, 0.3) for name in off_policy]
cases += [case("asymre", dict(baseline_shift=-shift), name,
               trinity_loss(RECPolicyLossFn(regularizer="forward-kl", regularizer_coef=shift)))
          for name in off_policy for shift in [0.1, 0.5]]
cases += [m2po(name, threshold)
          for m2po in [m2po_policy, m2po_proximal] for name in off_policy for threshold in [0.01, 0.04, 100.0]]
cases += [mdpo(name, inverse_step) for name in BATCHES for inverse_step in [1.0, 4.0]]
drops = [dropped(rewards) for rewards in [[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 1.0], [0.5, 0.5]]]
versions = dict(verl=verl.__version__, torch=torch.__version__, trinity="0.6.0", areal="1.0.4")
written = dict(versions=versions, batches=BATCHES, cases=cases, drops=drops)
(HERE / "research.json").write_text(json.dumps(written) + "\n")
