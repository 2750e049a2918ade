"""Alternates ours and the peer's, unit by unit, and prints one JSON line a row. bench/peers.sh runs it.

Needs the standard library only; what is compared, and with which bars, is in bench/rows.json.
"""
import argparse
import datetime
import json
import math
import os
import platform
import random
import resource
import statistics
import subprocess
import sys
import time

from worker import HERE, Worker, machine_cpu_seconds, unit_while_other_rests

WARM_UPS = 2
PAIRS = 6
PAIRS_OF_SLOW = 3
SLOW_SECONDS = 10.0
MEMORY_STEPS = 4
# A side that keeps a processor busy while the other works spoils the other's time.
BUSY_SHARE_MAX = 0.05
# So does anything else on the machine; shares of one processor.
OTHERS_SHARE_MAX = 0.1

with open(os.path.join(HERE, "rows.json")) as file:
    DATA = json.load(file)


def summary(unit, pairs):
    """Ratio and absolute values of pairs (ours, peer) of units, each by the token: what they generate may differ."""
    ratios = [(peer["seconds"] / peer["tokens"]) / (ours["seconds"] / ours["tokens"]) for ours, peer in pairs]
    absolute = {
        "s": lambda done: done["seconds"],
        "tokens/s": lambda done: done["tokens"] / done["seconds"],
        "ms/token": lambda done: 1000 * done["seconds"] / done["tokens"],
    }[unit]
    ours, peer = ([absolute(done) for done in side] for side in zip(*pairs))
    return {
        "ratio": statistics.median(ratios),
        "min": min(ratios),
        "max": max(ratios),
        "ours": statistics.median(ours),
        "peer": statistics.median(peer),
    }


def floor_ratio(pairs, rates, precision, is_one):
    """The ratio if we did nothing but the needed products at the measured rate; of batch 1: but read the weights."""
    if is_one:
        needed, rate = "bytes", rates["read_gb_per_s"] * 1e9
    else:
        needed, rate = "flops", rates[precision + "_gflops"] * 1e9
    peer = statistics.median(peer["seconds"] / peer["tokens"] for _, peer in pairs)
    return peer / statistics.median(ours[needed] / rate / ours["tokens"] for ours, _ in pairs)


def holds(row, value):
    """Does the value meet the row's bar? None where there is no bar."""
    if row["bar"] is None:
        return None
    is_at_most = row["unit"] in ("MiB", "s") and row["id"].split("-")[0] in ("memory", "start")
    return value <= row["bar"] if is_at_most else value >= row["bar"]


def largest_difference(ours, peer):
    """Of lists of lists; not a number differs infinitely."""
    assert len(ours) == len(peer) and all(len(a) == len(b) for a, b in zip(ours, peer)), "other sequences were scored"
    differences = [abs(x - y) for a, b in zip(ours, peer) for x, y in zip(a, b)]
    return max(math.inf if math.isnan(each) else each for each in differences)


