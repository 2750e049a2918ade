"""A taskset of verifiers with one turn: what is one more than a number?"""

import verifiers.v1 as vf


class OneMore(vf.TaskData):
    answer: str


class OneMoreTask(vf.Task[OneMore]):
    @vf.reward(weight=2.0)
    async def right(self, trace: vf.Trace) -> float:
        return float(trace.last_reply == self.data.answer)

    @vf.metric
    async def letters(self, trace: vf.Trace) -> float:
        return float(len(trace.last_reply))


class OneMoreConfig(vf.TasksetConfig):
    count: int = 4


class OneMoreTaskset(vf.Taskset[OneMoreTask, OneMoreConfig]):
    def load(self):
        for number in range(self.config.count):
            data = OneMore(prompt=f"What is {number} + 1?", system_prompt="Be brief.", answer=str(number + 1))
            yield OneMoreTask(data, self.config.task)


__all__ = ["OneMoreTaskset"]
