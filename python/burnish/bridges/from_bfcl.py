"""The Berkeley Function-Calling Leaderboard of the package bfcl-eval, for burnish's environment `agent`.

    pip install --no-deps bfcl-eval==2026.3.23 && pip install filelock mpmath==1.3.0 tenacity

    [env]
    id = "agent"
    config.command = ["python3", "-m", "burnish.bridges.from_bfcl"]
    config.settings = { category = ["multi_turn_base"] }

Rows, tool schemas, simulated APIs and verdicts are the package's own. `docs/benchmarks.md` says more.

Security: bfcl-eval runs calls of several turns by `eval()` of their text. That text is written here, never by the policy:
the name must be a method of the row's APIs, and the arguments are the `repr` of plain JSON values (`_text`).
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from urllib.error import HTTPError

from burnish.environment import Agent, Model, serve

_NAME = "burnish"
# bfcl-eval makes its folders for results when it is imported.
os.environ.setdefault("BFCL_PROJECT_ROOT", str(Path(tempfile.gettempdir(), f"burnish-bfcl-{os.getuid()}")))


def _stand_in(module: str, **content: Any) -> None:
    """Keeps a module of bfcl-eval from importing clients of every vendor, and parsers of Java and JavaScript.

    Calls arrive parsed, so none of them is needed.
    """
    sys.modules[module] = ModuleType(module)
    vars(sys.modules[module]).update(content)


# `underscore_to_dot`: functions are offered with underscores for dots, which names of tools can't have.
_stand_in("bfcl_eval.constants.model_config", MODEL_CONFIG_MAPPING={_NAME: SimpleNamespace(underscore_to_dot=True)})
_stand_in("bfcl_eval.model_handler.parser.java_parser", parse_java_function_call=None)
_stand_in("bfcl_eval.model_handler.parser.js_parser", parse_javascript_function_call=None)

try:
    from bfcl_eval.constants.category_mapping import MULTI_TURN_CATEGORY, SINGLE_TURN_CATEGORY
    from bfcl_eval.constants.default_prompts import (
        DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_FC,
        MAXIMUM_STEP_LIMIT,
    )
    from bfcl_eval.constants.enums import Language, ModelStyle
    from bfcl_eval.constants.executable_backend_config import CLASS_FILE_PATH_MAPPING
    from bfcl_eval.constants.type_mappings import GORILLA_TO_OPENAPI
    from bfcl_eval.eval_checker.ast_eval.ast_checker import ast_checker
    from bfcl_eval.eval_checker.multi_turn_eval import multi_turn_utils
    from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker import multi_turn_checker
    from bfcl_eval.model_handler.utils import convert_to_tool
    from bfcl_eval.utils import is_java, is_js, load_dataset_entry, load_ground_truth_entry
except ImportError as error:
    raise ImportError(
        f"{error}: this bridge needs `pip install --no-deps bfcl-eval==2026.3.23` and `pip install filelock mpmath==1.3.0 "
        "tenacity`, in the Python that `command` names"
    ) from error

CATEGORIES = (*SINGLE_TURN_CATEGORY, *MULTI_TURN_CATEGORY)
"""All but memory and web search, which need other conversations, a judgement of free text, or the web."""

_REFUSED = "no_such_function()"
"""Stands for a call of a function that is not there. `eval()` finds no such name, so it fails and changes nothing."""


class BFCL(Agent):
    """Each row is a task; the reward is 1 if bfcl-eval's checker finds the row right."""

    evaluation_only = True

    def __init__(self, category: Sequence[str] = CATEGORIES) -> None:
        """Takes the names of the categories whose rows are played."""
        unknown = [name for name in category if name not in CATEGORIES]
        if unknown or not category:
            named = ", ".join(unknown) or "nothing"
            raise ValueError(f"`category` names {named}; there are {', '.join(CATEGORIES)}")
        self.rows: dict[str, SimpleNamespace] = {}
        for name in category:
            has_truth = "relevance" not in name
            truths = {it["id"]: it["ground_truth"] for it in load_ground_truth_entry(name)} if has_truth else {}
            # The policy reads a hint about the language, which the checker does not expect.
            checked = load_dataset_entry(name, include_language_specific_hint=False)
            for shown, entry in zip(load_dataset_entry(name), checked):
                row = SimpleNamespace(category=name, shown=shown, entry=entry, truth=truths.get(entry["id"]))
                self.rows[entry["id"]] = row
        self.ids = list(self.rows)
        self.tasks = len(self.ids)

    def task(self, index: int) -> Any:
        row = self.rows[self.ids[index]]
        return {
            "prompt": row.shown["question"][0],
            "data": self.ids[index],
            "labels": {"category": row.category},
            "name": self.ids[index],
        }

    def run(self, task: dict[str, Any], model: Model, seed: int) -> Any:
        return self.play(self.rows[task["data"]], model.chat)[0]

    def play(self, row: SimpleNamespace, chat: Callable[..., dict[str, Any]]) -> tuple[dict[str, Any], list[Any]]:
        """Plays a row. Returns the verdict and the conversation."""
        episode = _Episode(row, chat)
        try:
            problem = episode.several_turns() if row.category in MULTI_TURN_CATEGORY else episode.one_turn()
        except HTTPError as error:
            if error.code != 400:
                raise
            # burnish has no further turn for this episode, or the conversation does not fit.
            problem, episode.flags["unfinished"] = "The conversation was cut off.", True
        verdict = {
            "reward": float(problem is None),
            "success": problem is None,
            "flags": episode.flags,
            "metrics": {"calls": episode.calls},
            "feedback": problem,
        }
        return verdict, episode.messages

    def demonstrate(self, task: dict[str, Any]) -> Any:
        """The gold calls; nothing where there are none, or the checker does not find them right."""
        row = self.rows[task["data"]]
        answers = gold(row)
        if answers is None:
            return None
        said = iter(answers)
        verdict, messages = self.play(row, lambda *_, **__: next(said))
        return messages[len(row.shown["question"][0]) :] if verdict["success"] else None


