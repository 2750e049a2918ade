"""Logits after vLLM's penalties, from its published definitions, written here with torch.

Definitions (vLLM, SamplingParams and model_executor/layers/utils.py, v1/sample/ops/penalties.py):
- min_tokens: end ids have logit -inf while the answer has fewer tokens.
- repetition_penalty r, for ids that occur in prompt or answer: logit / r where it is above 0, else logit * r.
- frequency_penalty f: logit - f * (times that the id occurs in the answer).
- presence_penalty p: logit - p where the id occurs in the answer.
In this order, before temperature.

Run: /path/to/python penalties.py   (torch 2.15) -> penalties.json beside it
"""

import json
import pathlib

import torch

V = 32


def altered(logits, prompt, answer, repetition, presence, frequency, end_ids, min_tokens):
    out = logits.clone().double()
    if len(answer) < min_tokens:
        out[end_ids] = -torch.inf
    counts = torch.bincount(torch.tensor(answer, dtype=torch.long), minlength=V).double()
    in_prompt = torch.bincount(torch.tensor(prompt, dtype=torch.long), minlength=V) > 0
    seen = in_prompt | (counts > 0)
    out = torch.where(seen, torch.where(out > 0, out / repetition, out * repetition), out)
    out = out - frequency * counts
    return out - presence * (counts > 0).double()


def main():
    torch.manual_seed(11)
    cases = []
    settings = [(1.0, 0.0, 0.0), (1.3, 0.0, 0.0), (0.7, 0.0, 0.0), (1.0, 0.8, 0.0), (1.0, 0.0, 0.6),
                (1.0, -1.5, -0.4), (1.15, 0.3, 0.2), (2.5, 2.0, -2.0), (0.5, -2.0, 2.0), (1.01, 0.05, 0.01)]
    for repetition, presence, frequency in settings:
        for answer_len, min_tokens in [(0, 0), (0, 4), (3, 4), (4, 4), (12, 0), (40, 41)]:
            # Multiples of 1/8, so that JSON and f32 hold the very numbers.
            logits = (torch.randn(V) * 24).round() / 8
            prompt = torch.randint(0, V, (9,)).tolist()
            answer = torch.randint(0, V // 2, (answer_len,)).tolist()
            end_ids = torch.randperm(V)[:2].tolist()
            out = altered(logits, prompt, answer, repetition, presence, frequency, end_ids, min_tokens)
            cases.append({
                "logits": logits.tolist(),
                "prompt": prompt,
                "answer": answer,
                "repetition_penalty": repetition,
                "presence_penalty": presence,
                "frequency_penalty": frequency,
                "end_ids": end_ids,
                "min_tokens": min_tokens,
                "altered": [round(x, 7) if x > -1e30 else None for x in out.tolist()],
            })
    path = pathlib.Path(__file__).with_suffix(".json")
    path.write_text(json.dumps({"cases": cases}, separators=(",", ":")) + "\n")


main()
