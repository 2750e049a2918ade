"""Golden vectors of `skill1`, in plain Python from its formulas. Writes skill1.json.

    python make_skill1.py
"""

import json
import random
from pathlib import Path

ASKING, ORDERING, ACTING, WRITING = range(4)


def normalised(value, values, epsilon):
    """(value - mean) / (std + epsilon), with n - 1; 0 where all values are equal."""
    if len(set(values)) < 2:
        return 0.0
    mean = sum(values) / len(values)
    deviation = (sum((one - mean) ** 2 for one in values) / (len(values) - 1)) ** 0.5
    return (value - mean) / (deviation + epsilon)


def credit(group, first, second, epsilon):
    scored = [member for member in group if member["reward"] is not None]
    rewards = [member["reward"] for member in scored]
    last = [dict(member["turns"]).get(WRITING) for member in scored]
    last = [value for value in last if value is not None]
    found = []
    for member in group:
        if member["reward"] is None:
            found.append(None)
            continue
        whole = normalised(member["reward"], rewards, epsilon)
        own = []
        for segment, value in member["turns"]:
            if segment == ORDERING:
                own.append(0.0 if value is None else first * value)
            elif segment == WRITING:
                own.append(0.0 if value is None else second * normalised(value, last, epsilon))
            else:
                own.append(whole)
        found.append(own)
    return found


def member(draw):
    turns = [[ASKING, None]] if draw.random() < 0.9 else []
    if turns and draw.random() < 0.7:
        turns.append([ORDERING, None if draw.random() < 0.2 else draw.random()])
    turns += [[ACTING, None]] * draw.randint(1, 4)
    reward = None if draw.random() < 0.1 else float(draw.random() < 0.5)
    if draw.random() < 0.8:
        turns.append([WRITING, (reward or 0.0) - draw.choice([0.0, 0.25, draw.random()])])
    return dict(reward=reward, turns=turns)


if __name__ == "__main__":
    draw = random.Random(1)
    cases = []
    for settings in [(0.3, 0.3, 1e-6), (0.0, 0.0, 1e-6), (1.0, 0.5, 0.0)]:
        for size in [1, 2, 4, 8, 8, 16]:
            group = [member(draw) for _ in range(size)]
            cases.append(dict(settings=settings, group=group, advantages=credit(group, *settings)))
    text = json.dumps(cases, allow_nan=False).replace('{"settings"', '\n{"settings"')
    (Path(__file__).parent / "skill1.json").write_text(text + "\n")
