#!/usr/bin/env python3
"""Writes the word problems of docs/coming-from-trl.md and docs/coming-from-verl.md beside this script.

    python3 docs/examples/make_problems.py            *.jsonl, with the columns of TRL
    python3 docs/examples/make_problems.py --parquet  *.parquet, with those of verl (needs pyarrow)
"""

import json
import random
import sys
from pathlib import Path

HERE = Path(__file__).parent
NAMES = ["Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gus", "Hana"]
THINGS = ["apples", "books", "coins", "eggs", "keys", "pens", "shells", "stamps"]
TRAIN, EVAL = 96, 16


def problems():
    """All (question, answer), in an order of their own."""
    made = []
    for name in NAMES:
        for thing in THINGS:
            for first in range(2, 6):
                for second in range(1, 5):
                    more = f"{name} has {first} {thing} and gets {second} more. How many {thing} are there?"
                    made.append((more, first + second))
                    if first > second:
                        fewer = f"{name} has {first} {thing} and loses {second}. How many {thing} are left?"
                        made.append((fewer, first - second))
    random.Random(1).shuffle(made)
    return made


def for_trl(question, answer):
    return {"prompt": [{"role": "user", "content": question}], "answer": str(answer)}


def for_verl(question, answer, split, index):
    return {
        "data_source": "docs/examples",
        "prompt": [{"role": "user", "content": question}],
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": str(answer)},
        "extra_info": {"split": split, "index": index},
    }


def main():
    made = problems()
    for split, name, rows in [
        ("train", "problems", made[:TRAIN]),
        ("test", "problems_eval", made[TRAIN : TRAIN + EVAL]),
    ]:
        if "--parquet" in sys.argv[1:]:
            import pyarrow
            from pyarrow import parquet

            table = pyarrow.Table.from_pylist([for_verl(*row, split, at) for at, row in enumerate(rows)])
            parquet.write_table(table, HERE / f"{name}.parquet")
        else:
            lines = [json.dumps(for_trl(*row)) + "\n" for row in rows]
            (HERE / f"{name}.jsonl").write_text("".join(lines))


main()
