"""Writes a model directory with the shape of Qwen3-0.6B and random weights: what a user's own directory looks like.

    python make_qwen3_0_6b.py OUT [--tiktoken qwen.tiktoken] [--template chat_template.jinja] [--seed 0]

Needs numpy and tokenizers. `--tiktoken` names Qwen's real BPE ranks, one base64 token and its rank a
line; without it the tokenizer has the 256 bytes and the special tokens only, and the other ids of the head have no
token. 28 layers, 1024 hidden, 16/8 heads of 128, FFN 3072, vocabulary 151,936, tied, bf16: 596 M parameters, 1.2 GB.
"""

import argparse
import base64
import json
from pathlib import Path

import numpy as np
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

LAYERS, HIDDEN, HEADS, KV_HEADS, HEAD_DIM, FFN, VOCAB = 28, 1024, 16, 8, 128, 3072, 151_936
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
FIRST_SPECIAL = 151_643
# The split of Qwen2 and Qwen3.
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def byte_names():
    """The printable character that byte-level BPE writes for each byte (GPT-2)."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in plain]
    return {byte: chr(byte) for byte in plain} | {byte: chr(256 + at) for at, byte in enumerate(others)}


def merges_of(ranks):
    """The pair that makes each token: the last one that joins when the tokens below it are applied."""
    for token, rank in sorted(ranks.items(), key=lambda item: item[1]):
        if len(token) == 1:
            continue
        parts = [bytes([byte]) for byte in token]
        while len(parts) > 2:
            pairs = [ranks.get(left + right, rank) for left, right in zip(parts, parts[1:])]
            best = min(range(len(pairs)), key=pairs.__getitem__)
            if pairs[best] >= rank:
                break
            parts[best : best + 2] = [parts[best] + parts[best + 1]]
        if len(parts) == 2:
            yield parts


def make_tokenizer(path):
    names = byte_names()
    if path is None:
        ranks = {bytes([byte]): rank for rank, byte in enumerate(range(256))}
    else:
        lines = Path(path).read_text().split("\n")
        ranks = {base64.b64decode(line.split()[0]): int(line.split()[1]) for line in lines if line}
    name = lambda token: "".join(names[byte] for byte in token)
    vocab = {name(token): rank for token, rank in ranks.items()}
    merges = [(name(left), name(right)) for left, right in merges_of(ranks)]
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(SPLIT), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    if path is not None:
        assert [tokenizer.token_to_id(token) for token in SPECIAL] == [FIRST_SPECIAL + at for at in range(3)]
    return tokenizer


def bf16(values):
    """f32 rounded to bf16, as the uint16 of its bits."""
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def tensors(random):
    normal = lambda *shape: bf16(0.02 * random.standard_normal(shape, dtype=np.float32))
    ones = lambda size: bf16(np.ones(size))
    yield "model.embed_tokens.weight", normal(VOCAB, HIDDEN)
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        yield prefix + "input_layernorm.weight", ones(HIDDEN)
        yield prefix + "self_attn.q_proj.weight", normal(HEADS * HEAD_DIM, HIDDEN)
        yield prefix + "self_attn.k_proj.weight", normal(KV_HEADS * HEAD_DIM, HIDDEN)
        yield prefix + "self_attn.v_proj.weight", normal(KV_HEADS * HEAD_DIM, HIDDEN)
        yield prefix + "self_attn.q_norm.weight", ones(HEAD_DIM)
        yield prefix + "self_attn.k_norm.weight", ones(HEAD_DIM)
        yield prefix + "self_attn.o_proj.weight", normal(HIDDEN, HEADS * HEAD_DIM)
        yield prefix + "post_attention_layernorm.weight", ones(HIDDEN)
        yield prefix + "mlp.gate_proj.weight", normal(FFN, HIDDEN)
        yield prefix + "mlp.up_proj.weight", normal(FFN, HIDDEN)
        yield prefix + "mlp.down_proj.weight", normal(HIDDEN, FFN)
    yield "model.norm.weight", ones(HIDDEN)


def save_bf16(path, named):
    """numpy has no bf16, so the header is written by hand: its length, JSON, then the tensors one after another."""
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, values in named.items():
        header[name] = {"dtype": "BF16", "shape": list(values.shape), "data_offsets": [end, end + values.nbytes]}
        end += values.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for values in named.values():
            file.write(values.tobytes())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--tiktoken")
    parser.add_argument("--template", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    out = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = make_tokenizer(arguments.tiktoken)
    tokenizer.save(str(out / "tokenizer.json"))
    end, pad = (tokenizer.token_to_id(token) for token in ("<|im_end|>", "<|endoftext|>"))
    config = dict(
        architectures=["Qwen3ForCausalLM"], model_type="qwen3", attention_bias=False, attention_dropout=0.0,
        eos_token_id=end, head_dim=HEAD_DIM, hidden_act="silu", hidden_size=HIDDEN, initializer_range=0.02,
        intermediate_size=FFN, max_position_embeddings=40_960, max_window_layers=LAYERS,
        num_attention_heads=HEADS, num_hidden_layers=LAYERS, num_key_value_heads=KV_HEADS, rms_norm_eps=1e-6,
        rope_scaling=None, rope_theta=1_000_000, sliding_window=None, tie_word_embeddings=True,
        torch_dtype="bfloat16", use_cache=True, use_sliding_window=False, vocab_size=VOCAB,
    )
    generation = dict(
        bos_token_id=pad, do_sample=True, eos_token_id=[end, pad], pad_token_id=pad, temperature=0.6, top_k=20, top_p=0.95
    )
    template = arguments.template.read_text() if arguments.template else CHATML
    settings = dict(
        tokenizer_class="PreTrainedTokenizerFast", eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=template
    )
    for name, value in [("config", config), ("generation_config", generation), ("tokenizer_config", settings)]:
        (out / f"{name}.json").write_text(json.dumps(value, indent=2) + "\n")
    random = np.random.default_rng(arguments.seed)
    save_bf16(out / "model.safetensors", dict(tensors(random)))
    print(f"{out}: {sum(file.stat().st_size for file in out.iterdir()) / 1e9:.2f} GB")


if __name__ == "__main__":
    main()
