"""What a run has left behind."""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, cast

from ._messages import Message

if TYPE_CHECKING:
    import pandas

__all__ = ["BurnishError", "Episode", "Run"]


class BurnishError(Exception):
    """What the program `burnish` reports as an error, or that it can't be started."""


class _Episode(TypedDict):
    step: int
    """The training step, or the number of steps that were done before the evaluation."""
    kind: str
    """`train`, `eval`, or `eval/NAME` in an evaluation of `[[eval.extra]]`."""
    task: str
    """Id of the task."""
    task_index: int
    """Index of the task in its step. The episodes with one index are a group; a task may come twice in a step."""
    rollout: int
    """Number of the episode in its group, from 0."""
    ending: str
    """`completed`, `turns_max`, `truncated`, `context_overflow`, `environment_error` or `lost`."""
    success: bool | None
    """`None` if the environment reports no success, or the episode could not be judged."""
    reward: float | None
    """The weighted reward; `None` if the episode could not be judged."""
    rewards: dict[str, float]
    """The components of the reward, unweighted."""
    flags: dict[str, bool]
    feedback: str | None
    advantage: float | None
    """`None` in evaluations."""
    prompt: list[Message]
    answers: list[Message]
    """The policy's answers, turn by turn."""
    text: str
    """Everything that was read and said; what the policy sampled is between « and »."""
    tokens: int
    """Number of tokens that the policy sampled."""


class Episode(_Episode, total=False):
    """The record of an episode. A newer burnish may add keys."""

    unscored: str
    """Why it could not be judged; absent if it could."""


class Run:
    """A run directory, `run.dir` of its recipe. It may be read while the run goes on.

    Everything is read anew when it is asked for, and raises `BurnishError` if it can't be read.

    Raises:
        BurnishError: if `path` is not the directory of a run.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(os.path.abspath(path))
        if not (self.path / "recipe.toml").is_file():
            raise BurnishError(f"`{self.path}` holds no run: it has no `recipe.toml`")

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    @property
    def recipe(self) -> dict[str, Any]:
        """The recipe, complete with defaults. Needs Python 3.11, or the package tomli."""
        try:
            toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
        except ModuleNotFoundError as error:
            raise BurnishError("a recipe can be read by Python 3.11 or newer; or `pip install tomli`") from error
        text = (self.path / "recipe.toml").read_text(encoding="utf-8")
        return cast("dict[str, Any]", toml.loads(text))

    @property
    def steps(self) -> list[int]:
        """The training steps that are done, in order."""
        return [row["step"] for row in self.metrics() if row["event"] == "train"]

    @property
    def checkpoints(self) -> dict[int, Path]:
        """The directories of the checkpoints that are kept, by step, in order."""
        folders = (self.path / "checkpoints").glob("step_*")
        steps = {int(folder.name[5:]): folder for folder in folders if re.fullmatch(r"step_\d+", folder.name)}
        return dict(sorted(steps.items()))

    def metrics(self, names: str = "trl") -> list[dict[str, Any]]:
        """The metrics of each training step and each evaluation, in order.

        Each row has `step`, `event` (`train`, `eval` ...) and numbers by name, `None` for one that is not finite.
        docs/metrics.md has the meaning and the unit of each.

        Args:
            names: whose names the metrics get: `trl`, `verl` or `prime-rl`.
        """
        return [json.loads(line) for line in _lines("metrics", str(self.path), f"--names={names}")]

    def metrics_frame(self, names: str = "trl") -> pandas.DataFrame:
        """`metrics` as a pandas frame: one row a step or evaluation, NaN where a row lacks a metric.

        Raises:
            ImportError: if pandas is not installed.
        """
        return _frame(self.metrics(names))

    def episodes(self, step: int | None = None, kind: str = "train") -> list[Episode]:
        """The episodes of a step.

        Args:
            step: the step (default: the newest that has any).
            kind: `train`; `eval`; or the name of an evaluation in `[[eval.extra]]`.

        Raises:
            BurnishError: also if the step has no such episodes.
        """
        arguments = ["rollout", f"--from={self.path}", "--json"]
        if step is not None:
            arguments.append(f"--step={step}")
        if kind != "train":
            arguments.append("--eval" if kind == "eval" else f"--extra={kind}")
        return [json.loads(line) for line in _lines(*arguments)]

    def episodes_frame(self, step: int | None = None, kind: str = "train") -> pandas.DataFrame:
        """`episodes` as a pandas frame: one row an episode, with a column `rewards/NAME` for each component and a
        column `flags/NAME` for each flag.

        Raises:
            ImportError: if pandas is not installed.
        """
        rows = []
        for episode in self.episodes(step, kind):
            row: dict[str, Any] = dict(episode)
            for key in ("rewards", "flags"):
                row.update({f"{key}/{name}": value for name, value in (row.pop(key, None) or {}).items()})
            rows.append(row)
        return _frame(rows)


def _frame(rows: list[dict[str, Any]]) -> pandas.DataFrame:
    try:
        import pandas
    except ModuleNotFoundError as error:
        raise ImportError("frames need pandas: `pip install pandas`") from error
    return pandas.DataFrame(rows)


def _lines(*arguments: str) -> list[str]:
    """What `burnish ARGUMENTS` prints, line by line."""
    program = _program()
    try:
        done = subprocess.run([program, *arguments], capture_output=True, encoding="utf-8", stdin=subprocess.DEVNULL)
    except OSError as error:
        raise BurnishError(f"`{program}` can't be started: {error}") from error
    if done.returncode != 0:
        problem = done.stderr.strip() or f"`{program}` ended with status {done.returncode}"
        raise BurnishError(problem[7:] if problem.startswith("error: ") else problem)
    return done.stdout.split("\n")[:-1]


def _program() -> str:
    """The program: `$BURNISH`, else the one that was installed with this package, else the one on the PATH."""
    named = os.environ.get("BURNISH")
    if named:
        return named
    folders = [sysconfig.get_path("scripts"), sysconfig.get_path("scripts", f"{os.name}_user")]
    for folder in [*folders, None]:
        found = shutil.which("burnish", path=folder)
        if found:
            return found
    raise BurnishError(
        f"there is no program `burnish` in {folders[0]} or on the PATH: install burnish's wheel, or name the program "
        "in the environment variable BURNISH"
    )
