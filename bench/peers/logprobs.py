"""Next-token log-probs of given sequences under transformers' model: full log_softmax, gathered at the next id.

Prints {"logprobs": [[...], ...]}, one entry for each token but the first of a sequence.
"""
import argparse
import json

import torch
from transformers import AutoModelForCausalLM

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("model")
parser.add_argument("ids", help='JSON file: {"sequences": [[id, ...], ...]}')
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--bf16", action="store_true", help="autocast to bfloat16, masters in f32")
args = parser.parse_args()

torch.set_num_threads(args.threads)
model = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32).eval()
with open(args.ids) as file:
    sequences = json.load(file)["sequences"]
logprobs = []
with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=args.bf16):
    for ids in sequences:
        ids = torch.tensor([ids])
        logits = model(input_ids=ids).logits[0, :-1].float()
        next_ids = ids[0, 1:, None]
        logprobs.append(torch.log_softmax(logits, -1).gather(-1, next_ids)[:, 0].tolist())
print(json.dumps({"logprobs": logprobs}))
