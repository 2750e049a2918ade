"""Loads an adapter directory with PEFT over its own base, and compares logits with those in a file.

    python check_adapter.py DIR EXPECTED          EXPECTED: {"prompts": [[ids]], "logits": [[T * V]]}
"""

import json
import sys
from pathlib import Path

import torch
from peft import PeftConfig, PeftModel
from transformers import AutoModelForCausalLM

folder, expected = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text())
config = PeftConfig.from_pretrained(str(folder))
base = AutoModelForCausalLM.from_pretrained(config.base_model_name_or_path, dtype=torch.float32)
model = PeftModel.from_pretrained(base, str(folder)).eval()
worst = 0.0
for prompt, logits in zip(expected["prompts"], expected["logits"]):
    with torch.no_grad():
        ours = model(torch.tensor([prompt])).logits[0].flatten()
    worst = max(worst, (ours - torch.tensor(logits)).abs().max().item())
print(f"largest difference of logits {worst:.2e}")
assert worst < 1e-4, worst
