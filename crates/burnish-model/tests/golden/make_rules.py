"""Makes the golden hybrids, one for each delta rule: a layer of linear attention as torch computes it token by token in
f64, and one of Qwen3's attention as transformers has it.

    HF_HUB_OFFLINE=1 python make_rules.py         (torch 2.15, transformers 5.24, CPU)

Each folder `rule-NAME` holds config.json, model.safetensors and expected.json as make_models.py describes it. The rules
are written as their papers have them: a scalar rate as `b k k^T` and `b k v^T` (arXiv:2406.06484, 2412.06464,
2510.26692), rates per channel with their roots (arXiv:2604.19021).
"""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn.functional import pad, sigmoid, silu, softplus
from transformers import Qwen3Config, Qwen3ForCausalLM

HERE = Path(__file__).parent
WIDTH, VOCAB, HEADS, KERNEL = 16, 31, 2, 3
LONG = [(at * at + 3 * at) % VOCAB for at in range(68)]
PROMPTS = [[3, 1, 4, 1, 5], LONG]


class Linear(nn.Module):
    """What stands where attention does."""

    def __init__(self, rule, key_dim, value_dim, ranks):
        super().__init__()
        self.rule, self.key_dim, self.value_dim = rule, key_dim, value_dim
        keys, values = HEADS * key_dim, HEADS * value_dim

        def projection(letter, rows, rank):
            if rank is None:
                setattr(self, f"in_proj_{letter}", nn.Linear(WIDTH, rows, bias=False))
            else:
                setattr(self, f"{letter}_a_proj", nn.Linear(WIDTH, rank, bias=False))
                setattr(self, f"{letter}_b_proj", nn.Linear(rank, rows, bias=False))

        self.in_proj_qkv = nn.Linear(WIDTH, 2 * keys + values, bias=False)
        self.conv1d = nn.Conv1d(2 * keys + values, 2 * keys + values, KERNEL, groups=2 * keys + values, bias=False)
        if rule != "delta_net":
            rows = HEADS if rule == "gdn" else keys
            projection("a" if rule == "gdn" else "f", rows, None if rule == "gdn" else ranks["decay"])
            self.A_log = nn.Parameter(torch.zeros(HEADS))
            self.dt_bias = nn.Parameter(torch.zeros(rows))
        if rule.startswith("fg2"):
            projection("b", keys, ranks.get("rate"))
        else:
            projection("b", HEADS, None)
        if rule == "fg2_gdn_plus":
            projection("w", values, ranks.get("rate"))
        projection("g", values, ranks["gate"])
        self.norm = nn.RMSNorm(value_dim, eps=1e-6)
        self.out_proj = nn.Linear(values, WIDTH, bias=False)

    def project(self, letter, x):
        if hasattr(self, f"in_proj_{letter}"):
            return getattr(self, f"in_proj_{letter}")(x)
        return getattr(self, f"{letter}_b_proj")(getattr(self, f"{letter}_a_proj")(x))

    def forward(self, hidden_states, **_):
        x = hidden_states[0]
        keys = HEADS * self.key_dim
        qkv = self.in_proj_qkv(x).T
        qkv = silu(self.conv1d(pad(qkv, (KERNEL - 1, 0)).unsqueeze(0))[0].T)
        q, k, v = (
            part.unflatten(-1, (HEADS, -1)) for part in (qkv[:, :keys], qkv[:, keys : 2 * keys], qkv[:, 2 * keys :])
        )
        unit = lambda x: x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-6)
        q, k = unit(q) * self.key_dim**-0.5, unit(k)
        if self.rule == "delta_net":
            decay = torch.ones(len(x), HEADS, self.key_dim, dtype=x.dtype)
        else:
            steps = softplus(self.project("a" if self.rule == "gdn" else "f", x) + self.dt_bias)
            decay = (-self.A_log.exp().unsqueeze(-1) * steps.unflatten(-1, (HEADS, -1))).exp().expand(-1, -1, self.key_dim)
        rates = sigmoid(self.project("b", x)).unflatten(-1, (HEADS, -1))
        state = torch.zeros(HEADS, self.key_dim, self.value_dim, dtype=x.dtype)
        out = []
        for t in range(len(x)):
            state = decay[t].unsqueeze(-1) * state
            if self.rule.startswith("fg2"):
                write = sigmoid(self.project("w", x)).unflatten(-1, (HEADS, -1)) if self.rule == "fg2_gdn_plus" else rates
                key, value, rate = rates[t].sqrt() * k[t], write[t].sqrt() * v[t], torch.ones(HEADS, 1, dtype=x.dtype)
            else:
                key, value, rate = k[t], v[t], rates[t]
            held = torch.einsum("hk,hkv->hv", key, state)
            state = state - torch.einsum("hk,hv->hkv", rate * key, held) + torch.einsum("hk,hv->hkv", rate * key, value)
            out.append(torch.einsum("hkv,hk->hv", state, q[t]))
        gated = self.norm(torch.stack(out)) * sigmoid(self.project("g", x)).unflatten(-1, (HEADS, -1))
        return self.out_proj(gated.flatten(-2)).unsqueeze(0), None


