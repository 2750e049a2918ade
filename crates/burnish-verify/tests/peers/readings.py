"""The table of docs/verifiers.md: shares accepted by our readings, and by math-verify.

    BURNISH_READINGS=/tmp/readings.jsonl cargo test --release -p burnish-verify --test readings
    python crates/burnish-verify/tests/peers/readings.py /tmp/readings.jsonl

Needs math-verify 0.9.0 and latex2sympy2_extended 1.11.0, with the library's default settings; the reference is wrapped in
dollars, as its README asks.
"""

import json
import sys
from collections import defaultdict
from pathlib import Path

sys.path.pop(0)  # a script beside this one bears the library's name and would be imported in its place

from math_verify import parse, verify  # noqa: E402


def main():
    golds, counts = {}, defaultdict(lambda: [0, 0, 0, 0])
    for line in Path(sys.argv[1]).read_text().splitlines():
        row = json.loads(line)
        reference = row["reference"]
        if reference not in golds:
            golds[reference] = parse("$" + reference + "$")
        theirs = bool(verify(golds[reference], parse(row["response"])))
        count = counts[row["set"], row["is_right"]]
        for at, is_counted in enumerate((True, row["mark"], row["last"], theirs)):
            count[at] += is_counted
    print("| set | cases | `mark` | `last` | math-verify |\n| --- | ---: | ---: | ---: | ---: |")
    for is_right in (True, False):
        for (name, right), (cases, *accepted) in sorted(counts.items()):
            if right == is_right:
                kind = "right" if is_right else "wrong"
                shares = " | ".join(f"{one / cases:.1%}" for one in accepted)
                print(f"| {name}: {kind} | {cases:,} | {shares} |")


if __name__ == "__main__":
    main()
