"""Golden vectors of GRPO: advantages, losses, gradients and metrics of TRL 1.16's own code.

    HF_HUB_OFFLINE=1 python make_trl.py            # needs torch, transformers, trl==1.16.*; writes trl.json

What is real: `GRPOTrainer._generate_and_score_completions` (rewards to advantages) and
`GRPOTrainer.compute_loss` (streams to loss), unchanged. What is replaced: generation, and the forward pass of
the model, which returns leaf tensors instead. Both run in double precision, so that nothing but the formula is
compared. What is fixed by hand, because the training loop would set it: `current_gradient_accumulation_steps`,
and `num_items_in_batch`, the loss tokens of the whole generation.
"""

import json
import random
import tempfile
from pathlib import Path

import torch
import trl
from datasets import Dataset
from tokenizers import Tokenizer, models
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

HERE = Path(__file__).parent
WORK = Path(tempfile.mkdtemp())
COMPLETION_TOKENS_MAX = 7


def tiny_model():
    """A model and a tokenizer, only so that a trainer can be built."""
    vocabulary = {"<pad>": 0, "<eos>": 1, "a": 2}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel(vocabulary, unk_token="a")),
        pad_token="<pad>", eos_token="<eos>",
    )
    config = LlamaConfig(
        vocab_size=8, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1,
        pad_token_id=0, eos_token_id=1, bos_token_id=None,
    )
    LlamaForCausalLM(config).save_pretrained(WORK / "model")
    tokenizer.save_pretrained(WORK / "model")
    return tokenizer


TOKENIZER = tiny_model()


def trainer(reward=lambda completions, **_: [0.0] * len(completions), **settings):
    """A real trainer; `settings` are those of `GRPOConfig`."""
    defaults = dict(
        output_dir=str(WORK / "out"), use_cpu=True, bf16=False, report_to=[], per_device_train_batch_size=6,
        num_generations=2, max_completion_length=COMPLETION_TOKENS_MAX, gradient_accumulation_steps=1,
    )
    made = GRPOTrainer(
        model=str(WORK / "model"), reward_funcs=reward, args=GRPOConfig(**{**defaults, **settings}),
        train_dataset=Dataset.from_dict({"prompt": ["a"] * 8}), processing_class=TOKENIZER,
    )
    made.model.train()
    made.current_gradient_accumulation_steps = made.args.gradient_accumulation_steps
    return made


# --- Losses -------------------------------------------------------------------------------------------------


MOVES = [0.0, 0.01, 0.3, -0.3, 1.5, -1.5, 9.0, -9.0]


def batch(seed, rows, columns=5, on_policy=False, zero_advantages=False):
    """Ragged streams with holes in the mask. Off policy, the log-ratios reach from tiny to extreme."""
    draw = random.Random(seed)
    policy, old, ref, entropy, mask, advantages = [], [], [], [], [], []
    for row in range(rows):
        policy.append([-draw.expovariate(0.7) - 0.01 for _ in range(columns)])
        move = lambda: 0.0 if on_policy else draw.choice(MOVES) * draw.uniform(0.5, 1)
        old.append([value - move() for value in policy[-1]])
        ref.append([value + draw.gauss(0.0, 0.5) for value in policy[-1]])
        entropy.append([draw.uniform(0.0, 2.0) for _ in range(columns)])
        length = draw.randint(1, columns)
        mask.append([int(at < length and (at == 0 or draw.random() < 0.8)) for at in range(columns)])
        advantages.append(0.0 if zero_advantages else draw.gauss(0.0, 1.0))
    if not zero_advantages:
        advantages[1] = 0.0  # a rollout of a group without variance
        mask[2] = [0] * columns  # a rollout of which nothing is trained
    return dict(policy=policy, proximal=old, reference=ref, entropy=entropy, mask=mask, advantages=advantages)


def slices(streams, size):
    rows = len(streams["policy"])
    return [{name: values[at : at + size] for name, values in streams.items()} for at in range(0, rows, size)]


def evaluate(made, streams, tokens_generation):
    """Loss and gradient of one micro-batch, by TRL."""
    double = lambda name: torch.tensor(streams[name], dtype=torch.float64)
    policy = double("policy").requires_grad_()
    made._get_per_token_logps_and_entropies = lambda *_, **__: (policy, double("entropy"), None)
    mask = torch.tensor(streams["mask"])
    inputs = dict(
        prompt_ids=torch.full((len(mask), 1), 2), prompt_mask=torch.ones(len(mask), 1, dtype=torch.long),
        completion_ids=torch.full_like(mask, 2), completion_mask=torch.ones_like(mask), tool_mask=mask,
        advantages=double("advantages"), old_per_token_logps=double("proximal"),
        ref_per_token_logps=double("reference"), num_items_in_batch=torch.tensor(tokens_generation),
    )
    loss = made.compute_loss(made.model, inputs)
    loss.backward()
    return loss.item(), policy.grad.tolist()


METRICS = ["kl", "entropy", "clip_ratio/low_mean", "clip_ratio/high_mean", "clip_ratio/region_mean"]


