"""Environments of the package verifiers (version 0.4, `verifiers.v1`), for burnish's environment `agent`.

    [env]
    id = "agent"
    config.command = ["python3", "-m", "burnish.bridges.from_verifiers"]
    config.settings = { env = { taskset = { id = "my-taskset" }, agent = { max_turns = 4 } } }

`docs/environments/bridges.md` says more.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import sys
from contextlib import AsyncExitStack
from typing import Any

import verifiers.v1 as vf
from verifiers.v1.configs.agent import agent_config_fields

from burnish.environment import Agent, Model, serve

# verifiers reads keys from variables.
_KEY = "BURNISH_EPISODE_KEY"

# verifiers keeps a client for each address that it was given, and each episode has its own.
_EPISODES_PER_SERVER = 64


class Verifiers(Agent):
    """Each task of a taskset is played as verifiers plays it, with the policy as its model."""

    # Programs, tools and sandboxes of verifiers may change the world.
    repeating = "outside"

    def __init__(self, env: Any, take: int | None = None) -> None:
        """Takes verifiers' own `[env]` block (or the id of a taskset alone), and how many tasks are taken."""
        data = {"taskset": {"id": env}} if isinstance(env, str) else dict(env)
        self.env = vf.load_environment(vf.resolve_env_config(_with_local_seats(data)))
        taskset = self.env.taskset
        if take is None and not taskset.bounded:
            raise ValueError(f"the taskset {data['taskset']['id']} has no end: say how many tasks to `take`")
        self.list = list(itertools.islice(iter(taskset), take))
        if not self.list:
            raise ValueError(f"the taskset {data['taskset']['id']} has no tasks")
        self.tasks = len(self.list)
        self.loop = asyncio.new_event_loop()
        self.serving = AsyncExitStack()
        self.played = 0

    def task(self, seed: int) -> Any:
        task = self.list[seed]
        return {"prompt": _prompt(task.data), "data": {"index": seed, "key": task.key}, "name": task.key[:32]}

    def run(self, task: dict[str, Any], model: Model, seed: int) -> Any:
        played = self.list[task["data"]["index"]]
        if played.key != task["data"]["key"]:
            raise ValueError("the taskset gives other tasks than when the run began")
        episode = self.loop.run_until_complete(self._episode(played, model))
        if not episode.ok:
            errors = [*episode.errors, *(error for trace in episode.traces for error in trace.errors)]
            raise RuntimeError("; ".join(f"{error.type}: {error.message}" for error in errors) or "it is not ok")
        return _verdict(episode.traces)

    async def _episode(self, task: Any, model: Model) -> Any:
        if self.played % _EPISODES_PER_SERVER == 0:
            await self.serving.aclose()
            await self.serving.enter_async_context(self.env.serving())
        self.played += 1
        os.environ[_KEY] = model.api_key
        client = vf.EvalClientConfig(base_url=model.base_url, api_key_var=_KEY)
        # How tokens are drawn is the recipe's decision.
        context = vf.ModelContext(client=client, model=model.name, sampling=vf.SamplingConfig())
        return await self.env.run_episode(task, context)


def _with_local_seats(data: dict[str, Any]) -> dict[str, Any]:
    """The block with seats that run here, without tools of the machine, where it says nothing else.

    verifiers itself would take a rented sandbox, and a shell in it.
    """
    taskset = dict(data.get("taskset") or {})
    if not taskset.get("id"):
        raise ValueError("`env` must name a taskset: { taskset = { id = ... } }")
    config = vf.env_config_type(taskset["id"], data.get("id") or "")
    harness = {"id": vf.default_harness_id(taskset["id"])}
    if harness["id"] == "bash":
        harness["id"] = "null"
    seats = {}
    for name in agent_config_fields(config.model_construct()):
        seat = dict(data.get(name) or {})
        seats[name] = {"harness": harness, "runtime": {"type": "subprocess"}, **seat}
    return {**data, **seats}


def _prompt(data: Any) -> list[dict[str, str]]:
    """What a person sees of a task; the policy reads what the harness makes of it."""
    system = [{"role": "system", "content": data.system_prompt}] if data.system_prompt else []
    text = data.prompt_text or data.description or data.name or "(the environment opens the conversation)"
    return [*system, {"role": "user", "content": text}]


def _verdict(traces: list[Any]) -> dict[str, Any]:
    """Weighted rewards by name, and metrics; with several traces, their agents' names come first."""
    rewards: dict[str, float] = {}
    metrics: dict[str, float] = {}
    for trace in traces:
        prefix = f"{trace.agent.name}/" if len(traces) > 1 and trace.agent.name else ""
        for name, reward in trace.rewards.items():
            if reward is not None:
                rewards[prefix + name] = rewards.get(prefix + name, 0.0) + reward.value
        for name, value in trace.metrics.items():
            if value is not None:
                metrics[prefix + name] = float(value)
    if not rewards:
        raise ValueError("the taskset gave no reward: it has no @vf.reward and no judge")
    return {"rewards": rewards, "metrics": metrics}


if __name__ == "__main__":
    logging.basicConfig(stream=sys.stderr, level=logging.ERROR)
    serve(Verifiers)
