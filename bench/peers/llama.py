"""One answer at a time from llama.cpp (llama-cpp-python), at temperature 1, exactly --new tokens long, on the same weights.

Writes MODEL_DIR/model.gguf first, unless it is there: matrices as they are stored (bf16), norms in f32. The vocabulary is left out,
because prompts and answers are ids.

    python llama.py MODEL_DIR --logprobs IDS.json      as logprobs.py, instead of serving units
"""
import argparse
import json
import os
import time

import gguf
import llama_cpp
import numpy
import protocol
import torch
from safetensors import safe_open

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("model")
parser.add_argument("--logprobs", metavar="IDS", help='JSON file {"sequences": [[id, ...], ...]}')
parser.add_argument("--batch", type=int, default=1, choices=[1])
parser.add_argument("--prompt", type=int, default=64)
parser.add_argument("--new", type=int, default=128)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--bf16", action="store_true", help="the only precision there is")
args = parser.parse_args()

# What ours samples prompts from.
PROMPT_IDS = 95
NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
OF_LAYERS = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def renamed(name):
    if name in NAMES:
        return NAMES[name]
    _, _, layer, part = name.split(".", 3)
    return f"blk.{layer}.{OF_LAYERS[part.removesuffix('.weight')]}.weight"


def convert(directory, path):
    with open(os.path.join(directory, "config.json")) as file:
        config = json.load(file)
    assert config["architectures"] == ["Qwen3ForCausalLM"], "this converter knows Qwen3"
    theta = config.get("rope_theta") or config["rope_parameters"]["rope_theta"]
    writer = gguf.GGUFWriter(path, "qwen3")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(theta)
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("none")
    with safe_open(os.path.join(directory, "model.safetensors"), "pt") as tensors:
        for name in tensors.keys():
            tensor = tensors.get_tensor(name)
            if tensor.ndim == 1:
                writer.add_tensor(renamed(name), tensor.float().numpy())
                continue
            bits = tensor.bfloat16().view(torch.uint16).numpy()
            writer.add_tensor(
                renamed(name), bits.view(numpy.uint8).reshape(bits.shape[0], -1), raw_dtype=gguf.GGMLQuantizationType.BF16
            )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


path = os.path.join(args.model, "model.gguf")
if not os.path.exists(path):
    convert(args.model, path + ".tmp")
    os.rename(path + ".tmp", path)
with open(os.path.join(args.model, "config.json")) as file:
    vocab = json.load(file)["vocab_size"]


def load(logits_all):
    return llama_cpp.Llama(
        path, n_ctx=1024, n_threads=args.threads, n_threads_batch=args.threads, logits_all=logits_all, verbose=False
    )


if args.logprobs:
    llama = load(True)
    logprobs = []
    with open(args.logprobs) as file:
        for ids in json.load(file)["sequences"]:
            llama.reset()
            llama.eval(ids)
            logits = llama.scores[: len(ids) - 1].astype(numpy.float64)
            largest = logits.max(-1, keepdims=True)
            sums = largest[:, 0] + numpy.log(numpy.exp(logits - largest).sum(-1))
            logprobs.append((logits[numpy.arange(len(ids) - 1), ids[1:]] - sums).tolist())
    protocol.say(logprobs=logprobs)
    raise SystemExit

llama = load(False)
numbers = numpy.random.default_rng(0)


def unit():
    start = time.perf_counter()
    prompt = numbers.integers(0, PROMPT_IDS, args.prompt).tolist()
    answer = llama.generate(prompt, temp=1.0, top_k=0, top_p=1.0, min_p=0.0, typical_p=1.0, repeat_penalty=1.0)
    for _ in range(args.new):
        next(answer)
    answer.close()
    return {"seconds": time.perf_counter() - start, "tokens": args.new}


protocol.serve(f"llama.cpp (llama-cpp-python {llama_cpp.__version__})", unit)
