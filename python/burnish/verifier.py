"""Reward functions in Python, for the environment `rows`.

    from burnish.verifier import Request, serve

    def reward(request: Request) -> float:
        return 1.0 if request.answer == request.completion.strip() else 0.0

    if __name__ == "__main__":
        serve(reward)

A recipe names the file: `verifier.command = ["python3", "reward.py"]`. A file written for TRL or verl is served as it is:
`verifier.command = ["python3", "-m", "burnish.verifier", "--from", "verl", "my_reward.py"]`.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import json
import os
import runpy
import sys
import traceback
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from reprlib import repr as short
from typing import Any, BinaryIO, Callable, SupportsFloat, Union

from ._messages import FunctionCall, Message, ToolCall
from ._version import __version__

__all__ = [
    "PROTOCOL",
    "FunctionCall",
    "Message",
    "Outcome",
    "Request",
    "RewardFunction",
    "ToolCall",
    "Verdict",
    "from_trl",
    "from_verl",
    "serve",
]

PROTOCOL = 1
"""The newest version of the protocol that this package speaks."""


@dataclass(frozen=True)
class Request:
    """An answer to be judged."""

    id: int = 0
    """Number of the request."""
    task: dict[str, Any] = field(default_factory=dict)
    """The whole row of the data file, by column."""
    prompt: list[Message] = field(default_factory=list)
    """The messages that the policy read."""
    completion: str = ""
    """The text of its answer, without tool calls."""
    messages: list[Message] = field(default_factory=list)
    """The prompt and the answer, which has the tool calls."""
    answer: str | None = None
    """The ground truth, if the row has one."""
    extra: dict[str, Any] = field(default_factory=dict)
    """What the request says besides; a newer burnish may say more."""

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The tool calls in the answer, in order."""
        answer = self.messages[len(self.prompt) :]
        return [call for message in answer for call in message.get("tool_calls", [])]


@dataclass(frozen=True)
class Verdict:
    """A judgement with all that it may say.

    It has a `reward` or named `rewards`, not both; or an `error`.
    """

    reward: float | None = None
    rewards: Mapping[str, float] = field(default_factory=dict)
    """Components of the reward by name; the recipe says how they are weighted."""
    success: bool | None = None
    """Whether the answer is right. State it always or never: results are success rates if it is stated."""
    flags: Mapping[str, bool] = field(default_factory=dict)
    """Findings, reported as rates."""
    feedback: str | None = None
    """What was wrong, in words that the policy may be shown."""
    error: str | None = None
    """Why it could not be judged. The episode is then unscored: nothing is learnt from it."""
    turn_rewards: Sequence[float | Mapping[str, float] | None] = ()
    """What each turn of the policy earned, added to the rewards of the same name (a number: to `reward`)."""
    span_rewards: Mapping[str, float | Mapping[str, float]] = field(default_factory=dict)
    """What each span of the answers earned, by its name in the recipe's `[[spans]]`, added in the same way."""


Outcome = Union[bool, float, Mapping[str, float], Verdict]
"""What a reward function returns: a number is the reward, a bool is success with reward 1 or 0, a dict of numbers is
named rewards, and a `Verdict` is everything."""

RewardFunction = Callable[[Request], Union[Outcome, Awaitable[Outcome]]]
"""Judges a request. It may be `async`."""


def serve(function: RewardFunction) -> None:
    """Answers burnish's requests with `function`, until there are no more.

    Requests come on stdin, one a line, and answers go to stdout. Meanwhile, whatever else is written to stdout, by
    Python, C code or a child process, goes to stderr, and stdin is empty to anybody else.

    If `function` raises an exception or returns nothing usable, the traceback goes to stderr and the episode counts as
    unscored; later requests are judged as usual. The requests of a batch (`verifier.batch`) are judged one after the
    other, or concurrently if `function` is `async`.

    Raises:
        ValueError: if a line is not a request.
    """
    loop = asyncio.new_event_loop()
    try:
        with _own_streams() as (requests, answers):
            for line in requests:
                if line.strip():
                    answer = _answer(function, line, loop)
                    answers.write(json.dumps(answer, ensure_ascii=False, allow_nan=False).encode(errors="replace"))
                    answers.write(b"\n")
                    answers.flush()
    finally:
        loop.close()