class Bench:
    """One run: where things are, and what has been measured for all rows."""

    def __init__(self, binaries, cache, pairs):
        self.ours = os.path.join(binaries, "burnish-bench")
        self.burnish = os.path.join(binaries, "burnish")
        self.cache = os.path.abspath(cache)
        self.pairs = pairs
        self.differences = {}
        os.makedirs(self.cache, exist_ok=True)
        self.rates = self.measured_rates()

    def measured_rates(self):
        """What the machine can do at most, and how busy others kept it meanwhile."""
        own = lambda: sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
        own_before, machine_before, start = own(), machine_cpu_seconds()[0], time.monotonic()
        rates = json.loads(self.output([self.ours, "floors"]))
        others = machine_cpu_seconds()[0] - machine_before - (own() - own_before)
        rates["others_busy"] = others / (time.monotonic() - start)
        if rates["others_busy"] > OTHERS_SHARE_MAX:
            print("the machine was busy while its rates were measured: floors are too low in this run", file=sys.stderr)
        return rates

    def output(self, command):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=os.path.dirname(HERE))
        if done.returncode != 0:
            raise SystemExit(f"{command} failed:\n{done.stderr[-2000:]}")
        return done.stdout

    def peer(self, script_and_flags, model):
        script, *flags = script_and_flags.split()
        return [sys.executable, os.path.join(HERE, "peers", script), model, *flags]

    def model(self, shape):
        path = os.path.join(self.cache, shape)
        if not os.path.exists(os.path.join(path, "tokenizer_config.json")) or not os.path.exists(
            os.path.join(path, "model.safetensors")
        ):
            self.output(self.peer("make_model.py " + DATA["shapes"][shape], path))
        return path

    def workers(self, row):
        model = self.model(row["shape"])
        kind, *flags = row["ours"].split()
        log = os.path.join(self.cache, row["id"])
        return (
            Worker([self.ours, "worker", kind, model, *flags], log + ".ours.log"),
            Worker(self.peer(row["peer"], model), log + ".peer.log"),
        )

    def logprobs(self, shape, precision, ids, scored_by="logprobs.py"):
        """Log-probs of the sequences in a file: ours, the peer's."""
        model, flags = self.model(shape), "--bf16" if precision == "bf16" else ""
        sides = [self.ours, "logprobs", model, ids, *flags.split()], self.peer(scored_by, model) + [ids, *flags.split()]
        return [json.loads(self.output(command))["logprobs"] for command in sides]

    def model_difference(self, shape, precision, scored_by="logprobs.py"):
        """Largest difference of log-probs on random sequences, on the same weights."""
        if (shape, precision, scored_by) not in self.differences:
            with open(os.path.join(self.model(shape), "config.json")) as file:
                vocab = json.load(file)["vocab_size"]
            numbers = random.Random(0)
            path = os.path.join(self.cache, f"ids-{shape}.json")
            with open(path, "w") as file:
                json.dump({"sequences": [[numbers.randrange(vocab) for _ in range(length)] for length in (256, 190, 64, 2)]}, file)
            scores = self.logprobs(shape, precision, path, scored_by)
            self.differences[shape, precision, scored_by] = largest_difference(*scores)
        return self.differences[shape, precision, scored_by]

    def sampled_difference(self, row, worker):
        """Largest difference between the log-probs that our sampler recorded and the peer's of the same tokens."""
        path = os.path.join(self.cache, row["id"] + ".sampled.json")
        worker.ask("dump " + path)
        with open(path) as file:
            sampled = json.load(file)
        _, peer = self.logprobs(row["shape"], row["precision"], path)
        answers = [scores[-len(own) :] for scores, own in zip(peer, sampled["logprobs"])]
        return largest_difference(sampled["logprobs"], answers)

    @staticmethod
    def cpu_seconds(*workers):
        return time.process_time() + sum(worker.cpu_seconds() for worker in workers)

    def alternate(self, row):
        ours, peer = self.workers(row)
        with ours, peer:
            for _ in range(row.get("warm_ups", WARM_UPS)):
                ours.ask()
                slow = peer.ask()["seconds"] > SLOW_SECONDS
            count = self.pairs or (PAIRS_OF_SLOW if slow else PAIRS)
            pairs, busy = [], 0.0
            own_before, machine_before, start = self.cpu_seconds(ours, peer), machine_cpu_seconds(), time.monotonic()
            for _ in range(count):
                mine, peers_busy = unit_while_other_rests(ours, peer)
                theirs, our_busy = unit_while_other_rests(peer, ours)
                pairs.append((mine, theirs))
                busy += peers_busy + our_busy
            worked = time.monotonic() - start
            ran, stolen = (after - before for after, before in zip(machine_cpu_seconds(), machine_before))
            others = ran - (self.cpu_seconds(ours, peer) - own_before)
            differences = [self.model_difference(row["shape"], row["precision"])]
            if "scored_by" in row:
                # The peer is not PyTorch: it must compute the same too.
                differences.append(self.model_difference(row["shape"], row["precision"], row["scored_by"]))
            differences += [mine["sampler_trainer_difference"] for mine, _ in pairs if "sampler_trainer_difference" in mine]
            if row["ours"].startswith("sample"):
                differences.append(self.sampled_difference(row, ours))
            workers = {"ours_is": ours.ready["worker"], "peer_is": peer.ready["worker"]}
        measured = summary(row["unit"], pairs)
        floor = floor_ratio(pairs, self.rates, row["precision"], row["ours"].endswith("--batch 1"))
        return {
            **measured,
            "floor": floor,
            "pairs": count,
            "tokens": [statistics.median(done["tokens"] for done in side) for side in zip(*pairs)],
            "logprob_difference": max(differences),
            "busy_while_other_works": busy / worked,
            "others_busy": others / worked,
            "stolen": stolen / worked,
            **workers,
        }, measured["ratio"]

    def memory(self, row):
        """Fresh processes each time: what a step adds to what was resident after loading."""
        pairs = []
        for _ in range(self.pairs or PAIRS_OF_SLOW):
            pair = []
            for worker in self.workers(row):
                with worker:
                    pair.append([worker.ask() for _ in range(MEMORY_STEPS)][-1]["memory_bytes"] / 2**20)
            pairs.append(pair)
        ratios = [ours / peer for ours, peer in pairs]
        ours, peer = map(statistics.median, zip(*pairs))
        ratio = statistics.median(ratios)
        return {
            **{"ratio": ratio, "min": min(ratios), "max": max(ratios), "ours": ours, "peer": peer, "pairs": len(pairs)},
            "logprob_difference": self.model_difference(row["shape"], row["precision"]),
        }, ratio

    def start(self, _):
        found = json.loads(self.output([self.ours, "start", self.burnish]))
        seconds = found["seconds"]
        return {"ours": found["seconds_median"], "min": min(seconds), "max": max(seconds)}, found["seconds_median"]

    def row(self, row):
        measure = {"memory": self.memory, "start": self.start}.get(row["id"].split("-")[0], self.alternate)
        measured, value = measure(row)
        result = {"id": row["id"], "work": row["work"], "shape": row["shape"], **measured, "unit": row["unit"]}
        result |= {key: row[key] for key in ("precision", "bar", "aim", "floor_expected")}
        result["holds"] = holds(row, value)
        failures = []
        limit = DATA["logprob_difference_max"][row["precision"]]
        if not measured.get("logprob_difference", 0) <= limit:
            failures.append(f"log-probs differ by more than {limit}")
        if measured.get("busy_while_other_works", 0) > BUSY_SHARE_MAX:
            failures.append("a side was busy while the other worked")
        ours_tokens, peer_tokens = measured.get("tokens", (0, 0))
        if ours_tokens != peer_tokens and row["unit"] != "ms/token":
            failures.append("the sides did not do the same amount of work")
        if measured.get("others_busy", 0) > OTHERS_SHARE_MAX:
            failures.append("something else ran on the machine")
        if failures:
            result |= {"holds": False, "failed": "; ".join(failures)}
        return result


