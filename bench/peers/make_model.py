"""Writes a Qwen3 model (--hybrid: Qwen3.5) with random weights and a tokenizer of single characters, in the layout of Hugging Face.

The defaults are the reference shape (a); the other shapes are in bench/rows.json.
"""
import argparse

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3_5ForCausalLM, Qwen3_5TextConfig, Qwen3Config, Qwen3ForCausalLM

SHAPE = dict(hidden=256, ffn=768, layers=6, heads=4, kv_heads=2, head_dim=64, vocab=512, seed=0)

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("out")
for name, value in SHAPE.items():
    parser.add_argument("--" + name.replace("_", "-"), type=int, default=value)
parser.add_argument("--tied", action="store_true", help="the head is the embedding")
parser.add_argument("--bf16", action="store_true", help="stored in bfloat16")
parser.add_argument("--hybrid", action="store_true", help="three layers of the delta rule to one of attention, heads as wide")
args = parser.parse_args()

characters = [chr(code) for code in range(32, 127)] + ["<pad>", "<eos>", "<unk>", "\n"]
ids = {text: at for at, text in enumerate(characters)}
characterwise = Tokenizer(models.WordLevel(ids, unk_token="<unk>"))
characterwise.pre_tokenizer = pre_tokenizers.Split("", "isolated")
characterwise.decoder = decoders.Fuse()
PreTrainedTokenizerFast(
    tokenizer_object=characterwise, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>"
).save_pretrained(args.out)

torch.manual_seed(args.seed)
delta_rule = dict(
    linear_num_key_heads=args.heads,
    linear_num_value_heads=args.heads,
    linear_key_head_dim=args.head_dim,
    linear_value_head_dim=args.head_dim,
)
config_class = Qwen3_5TextConfig if args.hybrid else Qwen3Config
config = config_class(
    **(delta_rule if args.hybrid else {}),
    vocab_size=args.vocab,
    hidden_size=args.hidden,
    intermediate_size=args.ffn,
    num_hidden_layers=args.layers,
    num_attention_heads=args.heads,
    num_key_value_heads=args.kv_heads,
    head_dim=args.head_dim,
    max_position_embeddings=4096,
    tie_word_embeddings=args.tied,
    eos_token_id=ids["<eos>"],
    pad_token_id=ids["<pad>"],
)
model = (Qwen3_5ForCausalLM if args.hybrid else Qwen3ForCausalLM)(config)
(model.bfloat16() if args.bf16 else model).save_pretrained(args.out)
print(f"{args.out}: {sum(weight.numel() for weight in model.parameters()):,} parameters")