def from_trl(*functions: Callable[..., Any], conversational: bool | None = None) -> RewardFunction:
    """Makes reward functions with the signature of TRL's GRPOTrainer into one that can be served.

    Each is called with one completion at a time: lists of length 1 in `prompts`, `completions` and every column of the
    row. Its reward becomes the component that has its name. A function that returns `None` for a completion is left
    out; if all do, the episode is unscored. `log_extra` and `log_metric` do nothing.

    Args:
        functions: `f(prompts, completions, **columns) -> list of numbers or None`; `async` ones too.
        conversational: Whether `prompts` and `completions` hold lists of messages, or else texts. By default they do
            unless the row's column `prompt` is a text, as in TRL.

    Raises:
        TypeError: if a function needs what burnish does not send, such as `completion_ids`.
        ValueError: if there is no function, or two have the same name.
    """
    names = [getattr(function, "__name__", type(function).__name__) for function in functions]
    if not names or len(set(names)) < len(names):
        raise ValueError(f"from_trl needs functions, each with a name of its own, not {names}")
    for name, function in zip(names, functions):
        for parameter in inspect.signature(function).parameters.values():
            if parameter.name in _ONLY_IN_TRL and parameter.default is parameter.empty:
                raise TypeError(f"{name} needs `{parameter.name}`, which burnish does not send to verifiers")

    def verdict(lists: list[Any]) -> Verdict:
        rewards = {}
        for name, values in zip(names, map(list, lists)):
            if len(values) != 1:
                raise ValueError(f"{name} returned {len(values)} rewards for one completion")
            if values[0] is not None:
                rewards[name] = values[0]
        return Verdict(rewards=rewards, error=None if rewards else f"{' and '.join(names)} returned None")

    async def awaited(results: list[Any]) -> Verdict:
        return verdict([await result if inspect.isawaitable(result) else result for result in results])

    def judge(request: Request) -> Verdict | Awaitable[Verdict]:
        arguments = _trl_arguments(request, conversational)
        results = [function(**arguments) for function in functions]
        return awaited(results) if any(map(inspect.isawaitable, results)) else verdict(results)

    return judge


def from_verl(compute_score: Callable[..., Any], **reward_kwargs: Any) -> RewardFunction:
    """Makes a scorer with the signature of verl's `custom_reward_function` into one that can be served.

    It gets the row's `data_source` and `extra_info`, the text of the answer as `solution_str`, and the row's
    `reward_model["ground_truth"]`, or the ground truth that `env.config` names. A number is the reward. Of a dict, `score`
    is the reward, `acc` (a bool, 0 or 1) is success, and other bools are flags. Other entries, which verl only logs, are
    dropped.

    Args:
        compute_score: `f(data_source, solution_str, ground_truth, extra_info, **reward_kwargs)`, which returns a number or
            a dict; `async` ones too.
        reward_kwargs: The entries of `custom_reward_function.reward_kwargs`.
    """

    def verdict(score: Any) -> Verdict:
        if not isinstance(score, Mapping):
            return Verdict(reward=_number(score, "the score"))
        if "score" not in score:
            raise ValueError(f"compute_score returned a dict without `score`: {short(dict(score))}")
        found = {name: _plain(value) for name, value in score.items()}
        right = found.pop("acc", None)
        flags = {name: value for name, value in found.items() if isinstance(value, bool)}
        success = bool(right) if right in (0, 1) else None
        return Verdict(reward=_number(found["score"], "the score"), success=success, flags=flags)

    async def awaited(score: Awaitable[Any]) -> Verdict:
        return verdict(await score)

    def judge(request: Request) -> Verdict | Awaitable[Verdict]:
        row = request.task
        model = row.get("reward_model")
        has_truth = isinstance(model, Mapping) and "ground_truth" in model
        score = compute_score(
            data_source=row.get("data_source"),
            solution_str=request.completion,
            ground_truth=model["ground_truth"] if has_truth else request.answer,
            extra_info=row.get("extra_info"),
            **reward_kwargs,
        )
        return awaited(score) if inspect.isawaitable(score) else verdict(score)

    return judge


