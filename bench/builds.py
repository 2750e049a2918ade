"""Two builds of ours in turn, unit by unit: what a change costs, or brings. Prints a Markdown table.

    python3 bench/builds.py BEFORE AFTER [ROW ...]     ROW: a row of rows.json, or `household`, or the beginning of its name

BEFORE and AFTER are directories with a `burnish-bench` (`cargo build --release -p burnish-bench` in two checkouts). Models are those
of bench/peers.sh; where there is none yet, this makes it, which needs torch and transformers. Nothing else may run.

`household` needs a `burnish` in both directories and no torch: whole steps of recipes/household.toml, whose answers take up to twelve
turns, by the run's own clock. Each build first makes the policy that they start from.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

from compare import DATA, MEMORY_STEPS, OTHERS_SHARE_MAX, WARM_UPS
from worker import HERE, Worker, machine_cpu_seconds

PAIRS = 15
# A median beyond it has to be explained.
SHARE_MAX = 1.03
EPISODES = "household"
# Steps of one run. The first is left out: it also reads files and fills buffers.
EPISODE_STEPS = 4


def rows(names):
    """Rows that differ in what we do; those with the same work stand for one another."""
    seen, chosen = set(), []
    for row in [*DATA["rows"], {"id": EPISODES, "ours": "train", "shape": EPISODES}]:
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


def of_episodes(before, after, cache, count):
    """Seconds a step of each side, run by run, with one seed for both sides of a pair."""
    recipe = os.path.join(os.path.dirname(HERE), "recipes", f"{EPISODES}.toml")

    def seconds(side, binaries, seed):
        run = os.path.join(cache, f"{EPISODES}-{side}")
        settings = [
            f"run.dir={json.dumps(run)}",
            f"run.cache={json.dumps(run + '-stages')}",
            f"run.seed={seed}",
            f"train.max_steps={EPISODE_STEPS}",
            f"checkpoint.every={EPISODE_STEPS}",
            "eval.tasks=0",
        ]
        command = [os.path.join(binaries, "burnish"), "train", recipe, *settings, "--overwrite"]
        with open(f"{run}.log", "w") as log:
            if subprocess.run(command, stdout=log, stderr=log, cwd=os.path.dirname(HERE)).returncode != 0:
                raise SystemExit(f"{' '.join(command)} failed; its output is in {run}.log")
        with open(os.path.join(run, "metrics.jsonl")) as lines:
            steps = [json.loads(line) for line in lines]
        return statistics.median([step["step_time"] for step in steps if "step_time" in step][1:])

    for side, binaries in (("before", before), ("after", after)):
        seconds(side, binaries, 0)
    return [
        [seconds(side, binaries, seed) for side, binaries in (("before", before), ("after", after))]
        for seed in range(1, count + 1)
    ], 0.0


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
        scale, unit = 1e3, "ms/token"
        if row["id"] == EPISODES:
            scale, unit = 1, "s/step"
            pairs, others = of_episodes(args.before, args.after, args.cache, args.pairs)
        elif row["id"].startswith("memory"):
            scale, unit = 1, "MiB"
            pairs, others = of_memory(args.before, args.after, row, model(args.cache, row["shape"]), min(args.pairs, 3))
        else:
            pairs, others = of_units(args.before, args.after, row, model(args.cache, row["shape"]), args.pairs)
        ratios = [after / before for before, after in pairs]
        median = statistics.median(ratios)
        before, after = (statistics.median(side) * scale for side in zip(*pairs))
        said = "something else ran" if others > OTHERS_SHARE_MAX else "" if median <= SHARE_MAX else "worse"
        print(
            f"| `{row['id']}` | {before:.4g} {unit} | {after:.4g} | **{median:.3f}** ({min(ratios):.3f}–{max(ratios):.3f}) | {said} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
