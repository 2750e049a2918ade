"""Environments of OpenEnv, served: `main.py KIND PORT SESSIONS`."""

import sys

import uvicorn
from fastmcp import FastMCP
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.types import Action, Observation, State

kind, port, sessions = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])


class Guess(Action):
    message: str


class Place(Action):
    """Puts a stone."""

    row: int
    column: int


class Seen(Observation):
    said: str = ""
    tries: int = 0


class Guessing(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        self.steps = 0

    def reset(self, seed=None, episode_id=None, width=10, **kwargs):
        self.number, self.steps = seed % width, 0
        return Seen(said=f"A number below {width}.")

    def step(self, action, **kwargs):
        self.steps += 1
        if action.message == "crash":
            raise RuntimeError("the guess crashed")
        if action.message == str(self.number):
            return Seen(said="Right.", tries=self.steps, done=True, reward=1.0)
        return Seen(said="No.", tries=self.steps, reward=-0.1)

    @property
    def state(self):
        return State(step_count=self.steps)


class Placing(Guessing):
    def reset(self, seed=None, **kwargs):
        return Seen(said="Put a stone on the diagonal.")

    def step(self, action, **kwargs):
        return Seen(done=True, reward=float(action.row == action.column))


class Adding(MCPEnvironment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        server = FastMCP("adding")
        self.total = 0

        @server.tool
        def add(number: int) -> str:
            """Adds a number to the total."""
            self.total += number
            return f"The total is {self.total}."

        super().__init__(server)

    def reset(self, seed=None, **kwargs):
        self.total = 0
        return Seen(said="Make it 7.")

    def _step_impl(self, action, **kwargs):
        return Seen(said="That is no tool.")

    def step(self, action, **kwargs):
        return self.judged(super().step(action, **kwargs))

    async def step_async(self, action, **kwargs):
        return self.judged(await super().step_async(action, **kwargs))

    def judged(self, seen):
        seen.done, seen.reward = self.total == 7, float(self.total == 7)
        return seen

    @property
    def state(self):
        return State()


env, action = {"guess": (Guessing, Guess), "place": (Placing, Place), "add": (Adding, Action)}[kind]
app = create_fastapi_app(env, action, Seen, max_concurrent_envs=sessions)
uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")
