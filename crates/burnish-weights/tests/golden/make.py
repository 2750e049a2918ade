"""Merges of random checkpoints by mergekit 0.1.5, for tests/mergekit.rs.

    python make.py OUT [tiny|small [llama|qwen]]

writes into OUT: llama/ and qwen/ with the checkpoints base, a, b (bf16) and c (f32 changes of a), adapter (PEFT) over base,
CASE.yaml, in which @ stands for the folder, and CASE.safetensors, what mergekit made of it; of stacks CASE.json as well,
their config.json. `tiny` is what is committed in this folder:

    python make.py . tiny

Needs mergekit==0.1.5 and what it needs (torch 2.15, transformers 5.24 and peft 0.21 were used). Nothing is downloaded.
"""

import json
import pathlib
import shutil
import sys
import tempfile

import torch
import yaml
import mergekit.merge
import peft
import transformers
from mergekit.config import MergeConfiguration
from mergekit.merge import run_merge
from mergekit.options import MergeOptions
from safetensors.torch import load_file, save_file


def with_layer_types(*settings, made=mergekit.merge._model_out_config, **more):
    """mergekit leaves `layer_types` at the old number of layers, with which transformers 5 refuses to save a stack."""
    config = made(*settings, **more)
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[:1] * config.num_hidden_layers
    return config


mergekit.merge._model_out_config = with_layer_types

SIZES = {
    # hidden, intermediate, layers, heads, key-value heads, head size, vocabulary
    "tiny": (16, 24, 3, 4, 2, 4, 24),
    "small": (96, 160, 4, 6, 2, 16, 320),
}


def shapes(kind, size):
    hidden, inner, layers, heads, kv, head, vocabulary = SIZES[size]
    yield "model.embed_tokens.weight", (vocabulary, hidden)
    for layer in range(layers):
        start = f"model.layers.{layer}."
        for name, rows, cols in [
            ("self_attn.q_proj", heads * head, hidden),
            ("self_attn.k_proj", kv * head, hidden),
            ("self_attn.v_proj", kv * head, hidden),
            ("self_attn.o_proj", hidden, heads * head),
            ("mlp.gate_proj", inner, hidden),
            ("mlp.up_proj", inner, hidden),
            ("mlp.down_proj", hidden, inner),
        ]:
            yield start + name + ".weight", (rows, cols)
        if kind == "qwen":
            yield start + "self_attn.q_norm.weight", (head,)
            yield start + "self_attn.k_norm.weight", (head,)
        yield start + "input_layernorm.weight", (hidden,)
        yield start + "post_attention_layernorm.weight", (hidden,)
    yield "model.norm.weight", (hidden,)
    if kind == "llama":
        yield "lm_head.weight", (vocabulary, hidden)


def config(kind, size):
    hidden, inner, layers, heads, kv, head, vocabulary = SIZES[size]
    name = {"llama": "LlamaForCausalLM", "qwen": "Qwen3ForCausalLM"}[kind]
    return {
        "architectures": [name],
        "model_type": {"llama": "llama", "qwen": "qwen3"}[kind],
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "head_dim": head,
        "vocab_size": vocabulary,
        "max_position_embeddings": 64,
        "tie_word_embeddings": kind == "qwen",
        "torch_dtype": "bfloat16",
    }


def checkpoints(out, kind, size):
    torch.manual_seed({"llama": 1, "qwen": 2}[kind])
    base = {name: torch.randn(shape) * 0.05 for name, shape in shapes(kind, size)}
    for model, amount in [("base", 0.0), ("a", 0.01), ("b", 0.02), ("c", 0.01)]:
        folder = out / kind / model
        folder.mkdir(parents=True)
        tensors = {n: (t + amount * torch.randn(t.shape)).to(torch.bfloat16) for n, t in base.items()}
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        (folder / "config.json").write_text(json.dumps(config(kind, size), indent=2) + "\n")


def adapter(folder):
    """A LoRA over base, with random factors, as PEFT saves it; its base is named from its own directory."""
    base = transformers.AutoModelForCausalLM.from_pretrained(folder / "base", torch_dtype=torch.float32)
    settings = peft.LoraConfig(r=3, lora_alpha=6, target_modules=["q_proj", "o_proj", "down_proj"], task_type="CAUSAL_LM")
    model = peft.get_peft_model(base, settings)
    torch.manual_seed(3)
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(parameter, std=0.1)
    model.save_pretrained(folder / "adapter")
    (folder / "adapter" / "README.md").unlink(missing_ok=True)
    path = folder / "adapter" / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"base_model_name_or_path": "../base"}, indent=2) + "\n")


def stacked(*slices):
    """Slices of one model each: model, first layer, end, parameters of the source and of the slice."""
    lines = ["slices:"]
    for model, start, end, of_source, of_slice in slices:
        lines += ["  - sources:", f"      - model: '{model}'", f"        layer_range: [{start}, {end}]"]
        if of_source:
            lines.append(f"        parameters: {json.dumps(of_source)}")
        if of_slice:
            lines.append(f"    parameters: {json.dumps(of_slice)}")
    return lines


def models(*settings, base=True):
    lines = ["base_model: '@/base'"] if base else []
    lines.append("models:")
    for name, parameters in settings:
        lines.append(f"  - model: '@/{name}'")
        if parameters:
            lines.append(f"    parameters: {json.dumps(parameters)}")
    return lines