_ONLY_IN_TRL = ("completion_ids", "trainer_state", "environments")


def _trl_arguments(request: Request, conversational: bool | None) -> dict[str, Any]:
    prompt = request.task.get("prompt")
    arguments: dict[str, Any] = {
        name: [value]
        for name, value in request.task.items()
        if name not in ("prompt", "completion", "completion_ids")
    }
    if not isinstance(prompt, str) if conversational is None else conversational:
        arguments["prompts"] = [request.prompt]
        arguments["completions"] = [request.messages[len(request.prompt) :]]
    else:
        arguments["prompts"] = [prompt if isinstance(prompt, str) else request.prompt[-1]["content"]]
        arguments["completions"] = [request.completion]
    arguments["log_extra"] = arguments["log_metric"] = lambda *_: None
    return arguments


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


def _answer(function: RewardFunction, line: bytes, loop: asyncio.AbstractEventLoop) -> Any:
    """The answer to a line: an object, or for a batch a list of them."""
    message = json.loads(line)
    batch = message if isinstance(message, list) else [message]
    for request in batch:
        if not isinstance(request, dict) or "id" not in request:
            raise ValueError(f"this is not a request of burnish: {line[:200]!r}")
    outcomes = _outcomes(function, batch, loop)
    answers = [{"id": request["id"], **_fields(outcome)} for request, outcome in zip(batch, outcomes)]
    return answers if isinstance(message, list) else answers[0]


def _outcomes(
    function: RewardFunction, batch: list[dict[str, Any]], loop: asyncio.AbstractEventLoop
) -> list[object]:
    """What the function returns for each request; a `Verdict` with an error where it raises an exception."""
    outcomes: list[object] = []
    # Outside of the event loop, because a function that is not async may run one of its own.
    for fields in batch:
        try:
            outcomes.append(_too_new(fields) or function(_request(fields)))
        except _CAUGHT as error:
            outcomes.append(_failed(error))

    async def settled(outcome: object) -> object:
        try:
            return await outcome if inspect.isawaitable(outcome) else outcome
        except _CAUGHT as error:
            return _failed(error)

    async def all_settled() -> list[object]:
        return list(await asyncio.gather(*map(settled, outcomes)))

    return loop.run_until_complete(all_settled())


# An answer that is executed may call `exit()`.
_CAUGHT = (Exception, SystemExit, asyncio.CancelledError)


def _failed(error: BaseException) -> Verdict:
    traceback.print_exception(type(error), error, error.__traceback__, file=sys.stderr)
    return Verdict(error=f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)


def _too_new(fields: dict[str, Any]) -> Verdict | None:
    protocol = fields.get("protocol", 1)
    if protocol <= PROTOCOL:
        return None
    return Verdict(
        error=f"the request is in version {protocol} of the verifiers' protocol, but the Python package burnish "
        f"{__version__} knows only versions up to {PROTOCOL}: install the package of the burnish that asks, "
        f"`burnish --version`"
    )


def _request(fields: dict[str, Any]) -> Request:
    known = {name: value for name, value in fields.items() if name in _FIELDS}
    extra = {name: value for name, value in fields.items() if name not in _FIELDS and name != "protocol"}
    return Request(**known, extra=extra)


_FIELDS = ("id", "task", "prompt", "completion", "messages", "answer")


def _fields(outcome: object) -> dict[str, Any]:
    """The fields of the answer, or an `error` that says what is wrong with the outcome."""
    try:
        return _verdict_fields(_verdict(outcome))
    except Exception as error:
        return {"error": str(error)}


