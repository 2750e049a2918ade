"""Makes qwen3-masked: a tiny random model that reads in both directions, what transformers computes with it, and what
masked denoising makes of it.

    HF_HUB_OFFLINE=1 python make_masked.py        (torch 2.15, transformers 5.24, CPU)

`expected.json` has, for prompts with masks in them, the `logits` as in make_models.py, and `denoised`: for each of some
canvases and numbers of steps the ids that LLaDA's decoding at temperature 0 gives (arXiv:2502.09992, algorithm 5, with
low-confidence remasking; ceil(L / N) tokens a step, in order of their probability, equal ones from the left).
`learned` is the loss of equation 5 for `ids` that are read as `noised`, where each masked token weighs `weight`, and for
each parameter the norm and the first five elements of its gradient.
"""

import json
import math
from pathlib import Path

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from tiny import SIZES, randomise

HERE = Path(__file__).parent / "qwen3-masked"
MASK = 66
PROMPTS = [[3, 1, 4, 1, 5, MASK, MASK], [2, 7, 1, MASK, 2, 8, 1, 8, MASK, 8, 4, 5, 9]]


def denoise(model, prompt, length, steps):
    ids = torch.tensor(prompt + [MASK] * length)
    order = []
    while (ids == MASK).any():
        logits = model(ids[None]).logits[0]
        logits[:, MASK] = -math.inf
        best = torch.softmax(logits.double(), -1).max(-1)
        unknown = [at for at in range(len(prompt), len(ids)) if ids[at] == MASK]
        unknown.sort(key=lambda at: (-best.values[at].item(), at))
        for at in unknown[: math.ceil(length / steps)]:
            ids[at] = best.indices[at]
            order.append(at - len(prompt))
    return {"prompt": prompt, "length": length, "steps": steps, "ids": ids[len(prompt) :].tolist(), "order": order}


HERE.mkdir(exist_ok=True)
config = Qwen3Config(
    **SIZES,
    head_dim=12,
    tie_word_embeddings=True,
    rope_parameters={"rope_theta": 1000000.0, "rope_type": "default"},
    is_causal=False,
    mask_token_id=MASK,
)
model = Qwen3ForCausalLM(config)
randomise(model, 11)
model.save_pretrained(HERE)
(HERE / "generation_config.json").unlink(missing_ok=True)
model = Qwen3ForCausalLM.from_pretrained(HERE, dtype=torch.float32).eval()
with torch.no_grad():
    logits = [model(torch.tensor([prompt])).logits[0].flatten().tolist() for prompt in PROMPTS]
    denoised = [
        denoise(model, prompt, length, steps)
        for prompt in ([3, 1, 4, 1, 5], [2, 7, 1, 8, 2, 8, 1, 8])
        for length, steps in ((12, 12), (12, 4), (11, 3), (9, 1))
    ]
ids, noised, weight = [3, 1, 4, 1, 5, 9, 2, 6], [3, 1, MASK, 1, 5, MASK, 2, MASK], 0.37
logprobs = torch.log_softmax(model(torch.tensor([noised])).logits[0][:, :MASK], -1)
loss = -weight * sum(logprobs[at, ids[at]] for at in range(len(ids)) if noised[at] == MASK)
loss.backward()
learned = {
    "ids": ids,
    "noised": noised,
    "weight": weight,
    "loss": loss.item(),
    "gradients": {
        name: [parameter.grad.norm().item(), *parameter.grad.flatten()[:5].tolist()]
        for name, parameter in model.named_parameters()
    },
}
logits = [[float(f"{value:.7g}") for value in scores] for scores in logits]
(HERE / "expected.json").write_text(json.dumps({"prompts": PROMPTS, "logits": logits, "denoised": denoised, "learned": learned}) + "\n")