def loss_case(
    name, streams, loss_type, beta, corrected=True, low=0.2, high=0.28, micro_batches=1, minibatches=1,
    other_tokens=0,
):
    """One optimiser batch, in `micro_batches` accumulation steps, of the `minibatches` of a generation."""
    rows = len(streams["policy"]) // micro_batches
    made = trainer(
        loss_type=loss_type, beta=beta, use_bias_correction_kl=corrected, epsilon=low, epsilon_high=high,
        per_device_train_batch_size=rows, gradient_accumulation_steps=micro_batches,
        steps_per_generation=micro_batches * minibatches,
    )
    tokens_generation = sum(map(sum, streams["mask"])) + other_tokens
    parts = [evaluate(made, part, tokens_generation) for part in slices(streams, rows)]
    metrics = {metric: values[0] for metric, values in made._metrics["train"].items() if metric in METRICS}
    return dict(
        name=name, loss_type=loss_type, beta=beta, use_bias_correction_kl=corrected, epsilon_low=low,
        epsilon_high=high, micro_batches=micro_batches, minibatches=minibatches,
        tokens_generation=tokens_generation, loss=sum(loss for loss, _ in parts),
        gradient=[row for _, rows in parts for row in rows], metrics=metrics if micro_batches == 1 else {},
    )


def losses():
    batches = {
        "ragged": batch(4, 6),
        "on_policy": batch(6, 6, on_policy=True),
        "on_bounds": batch(6, 6, on_policy=True),
        "groups_of_one": batch(9, 6, zero_advantages=True),
        "accumulated": batch(7, 4),
    }
    cases = []
    for loss_type in ["grpo", "bnpo", "dr_grpo", "dapo"]:
        for name in ["ragged", "on_policy", "groups_of_one"]:
            kl = [(0.0, True), (0.04, True), (0.04, False)]
            cases += [loss_case(name, batches[name], loss_type, beta, corrected) for beta, corrected in kl]
        # A ratio of exactly 1 lies on both bounds: what torch does there.
        cases.append(loss_case("on_bounds", batches["on_bounds"], loss_type, 0.0, low=0.0, high=0.0))
        cases.append(
            loss_case(
                "accumulated", batches["accumulated"], loss_type, 0.04, micro_batches=2, minibatches=2,
                other_tokens=9,
            )
        )
    return dict(completion_tokens_max=COMPLETION_TOKENS_MAX, batches=batches, cases=cases)


# --- Advantages ---------------------------------------------------------------------------------------------


def advantage_case(name, scale, group_size, rewards):
    to_f32 = lambda reward: torch.tensor(reward, dtype=torch.float32).item()  # TRL stores them so
    rewards = [None if reward is None else to_f32(reward) for reward in rewards]
    made = trainer(
        reward=lambda completions, **_: list(rewards), scale_rewards=scale,
        num_generations=max(group_size, 2), num_generations_eval=group_size,
        per_device_train_batch_size=len(rewards), per_device_eval_batch_size=len(rewards),
    )
    ids = [[2, 1]] * len(rewards)
    made._generate = lambda prompts: (ids, ids, None, ["a"] * len(ids), None, {}, None, None)
    mode = "eval" if group_size == 1 else "train"  # TRL trains on groups of two or more
    made.model.train(mode == "train")
    torch.set_default_dtype(torch.float64)
    output = made._generate_and_score_completions([{"prompt": "a"} for _ in rewards])
    torch.set_default_dtype(torch.float32)
    names = ["reward", "reward_std", "frac_reward_zero_std"]
    metrics = {name: made._metrics[mode][name][0] for name in names}
    return dict(
        name=name, scale=scale, group_size=group_size, rewards=rewards,
        advantages=output["advantages"].tolist(), metrics=metrics,
    )


def advantages():
    rewards = {
        "varied": (4, [0.0, 1.0, 1.0, 0.25, -3.0, 0.1, 7.5, 0.3]),
        "zero variance": (4, [0.5, 0.5, 0.5, 0.5, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0]),
        "nearly equal": (2, [1.0, 1.0001, 0.0, 1e-5]),
        "unscored": (4, [0.0, None, 1.0, 0.5, None, None, 2.0, None, None, None, None, None, 1.0, 1.0, None, 0.0]),
        "groups of one": (1, [0.0, 1.0, 0.25, 0.5]),
    }
    return [
        advantage_case(name, scale, group_size, values)
        for name, (group_size, values) in rewards.items()
        for scale in ["group", "batch", "none"]
    ]


def rounded(value):
    """`value` with 14 significant digits, which is more than enough and keeps the file small."""
    if isinstance(value, float):
        return float(f"{value:.14g}")
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list) else value


if __name__ == "__main__":
    assert trl.__version__.startswith("1.16."), trl.__version__
    found = dict(trl=trl.__version__, torch=torch.__version__, losses=losses(), advantages=advantages())
    for section in [found["losses"]["cases"], found["advantages"]]:
        for case in section:
            for key in ["loss", "gradient", "metrics"]:
                if key in case:
                    case[key] = rounded(case[key])
    text = json.dumps(found, allow_nan=False)
    (HERE / "trl.json").write_text(text.replace('{"name"', '\n{"name"').replace('"cases"', '\n"cases"') + "\n")