def _verdict(outcome: object) -> Verdict:
    if isinstance(outcome, Verdict):
        return outcome
    outcome = _plain(outcome)
    if isinstance(outcome, bool):
        return Verdict(reward=float(outcome), success=outcome)
    if not isinstance(outcome, Mapping):
        return Verdict(reward=_number(outcome, "the reward"))
    parts = ("rewards", "turn_rewards", "span_rewards", "success", "flags", "feedback", "error")
    fields = [name for name in outcome if name in parts]
    if fields:
        raise TypeError(f"the reward function returned a dict with `{fields[0]}`: return a Verdict to state that")
    return Verdict(rewards=outcome)


def _verdict_fields(verdict: Verdict) -> dict[str, Any]:
    if verdict.error is not None:
        return {"error": str(verdict.error)}
    fields: dict[str, Any] = {}
    if verdict.reward is not None and verdict.rewards:
        raise ValueError("the reward function returned both `reward` and `rewards`: leave out one")
    if verdict.reward is not None:
        fields["reward"] = _number(verdict.reward, "the reward")
    if verdict.rewards:
        rewards = verdict.rewards.items()
        fields["rewards"] = {str(name): _number(reward, f"the reward `{name}`") for name, reward in rewards}
    if len(verdict.turn_rewards):
        fields["turn_rewards"] = [_earned(turn, "a turn") for turn in verdict.turn_rewards]
    if verdict.span_rewards:
        spans = verdict.span_rewards.items()
        fields["span_rewards"] = {str(name): _earned(earned, f"the span `{name}`") for name, earned in spans}
    if not fields:
        raise ValueError("the reward function returned no reward")
    if verdict.success is not None:
        fields["success"] = _truth(verdict.success, "`success`")
    if verdict.flags:
        fields["flags"] = {str(name): _truth(flag, f"the flag `{name}`") for name, flag in verdict.flags.items()}
    if verdict.feedback is not None:
        fields["feedback"] = str(verdict.feedback)
    return fields


def _earned(earned: object, part: str) -> Any:
    if isinstance(earned, Mapping):
        return {str(name): _number(reward, f"the reward `{name}` of {part}") for name, reward in earned.items()}
    return None if earned is None else _number(earned, f"the reward of {part}")


def _plain(value: Any) -> Any:
    """The Python number or bool in a scalar of numpy or torch; other values as they are."""
    return value.item() if hasattr(value, "item") and not isinstance(value, Mapping) else value


def _number(value: object, what: str) -> float:
    value = _plain(value)
    number = float(value) if isinstance(value, SupportsFloat) else None
    if number is None or number - number != 0:
        raise TypeError(f"{what} must be a finite number, and the reward function returned {short(value)}")
    return number


def _truth(value: object, what: str) -> bool:
    value = _plain(value)
    if not isinstance(value, bool):
        raise TypeError(f"{what} must be True or False, and the reward function returned {short(value)}")
    return value


def _main() -> None:
    parser = argparse.ArgumentParser(
        prog="python3 -m burnish.verifier", description="Serve reward functions that were written for another framework."
    )
    framework = {"dest": "framework", "choices": ["trl", "verl"], "required": True}
    parser.add_argument("--from", help="the framework", **framework)
    parser.add_argument("file", help="a Python file")
    parser.add_argument("functions", nargs="*", help="functions of the file; compute_score if verl's is not named")
    arguments = parser.parse_args()
    # The file is loaded under another name than `__main__`, and may import its neighbours.
    sys.path.insert(0, os.path.dirname(os.path.abspath(arguments.file)))
    defined = runpy.run_path(arguments.file, run_name="burnish_reward")
    names = arguments.functions or (["compute_score"] if arguments.framework == "verl" else [])
    missing = [name for name in names if not callable(defined.get(name))]
    if missing:
        parser.error(f"{arguments.file} defines no function {missing[0]}")
    if arguments.framework == "trl":
        serve(from_trl(*[defined[name] for name in names]))
    elif len(names) == 1:
        serve(from_verl(defined[names[0]]))
    else:
        parser.error("verl has one scorer")


if __name__ == "__main__":
    _main()
