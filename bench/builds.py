"""Two builds of ours in turn, unit by unit: what a change costs, or brings. Prints a Markdown table.

    python3 bench/builds.py BEFORE AFTER [ROW ...]     ROW: a row of rows.json or the beginning of its name

BEFORE and AFTER are directories with a `burnish-bench` (`cargo build --release -p burnish-bench` in two checkouts). Models are those
of bench/peers.sh; where there is none yet, this makes it, which needs torch and transformers. Nothing else may run.
"""
import argparse
import os
import statistics
import subprocess
import sys

from compare import DATA, MEMORY_STEPS, OTHERS_SHARE_MAX, WARM_UPS
from worker import HERE, Worker, machine_cpu_seconds

PAIRS = 15
# A median beyond it has to be explained.
SHARE_MAX = 1.03


def rows(names):
    """Rows that differ in what we do; those with the same work stand for one another."""
    seen, chosen = set(), []
    for row in DATA["rows"]:
        work = (row["id"].startswith("memory"), row.get("ours"), row["shape"])
        if "ours" not in row or work in seen or (names and not any(row["id"].startswith(name) for name in names)):
            continue
        seen.add(work)
        chosen.append(row)
    return chosen


def model(cache, shape):
    path = os.path.join(cache, shape)
    if not os.path.exists(os.path.join(path, "model.safetensors")):
        make = [sys.executable, os.path.join(HERE, "peers", "make_model.py"), path, *DATA["shapes"][shape].split()]
        subprocess.run(make, check=True, stdout=subprocess.DEVNULL)
    return path


def worker(binaries, row, path, side):
    kind, *flags = row["ours"].split()
    log = f"{path}.{side}.log"
    return Worker([os.path.join(binaries, "burnish-bench"), "worker", kind, path, *flags], log)


def of_units(before, after, row, path, count):
    """Seconds a token of each side, pair by pair, and how busy others kept the machine."""
    per_token = lambda done: done["seconds"] / done["tokens"]
    with worker(before, row, path, "before") as old, worker(after, row, path, "after") as new:
        for _ in range(WARM_UPS):
            old.ask(), new.ask()
        own = lambda: old.cpu_seconds() + new.cpu_seconds()
        own_before, machine_before = own(), machine_cpu_seconds()[0]
        pairs, worked = [], 0.0
        for at in range(count):
            # Whoever comes second finds the machine as the other left it, so they take turns in that too.
            sides = [old.ask(), new.ask()] if at % 2 == 0 else [new.ask(), old.ask()][::-1]
            pairs.append([per_token(done) for done in sides])
            worked += sum(done["seconds"] for done in sides)
        others = (machine_cpu_seconds()[0] - machine_before - (own() - own_before)) / worked
    return pairs, others


def of_memory(before, after, row, path, count):
    """Peak MiB of each side, in fresh processes."""
    pairs = []
    for _ in range(count):
        pair = []
        for side, binaries in (("before", before), ("after", after)):
            with worker(binaries, row, path, side) as one:
                pair.append([one.ask() for _ in range(MEMORY_STEPS)][-1]["memory_bytes"] / 2**20)
        pairs.append(pair)
    return pairs, 0.0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("rows", nargs="*", metavar="ROW")
    parser.add_argument("--cache", default=os.path.join(os.path.dirname(HERE), "target", "bench"))
    parser.add_argument("--pairs", type=int, default=PAIRS)
    args = parser.parse_args()
    chosen = rows(args.rows)
    unknown = [name for name in args.rows if not any(row["id"].startswith(name) for row in chosen)]
    if unknown:
        parser.error(f"no row begins with {', '.join(unknown)}, or another row stands for it; --list of peers.sh shows them")
    os.makedirs(args.cache, exist_ok=True)
    print(f"| row | before | after | after / before, median of {args.pairs} (min–max) | |\n| --- | --- | --- | --- | --- |")
    for row in chosen:
        path = model(args.cache, row["shape"])
        is_memory = row["id"].startswith("memory")
        measure, count = (of_memory, min(args.pairs, 3)) if is_memory else (of_units, args.pairs)
        pairs, others = measure(args.before, args.after, row, path, count)
        ratios = [after / before for before, after in pairs]
        median, scale, unit = statistics.median(ratios), *((1, "MiB") if is_memory else (1e3, "ms/token"))
        before, after = (statistics.median(side) * scale for side in zip(*pairs))
        said = "something else ran" if others > OTHERS_SHARE_MAX else "" if median <= SHARE_MAX else "worse"
        print(
            f"| `{row['id']}` | {before:.4g} {unit} | {after:.4g} | **{median:.3f}** ({min(ratios):.3f}–{max(ratios):.3f}) | {said} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
