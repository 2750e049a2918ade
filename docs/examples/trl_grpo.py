"""A small GRPO run with TRL, on a CPU: what docs/examples/coming_from_trl.toml is in burnish.

    python docs/examples/trl_grpo.py [OUTPUT_DIR]

From the root of the repository; needs trl 1.16, transformers 5, torch, datasets.
"""

import json
import re
import sys

from datasets import load_dataset
from trl import GRPOConfig, GRPOTrainer

OUTPUT = sys.argv[1] if len(sys.argv) > 1 else "runs/trl-grpo"


def number_is_right(completions, answer, **kwargs):
    """1 where the last number of the completion is the answer."""
    rewards = []
    for completion, truth in zip(completions, answer):
        numbers = re.findall(r"-?\d+(?:\.\d+)?", completion[0]["content"])
        rewards.append(float(bool(numbers) and float(numbers[-1]) == float(truth)))
    return rewards


def problems(name):
    return load_dataset("json", data_files=f"docs/examples/{name}.jsonl", split="train")


config = GRPOConfig(
    output_dir=OUTPUT,
    seed=1,
    max_steps=4,
    num_generations=8,
    per_device_train_batch_size=16,
    gradient_accumulation_steps=2,
    max_completion_length=64,
    temperature=1.0,
    loss_type="dapo",
    scale_rewards="group",
    beta=0.01,
    epsilon=0.2,
    epsilon_high=0.28,
    learning_rate=3e-4,
    adam_beta2=0.99,
    lr_scheduler_type="linear",
    warmup_steps=1,
    max_grad_norm=1.0,
    model_init_kwargs={"dtype": "float32"},
    bf16=False,
    gradient_checkpointing=False,
    use_cpu=True,
    eval_strategy="steps",
    eval_steps=4,
    num_generations_eval=1,
    per_device_eval_batch_size=16,
    save_steps=4,
    save_total_limit=2,
    logging_steps=1,
    report_to="none",
)
trainer = GRPOTrainer(
    model="models/starter",
    reward_funcs=number_is_right,
    args=config,
    train_dataset=problems("problems"),
    eval_dataset=problems("problems_eval"),
)
trainer.train()
with open(f"{OUTPUT}/metrics.jsonl", "w") as file:
    for row in trainer.state.log_history:
        file.write(json.dumps(row) + "\n")
