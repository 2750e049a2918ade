"""Asks TRL for advantages, loss and gradient norm of the episodes that burnish sampled in its first step.

    cargo run --release -- train docs/examples/coming_from_trl.toml
    python docs/examples/compare_step.py runs/coming-from-trl            # needs trl 1.16

The samples are burnish's, from `run.db`; the model, its log-probabilities, `GRPOTrainer.compute_loss` and the backward
pass are TRL's and torch's. Only the first step can be compared so: its learning rate is 0, so the weights are those of
`models/starter`. The script ends with status 1 where the two differ. It also counts in how many episodes of
the whole run the verifier `number` and the last number of the answer disagree.
"""

import json
import sqlite3
import sys
import tempfile
from pathlib import Path

import torch
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer
from verl_reward import compute_score

RUN = Path(sys.argv[1])
GROUP = 8
SAMPLED = 9  # `burnish_core::Source::Policy` in the journal

trainer = GRPOTrainer(
    model="models/starter",
    reward_funcs=lambda completions, **_: [0.0] * len(completions),
    args=GRPOConfig(
        output_dir=tempfile.mkdtemp(), use_cpu=True, bf16=False, report_to="none", gradient_checkpointing=False,
        model_init_kwargs={"dtype": "float32"}, per_device_train_batch_size=32, num_generations=GROUP,
        max_completion_length=64, beta=0.01, epsilon=0.2, epsilon_high=0.28, loss_type="dapo",
    ),
    train_dataset=Dataset.from_dict({"prompt": ["a"] * 8}),
)
trainer.model.train()
trainer.current_gradient_accumulation_steps = 1

journal = sqlite3.connect(RUN / "run.db")
query = "select id, reward, advantage from episodes where step = ? and kind = 'train' order by task_index, rollout"
first = journal.execute("select min(step) from episodes where kind = 'train'").fetchone()[0]
prompts, answers, rewards, advantages = [], [], [], []
for episode, reward, advantage in journal.execute(query, (first,)).fetchall():
    nodes = journal.execute("select ids, sources from nodes where episode = ? order by node", (episode,)).fetchall()
    ids = [at for blob, _ in nodes for at in memoryview(blob).cast("I")]
    sampled = [at for _, blob in nodes for at in blob]
    start, end = sampled.index(SAMPLED), len(sampled) - sampled[::-1].index(SAMPLED)
    prompts.append(ids[:start])
    answers.append(ids[start:end])
    rewards.append(reward)
    advantages.append(advantage)


def padded(rows, left):
    width = max(map(len, rows))
    pads = [[0] * (width - len(row)) for row in rows]
    ids = [pad + row if left else row + pad for row, pad in zip(rows, pads)]
    ones = [pad + [1] * len(row) if left else [1] * len(row) + pad for row, pad in zip(rows, pads)]
    return torch.tensor(ids), torch.tensor(ones)


prompt_ids, prompt_mask = padded(prompts, True)
completion_ids, completion_mask = padded(answers, False)
# What `GRPOTrainer._generate_and_score_completions` does with `scale_rewards="group"`.
groups = torch.tensor(rewards).view(-1, GROUP)
theirs = ((groups - groups.mean(1, keepdim=True)) / (groups.std(1, keepdim=True) + 1e-4)).flatten()
trainer.accelerator.gather = lambda value: value
inputs = dict(
    prompt_ids=prompt_ids, prompt_mask=prompt_mask, completion_ids=completion_ids, completion_mask=completion_mask,
    advantages=theirs, num_items_in_batch=completion_mask.sum(),
)
with torch.no_grad():
    inputs["ref_per_token_logps"] = trainer._get_per_token_logps_and_entropies(
        trainer.model, torch.cat([prompt_ids, completion_ids], 1), torch.cat([prompt_mask, completion_mask], 1),
        completion_ids.shape[1],
    )[0]
loss = trainer.compute_loss(trainer.model, inputs)
loss.backward()
norm = torch.nn.utils.clip_grad_norm_(trainer.model.parameters(), 1e9)

rows = map(json.loads, (RUN / "metrics.jsonl").read_text().splitlines())
ours = next(row for row in rows if row["event"] == "train")
found = {
    "advantages": (max(abs(a - b) for a, b in zip(advantages, theirs.tolist())), 0.0),
    "loss": (ours["loss"], loss.item()),
    "grad_norm": (ours["grad_norm"], norm.item()),
    "entropy": (ours["entropy"], trainer._metrics["train"]["entropy"][0]),
    "kl": (ours["kl"], trainer._metrics["train"]["kl"][0]),
}
agrees = True
for name, (one, other) in found.items():
    agrees &= abs(one - other) <= 1e-4 * max(1.0, abs(other))
    what = "largest difference" if name == "advantages" else "burnish, TRL"
    print(f"{name:10} {what}: {one:.7g}" + ("" if name == "advantages" else f", {other:.7g}"))
print(f"{len(rewards)} episodes, {int(completion_mask.sum())} tokens: " + ("they agree" if agrees else "they DIFFER"))
query = "select answers, truth, reward from episodes join tasks on episodes.task = tasks.id"
judged = [
    (reward, compute_score(None, json.loads(given)[-1]["content"], json.loads(truth)["answer"]))
    for given, truth, reward in journal.execute(query)
]
stricter, laxer = sum(one < other for one, other in judged), sum(one > other for one, other in judged)
print(f"{len(judged)} rewards: `number` is stricter in {stricter}, laxer in {laxer}")
sys.exit(not agrees)
