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
parser.add_argument("--compile", action="store_true", help="the model through torch.compile")
args = parser.parse_args()

torch.set_num_threads(args.threads)
torch.manual_seed(0)
model = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32)
model.train()
vocab = model.config.vocab_size
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
forward = torch.compile(model) if args.compile else model


def unit():
    start = time.perf_counter()
    ids = torch.randint(0, vocab, (args.batch, args.length))
    with torch.autocast("cpu", torch.bfloat16, enabled=args.bf16):
        loss = forward(input_ids=ids, labels=ids).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "tokens": args.batch * args.length, "loss": loss.item()}


protocol.serve(f"torch {torch.__version__}" + (" compiled" if args.compile else ""), unit)
