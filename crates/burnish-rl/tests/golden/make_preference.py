"""Golden vectors of preferences and distillation: losses, gradients and metrics of TRL 1.16's own code.

    HF_HUB_OFFLINE=1 python make_preference.py     # needs torch, transformers, trl==1.16.*; writes preference.json

What is real: `DPOTrainer.compute_loss`, `KTOTrainer.compute_loss`, `CPOTrainer.get_batch_loss_metrics` (SimPO) and
`ORPOTrainer.get_batch_loss_metrics`, unchanged, on trainers built as any user builds them;
`GKDTrainer.generalized_jsd_loss` and `ServerDistillationTrainer._compute_server_forward_kl_loss`, which need none. What
is replaced: the models, which return log-probs (or the logits of a vocabulary of two that have them) made from leaf
tensors. All run in double precision; ORPO casts to float, which is made to mean double while it runs.

`opd` is no trainer of TRL: its formula is written down here from Lu et al. 2025 (On-Policy Distillation, Thinking
Machines Lab) and PPO (arXiv:1707.06347), and differentiated by autograd.
"""

import json
import random
from pathlib import Path
from types import SimpleNamespace

import torch
import trl
from datasets import Dataset
from make_trl import TOKENIZER, WORK, rounded
from trl import DPOConfig, DPOTrainer, KTOConfig, KTOTrainer
from trl.experimental.cpo import CPOConfig, CPOTrainer
from trl.experimental.gkd import GKDTrainer
from trl.experimental.orpo import ORPOConfig, ORPOTrainer
from trl.experimental.server_distillation.server_distillation_trainer import ServerDistillationTrainer

PAIRS = {"prompt": ["a", "a", "a", "a"], "chosen": [" a"] * 4, "rejected": [" a"] * 4}
LABELLED = {"prompt": ["a"] * 4, "completion": [" a"] * 4, "label": [True, False, True, False]}


def trainer(kind, config, data, **settings):
    defaults = dict(output_dir=str(WORK / "out"), use_cpu=True, bf16=False, report_to=[], max_length=16)
    made = kind(
        model=str(WORK / "model"), args=config(**{**defaults, **settings}), train_dataset=Dataset.from_dict(data),
        processing_class=TOKENIZER,
    )
    made.model.train()
    return made


# --- Batches ------------------------------------------------------------------------------------------------


def batch(seed, rows, columns=5, moves=(0.0, 0.01, 0.3, -0.3, 1.5, -1.5), lengths=None):
    """Ragged answers behind a prompt of one token, which has no log-prob."""
    draw = random.Random(seed)
    policy = [[-draw.expovariate(0.7) - 0.01 for _ in range(columns)] for _ in range(rows)]
    reference = [[value - draw.choice(moves) * draw.uniform(0.5, 1) for value in row] for row in policy]
    lengths = lengths or [draw.randint(1, columns) for _ in range(rows)]
    mask = [[int(at < length) for at in range(columns)] for length in lengths]
    return dict(policy=policy, reference=reference, mask=mask)


def double(rows):
    return torch.tensor(rows, dtype=torch.float64)


def fake_model(log_probs, entropy=1.0):
    """A model with a fused head that has these log-probs of the labels; other positions have 0, as TRL's."""

    def forward(input_ids, labels, **_):
        at = labels[:, 1:] != -100
        rows = log_probs(input_ids)
        zeros = torch.zeros_like(rows)
        return SimpleNamespace(
            log_probs=torch.where(at, rows, zeros), entropy=zeros + entropy, mean_logits=zeros, is_top1=at,
        )

    return forward


def ids(mask, token=2):
    """Ids, attention mask and completion mask: a prompt of one token, then the answer."""
    mask = torch.tensor(mask)
    ones = torch.ones(len(mask), 1, dtype=torch.long)
    return torch.full((len(mask), mask.shape[1] + 1), token), torch.cat([ones, mask], 1), torch.cat([0 * ones, mask], 1)


