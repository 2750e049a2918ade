"""Games of the package TextWorld, for burnish's environment `command`.

    [env]
    id = "command"
    config.command = ["python3", "-m", "burnish.bridges.from_textworld"]
    config.settings = { games = "twc_games" }

`docs/environments/bridges.md` says more.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import textworld
from textworld.generator import compile_game
from textworld.generator.game import Game, GameOptions

from burnish.environment import Done, Environment, serve

ENDINGS = (".z8", ".ulx", ".json")
NOT_OF_THE_GAME = frozenset(
    ("q", "quit", "recording", "replay", "restart", "restore", "save", "script", "transcript", "undo", "unscript")
)
"""Words to the interpreter, which would write files or leave the episode."""
STEPS_MAX = 500
"""Most commands of a demonstration."""


class TextWorld(Environment):
    """Each game is a task. An answer is a command; the reward is the share of the game's score."""

    def __init__(self, games: str, commands: bool = False, cache: str = "") -> None:
        """Takes a game, or a folder with games; whether the policy reads which commands are possible; and the folder in
        which games are compiled that are not (`.json`)."""
        root = Path(games)
        found = [root] if root.is_file() else [path for path in root.rglob("*") if path.suffix in ENDINGS]
        # Beside a compiled game lies what it was made from.
        is_source = lambda path: path.suffix == ".json" and path.with_suffix(".z8") in found  # noqa: E731
        self.games = sorted(path for path in found if not is_source(path))
        if not self.games:
            raise ValueError(f"`games`: there is no game ({', '.join(ENDINGS)}) in {root.absolute()}")
        self.root, self.tasks, self.commands = root, len(self.games), commands
        self.cache = Path(cache or Path(tempfile.gettempdir(), f"burnish-textworld-{os.getuid()}"))
        self.started: Any = None

    def start(self, path: Path) -> Any:
        """Starts a game. Returns its first state."""
        self.close()
        infos = textworld.EnvInfos(
            description=True, objective=True, admissible_commands=True, policy_commands=True, won=True,
            score=True, max_score=True, extras=["goal_locations", "walkthrough"],
        )  # fmt: skip
        self.started = textworld.start(str(self.compiled(path)), infos)
        # The same game has the same texts whenever it is played.
        self.started.seed(1)
        return self.started.reset()

    def compiled(self, path: Path) -> Path:
        """The game in a form in which it has texts. Each is compiled once, and appears when it is complete."""
        if path.suffix != ".json":
            return path
        name = hashlib.sha256(path.read_bytes() + textworld.__version__.encode()).hexdigest()[:16]
        done = self.cache / name / "game.z8"
        if not done.exists():
            self.cache.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=self.cache) as folder:
                options = GameOptions()
                options.path = str(Path(folder, "made", "game.z8"))
                Path(folder, "made").mkdir()
                compile_game(Game.load(str(path)), options)
                try:
                    os.rename(Path(folder, "made"), done.parent)
                except OSError:
                    # Another process was faster.
                    if not done.exists():
                        raise
        return done

    def task(self, index: int) -> Any:
        path = self.games[index]
        place = path.relative_to(self.root) if path != self.root else Path(path.name)
        return {
            "prompt": self.said(self.start(path), is_first=True),
            "data": str(place),
            "labels": {"folder": str(place.parent)},
        }

    def said(self, state: Any, is_first: bool = False) -> str:
        """What the policy reads of a state."""
        text = f"{state.objective}\n\n{state.description}" if is_first else state.feedback
        # The interpreter's prompt, with the line of its status.
        text = re.sub(r"\n>\s*(-= .* =-\S*)?\s*\Z", "", text)
        text = re.sub(r"\n{3,}", "\n\n", text).strip()
        return f"{text}\n\nPossible: {', '.join(state.admissible_commands)}" if self.commands else text

    def reset(self, task: dict[str, Any], seed: int) -> None:
        self.state = self.start(self.root / task["data"] if self.root.is_dir() else self.root)

    def step(self, message: dict[str, Any]) -> Any:
        lines = [line for line in message["content"].splitlines() if line.strip()]
        command = lines[0].strip().lstrip("> ") if lines else ""
        words = re.findall(r"\w+", command.lower())
        # A backslash is a command to the interpreter, which may write files and wait for more.
        if not re.fullmatch(r"[\w ,.;:'\"!?-]{1,200}", command, re.ASCII) or not NOT_OF_THE_GAME.isdisjoint(words):
            return "That is no command of this game."
        self.state, _, done = self.started.step(command)
        return Done if done else self.said(self.state)

    def verify(self) -> Any:
        return {"reward": self.state.score / (self.state.max_score or 1), "success": bool(self.state.won)}

    def close(self) -> None:
        if self.started is not None:
            self.started.close()
            self.started = None

    def demonstrate(self, task: dict[str, Any]) -> Any:
        """The game's own way to win, or for games of tidying up (TWC) one that is found by playing."""
        self.reset(task, 0)
        player, messages = Player(self.state), []
        while len(messages) < STEPS_MAX and (command := player.next(self.state)):
            messages.append(command)
            self.state, _, done = self.started.step(command)
            if done:
                return messages if self.state.won else None
            messages.append({"role": "user", "content": self.said(self.state)})
        return None


class Player:
    """Plays a game: by its walkthrough, by the commands that TextWorld knows to win, or, if things have places where they
    belong (`goal_locations`), by carrying each there."""

    def __init__(self, state: Any) -> None:
        self.walkthrough = list(state.get("extra.walkthrough") or [])
        self.goals: dict[str, list[str]] = state.get("extra.goal_locations") or {}
        self.done: Counter[tuple[str, str]] = Counter()

    def next(self, state: Any) -> str | None:
        if self.walkthrough:
            return self.walkthrough.pop(0)
        if state.policy_commands:
            return state.policy_commands[0]
        room = re.search(r"-= (.*) =-", state.description)
        possible = [(self.value(command), command) for command in state.admissible_commands]
        useful = [it for it in possible if it[0] is not None]
        if not self.goals or not useful:
            return None
        # The most useful; of equal ones the one that was done least here, so that every room is found.
        here = room[1] if room else ""
        _, _, command = min((-value, self.done[here, command], command) for value, command in useful)
        self.done[here, command] += 1
        return command

    def value(self, command: str) -> int | None:
        """How useful a command is; `None` if it is not."""
        for thing, places in self.goals.items():
            if command in [f"{how} {thing} {where} {place}" for place in places for how, where in (("put", "on"), ("insert", "into"))]:
                return 3
            took = command == f"take {thing}" or command.startswith(f"take {thing} from ")
            if took and not any(command == f"take {thing} from {place}" for place in places):
                return 2
        if command.startswith("open "):
            return 1
        return 0 if command.startswith("go ") else None


if __name__ == "__main__":
    serve(TextWorld)
