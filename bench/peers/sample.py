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
parser.add_argument("--device", default="cpu", help="cpu or cuda, where the cache is a static one")
args = parser.parse_args()

torch.set_num_threads(args.threads)
torch.manual_seed(0)
model = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.bfloat16 if args.bf16 else torch.float32)
model = model.to(args.device).eval()
static = {"cache_implementation": "static"} if args.device == "cuda" else {}


def unit():
    start = time.perf_counter()
    prompts = torch.randint(0, 95, (args.batch, args.prompt)).to(args.device)
    out = model.generate(
        prompts,
        attention_mask=torch.ones_like(prompts),
        do_sample=True,
        temperature=1.0,
        top_k=0,
        min_new_tokens=args.new,
        max_new_tokens=args.new,
        **static,
    )
    if args.device == "cuda":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    done = {"seconds": seconds, "tokens": args.batch * (out.shape[1] - args.prompt)}
    if args.device == "cuda":
        done["device_memory_bytes"] = torch.cuda.max_memory_allocated()
    return done


protocol.serve(f"transformers {transformers.__version__} generate", unit)
