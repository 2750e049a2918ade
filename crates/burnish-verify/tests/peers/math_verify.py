"""Writes math_verify.json: math-verify's verdict on every model solution of RealCritic (math and gsm8k), and on
the made-up pairs of pairs.json beside this script (reference, response).

Run:  /path/to/python crates/burnish-verify/tests/peers/math_verify.py SHARED_DATA OUT
Needs math-verify 0.9.0 and latex2sympy2_extended 1.11.0. The output holds index and verdict, no texts.
Settings are the library's defaults; the reference is wrapped in dollars, as its README asks.
"""

import json
import sys
import time
from importlib.metadata import version
from pathlib import Path

sys.path.pop(0)  # this script bears the library's name and would be imported in its place

from math_verify import parse, verify  # noqa: E402


def verdicts(path):
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    marks = []
    start = time.perf_counter()
    for row in rows:
        gold = parse("$" + row["gt"] + "$")
        if not gold:
            raise SystemExit(f"{path}: no reference in row {row['idx']}")
        marks.append("1" if verify(gold, parse(row["reasoning"])) else "0")
    seconds = time.perf_counter() - start
    print(f"{path.name}: {len(rows)} solutions, {marks.count('1')} correct, "
          f"{1000 * seconds / len(rows):.2f} s per 1,000", file=sys.stderr)
    return "".join(marks)


def main():
    data, out = Path(sys.argv[1]), Path(sys.argv[2])
    pairs = json.loads(Path(__file__).with_name("pairs.json").read_text())
    marks = ["1" if verify(parse("$" + gold + "$"), parse(response)) else "0" for gold, response in pairs]
    golden = {
        "math_verify": version("math-verify"),
        "latex2sympy2_extended": version("latex2sympy2_extended"),
        "verdicts": {name: verdicts(data / "realcritic" / f"{name}.jsonl") for name in ("math", "gsm8k")},
        "pairs": "".join(marks),
    }
    out.write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
