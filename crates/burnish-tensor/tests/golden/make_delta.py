"""Makes delta.json: delta rules with their gradients, as torch computes them.

    python make_delta.py          needs torch and transformers 5.23

`gated`: torch_chunk_gated_delta_rule of transformers (Qwen3-Next), which normalises q and k, with two value heads for
each key head. `channels`: the recurrence of Kimi Delta Attention (arXiv:2510.26692) in f64, with the same normalisation.
`conv`: causal_conv1d_fn of transformers. Numbers are rounded to f32 before anything is computed.
"""

import json
from pathlib import Path

import torch
from transformers.models.qwen3_next.modeling_qwen3_next import causal_conv1d_fn, l2norm, torch_chunk_gated_delta_rule

torch.manual_seed(0)
ROWS, KEY_HEADS, VALUE_HEADS, KEY_DIM, VALUE_DIM = 70, 1, 2, 6, 5


def leaves(channels, dtype):
    """q, k, v, log_decay, beta, each [1, rows, heads, ...]."""
    shapes = [(KEY_HEADS, KEY_DIM), (KEY_HEADS, KEY_DIM), (VALUE_HEADS, VALUE_DIM), (VALUE_HEADS, *channels), (VALUE_HEADS,)]
    q, k, v, log_decay, beta = (torch.randn(1, ROWS, *shape) for shape in shapes)
    log_decay, beta = -0.3 * torch.nn.functional.softplus(2 * log_decay), torch.sigmoid(beta)
    return [x.to(dtype).requires_grad_() for x in (q, k, v, log_decay, beta)]


def kda(q, k, v, log_decay, beta):
    """Row by row: S = (I - b k k^T) Diag(e^g) S + b k v^T, o = S^T q."""
    q, k = (l2norm(x).repeat_interleave(VALUE_HEADS // KEY_HEADS, dim=2)[0] for x in (q, k))
    q = q * KEY_DIM**-0.5
    state = torch.zeros(VALUE_HEADS, KEY_DIM, VALUE_DIM, dtype=q.dtype)
    out = []
    for t in range(ROWS):
        state = state * log_decay[0, t].exp().unsqueeze(-1)
        held = torch.einsum("hkv,hk->hv", state, k[t])
        state = state + torch.einsum("hk,hv->hkv", k[t], beta[0, t].unsqueeze(-1) * (v[0, t] - held))
        out.append(torch.einsum("hkv,hk->hv", state, q[t]))
    return torch.stack(out).unsqueeze(0), state.unsqueeze(0)


def numbers(x):
    return [float(f"{value:.9g}") for value in x.detach().double().flatten().tolist()]


def case(inputs, run):
    out, state = run(*inputs)
    d = torch.randn(out.shape).to(out.dtype)
    gradients = torch.autograd.grad((out * d).sum(), inputs)
    names = ["q", "k", "v", "log_decay", "beta"]
    return {
        **{name: numbers(x) for name, x in zip(names, inputs)},
        "d": numbers(d),
        "out": numbers(out),
        "state": numbers(state),
        **{f"d_{name}": numbers(x) for name, x in zip(names, gradients)},
    }


def gated(q, k, v, log_decay, beta):
    return torch_chunk_gated_delta_rule(
        q, k, v, g=log_decay, beta=beta, output_final_state=True, use_qk_l2norm_in_kernel=True
    )


def conv():
    x, weight = (torch.randn(shape, requires_grad=True) for shape in [(1, 3, 9), (3, 4)])
    out = causal_conv1d_fn(x, weight, activation="silu")
    d = torch.randn(out.shape)
    d_x, d_weight = torch.autograd.grad((out * d).sum(), [x, weight])
    rows = lambda x: numbers(x[0].T)
    return {"x": rows(x), "weight": numbers(weight), "d": rows(d), "out": rows(out), "d_x": rows(d_x), "d_weight": numbers(d_weight)}


cases = {
    "gated": case(leaves((), torch.float32), gated),
    "channels": case(leaves((KEY_DIM,), torch.float64), kda),
    "conv": conv(),
}
Path(__file__).with_name("delta.json").write_text(json.dumps(cases, separators=(",", ":")) + "\n")
