"""Environments in Python, for burnish's environments `command` and `agent`. One file, standard library only: copy it if you like.

    from burnish.environment import Environment, serve

    class Sum(Environment):
        def task(self, seed):
            return {"prompt": f"What is {seed % 10} + 1?", "data": seed % 10 + 1}

        def verify(self):
            return float(self.answers[-1] == str(self.data))

    if __name__ == "__main__":
        serve(Sum)

A recipe names the file: `[env] id = "command"`, `config.command = ["python3", "sum.py"]`. The protocol is documented in
burnish's `docs/environments/command.md`.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import traceback
import typing
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, Callable
from urllib import request as urllib_request

__all__ = ["PROTOCOL", "Agent", "Ask", "Done", "Environment", "Model", "serve", "tool"]

PROTOCOL = 1
"""The version of the protocol that this file speaks."""


class Done:
    """What `step` returns to end an episode. `Done()` and the class itself mean the same."""


class Ask:
    """What `step` returns to ask somebody else, such as the recipe's simulated user; `hear` gets the answer."""

    def __init__(self, who: str, messages: Any) -> None:
        self.who = who
        self.messages = messages


def tool(function: Callable[..., Any] | None = None, *, repeating: str = "rebuilt") -> Any:
    """Makes a method of an environment a tool of the policy.

    Its signature becomes the schema of the arguments, its docstring the description. What it returns is what the policy
    reads: a text, or anything else as JSON. `repeating` says what it means to repeat a call: `"repeatable"` changes
    nothing, `"rebuilt"` changes only what belongs to the episode, `"outside"` changes the world and is never repeated.
    """

    def mark(function: Callable[..., Any]) -> Callable[..., Any]:
        function._burnish_tool = repeating  # type: ignore[attr-defined]
        return function

    return mark if function is None else mark(function)


class Environment:
    """One instance plays one episode at a time. A subclass needs `task` and `verify`, and `step` for more than one turn.

    Everything random must come from the seeds, so that an episode can be played again.
    """

    tasks: int | None = None
    """The number of tasks. `None`: `task` makes one from every seed. Else `task` gets an index below this number."""
    repeating = "rebuilt"
    """What it means to repeat a step: `"rebuilt"` if steps can be taken again with the same results, `"outside"` if they
    change the world."""

    evaluation_only = False
    """Whether the tasks are a test set. burnish then refuses to train on them."""
    offered: Sequence[Mapping[str, Any]] = ()
    """Tools that `step` runs, in place of those marked with `tool`: for each a dict with `name`, `description` and
    `parameters`, a JSON schema. `step` gets every answer with its words and calls, also calls that fit no schema."""

    redesign: Sequence[Mapping[str, Any]] = ()
    """The settings that may be redesigned between rounds of training (`docs/redesign.md`): for each a dict with `key`,
    `min`, `max` and `menu`, a list of values; perhaps `kind` (`"number"`, `"whole"` or `"share"`, with `of`), `harder`
    (`"up"` or `"down"`), `tasks` (labels of the tasks on which it acts) and `help`."""

    data: Any = None
    """The task's `data`."""
    answers: list[str]
    """The texts of the policy's answers in this episode."""

    def __init__(self, **settings: Any) -> None:
        """Gets the recipe's `env.config.settings`, by name."""
        if settings:
            raise TypeError(f"{type(self).__name__} has no setting {', '.join(sorted(settings))}")

    def task(self, seed: int) -> Any:
        """Makes a task: a text, a list of messages, or a dict with `prompt` and perhaps `data`, `labels` and `name`.

        Args:
            seed: 32 bits that decide everything, or an index if there are finitely many `tasks`.
        """
        raise NotImplementedError(f"{type(self).__name__} has no method `task`")

    def reset(self, task: dict[str, Any], seed: int) -> Any:
        """Begins an episode. Returns the opening (a text or messages), or None for the task's prompt."""

    def step(self, message: dict[str, Any]) -> Any:
        """Takes the policy's message: `content`, and `tool_calls` if there are any that no tool runs.

        Returns a text or a list of messages that the policy reads next, `Done`, or an `Ask`.
        """
        return Done

    def hear(self, message: dict[str, Any]) -> Any:
        """Takes the answer to an `Ask`. Returns as `step`."""
        raise NotImplementedError(f"{type(self).__name__} has no method `hear`")

    def verify(self) -> Any:
        """Judges the episode: a number is the reward, a bool is success with reward 1 or 0, a dict without other fields
        is named rewards, and a dict with `reward` or `rewards`, `turn_rewards`, `span_rewards`, `success`, `flags`,
        `feedback` is everything."""
        raise NotImplementedError(f"{type(self).__name__} has no method `verify`")

    def close(self) -> None:
        """The episode is over."""

    def demonstrate(self, task: dict[str, Any]) -> Any:
        """A correct episode: the policy's texts, or messages with what the environment says in between; or None."""


