"""A taskset of verifiers with a tool: the price of a thing has to be looked up."""

import verifiers.v1 as vf

PRICES = {"tea": 3, "bread": 4}


class Thing(vf.TaskData):
    thing: str


class Shop(vf.Toolset[vf.ToolsetConfig]):
    @vf.tool
    async def price(self, thing: str) -> str:
        """The price of a thing."""
        return str(PRICES.get(thing, "unknown"))


class PriceTask(vf.Task[Thing]):
    @classmethod
    def toolsets(cls, config):
        return [Shop(vf.ToolsetConfig())]

    @vf.reward
    async def right(self, trace: vf.Trace) -> float:
        return float(trace.last_reply == str(PRICES[self.data.thing]))

    @vf.metric
    async def lookups(self, trace: vf.Trace) -> float:
        return float(sum(message.role == "tool" for message in trace.branches[-1].messages))


class Prices(vf.Taskset[PriceTask, vf.TasksetConfig]):
    def load(self):
        for thing in PRICES:
            yield PriceTask(Thing(prompt=f"What does {thing} cost?", thing=thing), self.config.task)


__all__ = ["Prices"]

if __name__ == "__main__":
    # As verifiers starts it: the tools' server.
    Shop.run()