class _Episode:
    def __init__(self, row: SimpleNamespace, chat: Callable[..., dict[str, Any]]) -> None:
        self.row, self.chat = row, chat
        self.messages: list[dict[str, Any]] = []
        self.functions = list(row.shown["function"])
        self.calls = 0
        self.flags = {"unfinished": False, "checker_failed": False}

    def ask(self) -> list[tuple[str | None, str, dict[str, Any]]]:
        """Asks the policy. Returns the id, name and arguments of each of its calls."""
        answer = self.chat(self.messages, tools=_tools(self.functions))
        self.messages.append(answer)
        calls = answer.get("tool_calls") or []
        self.calls += len(calls)
        functions = [call["function"] for call in calls]
        return [
            (call.get("id"), function["name"].replace(".", "_"), json.loads(function["arguments"] or "{}"))
            for call, function in zip(calls, functions)
        ]

    def checked(self, check: Callable[..., dict[str, Any]], *arguments: Any) -> str | None:
        """What a checker of bfcl-eval finds wrong."""
        try:
            found = check(*arguments)
        except Exception as error:
            # Some values of a wrong type make it raise an exception.
            self.flags["checker_failed"] = True
            return f"{type(error).__name__}: {error}"
        return None if found["valid"] else str(found.get("error_message") or found["error"])

    def one_turn(self) -> str | None:
        row = self.row
        self.messages += row.shown["question"][0]
        calls = [{name: arguments} for _, name, arguments in self.ask()]
        if "irrelevance" in row.category:
            return "There should be no call." if calls else None
        if "relevance" in row.category:
            return None if calls else "There should be a call."
        language = Language.JAVA if is_java(row.category) else Language.JAVASCRIPT if is_js(row.category) else Language.PYTHON
        return self.checked(ast_checker, row.entry["function"], calls, row.truth, language, row.category, _NAME)

    def several_turns(self) -> str | None:
        _forget_instances()
        entry = self.row.entry
        held_back = self.row.shown.get("missed_function", {})
        turns: list[list[list[str]]] = []
        for turn, said in enumerate(entry["question"]):
            if str(turn) in held_back:
                self.functions += held_back[str(turn)]
                said = [{"role": "user", "content": DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_FC}]
            self.messages += said
            steps: list[list[str]] = []
            while calls := self.ask():
                steps.append([_text(name, arguments, entry["involved_classes"]) for _, name, arguments in calls])
                for (identity, name, _), result in zip(calls, self.execute(steps[-1])):
                    told = {"role": "tool", "tool_call_id": identity, "name": name, "content": result}
                    self.messages.append({key: value for key, value in told.items() if value is not None})
                if len(steps) > MAXIMUM_STEP_LIMIT:
                    return f"Request {turn + 1} took more than {MAXIMUM_STEP_LIMIT} answers with calls."
            turns.append(steps)
        return self.checked(multi_turn_checker, turns, self.row.truth, entry, self.row.category, _NAME)

    def execute(self, texts: list[str]) -> list[str]:
        entry = self.row.entry
        is_long = "long_context" in self.row.category
        arguments = (texts, entry["initial_config"], entry["involved_classes"], _NAME, entry["id"], is_long)
        return multi_turn_utils.execute_multi_turn_func_call(*arguments)[0]