class Model:
    """The policy, as an agent reaches it: an address that speaks OpenAI's chat completions, for one episode."""

    def __init__(self, base_url: str, api_key: str, name: str) -> None:
        self.base_url = base_url
        self.api_key = api_key
        self.name = name

    def variables(self) -> dict[str, str]:
        """Environment variables for a program that the agent starts."""
        return {"OPENAI_BASE_URL": self.base_url, "OPENAI_API_KEY": self.api_key, "OPENAI_MODEL": self.name}

    def chat(self, messages: Any, **fields: Any) -> dict[str, Any]:
        """Asks for one answer, without any package; returns its message.

        Args:
            messages: A text, or the whole conversation.
            fields: Further fields of the request, such as `tools` or `max_tokens`.

        Raises:
            urllib.error.HTTPError: The request was refused; its body says why.
        """
        said = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
        body = json.dumps({"model": self.name, "messages": said, **fields}).encode()
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.api_key}"}
        asked = urllib_request.Request(f"{self.base_url}/chat/completions", body, headers)
        # No proxy leads to this machine.
        opener = urllib_request.build_opener(urllib_request.ProxyHandler({}))
        with opener.open(asked) as answer:
            return json.load(answer)["choices"][0]["message"]


class Agent(Environment):
    """A program that asks the policy by itself, for burnish's environment `agent`. A subclass needs `task` and `run`."""

    def run(self, task: dict[str, Any], model: Model, seed: int) -> Any:
        """Plays an episode of the task, and returns its verdict as `verify` does. Each request to the model is a turn."""
        raise NotImplementedError(f"{type(self).__name__} has no method `run`")


