"""Sizes, prompts and weights of the golden models."""

import torch

SIZES = dict(
    vocab_size=67,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=128,
    bos_token_id=None,
    pad_token_id=None,
    eos_token_id=None,
)
PROMPTS = [[3, 1, 4, 1, 5], [66], [2, 7, 1, 8, 2, 8, 1, 8, 2, 8, 4, 5, 9]]
# Longer than a chunk of the delta rule.
LONG = [(at * at + 3 * at) % 67 for at in range(75)]


def randomise(model, seed):
    """Weights, norms and biases far enough from their usual start that a slip in any of them shows."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if "norm" in name:
            # Norms of Qwen3.5 multiply by 1 + w, but for those of the delta rule.
            centred = type(model).__name__.startswith("Qwen3_5") and "linear_attn" not in name
            parameter.data = (0 if centred else 1) + 0.3 * noise
        elif name.endswith("A_log") or name.endswith("dt_bias"):
            parameter.data = noise
        elif "conv1d" in name:
            parameter.data = 0.5 * noise
        elif name.endswith("bias"):
            parameter.data = 0.5 * noise
        else:
            # Narrow embeddings: else a tied model repeats its last token, whatever the layers do.
            parameter.data = noise * (0.1 if "embed" in name else 0.3)
