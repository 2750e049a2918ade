"""Makes the golden models: tiny random ones, with what transformers computes with them.

    HF_HUB_OFFLINE=1 python make_models.py        (torch 2.15, transformers 5.23, CPU)

Each folder holds a model as `save_pretrained` writes it and `expected.json`:
  prompts   lists of ids
  logits    for each prompt, the logits of every position, flattened [T * V], by a full forward in f32
  greedy    for each prompt, the 24 ids that `generate` appends without sampling
  gradients where asked for: of the sum of the next ids' log-probs in the last prompt, for each parameter its norm and
            its first five elements
"""

import json
from pathlib import Path

import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3_5Config,
    Qwen3_5ForCausalLM,
    Qwen3_5ForConditionalGeneration,
    Qwen3_5TextConfig,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from tiny import LONG, PROMPTS, SIZES, randomise

HERE = Path(__file__).parent
GREEDY_TOKENS = 24


def to_hub_dialect(folder):
    """Rewrites config.json as transformers 4 and the hub have it."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    config["rope_scaling"] = None if rope["rope_type"] == "default" else {"type": rope.pop("rope_type"), **rope}
    config["torch_dtype"] = config.pop("dtype")
    config.pop("layer_types", None)
    config["transformers_version"] = "4.51.0"
    path.write_text(json.dumps(config, indent=2) + "\n")


def make(name, model_class, config, seed, dtype=torch.float32, hub_dialect=False, max_shard_size="50GB", prompts=PROMPTS, gradients=False):
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    model = model_class(config)
    randomise(model, seed)
    model.to(dtype).save_pretrained(folder, max_shard_size=max_shard_size)
    if hub_dialect:
        to_hub_dialect(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    model = model_class.from_pretrained(folder, dtype=torch.float32).eval()
    logits, greedy, margin = [], [], float("inf")
    with torch.no_grad():
        for prompt in prompts:
            ids = torch.tensor([prompt])
            scores = model(ids).logits[0]
            logits.append([float(f"{value:.7g}") for value in scores.flatten().tolist()])
            out = model.generate(
                ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=GREEDY_TOKENS, pad_token_id=0
            )
            greedy.append(out[0, len(prompt) :].tolist())
            best = model(out).logits[0, len(prompt) - 1 : -1].topk(2).values
            margin = min(margin, (best[:, 0] - best[:, 1]).min().item())
    expected = {"prompts": prompts, "logits": logits, "greedy": greedy}
    if gradients:
        ids = torch.tensor([prompts[-1]])
        logprobs = torch.log_softmax(model(ids).logits[0, :-1], -1).gather(-1, ids[0, 1:, None])
        logprobs.sum().backward()
        expected["gradients"] = {
            name: [parameter.grad.norm().item(), *parameter.grad.flatten()[:5].tolist()]
            for name, parameter in model.named_parameters()
        }
    (folder / "expected.json").write_text(json.dumps(expected) + "\n")
    size = sum(path.stat().st_size for path in folder.iterdir())
    print(f"{name}: {size} bytes; smallest margin of a greedy choice {margin:.4f}")


make(
    "llama",
    LlamaForCausalLM,
    LlamaConfig(**SIZES, tie_word_embeddings=False, rms_norm_eps=1e-5, rope_parameters={"rope_theta": 500000.0, "rope_type": "default"}),
    seed=1,
)
make("qwen2", Qwen2ForCausalLM, Qwen2Config(**SIZES, tie_word_embeddings=True), seed=2, hub_dialect=True)
make(
    "qwen3",
    Qwen3ForCausalLM,
    Qwen3Config(**SIZES, head_dim=12, tie_word_embeddings=True, rope_parameters={"rope_theta": 1000000.0, "rope_type": "default"}),
    seed=3,
)
make(
    "llama-bias-bf16",
    LlamaForCausalLM,
    LlamaConfig(**SIZES, tie_word_embeddings=True, attention_bias=True, mlp_bias=True),
    seed=4,
    dtype=torch.bfloat16,
    hub_dialect=True,
)
make(
    "llama3-rope-sharded-f16",
    LlamaForCausalLM,
    LlamaConfig(
        **SIZES,
        tie_word_embeddings=False,
        rope_parameters={
            "rope_theta": 10000.0,
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 16,
        },
    ),
    seed=5,
    dtype=torch.float16,
    max_shard_size="15KB",
)
make(
    "qwen2-linear-rope",
    Qwen2ForCausalLM,
    Qwen2Config(**SIZES, tie_word_embeddings=True, rope_parameters={"rope_theta": 10000.0, "rope_type": "linear", "factor": 4.0}),
    seed=6,
    dtype=torch.bfloat16,
    hub_dialect=True,
)

HYBRID = dict(
    SIZES,
    num_hidden_layers=4,
    head_dim=16,
    linear_num_key_heads=2,
    linear_num_value_heads=4,
    linear_key_head_dim=8,
    linear_value_head_dim=12,
    tie_word_embeddings=True,
    rope_parameters={"rope_theta": 10000000.0, "rope_type": "default", "partial_rotary_factor": 0.25},
)
make("qwen3_5", Qwen3_5ForCausalLM, Qwen3_5TextConfig(**HYBRID), seed=7, prompts=[*PROMPTS, LONG], gradients=True)
# The text model within one that also sees, as the hub has it. Four layers, of which the last two attend.
PICTURES = dict(
    depth=1, hidden_size=16, num_heads=2, intermediate_size=24, out_hidden_size=32, patch_size=4, num_position_embeddings=16
)
NESTED = dict(HYBRID, layer_types=["linear_attention", "linear_attention", "full_attention", "full_attention"])
make(
    "qwen3_5-nested-bf16",
    Qwen3_5ForConditionalGeneration,
    Qwen3_5Config(text_config=NESTED, vision_config=PICTURES, tie_word_embeddings=True),
    seed=8,
    dtype=torch.bfloat16,
    prompts=[*PROMPTS, LONG],
)
