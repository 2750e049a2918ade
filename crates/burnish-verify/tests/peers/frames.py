"""math-verify's verdicts on the sentences of tests/frames.rs, beside ours.

    BURNISH_FRAMES=/tmp/frames.jsonl cargo test --release -p burnish-verify --test frames
    python crates/burnish-verify/tests/peers/frames.py /tmp/frames.jsonl

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
    rows = [json.loads(line) for line in Path(sys.argv[1]).read_text().splitlines()]
    golds, counts = {}, defaultdict(lambda: [0, 0, 0])
    for row in rows:
        reference = row["reference"]
        if reference not in golds:
            golds[reference] = parse("$" + reference + "$")
        theirs = bool(verify(golds[reference], parse(row["response"])))
        count = counts[(not row["is_right"], row["set"])]
        count[0] += 1
        count[1] += row["ours"] != row["is_right"]
        count[2] += theirs != row["is_right"]
    print("| sentences | cases | judged wrongly by ours | by math-verify |\n| --- | ---: | ---: | ---: |")
    total = defaultdict(lambda: [0, 0, 0])
    for (is_wrong, name), count in sorted(counts.items()):
        print(f"| {name} | {count[0]:,} | {count[1]} ({count[1] / count[0]:.2%}) | {count[2]} ({count[2] / count[0]:.2%}) |")
        total[is_wrong] = [a + b for a, b in zip(total[is_wrong], count)]
    for is_wrong, count in sorted(total.items()):
        name = "all wrong answers" if is_wrong else "all right answers"
        print(f"| **{name}** | {count[0]:,} | {count[1]} ({count[1] / count[0]:.2%}) | {count[2]} ({count[2] / count[0]:.2%}) |")


if __name__ == "__main__":
    main()