def _tools(functions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return convert_to_tool(functions, GORILLA_TO_OPENAPI, ModelStyle.OPENAI_COMPLETIONS)


def _methods(classes: list[str]) -> set[str]:
    """The methods of a row's APIs, which are what bfcl-eval lets a call name."""
    found: set[str] = set()
    for name in classes:
        api = getattr(importlib.import_module(CLASS_FILE_PATH_MAPPING[name]), name)
        found.update(it for it, _ in inspect.getmembers(api, inspect.isfunction) if not it.startswith("_"))
    return found


def _text(name: str, arguments: dict[str, Any], classes: list[str]) -> str:
    """A call as bfcl-eval evaluates it: nothing but a known method and literals."""
    return f"{name}(**{arguments!r})" if name in _methods(classes) else _REFUSED


def _forget_instances() -> None:
    """Removes the APIs of the last episode, and their classes: some keep state in default arguments."""
    for name in [name for name in vars(multi_turn_utils) if name.endswith("_instance")]:
        delattr(multi_turn_utils, name)
    for module in CLASS_FILE_PATH_MAPPING.values():
        sys.modules.pop(module, None)


def gold(row: SimpleNamespace) -> list[dict[str, Any]] | None:
    """Answers that are right, one call each where there are several turns.

    `None` if any call is right, or arguments are written in another language.
    """
    if row.category in MULTI_TURN_CATEGORY:
        functions = [*row.entry["function"], *(it for late in row.entry.get("missed_function", {}).values() for it in late)]
        orders = {function["name"]: list(function["parameters"]["properties"]) for function in functions}
        done = _answer([])
        return [it for turn in row.truth for it in (*(_answer([_read(text, orders)]) for text in turn), done)]
    if "irrelevance" in row.category:
        return [_answer([])]
    if row.truth is None or is_java(row.category) or is_js(row.category):
        return None
    schemas = {function["name"]: function["parameters"] for function in row.entry["function"]}
    named = [(name, allowed, schemas[name]) for it in row.truth for name, allowed in it.items()]
    calls = [(name, _first(allowed, it["properties"], it["required"])) for name, allowed, it in named]
    return [_answer(calls)]


def _answer(calls: list[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    functions = [{"name": name.replace(".", "_"), "arguments": json.dumps(arguments)} for name, arguments in calls]
    calls_ = [{"id": f"call_{at}", "type": "function", "function": it} for at, it in enumerate(functions)]
    return {"role": "assistant", "content": "" if calls else "Done.", **({"tool_calls": calls_} if calls else {})}


def _read(text: str, orders: dict[str, list[str]]) -> tuple[str, dict[str, Any]]:
    """A gold call, whose arguments may have no names."""
    call = ast.parse(text, mode="eval").body
    assert isinstance(call, ast.Call) and isinstance(call.func, ast.Name), text
    arguments = dict(zip(orders[call.func.id], map(ast.literal_eval, call.args)))
    arguments.update((str(it.arg), ast.literal_eval(it.value)) for it in call.keywords)
    return call.func.id, arguments


def _first(allowed: dict[str, Any], known: Any, required: Sequence[str] = ()) -> dict[str, Any]:
    """The first allowed value of each argument. An empty text means that it may be left out."""
    lists = {key: values if isinstance(values, list) else [values] for key, values in allowed.items() if key in known}
    firsts = {key: next((value for value in values if value != ""), "") for key, values in lists.items()}
    return {key: _plain(value) for key, value in firsts.items() if value != "" or "" in lists[key] and key in required}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return _first(value, value)
    return [_plain(item) for item in value] if isinstance(value, list) else value


if __name__ == "__main__":
    serve(BFCL)
