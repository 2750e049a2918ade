"""Everything that docs/python.md shows, in its order: files are written, the program is called, Python is run."""

import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

import burnish
from programs import REPOSITORY, program, require_episodes


def require(*modules: str) -> None:
    """Skips the test if none of them is installed."""
    if not any(map(importlib.util.find_spec, modules)):
        raise unittest.SkipTest(f"{modules[-1]} is not installed")


class Docs(unittest.TestCase):
    def setUp(self) -> None:
        program()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        for name in ("models", "docs"):
            (self.folder / name).symlink_to(REPOSITORY / name)
        # `python3`, by which the page calls this Python.
        (self.folder / "bin").mkdir()
        (self.folder / "bin" / "python3").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', encoding="utf-8")
        (self.folder / "bin" / "python3").chmod(0o755)
        self.environment = {
            **os.environ,
            "BURNISH": program(),
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": f"{Path(burnish.__file__).parents[1]}:{self.folder}",
        }

    def call(self, *command: str) -> str:
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, encoding="utf-8"
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_the_page(self):
        text = (REPOSITORY / "docs" / "python.md").read_text(encoding="utf-8")
        outputs, commands = [], 0
        for language, block in re.findall(r"```(\w+)\n(.*?)```", text, re.DOTALL):
            name = re.match(r"# (\w+\.\w+)\n", block)
            if name:
                (self.folder / name[1]).write_text(block, encoding="utf-8")
            elif language == "sh":
                for line in block.replace("\\\n", "").splitlines():
                    if line.startswith("burnish "):
                        commands += 1
                        self.call(program(), *shlex.split(line)[1:])
            elif language == "python":
                with self.subTest(block):
                    if "_frame" in block:
                        require("pandas")
                    if ".recipe" in block:
                        require("tomllib", "tomli")
                    if "episodes" in block:
                        require_episodes()
                    outputs.append(self.call(sys.executable, "-c", block))
        self.assertEqual(commands, 3)
        self.assertIn("rewards={'right': 1.0, 'short': 0.9299999999999999}, success=True", outputs[0])
        self.check_runs()

    def check_runs(self) -> None:
        """The verdicts of the page's functions have reached the runs."""
        with unittest.mock.patch.dict(os.environ, self.environment):
            for name, components in (("problems", {"right", "short"}), ("trl", {"number_is_right", "is_short"})):
                rows = burnish.Run(self.folder / "runs" / name).metrics()
                steps = [row for row in rows if row["event"] == "train"]
                self.assertEqual([row["episodes/unscored"] for row in steps], [0, 0])
                named = {key.split("/")[1] for row in steps for key in row if re.fullmatch("rewards/.*/mean", key)}
                self.assertEqual(named, components)
                evaluations = [row for row in rows if row["event"] == "eval"]
                self.assertEqual(["eval/success" in row for row in evaluations], [name == "problems"] * 2)


class Failures(unittest.TestCase):
    def test_a_function_that_fails_leaves_only_its_episodes_unscored(self):
        program()
        with tempfile.TemporaryDirectory() as folder:
            file, path = Path(folder, "reward.py"), Path(folder, "run")
            file.write_text(
                "from burnish.verifier import serve\n"
                "def reward(request):\n"
                "    print('noise')\n"
                "    return len(request.completion) if request.answer == '1' else {}['no judge']\n"
                "serve(reward)\n",
                encoding="utf-8",
            )
            for batch in ("", ", batch = 4"):
                command = f"[{json.dumps(sys.executable)}, {json.dumps(str(file))}]"
                done = subprocess.run(
                    [
                        program(),
                        "train",
                        "docs/examples/coming_from_trl.toml",
                        "--overwrite",
                        f"run.dir={path}",
                        "train.max_steps=1",
                        "eval.tasks=0",
                        "rollout.tasks_per_step=32",
                        f"env.config.verifier={{ command = {command}{batch} }}",
                    ],
                    cwd=REPOSITORY,
                    env={**os.environ, "PYTHONPATH": str(Path(burnish.__file__).parents[1])},
                    capture_output=True,
                    encoding="utf-8",
                )
                self.assertEqual(done.returncode, 0, done.stderr)
                (row,) = burnish.Run(path).metrics()
                self.assertEqual(row["episodes"], 256)
                # Whole groups of 8: the answer alone decides, and other episodes are judged.
                self.assertEqual(row["episodes/unscored"] % 8, 0)
                self.assertTrue(0 < row["episodes/unscored"] < 256, row)
                self.assertGreater(row["reward"], 0)


if __name__ == "__main__":
    unittest.main()
