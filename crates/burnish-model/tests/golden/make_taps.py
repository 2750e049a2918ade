"""Makes taps.json: what transformers sees inside two of the golden models.

    HF_HUB_OFFLINE=1 python make_taps.py        (torch 2.15, transformers 5.23, CPU)

For the longest prompt of each: `marked`, positions; `attention`, for each layer that has attention the share that marked
positions get, `[T * heads]`; `exits`, for each layer the logits `[V]` at the last position as if the model ended there.
"""

import json
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

HERE = Path(__file__).parent
MARKED = [0, 2, 3, 7, 40]

taps = {}
for name in ("qwen3", "qwen3_5"):
    model = AutoModelForCausalLM.from_pretrained(HERE / name, dtype=torch.float32, attn_implementation="eager").eval()
    prompt = max(json.loads((HERE / name / "expected.json").read_text())["prompts"], key=len)
    entered = {}
    for index, layer in enumerate(model.model.layers):
        layer.register_forward_hook(lambda _module, _input, output, index=index: entered.update({index: output}))
    with torch.no_grad():
        seen = model(torch.tensor([prompt]), output_attentions=True)
        hidden = [entered[index] for index in range(len(model.model.layers))]
        hidden = [h[0] if isinstance(h, tuple) else h for h in hidden]
        exits = [model.lm_head(model.model.norm(h[0, -1:]))[0] for h in hidden]
    kinds = getattr(model.config, "layer_types", None) or ["full_attention"] * len(hidden)
    of_layers = iter([a for a in seen.attentions if a is not None])
    attention = [next(of_layers) if kind == "full_attention" else None for kind in kinds]
    assert next(of_layers, None) is None
    marked = [at for at in MARKED if at < len(prompt)]
    taps[name] = {
        "marked": marked,
        "attention": [None if a is None else a[0, :, :, marked].sum(-1).T.flatten().tolist() for a in attention],
        "exits": [logits.tolist() for logits in exits],
    }
    assert torch.allclose(exits[-1], seen.logits[0, -1], atol=1e-5)
(HERE / "taps.json").write_text(json.dumps(taps, separators=(",", ":")) + "\n")
