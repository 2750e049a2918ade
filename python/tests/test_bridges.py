"""Bridges to benchmarks: gold is right, changes are wrong, and nothing of a policy's text is executed."""

import importlib.util
import io
import json
import unittest
from contextlib import redirect_stdout


def require(*modules: str) -> None:
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        raise unittest.SkipTest(f"{', '.join(missing)} is not installed (docs/benchmarks.md)")


def call(name: str, arguments: dict) -> dict:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "type": "function", "function": function}]}


DONE = {"role": "assistant", "content": "Done."}


class Bfcl(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        require("bfcl_eval", "filelock", "mpmath", "tenacity")
        from burnish.bridges import from_bfcl

        cls.bridge = from_bfcl
        cls.environment = from_bfcl.BFCL()

    def play(self, row: str, answers: list) -> dict:
        said = iter([*answers, *[DONE] * 20])
        return self.environment.play(self.environment.rows[row], lambda *_, **__: next(said))[0]

    def test_gold_is_right_on_every_row_that_has_a_right_answer(self):
        # Their gold contradicts their functions, or takes more than 20 calls for one request.
        wrong = {"live_simple_106-63-0", "live_simple_112-68-0", "live_multiple_862-181-3", "live_multiple_964-207-0",
                 "multi_turn_long_context_38", "multi_turn_long_context_46"}  # fmt: skip
        found = set()
        for index, name in enumerate(self.environment.ids):
            if self.bridge.gold(self.environment.rows[name]) is None:
                continue
            if self.environment.demonstrate(self.environment.task(index)) is None:
                found.add(name)
        self.assertEqual(found, wrong)
        self.assertEqual(self.environment.tasks, 4441)

    def test_changes_are_wrong(self):
        right = call("calculate_triangle_area", {"base": 10, "height": 5})
        self.assertTrue(self.play("simple_python_0", [right])["success"])
        for answer in (
            DONE,
            call("calculate_triangle_area", {"base": 10, "height": 6}),
            call("calculate_triangle_areas", {"base": 10, "height": 5}),
            {**right, "tool_calls": 2 * right["tool_calls"]},
        ):
            self.assertFalse(self.play("simple_python_0", [answer])["success"])
        self.assertTrue(self.play("irrelevance_0", [DONE])["success"])
        self.assertFalse(self.play("irrelevance_0", [right])["success"])

    def test_names_may_have_dots(self):
        row = next(it for it in self.environment.rows.values() if "." in it.entry["function"][0]["name"] and it.truth)
        answer = self.bridge.gold(row)[0]
        answer["tool_calls"][0]["function"]["name"] = row.entry["function"][0]["name"]
        self.assertTrue(self.play(row.entry["id"], [answer])["success"])

    def test_functions_that_are_held_back_come_later(self):
        row = self.environment.rows["multi_turn_miss_func_0"]
        offered, said = [], iter(self.bridge.gold(row))

        def chat(messages, tools):
            offered.append({tool["function"]["name"] for tool in tools})
            return next(said)

        verdict, messages = self.environment.play(row, chat)
        self.assertTrue(verdict["success"])
        self.assertNotIn("sort", offered[0])
        self.assertIn("sort", offered[-1])
        self.assertTrue(any("updated some more functions" in message["content"] for message in messages))

    def test_text_of_a_policy_is_never_executed(self):
        row = self.environment.rows["multi_turn_base_0"]
        attempts = [
            call("print", {"x": "executed"}),
            call("cd(print('executed')) or cd", {}),
            call("cd", {"folder": "' + str(print('executed')) + '"}),
            call("cd", {"folder'=print('executed'), 'x": 1}),
            call("_load_scenario", {"scenario": {}}),
        ]
        said, output = iter([*attempts, *[DONE] * 20]), io.StringIO()
        with redirect_stdout(output):
            _, messages = self.environment.play(row, lambda *_, **__: next(said))
        self.assertNotIn("executed", output.getvalue())
        results = [message["content"] for message in messages if message["role"] == "tool"]
        self.assertEqual(len(results), len(attempts))
        self.assertTrue(all("rror" in result or "No such" in result for result in results), results)

    def test_too_many_steps_fail(self):
        verdict = self.play("multi_turn_base_0", [call("pwd", {})] * 40)
        self.assertIn("more than 20 answers", verdict["feedback"])

    def test_an_unknown_category_is_named(self):
        with self.assertRaisesRegex(ValueError, "memory_kv"):
            self.environment.__class__(["memory_kv"])


class Tau2(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        require("tau2", "addict", "deepdiff", "docstring_parser", "loguru", "pydantic", "dotenv", "yaml", "toml")
        from burnish.bridges import from_tau2

        cls.bridge = from_tau2
        cls.environments = {domain: from_tau2.Tau2(domain) for domain in from_tau2.DOMAINS}

    def test_gold_is_right(self):
        self.assertEqual([it.tasks for it in self.environments.values()], [50, 114])
        for environment in self.environments.values():
            # Loading the database takes its time, so not all of them.
            for index in range(0, environment.tasks, 10):
                self.assertIsNotNone(environment.demonstrate(environment.task(index)), environment.ids[index])

    def test_an_episode(self):
        environment = self.environments["retail"]
        task = environment.task(0)
        self.assertIn("<policy>", task["prompt"][0]["content"])
        self.assertTrue(all(tool["parameters"]["type"] == "object" for tool in environment.offered))
        environment.reset(task, 0)
        asked = environment.step({"content": "<think>Who?</think>Who are you?"})
        self.assertEqual((asked.who, asked.messages[-1]["content"]), ("user", "Who are you?"))
        self.assertIn("<scenario>", asked.messages[0]["content"])
        self.assertEqual(environment.hear({"content": "Ann."}), "Ann.")
        told = environment.step(call("no_such_tool", {}))
        self.assertTrue(told[0]["content"].startswith("Error"))
        environment.hear({"content": "Bye. ###STOP###"})
        verdict = environment.verify()
        self.assertEqual((verdict["success"], verdict["metrics"]["db"]), (False, 0.0))

    def test_an_episode_that_does_not_end_has_failed(self):
        environment = self.environments["airline"]
        environment.reset(environment.task(0), 0)
        self.assertTrue(environment.verify()["flags"]["unfinished"])
        self.assertIs(environment.step({"content": " "}), self.bridge.Done)
        self.assertTrue(environment.verify()["flags"]["empty_message"])
        environment.reset(environment.task(0), 0)
        answers = [environment.step(call("get_user_details", {"user_id": "nobody"})) for _ in range(10)]
        self.assertIs(answers[-1], self.bridge.Done)
        self.assertTrue(environment.verify()["flags"]["too_many_errors"])

    def test_a_domain_that_is_not_played_is_named(self):
        with self.assertRaisesRegex(ValueError, "telecom"):
            self.bridge.Tau2("telecom")


if __name__ == "__main__":
    unittest.main()
