"""burnish.environment as burnish meets it: a process that reads and writes lines, with the file copied beside it."""

import json
import os
import subprocess
import sys
import tempfile
import textwrap
import threading
import unittest
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

HELPER = Path(__file__).resolve().parents[1] / "burnish" / "environment.py"

TASK = {"id": "command/x", "prompt": [{"role": "user", "content": "go"}], "data": 7, "labels": {}}


class Program:
    """A process of a program that is an environment."""

    def __init__(self, source: str) -> None:
        self.folder = tempfile.TemporaryDirectory()
        Path(self.folder.name, "environment.py").write_bytes(HELPER.read_bytes())
        file = Path(self.folder.name, "program.py")
        file.write_text("from environment import *\n" + textwrap.dedent(source), encoding="utf-8")
        self.process = subprocess.Popen(
            [sys.executable, str(file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        self.asked = 0

    def ask(self, do: str, **fields: object) -> dict:
        self.asked += 1
        line = json.dumps({"id": self.asked, "do": do, **fields}) + "\n"
        self.process.stdin.write(line.encode())
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        assert answer.pop("id") == self.asked
        return answer

    def hello(self, **settings: object) -> dict:
        return self.ask("hello", protocol=1, settings=settings)

    def close(self) -> str:
        _, stderr = self.process.communicate(timeout=20)
        self.folder.cleanup()
        return stderr.decode()


class Helper(unittest.TestCase):
    def test_tools_have_the_schema_of_their_signature(self):
        program = Program(
            '''
            from typing import Literal
            class Tools(Environment):
                repeating = "outside"
                @tool(repeating="repeatable")
                def find(self, name: str, kinds: "list[str]", many: int = 3, order: Literal["up", "down"] = "up"):
                    """Finds things.

                    All of them."""
                    return [name] * many
                @tool
                def hide(self, anything) -> str:
                    return "ä"
                def no_tool(self):
                    pass
            class More(Tools):
                def hide(self, anything):
                    "Never a tool again."
                @tool
                def last(self) -> str:
                    return "last"
            serve(More)
            '''
        )
        hello = program.hello()
        self.assertEqual((hello["protocol"], hello["repeating"], hello["tasks"]), (1, "outside", None))
        find, *others = hello["tools"]
        self.assertEqual(find["description"], "Finds things.\n\nAll of them.")
        self.assertEqual(find["repeating"], "repeatable")
        self.assertEqual(
            find["parameters"],
            {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "kinds": {"type": "array", "items": {"type": "string"}},
                    "many": {"type": "integer"},
                    "order": {"enum": ["up", "down"]},
                },
                "required": ["name", "kinds"],
            },
        )
        self.assertEqual([tool["name"] for tool in others], ["last"])
        program.ask("reset", task=TASK, seed=1)
        found = program.ask("call", name="find", arguments={"name": "ö", "kinds": [], "many": 2}, key="k")
        self.assertEqual(found, {"result": '["ö", "ö"]'})
        program.close()

    def test_tools_that_step_runs_are_offered_as_they_are(self):
        program = Program(
            """
            class Benchmark(Environment):
                evaluation_only = True
                offered = [{"name": "look", "description": "Looks.", "parameters": {"type": "object"}}]
            serve(Benchmark)
            """
        )
        hello = program.hello()
        look = {"name": "look", "description": "Looks.", "parameters": {"type": "object"}, "repeating": None}
        self.assertEqual((hello["tools"], hello["evaluation_only"]), ([look], True))
        program.close()

    def test_outcomes_become_answers(self):
        program = Program(
            """
            class Outcomes(Environment):
                def __init__(self, outcomes=()):
                    self.outcomes = [eval(outcome) for outcome in outcomes]
                def task(self, seed):
                    return self.outcomes.pop(0)
                step = verify = lambda self, message=None: self.outcomes.pop(0)
            serve(Outcomes)
            """
        )
        cases = [
            ("task", "'2 + 2'", {"prompt": "2 + 2"}),
            ("task", "{'prompt': 'x', 'data': [1]}", {"prompt": "x", "data": [1]}),
            ("step", "'go on'", {"messages": "go on"}),
            ("step", "Done", {"done": True}),
            ("step", "Done()", {"done": True}),
            ("step", "Ask('user', 'what?')", {"ask": {"who": "user", "messages": "what?"}}),
            ("verify", "True", {"reward": 1.0, "success": True}),
            ("verify", "0.5", {"reward": 0.5}),
            ("verify", "{'right': 1, 'short': 0.5}", {"rewards": {"right": 1, "short": 0.5}}),
            ("verify", "{'span_rewards': {'thoughts': 1}}", {"span_rewards": {"thoughts": 1}}),
            ("verify", "{'reward': 1, 'success': False}", {"reward": 1, "success": False}),
            ("step", "None", {"error": "TypeError: step returned None: return what the policy reads next, or Done"}),
            ("task", "{'id': 3, 'prompt': 'x'}", {"error": "TypeError: task returned a dict with `id`: a task is given a `name`"}),
            ("verify", "float('nan')", {"error": "ValueError: Out of range float values are not JSON compliant"}),
            ("step", "{1, 2}", {"error": "TypeError: Object of type set is not JSON serializable"}),
        ]
        program.hello(outcomes=[outcome for _, outcome, _ in cases])
        program.ask("reset", task=TASK, seed=1)
        message = {"role": "assistant", "content": "said"}
        for do, outcome, expected in cases:
            answer = program.ask(do, **({"message": message} if do == "step" else {"seed": 1} if do == "task" else {}))
            if "error" in expected:
                self.assertTrue(answer["error"].startswith(expected["error"]), answer)
            else:
                self.assertEqual(answer, expected, outcome)
        program.close()

    def test_what_goes_wrong_is_said_and_the_process_stays(self):
        program = Program(
            """
            import os
            class Faulty(Environment):
                def task(self, seed):
                    print("noise"); os.system("echo noise")
                    if seed == 1:
                        raise ValueError("no such seed")
                    exit()
            serve(Faulty)
            """
        )
        self.assertIn("has no setting speed", program.hello(speed=3)["error"])
        self.assertEqual(program.hello()["tools"], [])
        self.assertEqual(program.ask("task", seed=1), {"error": "ValueError: no such seed"})
        self.assertEqual(program.ask("task", seed=2), {"error": "SystemExit: None"})
        self.assertIn("AttributeError", program.ask("dance")["error"])
        self.assertIn("has no method `verify`", program.ask("verify")["error"])
        self.assertEqual(program.ask("hello", protocol=9, settings={}), {"protocol": 1})
        stderr = program.close()
        self.assertIn("noise\nnoise\n", stderr)
        self.assertIn("ValueError: no such seed", stderr)


class Policy(BaseHTTPRequestHandler):
    """A policy that says what it was asked, one message after the other."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        said = [self.path, self.headers["Authorization"], asked["model"], asked["messages"][-1]["content"], asked.get("stop")]
        message = {"role": "assistant", "content": json.dumps(said)}
        body = json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class Agents(unittest.TestCase):
    def test_an_agent_asks_its_model_and_returns_a_verdict(self):
        server = HTTPServer(("127.0.0.1", 0), Policy)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        program = Program(
            """
            class Asks(Agent):
                def task(self, seed):
                    return "go"
                def run(self, task, model, seed):
                    first = model.chat("hi", stop=["."])
                    second = model.chat([*task["prompt"], first, {"role": "user", "content": str(self.data + seed)}])
                    assert model.variables()["OPENAI_BASE_URL"] == model.base_url
                    return {"reward": 1, "metrics": {"seed": seed}, "feedback": first["content"] + second["content"]}
            serve(Asks)
            """
        )
        program.hello()
        url = f"http://127.0.0.1:{server.server_port}/key/v1"
        said = program.ask("run", task=TASK, seed=3, base_url=url, api_key="key", model="policy")
        asked = ["/key/v1/chat/completions", "Bearer key", "policy"]
        feedback = json.dumps([*asked, "hi", ["."]]) + json.dumps([*asked, "10", None])
        self.assertEqual(said, {"reward": 1, "metrics": {"seed": 3}, "feedback": feedback})
        program.close()
        server.shutdown()
        server.server_close()

    def test_an_environment_that_asks_nobody_is_no_agent(self):
        program = Program("serve(Environment)")
        program.hello()
        said = program.ask("run", task=TASK, seed=3, base_url="", api_key="", model="")
        self.assertIn("Environment is no Agent", said["error"])
        program.close()


if __name__ == "__main__":
    unittest.main()
