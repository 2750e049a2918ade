"""Steps of TRL's GRPOTrainer: sample (with transformers, not vLLM), reward, advantages, one update; no reference model.

A step begins when a line is read and ends when the optimiser has stepped.
"""
import argparse
import os
import random
import tempfile
import time

import protocol

os.environ["HF_HUB_OFFLINE"] = "1"
import torch
import trl
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("model")
parser.add_argument("--prompts", type=int, default=8)
parser.add_argument("--group", type=int, default=8)
parser.add_argument("--prompt", type=int, default=64)
parser.add_argument("--new", type=int, default=128)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--ragged", action="store_true", help="answers may end by themselves")
parser.add_argument("--bf16", action="store_true")
parser.add_argument("--continuous", action="store_true", help="sample with transformers' continuous batching")
args = parser.parse_args()

torch.set_num_threads(args.threads)
random.seed(0)
lengths = []


def sevens(completions, completion_ids, **_):
    lengths.append(sum(map(len, completion_ids)))
    return [text.count("7") / 10 for text in completions]


class Units(TrainerCallback):
    loaded = None

    def on_step_begin(self, *_, **__):
        if self.loaded is None:
            self.loaded = protocol.ready(f"trl {trl.__version__}, sampling with transformers")
        if not protocol.asked():
            raise SystemExit
        self.start = time.perf_counter()

    def on_step_end(self, *_, **__):
        seconds = time.perf_counter() - self.start
        memory = protocol.resident_bytes("VmHWM:") - self.loaded
        protocol.say(seconds=seconds, tokens=lengths[-1], memory_bytes=memory)


def prompt():
    return f"{random.randint(0, 999)} + {random.randint(0, 999)} =".rjust(args.prompt)


with tempfile.TemporaryDirectory() as directory:
    config = GRPOConfig(
        output_dir=directory,
        per_device_train_batch_size=args.prompts * args.group,
        num_generations=args.group,
        max_completion_length=args.new,
        # More than will be asked for: the learning rate hardly decays, as it does not in ours.
        max_steps=10_000,
        learning_rate=1e-4,
        beta=0.0,
        bf16=args.bf16,
        gradient_checkpointing=False,
        use_cpu=True,
        use_transformers_continuous_batching=args.continuous,
        generation_kwargs={} if args.ragged else {"min_new_tokens": args.new},
        logging_steps=100_000,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
    GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32),
        reward_funcs=sevens,
        args=config,
        train_dataset=Dataset.from_list([{"prompt": prompt()} for _ in range(256)]),
        processing_class=AutoTokenizer.from_pretrained(args.model),
        callbacks=[Units()],
    ).train()