def cases():
    """Configurations by name. f32 inside, bf16 outside, as burnish computes; `plain_` ones compute in bf16."""
    out = "dtype: float32\nout_dtype: bfloat16".split("\n")
    weights = [("a", {"weight": 0.6}), ("b", {"weight": 0.3})]
    dense = [("a", {"weight": 0.6, "density": 0.5}), ("b", {"weight": 0.7, "density": 0.3})]
    gradient = {
        "t": [
            {"filter": "self_attn", "value": [0, 0.5, 0.3, 0.7, 1]},
            {"filter": "mlp", "value": [1, 0.5, 0.7, 0.3, 0]},
            {"value": 0.5},
        ]
    }
    shared = lambda parameters: [f"parameters: {json.dumps(parameters)}"]
    yield "linear", ["merge_method: linear", *models(*weights, base=False), *out]
    yield "linear_sum", ["merge_method: linear", *models(*weights, base=False), *shared({"normalize": False}), *out]
    yield "slerp", ["merge_method: slerp", *models(("base", None), ("a", None)), *shared(gradient), *out]
    slices = ["slices:", "  - sources:"]
    for name in ["base", "a"]:
        slices += [f"      - model: '@/{name}'", "        layer_range: [0, LAYERS]"]
    yield "slerp_slices", ["merge_method: slerp", "base_model: '@/base'", *slices, *shared({"t": 0.3}), *out]
    yield "task_arithmetic", ["merge_method: task_arithmetic", *models(*weights), *shared({"lambda": 0.9}), *out]
    yield "ties", ["merge_method: ties", *models(*dense), *out]
    yield "ties_sum", [
        "merge_method: ties",
        *models(*dense, ("c", {"weight": 0.4, "density": 0.9})),
        *shared({"normalize": False, "int8_mask": True, "rescale": True}),
        *out,
    ]
    yield "dare_linear", ["merge_method: dare_linear", *models(("a", {"weight": 1.0, "density": 0.5})), *out]
    yield "dare_plain", [
        "merge_method: dare_linear",
        *models(*dense),
        *shared({"rescale": False}),
        *out,
    ]
    yield "dare_ties", ["merge_method: dare_ties", *models(*dense), *shared({"rescale": False}), *out]
    yield "model_stock", ["merge_method: model_stock", *models(("a", None), ("b", None), ("c", None)), *out]
    yield "model_stock_rows", [
        "merge_method: model_stock",
        *models(("a", None), ("b", None)),
        *shared({"filter_wise": True}),
        *out,
    ]
    yield "plain_linear", ["merge_method: linear", *models(*weights, base=False), "dtype: bfloat16"]
    yield "plain_slerp", ["merge_method: slerp", *models(("base", None), ("a", None)), *shared(gradient), "dtype: bfloat16"]
    yield "plain_task_arithmetic", ["merge_method: task_arithmetic", *models(*weights), "dtype: bfloat16"]
    # The first and the last slice decide what is outside of the layers; the last one here is of one layer.
    yield "stack", [
        "merge_method: passthrough",
        *stacked(("@/base", 0, 2, None, None), ("@/a", 1, "LAYERS", None, None), ("@/b", 1, 2, None, None)),
        "dtype: bfloat16",
    ]
    silent = {"scale": [{"filter": "o_proj", "value": 0.0}, {"filter": "down_proj", "value": 0.0}, {"value": 1.0}]}
    yield "stack_scaled", [
        "merge_method: passthrough",
        "base_model: '@/a'",
        *stacked(
            ("@/base", 0, 3, {"scale": 0.5}, {"scale": 7.0}),
            ("@/a", 1, 3, None, silent),
            ("@/b", 0, "LAYERS", None, {"scale": [0.25, 1.0]}),
            ("@/a", 0, 1, None, None),
        ),
        *shared({"scale": 1.5}),
        *out,
    ]
    yield "passthrough", ["merge_method: passthrough", *models(("a", {"scale": [1.0, 2.0]}), base=False), *out]
    adapted = [("base+@/adapter", {"weight": 0.6}), ("b", {"weight": 0.3})]
    yield "adapter_linear", ["merge_method: linear", *models(*adapted, base=False), *out]
    yield "adapter_task", ["merge_method: task_arithmetic", *models(*adapted), *out]
    yield "adapter_stack", [
        "merge_method: passthrough",
        *stacked(("@/base+@/adapter", 0, 2, None, None), ("@/base", 0, 1, None, None), ("@/base+@/adapter", 2, 3, None, None)),
        *out,
    ]
    yield "plain_adapter", ["merge_method: linear", *models(*adapted, base=False), "dtype: bfloat16"]


def main():
    out = pathlib.Path(sys.argv[1])
    size = sys.argv[2] if len(sys.argv) > 2 else "small"
    for kind in sys.argv[3:] or ["llama", "qwen"]:
        shutil.rmtree(out / kind, ignore_errors=True)
        checkpoints(out, kind, size)
        folder = out / kind
        adapter(folder)
        for name, lines in cases():
            text = "\n".join(lines).replace("LAYERS", str(SIZES[size][2])) + "\n"
            (folder / f"{name}.yaml").write_text(text)
            with tempfile.TemporaryDirectory() as scratch:
                settings = yaml.safe_load(text.replace("@", str(folder.absolute())))
                run_merge(
                    MergeConfiguration.model_validate(settings),
                    scratch,
                    MergeOptions(
                        copy_tokenizer=False,
                        write_model_card=False,
                        random_seed=7,
                        quiet=True,
                        lora_merge_cache=f"{scratch}/cache",
                        # As burnish computes; without it, the sum of base and adapter is rounded to bf16 once more.
                        lora_merge_dtype=None if name.startswith("plain_") else "float32",
                    ),
                )
                made = {}
                for file in sorted(pathlib.Path(scratch).glob("*.safetensors")):
                    made.update(load_file(file))
                if "stack" in name:
                    shutil.copy(f"{scratch}/config.json", folder / f"{name}.json")
            save_file(made, folder / f"{name}.safetensors", metadata={"format": "pt"})


if __name__ == "__main__":
    main()
