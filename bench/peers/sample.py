"""Batches of transformers' generate(), at temperature 1, every answer exactly --new tokens long."""
import argparse
import time

import protocol
import torch
import transformers
from transformers import AutoModelForCausalLM

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("model")
parser.add_argument("--batch", type=int, default=64)
parser.add_argument("--prompt", type=int, default=64)
parser.add_argument("--new", type=int, default=128)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--bf16", action="store_true", help="the model in bfloat16")
args = parser.parse_args()

torch.set_num_threads(args.threads)
torch.manual_seed(0)
model = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.bfloat16 if args.bf16 else torch.float32).eval()


def unit():
    start = time.perf_counter()
    prompts = torch.randint(0, 95, (args.batch, args.prompt))
    out = model.generate(
        prompts,
        attention_mask=torch.ones_like(prompts),
        do_sample=True,
        temperature=1.0,
        top_k=0,
        min_new_tokens=args.new,
        max_new_tokens=args.new,
    )
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "tokens": args.batch * (out.shape[1] - args.prompt)}


protocol.serve(f"transformers {transformers.__version__} generate", unit)
