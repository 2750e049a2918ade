"""Loads a directory that burnish saved with transformers, and compares what it computes.

    python check_saved.py DIR EXPECTED.json

EXPECTED.json: `prompts` (lists of ids) and `logits` (of every position, flattened); and, where a tokenizer was
saved, `messages`, `text` (as rendered with a generation prompt), `ids` (of that text), `eos_token`,
and perhaps `tool_text` (as rendered with a tool, without a generation prompt).
"""

import json
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

directory, expected_path = sys.argv[1:]
expected = json.load(open(expected_path))
model, report = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, output_loading_info=True)
for key in ["missing_keys", "unexpected_keys", "mismatched_keys"]:
    assert not report[key], (key, report[key])
worst = 0.0
with torch.no_grad():
    for prompt, logits in zip(expected["prompts"], expected["logits"]):
        scores = model.eval()(torch.tensor([prompt])).logits.flatten()
        worst = max(worst, (scores - torch.tensor(logits)).abs().max().item())
assert worst < 1e-4, f"logits differ by {worst}"
if "messages" in expected:
    tokenizer = AutoTokenizer.from_pretrained(directory)
    rendered = tokenizer.apply_chat_template(expected["messages"], add_generation_prompt=True, tokenize=False)
    assert rendered == expected["text"], rendered
    assert tokenizer(rendered, add_special_tokens=False)["input_ids"] == expected["ids"]
    assert tokenizer.decode(expected["ids"]) == expected["text"]
    assert tokenizer.eos_token == expected["eos_token"], tokenizer.eos_token
    if "tool_text" in expected:
        tool = {"type": "function", "function": {"name": "look", "description": "", "parameters": {}}}
        rendered = tokenizer.apply_chat_template(expected["messages"], tools=[tool], tokenize=False)
        assert rendered == expected["tool_text"], rendered
    assert tokenizer.eos_token_id in torch.tensor(model.generation_config.eos_token_id).reshape(-1)
print(f"largest difference of a logit {worst:.2e}")
