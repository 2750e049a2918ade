"""Makes rope.json: the rotary frequencies that transformers computes for configurations of both dialects.

    HF_HUB_OFFLINE=1 python make_rope.py        (torch 2.15, transformers 5.23, CPU)

Each entry: config (the keys of config.json that matter), head_dim, inverse_frequencies (f32, exact).
"""

import json
from pathlib import Path

from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

# Llama 3.1 and 3.2 as their hub files have them, and others that reach every branch.
LLAMA31 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
LLAMA32 = {"factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
SHORT = {"factor": 3.3, "low_freq_factor": 1.5, "high_freq_factor": 7, "original_max_position_embeddings": 100}
UNNAMED = {"factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
CASES = [
    (128, {"max_position_embeddings": 131072, "rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", **LLAMA31}}),
    (64, {"max_position_embeddings": 131072, "rope_parameters": {"rope_type": "llama3", "rope_theta": 500000.0, **LLAMA32}}),
    (32, {"max_position_embeddings": 512, "rope_parameters": {"rope_type": "llama3", "rope_theta": 10000.0, **SHORT}}),
    (32, {"max_position_embeddings": 2048, "rope_theta": 10000.0, "rope_scaling": {"type": "llama3", **UNNAMED}}),
    (128, {"max_position_embeddings": 8192, "rope_theta": 10000.0, "rope_scaling": {"type": "linear", "factor": 4.0}}),
    (96, {"max_position_embeddings": 8192, "rope_parameters": {"rope_type": "linear", "rope_theta": 1000000.0, "factor": 2.7}}),
    (128, {"max_position_embeddings": 8192, "rope_theta": 1000000.0, "rope_scaling": None}),
    (12, {"max_position_embeddings": 8192, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}),
    (16, {"max_position_embeddings": 8192}),
]

entries = []
for head_dim, keys in CASES:
    config = LlamaConfig(hidden_size=2 * head_dim, num_attention_heads=2, head_dim=head_dim, **json.loads(json.dumps(keys)))
    frequencies = LlamaRotaryEmbedding(config).inv_freq
    entries.append({"config": keys, "head_dim": head_dim, "inverse_frequencies": frequencies.tolist()})
lines = [json.dumps(entry) for entry in entries]
(Path(__file__).parent / "rope.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")
