"""Writes a model directory with the shape of Qwen3.5-0.8B's text model and random weights.

    python make_qwen3_5_0_8b.py OUT [--seed 0]

Needs numpy and tokenizers. The tokenizer has the 256 bytes and the special tokens only; the other ids of the head have no
token. 24 layers, 1024 hidden, FFN 3584, vocabulary 248,320, tied, bf16: 752 M parameters, 1.5 GB. Every fourth layer is
attention (8/2 heads of 256, gated), the others are gated delta rules (16 heads of 128 by 128).
"""

import argparse
import json
from pathlib import Path

import numpy as np
from make_qwen3_0_6b import CHATML, bf16, make_tokenizer, save_bf16

LAYERS, HIDDEN, HEADS, KV_HEADS, HEAD_DIM, FFN, VOCAB = 24, 1024, 8, 2, 256, 3584, 248_320
DELTA_HEADS, DELTA_DIM, CONV = 16, 128, 4


def tensors(random):
    normal = lambda *shape: bf16(0.02 * random.standard_normal(shape, dtype=np.float32))
    ones, zeros = lambda size: bf16(np.ones(size)), lambda size: bf16(np.zeros(size))
    width = DELTA_HEADS * DELTA_DIM
    yield "model.embed_tokens.weight", normal(VOCAB, HIDDEN)
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        # Norms multiply by 1 + weight, but for that of the delta rule.
        yield prefix + "input_layernorm.weight", zeros(HIDDEN)
        if layer % 4 == 3:
            yield prefix + "self_attn.q_proj.weight", normal(2 * HEADS * HEAD_DIM, HIDDEN)
            yield prefix + "self_attn.k_proj.weight", normal(KV_HEADS * HEAD_DIM, HIDDEN)
            yield prefix + "self_attn.v_proj.weight", normal(KV_HEADS * HEAD_DIM, HIDDEN)
            yield prefix + "self_attn.q_norm.weight", zeros(HEAD_DIM)
            yield prefix + "self_attn.k_norm.weight", zeros(HEAD_DIM)
            yield prefix + "self_attn.o_proj.weight", normal(HIDDEN, HEADS * HEAD_DIM)
        else:
            yield prefix + "linear_attn.in_proj_qkv.weight", normal(3 * width, HIDDEN)
            yield prefix + "linear_attn.in_proj_z.weight", normal(width, HIDDEN)
            yield prefix + "linear_attn.in_proj_b.weight", normal(DELTA_HEADS, HIDDEN)
            yield prefix + "linear_attn.in_proj_a.weight", normal(DELTA_HEADS, HIDDEN)
            yield prefix + "linear_attn.conv1d.weight", bf16(0.3 * random.standard_normal((3 * width, 1, CONV)))
            yield prefix + "linear_attn.A_log", bf16(np.log(random.uniform(1e-3, 16, DELTA_HEADS)))
            yield prefix + "linear_attn.dt_bias", ones(DELTA_HEADS)
            yield prefix + "linear_attn.norm.weight", ones(DELTA_DIM)
            yield prefix + "linear_attn.out_proj.weight", normal(HIDDEN, width)
        yield prefix + "post_attention_layernorm.weight", zeros(HIDDEN)
        yield prefix + "mlp.gate_proj.weight", normal(FFN, HIDDEN)
        yield prefix + "mlp.up_proj.weight", normal(FFN, HIDDEN)
        yield prefix + "mlp.down_proj.weight", normal(HIDDEN, FFN)
    yield "model.norm.weight", zeros(HIDDEN)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    out = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = make_tokenizer(None)
    tokenizer.save(str(out / "tokenizer.json"))
    end, pad = (tokenizer.token_to_id(token) for token in ("<|im_end|>", "<|endoftext|>"))
    config = dict(
        architectures=["Qwen3_5ForCausalLM"], model_type="qwen3_5_text", attention_bias=False, attention_dropout=0.0,
        eos_token_id=end, head_dim=HEAD_DIM, hidden_act="silu", hidden_size=HIDDEN, initializer_range=0.02,
        intermediate_size=FFN, layer_types=(["linear_attention"] * 3 + ["full_attention"]) * (LAYERS // 4),
        linear_conv_kernel_dim=CONV, linear_key_head_dim=DELTA_DIM, linear_num_key_heads=DELTA_HEADS,
        linear_num_value_heads=DELTA_HEADS, linear_value_head_dim=DELTA_DIM, max_position_embeddings=262_144,
        num_attention_heads=HEADS, num_hidden_layers=LAYERS, num_key_value_heads=KV_HEADS, rms_norm_eps=1e-6,
        rope_parameters=dict(rope_type="default", rope_theta=10_000_000.0, partial_rotary_factor=0.25),
        tie_word_embeddings=True, torch_dtype="bfloat16", use_cache=True, vocab_size=VOCAB,
    )
    generation = dict(bos_token_id=pad, do_sample=True, eos_token_id=[end, pad], pad_token_id=pad)
    settings = dict(
        tokenizer_class="PreTrainedTokenizerFast", eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=CHATML
    )
    for name, content in (("config", config), ("generation_config", generation), ("tokenizer_config", settings)):
        (out / f"{name}.json").write_text(json.dumps(content, indent=2) + "\n")
    named = dict(tensors(np.random.default_rng(arguments.seed)))
    save_bf16(out / "model.safetensors", named)
    print(f"{sum(values.size for values in named.values()):,} parameters in {out}")


if __name__ == "__main__":
    main()
