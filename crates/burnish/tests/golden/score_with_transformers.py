"""Scores token ids with a reward model as transformers loads it: DIR, then ids on the command line. Prints the number."""
import sys

import torch
from transformers import AutoModelForSequenceClassification

model, loading = AutoModelForSequenceClassification.from_pretrained(
    sys.argv[1], dtype=torch.float32, output_loading_info=True
)
assert not loading["missing_keys"] and not loading["unexpected_keys"], loading
ids = torch.tensor([[int(token) for token in sys.argv[2:]]])
print(model(input_ids=ids).logits.item())
