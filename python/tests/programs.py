"""The program `burnish`, for tests that need it."""

import os
import subprocess
import unittest
from pathlib import Path

from burnish import BurnishError
from burnish.run import _program

REPOSITORY = Path(__file__).resolve().parents[2]


def program() -> str:
    """The program. Skips the test if there is none."""
    try:
        return os.path.abspath(_program())
    except BurnishError as error:
        raise unittest.SkipTest(str(error)) from error


def train(recipe: str, *overrides: str, cwd: Path = REPOSITORY) -> None:
    done = subprocess.run([program(), "train", recipe, *overrides], cwd=cwd, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr


def require_episodes() -> None:
    """Skips the test if the program can't print episodes as JSON."""
    usage = subprocess.run([program(), "rollout", "--help"], capture_output=True, encoding="utf-8").stdout
    if "--json" not in usage:
        raise unittest.SkipTest(f"`{program()} rollout` has no `--json`")