def rounded(x):
    return [float(f"{value:.7g}") for value in x.detach().flatten().tolist()]


def make(rule, seed, key_dim=6, value_dim=6, **ranks):
    torch.manual_seed(seed)
    sizes = dict(
        vocab_size=VOCAB,
        hidden_size=WIDTH,
        intermediate_size=20,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        max_position_embeddings=128,
        rms_norm_eps=1e-6,
        tie_word_embeddings=True,
    )
    rope = {"rope_theta": 10000.0, "rope_type": "default"}
    model = Qwen3ForCausalLM(Qwen3Config(**sizes, rope_parameters=rope))
    ranks.setdefault("gate", 5)
    model.model.layers[0].self_attn = Linear(rule, key_dim, value_dim, ranks)
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape)
        if "norm" in name:
            parameter.data = 1 + 0.3 * noise
        elif name.endswith(("A_log", "dt_bias")):
            parameter.data = 0.7 * noise - 0.7
        else:
            parameter.data = noise * (0.1 if "embed" in name else 0.5 if "conv1d" in name or "_b_proj" in name else 0.3)
    folder = HERE / f"rule-{rule.replace('_', '-')}"
    folder.mkdir(exist_ok=True)
    own = lambda name: name.replace("layers.0.self_attn", "layers.0.linear_attn")
    tensors = {own(name): parameter.data.clone() for name, parameter in model.named_parameters()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = dict(
        architectures=["BurnishHybridForCausalLM"],
        model_type="burnish_hybrid",
        **sizes,
        rope_parameters=rope,
        layer_types=["linear_attention", "full_attention"],
        linear_rule=rule,
        linear_num_key_heads=HEADS,
        linear_num_value_heads=HEADS,
        linear_key_head_dim=key_dim,
        linear_value_head_dim=value_dim,
        linear_conv_kernel_dim=KERNEL,
        **{f"linear_{name}_rank": rank for name, rank in ranks.items()},
        hidden_act="silu",
        dtype="float32",
        rope_theta=10000.0,
    )
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    model = model.double().eval()
    logits = [rounded(model(torch.tensor([prompt])).logits[0]) for prompt in PROMPTS]
    ids = torch.tensor([LONG])
    logprobs = torch.log_softmax(model(ids).logits[0, :-1], -1).gather(-1, ids[0, 1:, None])
    logprobs.sum().backward()
    gradients = {
        own(name): rounded(torch.cat([parameter.grad.norm()[None], parameter.grad.flatten()[:5]]))
        for name, parameter in model.named_parameters()
    }
    (folder / "expected.json").write_text(json.dumps({"prompts": PROMPTS, "logits": logits, "gradients": gradients}) + "\n")
    print(f"{folder.name}: {sum(path.stat().st_size for path in folder.iterdir())} bytes")


make("delta_net", 1)
make("gdn", 2)
make("kda", 3, value_dim=4, decay=3)
make("fg2_gdn", 4, decay=3)
make("fg2_gdn_plus", 5, value_dim=4, decay=3, rate=2)
