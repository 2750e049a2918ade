"""Golden vectors of presets: what each framework computes under the settings that a preset names, with a KL and without.

    HF_HUB_OFFLINE=1 python make_presets.py trl        # needs what make_trl.py needs
    python make_presets.py verl                        # needs torch, verl==0.9.1

Each writes its part of presets.json, in double precision, on the batches of make_objectives.py. What is real: TRL 1.16's
`GRPOTrainer.compute_loss`, run as in make_trl.py, and verl's `ppo_loss` of `verl/workers/utils/losses.py`, which adds the KL to
the policy's loss; only its unpacking of streams, which come unpacked, is left out. A case has what the recipe says beside the
preset.
"""

import json
import math
import random
import sys
from pathlib import Path

import torch
from make_objectives import BATCHES, double, rounded

HERE = Path(__file__).parent
FILE = HERE / "presets.json"
BETA = 0.1


def reference(policy, seed):
    """Around the policy, and now and then so far above it that verl bounds the KL."""
    draw = random.Random(seed)
    move = lambda: draw.gauss(0.0, 0.5) + (3.0 if draw.random() < 0.2 else 0.0)
    return [[value + move() for value in row] for row in policy]


def with_reference():
    found = {}
    for seed, (name, rows) in enumerate(BATCHES.items(), start=7):
        found[name] = dict(rows, reference=reference(rows["policy"], seed))
    return found


STREAMS = with_reference()


def case(preset, batch, over, beta, corrected, loss, gradient, metrics):
    return dict(
        preset=preset, batch=batch, over=over, beta=beta, use_bias_correction_kl=corrected, loss=rounded(loss),
        gradient=rounded(gradient), metrics=metrics,
    )


# --- TRL ----------------------------------------------------------------------------------------------------


def trl_cases():
    import make_trl

    def one(preset, name, beta, corrected, over, **settings):
        made = make_trl.trainer(beta=beta, use_bias_correction_kl=corrected, steps_per_generation=1, **settings)
        rows = STREAMS[name]
        filled = [[0.0] * len(row) for row in rows["policy"]]
        torch.set_default_dtype(torch.float64)  # SAPO's temperatures are made in it
        loss, gradient = make_trl.evaluate(made, dict(rows, entropy=filled), sum(map(sum, rows["mask"])))
        torch.set_default_dtype(torch.float32)
        left_out = ("entropy", "clip_ratio/low_min", "clip_ratio/high_max", "entropy_coef")
        metrics = {key: values[0] for key, values in made._metrics["train"].items() if key not in left_out}
        return case(preset, name, over, beta, corrected, loss, gradient, metrics)

    sequence = dict(importance_sampling_level="sequence")
    wide = dict(epsilon_low=0.2, epsilon_high=0.28)
    presets = [
        ("dapo", {}, {}),
        ("dapo", dict(config=dict(dual_clip=3.0)), dict(delta=3.0)),
        ("grpo", {}, dict(loss_type="grpo")),
        ("bnpo", {}, dict(loss_type="bnpo")),
        ("dr_grpo", {}, dict(loss_type="dr_grpo", scale_rewards="none")),
        ("gspo", {}, dict(loss_type="grpo", epsilon=3e-4, epsilon_high=4e-4, **sequence)),
        ("gspo", dict(config=wide), dict(loss_type="grpo", epsilon=0.2, epsilon_high=0.28, **sequence)),
        ("cispo", {}, dict(loss_type="cispo", epsilon_high=5.0)),
        ("sapo", {}, dict(loss_type="sapo")),
        ("luspo", {}, dict(loss_type="luspo", **sequence)),
        ("luspo", dict(config=dict(epsilon_low=3e-4, epsilon_high=4e-4)),
         dict(loss_type="luspo", epsilon=3e-4, epsilon_high=4e-4, **sequence)),
        ("vespo", {}, dict(loss_type="vespo")),
    ]
    return [
        one(f"trl-1.16/{preset}", name, beta, corrected, over, **settings)
        for preset, over, settings in presets
        for name in STREAMS
        for beta, corrected in [(0.0, True), (BETA, True), (BETA, False)]
    ]


# --- verl ---------------------------------------------------------------------------------------------------


def verl_cases():
    from verl.workers.config import ActorConfig, PolicyLossConfig
    from verl.workers.utils import losses

    losses.no_padding_2_padding = lambda stream, _: stream

    class Data(dict):
        """What `ppo_loss` reads of a batch of padded tensors."""

        def select(self, *names):
            return Data({name: self[name] for name in names})

        def to_padded_tensor(self):
            return self

    def one(preset, name, loss_mode, agg_mode, beta):
        rows = STREAMS[name]
        policy = double(rows["policy"]).requires_grad_()
        mask = double(rows["mask"])
        made = ActorConfig(
            strategy="fsdp", rollout_n=1, ppo_micro_batch_size_per_gpu=1, loss_agg_mode=agg_mode,
            policy_loss=PolicyLossConfig(loss_mode=loss_mode), use_kl_loss=beta > 0.0, kl_loss_coef=beta,
        )
        data = Data(
            response_mask=mask, old_log_probs=double(rows["proximal"]), ref_log_prob=double(rows["reference"]),
            advantages=double(rows["advantages"]).unsqueeze(1).expand_as(policy), dp_size=1,
            batch_num_tokens=int(mask.sum()), global_batch_size=len(mask),
        )
        loss, metrics = losses.ppo_loss(made, dict(log_probs=policy), data)
        loss.backward()
        names = ["actor/pg_clipfrac", "actor/pg_clipfrac_lower"]
        shares = {metric: metrics[metric].aggregate() for metric in names}
        return case(f"verl-0.9/{preset}", name, {}, beta, False, loss.item(), policy.grad.tolist(), shares)

    tokens, sequences = "token-mean", "seq-mean-token-mean"
    presets = [
        ("grpo", "vanilla", tokens), ("gspo", "gspo", sequences), ("geo_mean", "geo_mean", sequences),
        ("cispo", "cispo", tokens), ("sapo", "sapo", sequences),
    ]
    return [
        one(preset, name, loss_mode, agg_mode, beta)
        for preset, loss_mode, agg_mode in presets
        for name in STREAMS
        for beta in [0.0, BETA]
    ]


if __name__ == "__main__":
    [part] = sys.argv[1:]
    written = json.loads(FILE.read_text()) if FILE.exists() else dict(cases={})
    written["batches"] = STREAMS
    written["cases"][part] = {"trl": trl_cases, "verl": verl_cases}[part]()
    for one in written["cases"][part]:
        assert all(math.isfinite(number) for row in one["gradient"] for number in row), one
    text = json.dumps(written, allow_nan=False, sort_keys=True)
    FILE.write_text(text.replace('{"batch"', '\n{"batch"') + "\n")
