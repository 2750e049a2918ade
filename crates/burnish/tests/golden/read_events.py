"""Reads a run's event files with TensorBoard and compares every scalar with metrics.jsonl.

Usage: read_events.py RUN [TAG=NAME ...]

Without pairs, the tags are TRL's: the event before every name. With pairs, the scalars of TAG must be those of NAME.
Needs: pip install tensorboard==2.21.0
"""

import json
import math
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
from tensorboard.backend.event_processing import data_provider, plugin_event_multiplexer
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.context import RequestContext


def expected(run, pairs):
    names = {name: tag for tag, name in pairs}
    scalars = defaultdict(list)
    for line in (run / "metrics.jsonl").read_text().splitlines():
        row = json.loads(line)
        step, event = row.pop("step"), row.pop("event")
        for name, value in row.items():
            if pairs and name not in names:
                continue
            tag = names.get(name, name if name.startswith(event + "/") else f"{event}/{name}")
            scalars[tag].append((step, math.nan if value is None else float(np.float32(value))))
    return scalars


def is_same(one, other):
    steps = [step for step, _ in one] == [step for step, _ in other]
    return steps and np.array_equal([v for _, v in one], [v for _, v in other], equal_nan=True)


def main():
    run = Path(sys.argv[1])
    want = expected(run, [pair.split("=") for pair in sys.argv[2:]])
    assert want, "nothing to compare"
    events = EventAccumulator(str(run / "tensorboard"), size_guidance={"scalars": 0}).Reload()
    tags = events.Tags()["scalars"]
    if len(sys.argv) == 2:
        assert sorted(tags) == sorted(want), sorted(set(tags) ^ set(want))
    for tag, scalars in want.items():
        found = [(event.step, event.value) for event in events.Scalars(tag)]
        assert is_same(found, scalars), f"{tag}: {found} is not {scalars}"
    times = [event.wall_time for tag in tags for event in events.Scalars(tag)]
    assert min(times) > 1.7e9 and all(t == sorted(t) for t in ([e.wall_time for e in events.Scalars(tag)] for tag in tags))

    # What the scalar dashboard itself asks.
    multiplexer = plugin_event_multiplexer.EventMultiplexer()
    multiplexer.AddRunsFromDirectory(str(run))
    multiplexer.Reload()
    provider = data_provider.MultiplexerDataProvider(multiplexer, str(run))
    shown = provider.list_scalars(RequestContext(), experiment_id="", plugin_name="scalars")
    assert sorted(shown["tensorboard"]) == sorted(tags), "the dashboard shows other tags"
    print(f"{len(tags)} tags, {len(times)} scalars")


main()
