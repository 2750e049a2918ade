"""Losses of TRL's trainers on rows, step by step, for `bench/offline.py`: f32, no dropout, rows in the order of the file.

Prints one JSON line: {"losses": [...], "seconds": [...], "peak_bytes": ...}.
"""
import argparse
import json
import os
import resource
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("method", choices=["sft", "dpo", "kto", "reward"])
parser.add_argument("model")
parser.add_argument("rows")
parser.add_argument("--steps", type=int, default=20)
parser.add_argument("--batch", type=int, default=8)
parser.add_argument("--learning-rate", type=float, default=1e-3)
parser.add_argument("--max-length", type=int, default=256)
parser.add_argument("--loss-type")
parser.add_argument("--packing", action="store_true")
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--out", required=True)
args = parser.parse_args()

torch.set_num_threads(args.threads)
rows = Dataset.from_list([json.loads(line) for line in open(args.rows, encoding="utf-8")])
tokenizer = AutoTokenizer.from_pretrained(args.model)
if tokenizer.pad_token is None:
    tokenizer.pad_token = tokenizer.eos_token

common = dict(
    output_dir=args.out,
    max_steps=args.steps,
    per_device_train_batch_size=args.batch,
    learning_rate=args.learning_rate,
    lr_scheduler_type="constant",
    warmup_steps=0,
    weight_decay=0.0,
    max_grad_norm=1.0,
    optim="adamw_torch",
    adam_beta1=0.9,
    adam_beta2=0.999,
    adam_epsilon=1e-8,
    max_length=args.max_length,
    train_sampling_strategy="sequential",
    gradient_checkpointing=False,
    bf16=False,
    fp16=False,
    use_cpu=True,
    report_to="none",
    save_strategy="no",
    logging_strategy="no",
    disable_tqdm=True,
    dataloader_num_workers=0,
)


def causal():
    return AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32, attn_implementation="sdpa")


if args.method == "sft":
    from trl import SFTConfig, SFTTrainer

    packing = dict(packing=True, packing_strategy="bfd") if args.packing else {}
    config = SFTConfig(**common, **packing)
    Trainer, model, more = SFTTrainer, causal(), {}
elif args.method == "dpo":
    from trl import DPOConfig, DPOTrainer

    config = DPOConfig(**common, loss_type=[args.loss_type or "sigmoid"], beta=0.1)
    Trainer, model, more = DPOTrainer, causal(), {"ref_model": causal()}
elif args.method == "kto":
    from trl import KTOConfig, KTOTrainer

    config = KTOConfig(**common, loss_type=args.loss_type or "kto", beta=0.1)
    Trainer, model, more = KTOTrainer, causal(), {"ref_model": causal()}
else:
    from trl import RewardConfig, RewardTrainer

    config = RewardConfig(**common)
    model = AutoModelForSequenceClassification.from_pretrained(args.model, num_labels=1, dtype=torch.float32)
    model.config.pad_token_id = tokenizer.pad_token_id
    torch.nn.init.zeros_(model.score.weight)
    Trainer, more = RewardTrainer, {}

losses, seconds = [], []


class Recorded(Trainer):
    """The trainer, with every step's loss before it is rounded for the log."""

    def training_step(self, *inputs, **named):
        start = time.perf_counter()
        loss = super().training_step(*inputs, **named)
        losses.append(loss.item())
        seconds.append(time.perf_counter() - start)
        return loss


trainer = Recorded(model=model, args=config, train_dataset=rows, processing_class=tokenizer, **more)
start = time.perf_counter()
trainer.train()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"losses": losses, "seconds": seconds, "total_seconds": time.perf_counter() - start, "peak_bytes": peak}))
