"""The tasks of the package reasoning-gym, with its scorers, for burnish's environment `command`.

    [env]
    id = "command"
    config.command = ["python3", "-m", "burnish.bridges.from_reasoning_gym"]
    config.settings = { datasets = { leg_counting = { max_animals = 4 }, chain_sum = {} } }

`docs/environments/bridges.md` says more.
"""

from __future__ import annotations

import random
from typing import Any

import reasoning_gym
from reasoning_gym.utils import SYSTEM_PROMPTS, extract_answer

from burnish.environment import Environment, serve


class ReasoningGym(Environment):
    """Each seed is an entry of one of the datasets. The entry is made again from its seed when it is judged."""

    def __init__(self, datasets: Any, system: str = "default") -> None:
        """Takes the datasets' names, or a table of their configurations by name; and reasoning-gym's name of a system
        prompt, a text instead of one, or an empty text for none."""
        configurations = {name: {} for name in datasets} if isinstance(datasets, list) else datasets
        if not isinstance(configurations, dict) or not configurations:
            raise ValueError("`datasets` must be a list of names, or a table of configurations by name")
        self.datasets = dict(sorted(configurations.items()))
        self.system = SYSTEM_PROMPTS.get(system, system)
        for name in self.datasets:
            self.entry(name, 0)  # an unknown name or key is an error now

    def entry(self, name: str, seed: int) -> tuple[Any, dict[str, Any]]:
        dataset = reasoning_gym.create_dataset(name, size=1, seed=seed, **self.datasets[name])
        return dataset, dataset[0]

    def task(self, seed: int) -> Any:
        name = random.Random(seed).choice(list(self.datasets))
        _, entry = self.entry(name, seed)
        system = [{"role": "system", "content": self.system}] if self.system else []
        return {
            "prompt": [*system, {"role": "user", "content": entry["question"]}],
            "data": {"dataset": name, "seed": seed},
            "labels": {"dataset": name},
        }

    def score(self, completion: str) -> dict[str, Any]:
        dataset, entry = self.entry(self.data["dataset"], self.data["seed"])
        answer, failed = extract_answer(completion), None
        try:
            score = float(dataset.score_answer(answer=answer, entry=entry))
        except Exception as error:
            # Some scorers raise an exception on an answer that they can't read.
            score, failed = 0.0, f"{type(error).__name__}: {error}"
        return {
            "reward": score,
            "success": score >= 1.0,
            "flags": {"parse_error": answer is None, "scorer_failed": failed is not None},
            "feedback": failed,
        }

    def verify(self) -> Any:
        return self.score(self.answers[-1] if self.answers else "")

    def demonstrate(self, task: dict[str, Any]) -> Any:
        """The answer of the dataset, if its own scorer takes it: a few have none, or another right one."""
        self.data = task["data"]
        _, entry = self.entry(self.data["dataset"], self.data["seed"])
        shown = f"<answer>{entry['answer']}</answer>"
        return [shown] if self.score(shown)["success"] else None


if __name__ == "__main__":
    serve(ReasoningGym)