def machine():
    with open("/proc/cpuinfo") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return f"{platform.node()}: {len(names)} x {names[0] if names else platform.machine()}"


def commit():
    git = ["git", "-C", HERE]
    head = subprocess.run([*git, "rev-parse", "--short=10", "HEAD"], capture_output=True, text=True).stdout.strip()
    changed = subprocess.run([*git, "status", "--porcelain", "--untracked-files=no"], capture_output=True, text=True).stdout
    return head + ("+changes" if changed.strip() else "")


def rounded(value):
    return float(f"{value:.4g}") if isinstance(value, float) else value


def check():
    """The arithmetic, on numbers of which the result is known."""
    pair = lambda ours, peer: ({"seconds": ours, "tokens": 8, "flops": 2e9, "bytes": 1e9}, {"seconds": peer, "tokens": 16})
    pairs = [pair(1.0, 4.0), pair(1.0, 6.0), pair(2.0, 4.0)]
    assert summary("s", pairs) == {"ratio": 2.0, "min": 1.0, "max": 3.0, "ours": 1.0, "peer": 4.0}
    assert summary("tokens/s", pairs)["ours"] == 8.0 and summary("ms/token", pairs)["peer"] == 250.0
    rates = {"f32_gflops": 1.0, "read_gb_per_s": 10.0}
    # 0.25 s a token of the peer; we need 2e9 / 1e9 / 8 = 0.25 s a token, or 1e9 / 1e10 / 8 = 0.0125 s to read.
    assert math.isclose(floor_ratio(pairs, rates, "f32", False), 1.0)
    assert math.isclose(floor_ratio(pairs, rates, "f32", True), 20.0)
    assert largest_difference([[1.0, 2.0], [3.0]], [[1.0, 2.5], [3.1]]) == 0.5
    assert largest_difference([[1.0]], [[math.nan]]) == math.inf
    rows = {row["id"]: row for row in DATA["rows"]}
    assert len(rows) == len(DATA["rows"]), "two rows have one name"
    step, memory, start, compiled = (rows[name] for name in ("step-f32-a", "memory-a", "start", "step-compile-a"))
    assert holds(step, 1.3) and not holds(step, 1.2) and holds(memory, 0.5) and not holds(memory, 0.7)
    assert holds(start, 0.1) and not holds(start, 0.4) and holds(compiled, 9.0) is None
    print("compare.py: its arithmetic holds")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW")
    parser.add_argument("--binaries", default="target/release")
    parser.add_argument("--cache", default="target/bench")
    parser.add_argument("--out", help="append the lines to this file")
    parser.add_argument("--pairs", type=int, help=f"pairs of units a row (default {PAIRS}, of slow ones {PAIRS_OF_SLOW})")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    if args.check:
        return check()
    chosen = [row for row in DATA["rows"] if not args.rows or any(row["id"].startswith(name) for name in args.rows)]
    unknown = [name for name in args.rows if not any(row["id"].startswith(name) for row in DATA["rows"])]
    if unknown:
        parser.error(f"no row begins with {', '.join(unknown)}; --list shows them")
    if args.list:
        for row in chosen:
            print(f"{row['id']:20} bar {row['bar'] or '-'!s:5} aim {row['aim'] or '-'!s:5} {row['work']}")
        return None
    bench = Bench(args.binaries, args.cache, args.pairs)
    about = {"machine": machine(), "date": datetime.date.today().isoformat(), "commit": commit(), "rates": bench.rates}
    failed = False
    for row in chosen:
        result = {key: rounded(value) for key, value in bench.row(row).items()}
        line = json.dumps(result)
        print(line, flush=True)
        if args.out:
            with open(args.out, "a") as file:
                file.write(json.dumps(result | about) + "\n")
        failed |= "failed" in result
    if failed:
        raise SystemExit("a row failed: it does not count")
    return None


if __name__ == "__main__":
    main()
