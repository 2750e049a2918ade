"""burnish.Run: what it asks of the program, and a real run."""

import importlib.util
import json
import os
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import burnish
from programs import require_episodes, train

HAS_PANDAS = importlib.util.find_spec("pandas") is not None
EPISODES = [
    {"step": 2, "task": "né", "rollout": 0, "reward": 1.0, "rewards": {"a": 1.0}, "flags": {"f": True}, "new": 1},
    {"step": 2, "task": "né", "rollout": 1, "reward": None, "rewards": {}, "flags": {}, "unscored": "no judge"},
]


class FakeProgram(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        environment = mock.patch.dict(os.environ)
        environment.start()
        self.addCleanup(environment.stop)
        (self.folder / "recipe.toml").write_text('name = "né"\n[train]\nmax_steps = 2\n', encoding="utf-8")
        self.run_ = burnish.Run(self.folder)

    def use(self, name: str = "burnish", **says) -> Path:
        """A program that prints, and keeps its arguments."""
        file = self.folder / name
        file.write_text(
            f"#!{sys.executable}\n"
            "import sys\n"
            f"open({str(self.folder / 'arguments')!r}, 'w').write('\\n'.join(sys.argv[1:]))\n"
            f"sys.stdout.buffer.write({says.get('stdout', '').encode()!r})\n"
            f"sys.stderr.buffer.write({says.get('stderr', '').encode()!r})\n"
            f"sys.exit({says.get('status', 0)})\n",
            encoding="utf-8",
        )
        file.chmod(0o755)
        os.environ["BURNISH"] = str(file)
        return file

    def asked(self):
        return (self.folder / "arguments").read_text(encoding="utf-8").split("\n")

    def use_episodes(self) -> None:
        self.use(stdout="".join(json.dumps(episode, ensure_ascii=False) + "\n" for episode in EPISODES))

    def test_episodes_are_passed_through(self):
        self.use_episodes()
        self.assertEqual(self.run_.episodes(), EPISODES)
        self.assertEqual(self.asked(), ["rollout", f"--from={self.folder}", "--json"])
        self.run_.episodes(step=0, kind="eval")
        self.assertEqual(self.asked()[2:], ["--json", "--step=0", "--eval"])
        self.run_.episodes(kind="-hard")
        self.assertEqual(self.asked()[2:], ["--json", "--extra=-hard"])

    def test_metrics_are_rows(self):
        self.use(stdout='{"step":1,"event":"train","loss":0.5,"kl":null}\n{"step":1,"event":"eval"}\n')
        rows = [{"step": 1, "event": "train", "loss": 0.5, "kl": None}, {"step": 1, "event": "eval"}]
        self.assertEqual(self.run_.metrics("verl"), rows)
        self.assertEqual(self.asked(), ["metrics", str(self.folder), "--names=verl"])
        self.assertEqual(self.run_.steps, [1])

    @unittest.skipUnless(HAS_PANDAS, "pandas is not installed")
    def test_frames(self):
        self.use_episodes()
        frame = self.run_.episodes_frame()
        self.assertEqual(frame["rewards/a"].tolist()[0], 1.0)
        self.assertEqual(frame["rewards/a"].isna().tolist(), [False, True])
        self.assertEqual(frame["reward"].isna().tolist(), [False, True])
        self.assertEqual(frame["flags/f"].tolist()[0], True)
        self.assertFalse({"rewards", "flags"} & set(frame.columns))
        self.use(stdout='{"step":1,"event":"train","loss":0.5}\n{"step":1,"event":"eval","loss":null}\n')
        frame = self.run_.metrics_frame()
        self.assertEqual(list(frame.columns), ["step", "event", "loss"])
        self.assertEqual((str(frame["step"].dtype), str(frame["loss"].dtype)), ("int64", "float64"))

    def test_frames_without_pandas(self):
        self.use_episodes()
        with mock.patch.dict(sys.modules, {"pandas": None}):
            with self.assertRaisesRegex(ImportError, "pip install pandas"):
                self.run_.episodes_frame()

    def test_errors_are_those_of_the_program(self):
        self.use(stderr="error: no episodes of step 9\n\ntry: another\n", status=1)
        with self.assertRaises(burnish.BurnishError) as raised:
            self.run_.episodes(9)
        self.assertEqual(str(raised.exception), "no episodes of step 9\n\ntry: another")
        self.use(status=3)
        with self.assertRaisesRegex(burnish.BurnishError, "burnish` ended with status 3"):
            self.run_.metrics()

    def test_where_the_program_is_looked_for(self):
        scripts, path = self.folder / "scripts", self.folder / "path"
        scripts.mkdir()
        path.mkdir()
        os.environ["PATH"] = str(path)
        os.environ.pop("BURNISH", None)
        find = burnish.run._program
        with mock.patch("sysconfig.get_path", lambda *_: str(scripts)):
            with self.assertRaisesRegex(burnish.BurnishError, f"no program `burnish` in {scripts} or on the PATH"):
                find()
            for place in ("path/burnish", "scripts/burnish"):
                last = self.use(place)
                del os.environ["BURNISH"]
                self.assertEqual(find(), str(last))
            named = self.use("named")
            self.assertEqual(find(), str(named))
            named.unlink()
            with self.assertRaisesRegex(burnish.BurnishError, "named` can't be started: .*No such file"):
                self.run_.metrics()

    def test_files_of_the_directory(self):
        for name in ("step_10", "step_2", "step_3.tmp", "other"):
            (self.folder / "checkpoints" / name).mkdir(parents=True)
        self.assertEqual(list(self.run_.checkpoints), [2, 10])
        self.assertEqual(self.run_.checkpoints[10], self.folder / "checkpoints" / "step_10")
        if importlib.util.find_spec("tomllib") or importlib.util.find_spec("tomli"):
            self.assertEqual(self.run_.recipe, {"name": "né", "train": {"max_steps": 2}})
        with mock.patch.dict(sys.modules, {"tomllib": None, "tomli": None}):
            with self.assertRaisesRegex(burnish.BurnishError, "pip install tomli"):
                self.run_.recipe
        with self.assertRaisesRegex(burnish.BurnishError, "nothing` holds no run: it has no `recipe.toml`"):
            burnish.Run(self.folder / "nothing")

    def test_a_relative_path_stays_the_same_run(self):
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder.parent)
        run = burnish.Run(self.folder.name)
        os.chdir("/")
        self.assertEqual(run.path.resolve(), self.folder.resolve())


