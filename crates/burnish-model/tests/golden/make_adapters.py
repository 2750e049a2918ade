"""Makes adapters over the golden model qwen3, with what PEFT computes with them.

    HF_HUB_OFFLINE=1 python make_adapters.py      (torch 2.15, transformers 5.23, peft 0.21, CPU)

Each folder holds an adapter as PEFT's `save_pretrained` writes it, whose base is `../qwen3`, and `expected.json`:
`prompts` and `logits` as in make_models.py, and `merged`, the same logits after `merge_and_unload`.
"""

import json
from pathlib import Path

import torch
from tiny import PROMPTS
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

HERE = Path(__file__).parent


def make(name, seed, **settings):
    base = AutoModelForCausalLM.from_pretrained(HERE / "qwen3", dtype=torch.float32)
    model = get_peft_model(base, LoraConfig(task_type="CAUSAL_LM", **settings))
    generator = torch.Generator().manual_seed(seed)
    for parameter_name, parameter in model.named_parameters():
        if "lora_" in parameter_name:
            parameter.data = 0.2 * torch.randn(parameter.shape, generator=generator)
    model.eval()
    folder = HERE / name
    model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    config_path = folder / "adapter_config.json"
    config = json.loads(config_path.read_text())
    config["base_model_name_or_path"] = "../qwen3"
    config_path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")

    def logits(model):
        with torch.no_grad():
            return [model(torch.tensor([prompt])).logits[0].flatten().tolist() for prompt in PROMPTS]

    expected = {"prompts": PROMPTS, "logits": logits(model), "merged": logits(model.merge_and_unload())}
    (folder / "expected.json").write_text(json.dumps(expected))


make("qwen3-lora", 5, r=4, lora_alpha=6, target_modules=["q_proj", "v_proj", "down_proj"], lora_dropout=0.1)
make("qwen3-rslora", 6, r=3, lora_alpha=2, use_rslora=True, target_modules="all-linear")
make("qwen3-lora-head", 7, r=2, lora_alpha=4, target_modules=r"model\.layers\.1\.self_attn\.[ko]_proj|lm_head")
