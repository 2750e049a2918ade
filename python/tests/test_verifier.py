"""burnish.verifier as burnish meets it: a process that reads and writes lines."""

import json
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

import burnish
from burnish.verifier import Request, Verdict, from_trl, from_verl

REQUEST = {
    "id": 7,
    "task": {"question": "2+2?", "answer": "4", "level": 1},
    "prompt": [{"role": "user", "content": "2+2?"}],
    "completion": "It is 4",
    "messages": [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "It is 4"}],
    "answer": "4",
}


class Verifier:
    """A process that serves `source`, which has the name `serve` and defines what it needs."""

    def __init__(self, source: str, unbuffered: str = "1") -> None:
        self.folder = tempfile.TemporaryDirectory()
        file = Path(self.folder.name, "reward.py")
        file.write_text("from burnish.verifier import *\n" + textwrap.dedent(source), encoding="utf-8")
        self.process = subprocess.Popen(
            [sys.executable, str(file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={
                **os.environ,
                "PYTHONPATH": package_folder(),
                "PYTHONUNBUFFERED": unbuffered,  # burnish sets it
                # Not UTF-8, so that nothing leans on the machine's encoding.
                "PYTHONUTF8": "0",
                "PYTHONIOENCODING": "ascii",
            },
        )

    def __enter__(self) -> "Verifier":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            stream.close()
        self.process.wait()
        self.folder.cleanup()

    def ask(self, *messages):
        """The answer to each line. The process has to answer before its stdin is closed."""
        answers = []
        for message in messages:
            self.process.stdin.write(json.dumps(message, ensure_ascii=False).encode() + b"\n")
            self.process.stdin.flush()
            answers.append(json.loads(self.process.stdout.readline(), parse_constant=self.refuse))
        return answers if len(answers) > 1 else answers[0]

    @staticmethod
    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    def end(self) -> str:
        """Closes stdin. Nothing more may be on stdout; what is on stderr."""
        rest, stderr = self.process.communicate(timeout=30)
        assert rest == b"", rest
        assert self.process.returncode == 0, stderr
        return stderr.decode()


def package_folder() -> str:
    return str(Path(burnish.__file__).parents[1])


def answer_of(returned: str, request=REQUEST):
    with Verifier(f"serve(lambda request: {returned})") as verifier:
        return verifier.ask(request)


class Protocol(unittest.TestCase):
    def test_numbers_bools_dicts_and_verdicts_are_judgements(self):
        self.assertEqual(answer_of("0.25"), {"id": 7, "reward": 0.25})
        self.assertEqual(answer_of("True"), {"id": 7, "reward": 1.0, "success": True})
        self.assertEqual(answer_of("False"), {"id": 7, "reward": 0.0, "success": False})
        self.assertEqual(answer_of("{'right': 1, 'short': True}"), {"id": 7, "rewards": {"right": 1.0, "short": 1.0}})
        self.assertEqual(answer_of("{'reward': 0.5}"), {"id": 7, "rewards": {"reward": 0.5}})
        verdict = "Verdict(None, {'a': 2}, False, {'odd': True}, 'né', None)"
        expected = {"rewards": {"a": 2}, "success": False, "flags": {"odd": True}, "feedback": "né"}
        self.assertEqual(answer_of(verdict), {"id": 7, **expected})
        by_turn = "Verdict(turn_rewards=[0.5, None, {'tidy': 1}])"
        self.assertEqual(answer_of(by_turn)["turn_rewards"], [0.5, None, {"tidy": 1.0}])
        self.assertIn("the reward of a turn must be a finite number", answer_of("Verdict(turn_rewards=['x'])")["error"])
        by_span = "Verdict(span_rewards={'thoughts': 0.5, 'answer': {'tidy': 1}})"
        self.assertEqual(answer_of(by_span)["span_rewards"], {"thoughts": 0.5, "answer": {"tidy": 1.0}})
        error = answer_of("Verdict(span_rewards={'thoughts': 'x'})")["error"]
        self.assertIn("the reward of the span `thoughts` must be a finite number", error)
        self.assertEqual(answer_of("Verdict(reward=1, error='no judge')"), {"id": 7, "error": "no judge"})

    def test_scalars_of_numpy_and_torch_are_plain_numbers(self):
        scalar = "type('scalar', (), {'item': lambda self: %s})()"
        self.assertEqual(answer_of(scalar % "0.5"), {"id": 7, "reward": 0.5})
        self.assertEqual(answer_of(scalar % "True"), {"id": 7, "reward": 1.0, "success": True})
        self.assertEqual(answer_of(f"Verdict({scalar % '2'}, success={scalar % 'False'})")["success"], False)

    def test_what_is_no_judgement_is_named(self):
        number = "the reward must be a finite number, and the reward function returned "
        for returned, error in [
            ("float('nan')", number + "nan"),
            ("float('inf')", number + "inf"),
            ("'1'", number + "'1'"),
            ("None", number + "None"),
            ("[1]", number + "[1]"),
            ("{'a': -float('inf')}", number.replace("reward must", "reward `a` must") + "-inf"),
            ("{'a': 'b'}", number.replace("reward must", "reward `a` must") + "'b'"),
            ("{}", "the reward function returned no reward"),
            ("Verdict(success=True)", "the reward function returned no reward"),
            ("Verdict(1, {'a': 2})", "the reward function returned both `reward` and `rewards`: leave out one"),
            ("Verdict(1, success=1)", "`success` must be True or False, and the reward function returned 1"),
            (
                "Verdict(1, flags={'f': 'no'})",
                "the flag `f` must be True or False, and the reward function returned 'no'",
            ),
            (
                "{'reward': 1, 'success': True}",
                "the reward function returned a dict with `success`: return a Verdict to state that",
            ),
        ]:
            with self.subTest(returned):
                self.assertEqual(answer_of(returned), {"id": 7, "error": error})

    def test_the_request_is_complete(self):
        call = {"id": "c1", "function": {"name": "add", "arguments": {"a": 1}}}
        answer = {"role": "assistant", "content": "", "reasoning_content": "hm", "tool_calls": [call]}
        request = {**REQUEST, "messages": [*REQUEST["prompt"], answer], "answer": None, "protocol": 1, "step": 3}
        with Verifier(
            """
            def judge(request):
                assert request.id == 7 and request.task["level"] == 1, request
                assert request.prompt[0]["content"] == "2+2?" and request.completion == "It is 4", request
                assert request.messages[1]["reasoning_content"] == "hm" and request.answer is None, request
                assert request.tool_calls[0]["function"]["arguments"] == {"a": 1}, request
                assert request.extra == {"step": 3}, request
                return 1

            serve(judge)
            """
        ) as verifier:
            self.assertEqual(verifier.ask(request), {"id": 7, "reward": 1.0})

    def test_a_batch_gets_a_list(self):
        with Verifier("serve(lambda request: request.id / 2)") as verifier:
            batch, single, empty = verifier.ask([{**REQUEST, "id": id} for id in (3, 1)], REQUEST, [])
            self.assertEqual(batch, [{"id": 3, "reward": 1.5}, {"id": 1, "reward": 0.5}])
            self.assertEqual((single, empty), ({"id": 7, "reward": 3.5}, []))
            self.assertEqual(verifier.end(), "")

    def test_an_exception_leaves_one_episode_unscored(self):
        with Verifier(
            """
            def judge(request):
                if request.id == 1:
                    raise KeyError("colour")
                if request.id == 2:
                    exit()
                assert request.id
                return 1

            serve(judge)
            """
        ) as verifier:
            batch = verifier.ask([{**REQUEST, "id": id} for id in range(4)])
            errors = ["AssertionError", "KeyError: 'colour'", "SystemExit: None", None]
            self.assertEqual([answer.get("error") for answer in batch], errors)
            self.assertEqual(verifier.ask(REQUEST), {"id": 7, "reward": 1.0})
            stderr = verifier.end()
            self.assertIn('raise KeyError("colour")', stderr)

    def test_prints_do_not_spoil_the_protocol(self):
        with Verifier(
            """
            import os, subprocess, sys

            kept = sys.stdout

            def judge(request):
                print("from print")
                kept.write("from a kept stdout\\n")
                sys.__stdout__.write("from the first stdout\\n")
                os.write(1, b"from C\\n")
                subprocess.run([sys.executable, "-c", "import sys; print('from a child', repr(sys.stdin.read()))"])
                try:
                    input()
                except EOFError:
                    return 1
                return 0

            serve(judge)
            """
        ) as verifier:
            self.assertEqual(verifier.ask(REQUEST, REQUEST), [{"id": 7, "reward": 1.0}] * 2)
            stderr = verifier.end()
        for said in ("from print", "from a kept stdout", "from the first stdout", "from C", "from a child ''"):
            self.assertEqual(stderr.count(said), 2, said)

    def test_streams_are_given_back(self):
        source = """
            import os

            print("before")
            own = os.fstat(0).st_ino
            serve(lambda request: 1)
            print("after", os.fstat(0).st_ino == own)
            """
        with Verifier(source, unbuffered="") as verifier:
            stdout, stderr = verifier.process.communicate(json.dumps(REQUEST).encode(), timeout=30)
            self.assertEqual(stdout.splitlines(), [b'{"id": 7, "reward": 1.0}', b"after True"])
            self.assertEqual(stderr, b"before\n")

    def test_async_functions_judge_a_batch_concurrently(self):
        with Verifier(
            """
            import asyncio

            waiting = []

            async def judge(request):
                waiting.append(request.id)
                while len(waiting) < 3:
                    await asyncio.sleep(0.001)
                if request.id == 1:
                    raise ValueError("one")
                if request.id == 2:
                    raise SystemExit
                return request.id

            serve(judge)
            """
        ) as verifier:
            answers = verifier.ask([{**REQUEST, "id": id} for id in range(3)])
            self.assertEqual(answers[0], {"id": 0, "reward": 0.0})
            self.assertEqual([answer.get("error") for answer in answers[1:]], ["ValueError: one", "SystemExit"])
            self.assertEqual(verifier.ask(REQUEST), {"id": 7, "reward": 7.0})

    def test_async_functions_keep_their_loop(self):
        with Verifier(
            """
            import asyncio

            loops = set()

            async def judge(request):
                loops.add(asyncio.get_running_loop())
                return len(loops)

            serve(judge)
            """
        ) as verifier:
            self.assertEqual([answer["reward"] for answer in verifier.ask(REQUEST, REQUEST)], [1, 1])

    def test_a_function_may_run_a_loop_of_its_own(self):
        with Verifier(
            """
            import asyncio

            async def one():
                return 1

            serve(lambda request: asyncio.run(one()))
            """
        ) as verifier:
            self.assertEqual(verifier.ask(REQUEST, REQUEST), [{"id": 7, "reward": 1.0}] * 2)

    def test_a_newer_protocol_is_refused_request_by_request(self):
        with Verifier("serve(lambda request: 1)") as verifier:
            answers = verifier.ask([{**REQUEST, "id": 1, "protocol": 2}, {**REQUEST, "id": 2, "protocol": 1}])
            self.assertEqual(answers[1], {"id": 2, "reward": 1.0})
            self.assertEqual(answers[0]["id"], 1)
            expected = "version 2 of the verifiers' protocol, but the Python package burnish {} knows"
            self.assertIn(expected.format(burnish.__version__), answers[0]["error"])

    def test_any_text_of_any_length_goes_through(self):
        text = "日本 \u2028 \\n \U0001f600 \x00 " + "x" * (5 << 20)
        with Verifier("serve(lambda request: Verdict(1, feedback=request.completion))") as verifier:
            self.assertEqual(verifier.ask({**REQUEST, "completion": text})["feedback"], text)
        with Verifier("serve(lambda request: Verdict(1, feedback='\\ud800'))") as verifier:
            self.assertEqual(verifier.ask(REQUEST)["feedback"], "?")

    def test_what_is_no_request_ends_the_process(self):
        for line, error in (
            (b"5\n", b"ValueError: this is not a request of burnish: b'5"),
            (b"{}\n", b"this is not a request of burnish"),
            (b"[3]\n", b"this is not a request of burnish"),
            (b"hello\n", b"JSONDecodeError"),
        ):
            with self.subTest(line), Verifier("serve(lambda request: 1)") as verifier:
                stdout, stderr = verifier.process.communicate(line, timeout=30)
                self.assertEqual((verifier.process.returncode, stdout), (1, b""))
                self.assertIn(error, stderr)


class Trl(unittest.TestCase):
    """The calls are those of `GRPOTrainer._calculate_rewards` of TRL 1.16."""

    def judged(self, *functions, request=REQUEST, **options):
        fields = dict(request)
        return from_trl(*functions, **options)(Request(**fields))

    def test_columns_prompts_and_completions_are_lists(self):
        def reward(prompts, completions, level, **kwargs):
            self.assertEqual(prompts, [[{"role": "user", "content": "2+2?"}]])
            self.assertEqual(completions, [[{"role": "assistant", "content": "It is 4"}]])
            self.assertEqual((level, kwargs["answer"]), ([1], ["4"]))
            kwargs["log_metric"]("seen", 1.0)
            kwargs["log_extra"]("seen", [1.0])
            return [0.5]

        self.assertEqual(self.judged(reward), Verdict(rewards={"reward": 0.5}))

    def test_texts_where_the_prompt_is_a_text(self):
        def reward(prompts, completions, **kwargs):
            self.assertNotIn("prompt", kwargs)
            return [float((prompts, completions) == (["2+2?"], ["It is 4"]))]

        plain = {**REQUEST, "task": {"prompt": "2+2?"}}
        self.assertEqual(self.judged(reward, request=plain).rewards, {"reward": 1.0})
        self.assertEqual(self.judged(reward, conversational=False).rewards, {"reward": 1.0})
        self.assertEqual(self.judged(reward, request=plain, conversational=True).rewards, {"reward": 0.0})

    def test_none_leaves_a_component_out(self):
        def right(completions, **kwargs):
            return [1.0]

        def short(completions, **kwargs):
            return [None]

        self.assertEqual(self.judged(right, short), Verdict(rewards={"right": 1.0}))
        self.assertEqual(self.judged(short).error, "short returned None")

    def test_async_functions_and_callable_objects(self):
        with Verifier(
            """
            import asyncio

            async def slow(completions, **kwargs):
                await asyncio.sleep(0)
                return [True]

            class Scaled:
                __name__ = "scaled"

                def __call__(self, completions, level, **kwargs):
                    return [level[0] / 4]

            serve(from_trl(slow, Scaled()))
            """
        ) as verifier:
            self.assertEqual(verifier.ask(REQUEST), {"id": 7, "rewards": {"slow": 1.0, "scaled": 0.25}})

    def test_wrong_lengths_and_numbers_are_named(self):
        with Verifier(
            """
            def judge(completions, level, **kwargs):
                return {1: [1, 2], 2: [float("nan")]}[level[0]]

            serve(from_trl(judge))
            """
        ) as verifier:
            answers = verifier.ask(REQUEST, {**REQUEST, "task": {"level": 2}})
            self.assertEqual(answers[0]["error"], "ValueError: judge returned 2 rewards for one completion")
            self.assertIn("the reward `judge` must be a finite number", answers[1]["error"])

    def test_what_can_not_work_is_refused_at_once(self):
        def long(completion_ids, **kwargs):
            return [0.0]

        def optional(completions, completion_ids=None, **kwargs):
            return [0.0]

        with self.assertRaisesRegex(TypeError, "long needs `completion_ids`, which burnish does not send"):
            from_trl(long)
        self.assertEqual(self.judged(optional).rewards, {"optional": 0.0})
        with self.assertRaisesRegex(ValueError, "a name of its own"):
            from_trl(optional, optional)
        with self.assertRaisesRegex(ValueError, "a name of its own"):
            from_trl()


class Verl(unittest.TestCase):
    """The calls are those of verl's reward managers: keywords, a number or a dict with `score`."""

    ROW = {
        **REQUEST,
        "task": {
            "data_source": "openai/gsm8k",
            "reward_model": {"style": "rule", "ground_truth": ["4", "four"]},
            "extra_info": {"index": 3},
        },
    }

    def judged(self, scorer, request=ROW, **options):
        return from_verl(scorer, **options)(Request(**request))

    def test_a_scorer_gets_the_row_and_the_answer(self):
        def compute_score(data_source, solution_str, ground_truth, extra_info=None, strict=False):
            self.assertEqual((data_source, solution_str), ("openai/gsm8k", "It is 4"))
            self.assertEqual((ground_truth, extra_info, strict), (["4", "four"], {"index": 3}, True))
            return 0.25

        self.assertEqual(self.judged(compute_score, strict=True), Verdict(reward=0.25))

    def test_a_row_without_the_columns_of_verl_has_its_ground_truth(self):
        def compute_score(data_source, solution_str, ground_truth, extra_info):
            return float((data_source, ground_truth, extra_info) == (None, "4", None))

        self.assertEqual(self.judged(compute_score, REQUEST), Verdict(reward=1.0))

    def test_a_dict_is_a_score_with_what_was_found(self):
        found = {"score": -1, "acc": False, "pred": "5", "format": True, "length": 7.0}
        expected = Verdict(reward=-1.0, success=False, flags={"format": True})
        self.assertEqual(self.judged(lambda **_: found), expected)
        self.assertEqual(self.judged(lambda **_: {"score": 1, "acc": 1.0}), Verdict(reward=1.0, success=True))
        self.assertEqual(self.judged(lambda **_: {"score": 1, "acc": 0.5}), Verdict(reward=1.0))
        with self.assertRaisesRegex(ValueError, "without `score`"):
            self.judged(lambda **_: {"acc": True})

    def served(self, source: str, *arguments: str):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "beside.py").write_text("RIGHT = 'four'\n", encoding="utf-8")
            file = Path(folder, "my_reward.py")
            file.write_text(textwrap.dedent(source), encoding="utf-8")
            command = [sys.executable, "-m", "burnish.verifier", "--from", arguments[0], str(file), *arguments[1:]]
            return subprocess.run(
                command,
                input=json.dumps(self.ROW) + "\n",
                env={**os.environ, "PYTHONPATH": package_folder()},
                capture_output=True,
                encoding="utf-8",
                timeout=60,
            )

    def test_a_file_is_served_as_it_is(self):
        source = """
            from beside import RIGHT

            async def compute_score(data_source, solution_str, ground_truth, extra_info=None):
                print("seen")
                return {"score": 1.0 * (RIGHT in ground_truth), "acc": True}

            def short(completions, **kwargs):
                return [0.5 for _ in completions]

            if __name__ == "__main__":
                raise SystemExit("it is imported, not run")
            """
        verl = self.served(source, "verl")
        self.assertEqual(json.loads(verl.stdout), {"id": 7, "reward": 1.0, "success": True}, verl.stderr)
        trl = self.served(source, "trl", "short")
        self.assertEqual(json.loads(trl.stdout), {"id": 7, "rewards": {"short": 0.5}}, trl.stderr)
        no_function = (["verl", "missing"], "defines no function missing")
        for arguments, said in [no_function, (["verl", "short", "short"], "one scorer")]:
            refused = self.served(source, *arguments)
            self.assertEqual((refused.returncode, refused.stdout), (2, ""))
            self.assertIn(said, refused.stderr)


if __name__ == "__main__":
    unittest.main()