NAMES = [
    "rewards/chosen", "rewards/rejected", "rewards/accuracies", "rewards/margins", "logps/chosen", "logps/rejected",
    "entropy", "kl", "nll_loss", "log_odds_ratio", "log_odds_chosen",
]


def case(name, settings, loss, policy, metrics):
    loss.backward()
    metrics = {key: metrics[key] for key in NAMES if key in metrics}
    return dict(batch=name, settings=settings, loss=loss.item(), gradient=policy.grad.tolist(), metrics=metrics)


# --- Pairs --------------------------------------------------------------------------------------------------


def by_rows(pairs, order):
    """TRL's batches are all chosen, then all rejected; ours are pair after pair."""
    return {key: [rows[at] for at in order] for key, rows in pairs.items()}


def dpo(name, streams, order=None, **settings):
    """`order`: which rows of the batch are TRL's chosen, then rejected."""
    rows = len(streams["policy"])
    order = order or [*range(0, rows, 2), *range(1, rows, 2)]
    # Each use of a row is a row of its own to TRL; they share a leaf.
    policy = double(streams["policy"]).requires_grad_()
    reference = double(streams["reference"])[order]
    made = trainer(DPOTrainer, DPOConfig, PAIRS, **settings)
    made.ref_model = fake_model(lambda _: reference)
    input_ids, attention_mask, completion_mask = ids([streams["mask"][at] for at in order])
    inputs = dict(input_ids=input_ids, attention_mask=attention_mask, completion_mask=completion_mask)
    torch.set_default_dtype(torch.float64)  # exo_pair makes a tensor of its smoothing
    loss = made.compute_loss(fake_model(lambda _: policy[order]), inputs)
    torch.set_default_dtype(torch.float32)
    metrics = {key: values[0] for key, values in made._metrics["train"].items()}
    return case(name, settings, loss, policy, metrics)


def of_logits(log_probs, rows):
    """The model behind CPO and ORPO: a vocabulary of two, whose second token has these log-probs."""

    def forward(input_ids, **_):
        lp = log_probs[rows]
        logits = torch.stack([torch.log(-torch.expm1(lp)), lp], -1)
        return SimpleNamespace(logits=torch.cat([logits, torch.zeros_like(logits[:, :1])], 1))

    return forward