def serve(environment: Callable[..., Environment]) -> None:
    """Plays episodes of an environment as burnish asks for them, until it asks no more.

    `environment` is called with the settings of the recipe. An exception ends the episode with its message as the reason,
    and the traceback goes to stderr. Whatever is printed meanwhile, also by C code and child processes, goes to stderr,
    and stdin is empty to anybody else.
    """
    server = _Server(environment)
    with _own_streams() as (requests, answers):
        for line in requests:
            answer = server.answer(line)
            answers.write(json.dumps(answer, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace") + b"\n")
            answers.flush()


class _Server:
    def __init__(self, make: Callable[..., Environment]) -> None:
        self.make = make
        self.played: Environment | None = None

    def answer(self, line: bytes) -> dict[str, Any]:
        request = json.loads(line)
        identity = {"id": request["id"]}
        try:
            answer = getattr(self, f"do_{request['do']}")(request)
            if "id" in answer:
                raise TypeError(f"{request['do']} returned a dict with `id`: a task is given a `name`")
            answer.update(identity)
            # Fails here if something can't be written, where it can still be said.
            json.dumps(answer, allow_nan=False)
            return answer
        except (Exception, SystemExit) as error:
            traceback.print_exception(type(error), error, error.__traceback__, file=sys.stderr)
            said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            return {**identity, "error": said}

    def do_hello(self, request: dict[str, Any]) -> dict[str, Any]:
        if request["protocol"] != PROTOCOL:
            # burnish compares the versions, and says what to do.
            return {"protocol": PROTOCOL}
        self.played = environment = self.make(**request["settings"])
        return {
            "protocol": PROTOCOL,
            "repeating": environment.repeating,
            "tasks": environment.tasks,
            "tools": [
                *(_tool_spec(name, function) for name, function in _tools(environment).items()),
                *({**spec, "repeating": None} for spec in environment.offered),
            ],
            "demonstrates": type(environment).demonstrate is not Environment.demonstrate,
            # Absent where there are none, as for a burnish that does not ask.
            **({"evaluation_only": True} if environment.evaluation_only else {}),
            **({"redesign": [dict(knob) for knob in environment.redesign]} if environment.redesign else {}),
        }

    def environment(self) -> Environment:
        assert self.played is not None, "nobody has said hello"
        return self.played

    def do_task(self, request: dict[str, Any]) -> dict[str, Any]:
        task = self.environment().task(request["index"] if "index" in request else request["seed"])
        return dict(task) if isinstance(task, Mapping) else {"prompt": task}

    def do_demonstrate(self, request: dict[str, Any]) -> dict[str, Any]:
        shown = self.environment().demonstrate(request["task"])
        if shown is None:
            return {}
        return {"messages": [{"role": "assistant", "content": it} if isinstance(it, str) else it for it in shown]}

    def do_reset(self, request: dict[str, Any]) -> dict[str, Any]:
        environment = self.environment()
        environment.answers, environment.data = [], request["task"]["data"]
        opening = environment.reset(request["task"], request["seed"])
        return {} if opening is None else {"messages": opening}

    def do_step(self, request: dict[str, Any]) -> dict[str, Any]:
        environment, message = self.environment(), request["message"]
        environment.answers.append(message["content"])
        return _step(environment.step(message))

    def do_hear(self, request: dict[str, Any]) -> dict[str, Any]:
        return _step(self.environment().hear(request["message"]))

    def do_call(self, request: dict[str, Any]) -> dict[str, Any]:
        result = _tools(self.environment())[request["name"]](**request["arguments"])
        return {"result": result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)}

    def do_run(self, request: dict[str, Any]) -> dict[str, Any]:
        agent, task = self.environment(), request["task"]
        if not isinstance(agent, Agent):
            raise TypeError(f"{type(agent).__name__} is no Agent: name it with the environment `command`")
        agent.answers, agent.data = [], task["data"]
        model = Model(request["base_url"], request["api_key"], request["model"])
        return _verdict(agent.run(task, model, request["seed"]))

    def do_verify(self, request: dict[str, Any]) -> dict[str, Any]:
        return _verdict(self.environment().verify())

    def do_close(self, request: dict[str, Any]) -> dict[str, Any]:
        self.environment().close()
        return {}


def _step(outcome: Any) -> dict[str, Any]:
    if outcome is Done or isinstance(outcome, Done):
        return {"done": True}
    if isinstance(outcome, Ask):
        return {"ask": {"who": outcome.who, "messages": outcome.messages}}
    if outcome is None:
        raise TypeError("step returned None: return what the policy reads next, or Done")
    return {"messages": outcome}


_VERDICT = ("reward", "rewards", "turn_rewards", "span_rewards", "success", "flags", "metrics", "feedback", "error")


def _verdict(outcome: Any) -> dict[str, Any]:
    if hasattr(outcome, "item") and not isinstance(outcome, Mapping):
        outcome = outcome.item()  # a scalar of numpy or torch
    if isinstance(outcome, bool):
        return {"reward": float(outcome), "success": outcome}
    if not isinstance(outcome, Mapping):
        return {"reward": float(outcome)}
    if any(name in _VERDICT for name in outcome):
        return dict(outcome)
    return {"rewards": dict(outcome)}


def _tools(environment: Environment) -> dict[str, Callable[..., Any]]:
    """The tools of an environment by name, in the order in which they are defined."""
    names = dict.fromkeys(name for owner in reversed(type(environment).__mro__) for name in vars(owner))
    # As a subclass defines them last.
    marked = (name for name in names if hasattr(getattr(type(environment), name, None), "_burnish_tool"))
    return {name: getattr(environment, name) for name in marked}


_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", dict: "object", list: "array"}


def _tool_spec(name: str, function: Callable[..., Any]) -> dict[str, Any]:
    hints = typing.get_type_hints(function)
    properties, required = {}, []
    for parameter in inspect.signature(function).parameters.values():
        properties[parameter.name] = _schema(hints.get(parameter.name, Any))
        if parameter.default is parameter.empty:
            required.append(parameter.name)
    return {
        "name": name,
        "description": inspect.getdoc(function) or "",
        "parameters": {"type": "object", "properties": properties, "required": required},
        "repeating": function._burnish_tool,  # type: ignore[attr-defined]
    }


def _schema(hint: Any) -> dict[str, Any]:
    """The JSON schema of a type; {} for one that has none here, which allows everything."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return {"enum": list(inner)}
    if origin is list and inner:
        return {"type": "array", "items": _schema(inner[0])}
    known = _TYPES.get(origin or hint)
    return {"type": known} if known else {}


@contextmanager
def _own_streams() -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """The true stdin and stdout, for requests and answers alone."""
    stdin, stdout = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    try:
        with open(stdin, "rb", closefd=False) as requests, open(stdout, "wb", closefd=False) as answers:
            yield requests, answers
    finally:
        sys.stdout.flush()
        os.dup2(stdin, 0)
        os.dup2(stdout, 1)
        os.close(stdin)
        os.close(stdout)
