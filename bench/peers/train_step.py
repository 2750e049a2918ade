"""Training steps of transformers' model in PyTorch: forward, next-token loss, backward, AdamW, on random sequences."""
import argparse
import time

import protocol
import torch
from transformers import AutoModelForCausalLM

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("model")
parser.add_argument("--batch", type=int, default=16)
parser.add_argument("--length", type=int, default=256)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--bf16", action="store_true", help="autocast to bfloat16, masters in f32")
parser.add_argument("--device", default="cpu", help="cpu or cuda")
parser.add_argument("--checkpointing", action="store_true", help="the backward pass computes each layer again")
parser.add_argument("--compile", action="store_true", help="the model through torch.compile")
args = parser.parse_args()

torch.set_num_threads(args.threads)
torch.manual_seed(0)
model = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32, attn_implementation="sdpa").to(args.device)
model.train()
if args.checkpointing:
    model.gradient_checkpointing_enable()
vocab = model.config.vocab_size
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
forward = torch.compile(model) if args.compile else model


def unit():
    start = time.perf_counter()
    ids = torch.randint(0, vocab, (args.batch, args.length)).to(args.device)
    with torch.autocast(args.device, torch.bfloat16, enabled=args.bf16):
        loss = forward(input_ids=ids, labels=ids).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    value = loss.item()
    if args.device == "cuda":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    done = {"seconds": seconds, "tokens": args.batch * args.length, "loss": value}
    if args.device == "cuda":
        done["device_memory_bytes"] = torch.cuda.max_memory_allocated()
    return done


protocol.serve(f"torch {torch.__version__}" + (" compiled" if args.compile else ""), unit)