def concatenated(streams, rows):
    found = {}
    for name, own in [("chosen", rows[: len(rows) // 2]), ("rejected", rows[len(rows) // 2 :])]:
        input_ids, attention_mask, completion_mask = ids([streams["mask"][at] for at in own], token=1)
        found |= {
            f"{name}_input_ids": input_ids, f"{name}_attention_mask": attention_mask,
            f"{name}_labels": torch.where(completion_mask == 1, input_ids, -100),
        }
    return found


def simpo(name, streams, **settings):
    rows = len(streams["policy"])
    order = [*range(0, rows, 2), *range(1, rows, 2)]
    policy = double(streams["policy"]).requires_grad_()
    made = trainer(CPOTrainer, CPOConfig, PAIRS, loss_type="simpo", cpo_alpha=0.0, **settings)
    loss, metrics = made.get_batch_loss_metrics(of_logits(policy, order), concatenated(streams, order))
    return case(name, settings, loss, policy, {key: value for key, value in metrics.items() if key != "nll_loss"})


def orpo(name, streams, **settings):
    """One pair a micro-batch, and the mean of all."""
    rows = len(streams["policy"])
    policy = double(streams["policy"]).requires_grad_()
    made = trainer(ORPOTrainer, ORPOConfig, PAIRS, **settings)
    to_float, torch.Tensor.float = torch.Tensor.float, torch.Tensor.double
    parts = [
        made.get_batch_loss_metrics(of_logits(policy, [at, at + 1]), concatenated(streams, [at, at + 1]))
        for at in range(0, rows, 2)
    ]
    torch.Tensor.float = to_float
    mean = lambda values: sum(values) / len(values)
    metrics = {key: mean([metrics[key] for _, metrics in parts]) for key in parts[0][1]}
    return case(name, settings, mean([loss for loss, _ in parts]), policy, metrics)


# --- Labels -------------------------------------------------------------------------------------------------


def kto(name, streams, mismatched, **settings):
    """`mismatched`: are the answers of which TRL takes the baseline others than those it trains on?"""
    rows = len(streams["policy"])
    policy, reference = double(streams["policy"]).requires_grad_(), double(streams["reference"])
    draw = random.Random(rows)
    other = [[value + draw.gauss(0.3, 0.2) for value in row] for row in streams["policy"]]
    # The answers for the baseline are told from the others by their ids.
    kl_policy, kl_reference = (double(other), double(streams["policy"])) if mismatched else (policy, reference)
    made = trainer(KTOTrainer, KTOConfig, LABELLED, per_device_train_batch_size=2, **settings)
    model = lambda own, kl: fake_model(lambda input_ids: kl if input_ids[0, 0] == 1 else own)
    made.ref_model = model(reference, kl_reference)
    input_ids, attention_mask, completion_mask = ids(streams["mask"])
    inputs = dict(
        input_ids=input_ids, attention_mask=attention_mask, completion_mask=completion_mask,
        KL_input_ids=torch.ones_like(input_ids), KL_attention_mask=attention_mask, KL_completion_mask=completion_mask,
        label=torch.tensor([label > 0 for label in streams["label"]]),
    )
    loss = made.compute_loss(model(policy, kl_policy), inputs)
    metrics = {key: values[0] for key, values in made._metrics["train"].items()}
    return dict(case(name, settings, loss, policy, metrics), mismatched=mismatched)


# --- Distillation -------------------------------------------------------------------------------------------


def rows_of_logits(seed, rows=2, vocabulary=6):
    draw = random.Random(seed)
    row = lambda: [draw.choice([0.0, 1.0, 2.0, 30.0]) * draw.gauss(0, 1) for _ in range(vocabulary)]
    return [row() for _ in range(rows)], [row() for _ in range(rows)]


def gkd(seed, beta, temperature):
    """Each row is a batch of one."""
    students, teachers = rows_of_logits(seed)
    found = []
    for student, teacher in zip(students, teachers):
        leaf = double(student).requires_grad_()
        loss = GKDTrainer.generalized_jsd_loss(
            leaf[None, None], double(teacher)[None, None], labels=torch.tensor([[1]]), beta=beta,
            temperature=temperature,
        )
        loss.backward()
        found.append(dict(student=student, teacher=teacher, loss=loss.item(), gradient=leaf.grad.tolist()))
    return dict(beta=beta, temperature=temperature, rows=found)


def sparse(seed, top, add_tail):
    students, teachers = rows_of_logits(seed)
    found = []
    for student, teacher in zip(students, teachers):
        student, teacher = [value / 5 for value in student], [value / 5 for value in teacher]
        leaf = double(student).requires_grad_()
        logprobs, tokens = torch.log_softmax(double(teacher), -1).topk(top)
        this = SimpleNamespace(
            loss_add_tail=add_tail, _reduce_divergence_loss=ServerDistillationTrainer._reduce_divergence_loss,
        )
        loss = ServerDistillationTrainer._compute_server_forward_kl_loss(
            this, dict(topk_logprobs=logprobs[None, None], topk_token_ids=tokens[None, None]),
            torch.log_softmax(leaf, -1)[None, None], torch.tensor([[1]]),
        )
        loss.backward()
        found.append(
            dict(
                student=student, ids=tokens.tolist(), logprobs=logprobs.tolist(), loss=loss.item(),
                gradient=leaf.grad.tolist(),
            )
        )
    return dict(add_tail=add_tail, rows=found)


def opd(streams, **settings):
    """Mean over the tokens of the batch."""
    policy = double(streams["policy"]).requires_grad_()
    behavior, proximal = double(streams["behavior"]), double(streams["proximal"])
    mask = double(streams["mask"])
    advantage = settings["reward_weight"] * double(streams["advantages"])[:, None]
    advantage = advantage - settings["kl_coef"] * (behavior - double(streams["reference"]))
    if settings["surrogate"] == "importance":
        losses = -torch.exp(policy - behavior) * advantage
    else:
        ratio = torch.exp(policy - proximal)
        losses = -torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
    loss = (losses * mask).sum() / mask.sum()
    return case("opd", settings, loss, policy, {})


if __name__ == "__main__":
    assert trl.__version__.startswith("1.16."), trl.__version__
    torch.manual_seed(0)
    far = (0.0, 3.0, -3.0, 40.0, -40.0, 700.0, -700.0)
    batches = {
        "ragged": batch(4, 8),
        "far": batch(5, 8, moves=far),
        "opd": batch(8, 5, columns=4),
        "group": dict(batch(7, 4), label=[1.0, -0.5, 2.0, -1.0]),
        "labelled": dict(batch(6, 5), label=[1.0, -1.0, 0.5, 2.0, -0.1]),
        "desirable": dict(batch(9, 3, moves=(0.5, 1.0, -0.3)), label=[1.0, 1.0, 1.0]),
    }
    draw = random.Random(2)
    moved = lambda: [[value - draw.choice([0.0, 0.05, 0.4, -0.4]) for value in row] for row in batches["opd"]["policy"]]
    batches["opd"] |= dict(behavior=moved(), proximal=moved(), advantages=[1.0, -1.0, 0.5, 0.0, 2.0])
    types = ["sigmoid", "sigmoid_norm", "hinge", "nca_pair", "bco_pair", "sppo_hard", "apo_zero", "apo_down", "discopop"]
    found = dict(
        trl=trl.__version__, torch=torch.__version__, batches=batches,
        dpo=[dpo(name, batches[name], loss_type=[kind]) for kind in types for name in ["ragged", "far"]]
        + [dpo("ragged", batches["ragged"], loss_type=["sigmoid"], beta=2.5)]
        + [dpo(name, batches[name], loss_type=["robust"], label_smoothing=0.1) for name in ["ragged", "far"]]
        + [dpo(name, batches[name], loss_type=["exo_pair"], label_smoothing=0.001) for name in ["ragged", "far"]],
        ipo=[dpo(name, batches[name], loss_type=["ipo"], beta=beta) for name in ["ragged", "far"] for beta in [0.1, 0.7]],
        # The pairs of the group written out: 0 and 2 are right, 1 and 3 wrong.
        group_dpo=[dpo("group", batches["group"], order=[0, 0, 2, 2, 1, 3, 1, 3], loss_type=["sigmoid"], beta=0.3)],
        simpo=[
            simpo("ragged", batches["ragged"], **settings)
            for settings in [
                dict(beta=2.0, simpo_gamma=0.5, label_smoothing=0.0),
                dict(beta=0.1, simpo_gamma=1.0, label_smoothing=0.2),
            ]
        ],
        orpo=[orpo("ragged", batches["ragged"], beta=beta) for beta in [0.1, 1.0]],
        kto=[
            kto("labelled", batches["labelled"], True, beta=0.1, desirable_weight=1.0, undesirable_weight=1.0),
            kto("labelled", batches["labelled"], False, beta=0.4, desirable_weight=1.5, undesirable_weight=0.7),
            kto("desirable", batches["desirable"], False, beta=0.4, desirable_weight=1.0, undesirable_weight=1.0),
            kto("labelled", batches["labelled"], False, beta=0.4, loss_type="apo_zero_unpaired"),
        ],
        gkd=[gkd(3, beta, temperature) for beta in [0.0, 0.1, 0.5, 0.9, 1.0] for temperature in [1.0, 2.5]],
        sparse=[sparse(11, top, add_tail) for top in [1, 3] for add_tail in [True, False]],
        opd=[
            opd(batches["opd"], surrogate=surrogate, kl_coef=coef, reward_weight=weight)
            for surrogate in ["importance", "clip"] for coef, weight in [(1.0, 0.0), (0.3, 1.0)]
        ],
    )
    found = rounded(found)
    text = json.dumps(found, allow_nan=False)
    for key in ["batch", "beta", "add_tail"]:
        text = text.replace(f'{{"{key}":', f'\n{{"{key}":')
    (Path(__file__).parent / "preference.json").write_text(text + "\n")
