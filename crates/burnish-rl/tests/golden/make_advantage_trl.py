"""Golden vectors of `rloo` and `gdpo` by TRL 1.16's own trainers, on random groups.

    HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 python make_advantage_trl.py    # as make_trl.py; writes advantage_trl.json

What is real: `_generate_and_score_completions` of `RLOOTrainer`, and of `GRPOTrainer` with
`multi_objective_aggregation="normalize_then_sum"` and several reward functions. Generation is replaced, as in
make_trl.py, and so is, for `RLOOTrainer`, the forward pass: with `beta = 0` its log-probs change no advantage. Double
precision, from rewards that float32 holds exactly, because TRL stores them so.
"""

import json
import random

import torch
import trl
from datasets import Dataset
from make_trl import HERE, TOKENIZER, WORK, rounded
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer


def advantages(trainer, config, columns, group_size, **settings):
    """`columns`: rewards of each reward function."""
    rows = len(columns[0])
    functions = []
    for at, column in enumerate(columns):
        function = lambda completions, column=column, **_: list(column)
        function.__name__ = f"reward_{at}"
        functions.append(function)
    made = trainer(
        model=str(WORK / "model"), reward_funcs=functions, processing_class=TOKENIZER,
        train_dataset=Dataset.from_dict({"prompt": ["a"] * 8}),
        args=config(
            output_dir=str(WORK / "out"), use_cpu=True, bf16=False, report_to=[], beta=0.0,
            per_device_train_batch_size=rows, num_generations=group_size, max_completion_length=7,
            gradient_accumulation_steps=1, **settings,
        ),
    )
    ids = [[2, 1]] * rows
    completions = ["a"] * rows
    leave_one_out, grpo = (ids, ids, completions), (ids, ids, None, completions, None, {}, None, None)
    made._generate = lambda prompts: leave_one_out if trainer is RLOOTrainer else grpo
    made._get_per_token_logps_and_entropies = lambda *_, **__: (torch.zeros(rows, 2), None, None)
    torch.set_default_dtype(torch.float64)
    output = made._generate_and_score_completions([{"prompt": "a"} for _ in range(rows)])
    torch.set_default_dtype(torch.float32)
    return output["advantages"].tolist()


def eighths(draw, rows):
    return [draw.randint(-16, 16) / 8 for _ in range(rows)]


def cases():
    draw = random.Random(3)
    rewards = {
        "varied": (4, eighths(draw, 8)),
        "zero variance": (2, [0.5, 0.5, 0.0, 1.0, 1.0, 1.0]),
        "unscored": (4, [0.0, None, 1.0, 0.5, None, None, 2.0, None, None, None, None, None]),
    }
    found = []
    for name, (group_size, column) in rewards.items():
        for normalize in [False, True]:
            values = advantages(RLOOTrainer, RLOOConfig, [column], group_size, normalize_advantages=normalize)
            settings = dict(whiten="rollouts" if normalize else "none")
            case = dict(name=name, estimator="rloo", settings=settings, group_size=group_size)
            found.append(dict(case, rewards=column, advantages=values))
    components = {
        "three": (4, [eighths(draw, 12), [draw.choice([0.0, 1.0]) for _ in range(12)], [0.5] * 12]),
        "some missing": (3, [[0.0, None, 1.0, 0.5, None, 2.0], [1.0, None, None, 0.25, 1.0, 0.75]]),
    }
    for name, (group_size, columns) in components.items():
        for weights in [[], [1.0, 0.25, 2.0][: len(columns)]]:
            values = advantages(
                GRPOTrainer, GRPOConfig, columns, group_size, multi_objective_aggregation="normalize_then_sum",
                **({"reward_weights": weights} if weights else {}),
            )
            rows = [list(row) for row in zip(*columns)]
            scored = [None if all(part is None for part in row) else sum(part or 0 for part in row) for row in rows]
            found.append(
                dict(
                    name=name, estimator="gdpo", settings=dict(weights=weights), group_size=group_size, rewards=scored,
                    components=rows, advantages=values,
                )
            )
    return found


if __name__ == "__main__":
    assert trl.__version__.startswith("1.16."), trl.__version__
    text = json.dumps(dict(trl=trl.__version__, torch=torch.__version__, cases=rounded(cases())), allow_nan=False)
    (HERE / "advantage_trl.json").write_text(text.replace('{"name"', '\n{"name"') + "\n")
