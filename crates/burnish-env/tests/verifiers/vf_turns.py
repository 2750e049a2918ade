"""An environment of verifiers with several turns: a number is guessed, and each guess is answered."""

import verifiers.v1 as vf


class Secret(vf.TaskData):
    secret: int


class GuessTask(vf.Task[Secret]):
    @vf.reward
    async def quick(self, trace: vf.Trace) -> float:
        guesses = [message.content.strip() for message in trace.branches[-1].messages if message.role == "assistant"]
        return 1.0 / len(guesses) if guesses[-1] == str(self.data.secret) else 0.0


class Guesses(vf.Taskset[GuessTask, vf.TasksetConfig]):
    def load(self):
        for secret in (5, 7):
            yield GuessTask(Secret(prompt="Guess a number from 1 to 9.", secret=secret), self.config.task)


class GuessEnv(vf.SingleAgentEnv):
    async def run(self, task, agents) -> None:
        async with agents.agent.interaction(task) as interaction:
            segment = await interaction.turn()
            for _ in range(3):
                guess = segment.last_reply
                if guess == str(task.data.secret):
                    break
                said = "Higher." if guess.isdigit() and int(guess) < task.data.secret else "Lower."
                segment = await interaction.turn(said)


__all__ = ["Guesses", "GuessEnv"]