class RealRun(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        path = Path(folder.name, "run")
        train("recipes/quickstart.toml", f"run.dir={path}", "train.max_steps=2", "eval.tasks=20")
        cls.run_ = burnish.Run(path)

    def test_metrics_and_files(self):
        run = self.run_
        rows = run.metrics()
        order = [(row["step"], row["event"]) for row in rows]
        self.assertEqual(order, [(0, "eval"), (1, "train"), (2, "train"), (2, "eval")])
        self.assertEqual(run.steps, [1, 2])
        self.assertEqual(list(run.checkpoints), [2])
        self.assertTrue((run.checkpoints[2] / "config.json").is_file())
        self.assertEqual(run.metrics("verl")[1]["critic/rewards/mean"], rows[1]["reward"])
        with self.assertRaisesRegex(burnish.BurnishError, "none of trl, verl, prime-rl"):
            run.metrics("tlr")

    def test_episodes(self):
        require_episodes()
        run = self.run_
        episodes = run.episodes(step=1)
        self.assertEqual(len(episodes), 256)
        mean = sum(episode["reward"] for episode in episodes) / 256
        self.assertAlmostEqual(mean, run.metrics()[1]["reward"])
        self.assertEqual({episode["step"] for episode in run.episodes()}, {2})
        groups = {}
        for episode in episodes:
            groups.setdefault(episode["task"], []).append(episode["rollout"])
        self.assertEqual(sorted(map(tuple, map(sorted, groups.values()))), [tuple(range(8))] * 32)
        held_out = run.episodes(step=0, kind="eval")
        self.assertEqual(len(held_out), 20)
        self.assertEqual({(episode["kind"], episode["advantage"]) for episode in held_out}, {("eval", None)})
        self.assertEqual(set(episodes[0]), set(burnish.Episode.__required_keys__))
        with self.assertRaisesRegex(burnish.BurnishError, "step 7"):
            run.episodes(7)
        with self.assertRaisesRegex(burnish.BurnishError, "nothing"):
            run.episodes(kind="nothing")


if __name__ == "__main__":
    unittest.main()
