"""Orders of rows, by an implementation of its own: SplitMix64's finaliser, Lemire's bounded numbers, Fisher-Yates.

Plain Python 3: python3 make_order.py > order.json
"""

import json

MASK = (1 << 64) - 1
SHUFFLE = 5


def mix(value):
    z = (value + 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def seed_of(run, epoch):
    state = 0x6275726E69736821
    for field in (run, 0, epoch, 0, 0, 0, SHUFFLE):
        state = mix(state ^ mix(field))
    return state


def order(length, run, epoch):
    seed, position, items = seed_of(run, epoch), 0, list(range(length))
    for last in range(length - 1, 0, -1):
        bound = last + 1
        while True:
            wide = mix(seed ^ mix(position)) * bound
            position += 1
            if (wide & MASK) >= (2**64 - bound) % bound:
                break
        at = wide >> 64
        items[last], items[at] = items[at], items[last]
    return items


cases = [(1, 0, 0), (10, 7, 0), (10, 7, 1), (33, 2**63 + 5, 4)]
print(json.dumps([[*case, order(*case)] for case in cases]))
