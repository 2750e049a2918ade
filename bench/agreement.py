"""Compares the verdicts of burnish's own `bfcl` and `tau` with those of the packages, through the bridges.

    cargo build --release -p burnish-env --example verdicts
    PYTHONPATH=python python3 bench/agreement.py bfcl ../shared/data/bfcl_v4 500 [SEED]
    PYTHONPATH=python python3 bench/agreement.py tau2 PACKAGE/tau2/data/tau2/domains 500

It plays every gold and a number of changed ones (seeded), and prints a table and each disagreement.
"""

import collections
import copy
import itertools
import json
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

VERDICTS = "target/release/examples/verdicts"
DRAW = random.Random(int(sys.argv[4]) if len(sys.argv) > 4 else 0)


def changed_value(value):
    """Another value that may or may not be as right as the first."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return DRAW.choice([value + 1, -value, float(value), str(value)])
    if isinstance(value, str):
        return DRAW.choice([value + "x", value.upper(), value.lower(), value.replace(" ", "_"), " " + value, value + ".", ""])
    if isinstance(value, list) and value:
        at = DRAW.randrange(len(value))
        return DRAW.choice([value[::-1], value[:-1], value + value[:1], [*value[:at], changed_value(value[at]), *value[at + 1 :]]])
    if isinstance(value, dict) and value:
        key = DRAW.choice(list(value))
        without = {name: it for name, it in value.items() if name != key}
        return DRAW.choice([without, {**value, key: changed_value(value[key])}])
    return DRAW.choice(["x", 1, []])


def places(answers):
    return [(at, which) for at, answer in enumerate(answers) for which in range(len(answer.get("tool_calls") or []))]


def change(answers, kind):
    """Gold answers with a change; `None` where there is nothing to change."""
    answers = copy.deepcopy(answers)
    found = places(answers)
    if kind == "untold":
        if not any("know: " in answer["content"] for answer in answers):
            return None
        answers[-1]["content"] = "That is done."
        return answers
    if not found and kind == "extra":
        function = {"name": "made_up", "arguments": "{}"}
        calls = [{"id": "call_0", "type": "function", "function": function}]
        return [{"role": "assistant", "content": "", "tool_calls": calls}, *answers]
    if not found or kind == "order" and len(found) < 2:
        return None
    at, which = DRAW.choice(found)
    calls = answers[at]["tool_calls"]
    function = calls[which]["function"]
    arguments = json.loads(function["arguments"])
    if kind == "drop":
        del calls[which]
        if not calls:
            del answers[at]
    elif kind == "extra":
        other_at, other = DRAW.choice(found)
        calls.insert(which, copy.deepcopy(answers[other_at]["tool_calls"][other]))
    elif kind == "order":
        other_at, other = DRAW.choice([it for it in found if it != (at, which)])
        one, two = answers[at]["tool_calls"][which], answers[other_at]["tool_calls"][other]
        one["function"], two["function"] = two["function"], one["function"]
    elif kind == "name":
        function["name"] += "s"
    elif not arguments:
        return None
    else:
        key = DRAW.choice(list(arguments))
        if kind == "argument":
            arguments[key] = changed_value(arguments[key])
        elif kind == "missing argument":
            del arguments[key]
        function["arguments"] = json.dumps(arguments)
    return answers


KINDS = ["drop", "argument", "argument", "argument", "extra", "order", "name", "missing argument"]


def of_bfcl(path):
    from burnish.bridges import from_bfcl

    there = [name for name in from_bfcl.CATEGORIES if not name.startswith(("simple_java", "live_multiple", "live_irr")) and "long" not in name]
    environment = from_bfcl.BFCL(there)
    golds = [(f"bfcl/{it}", environment.rows[it].category, from_bfcl.gold(environment.rows[it])) for it in environment.ids]

    def bridge(task, answers):
        said = itertools.chain(answers, itertools.repeat({"role": "assistant", "content": "Done."}))
        verdict, _ = environment.play(environment.rows[task.removeprefix("bfcl/")], lambda *_, **__: next(said))
        return verdict["success"], verdict["feedback"]

    return ["bfcl", json.dumps({"path": path, "category": there})], golds, bridge, KINDS


def of_tau2(path):
    from burnish.bridges import from_tau2

    environments = {domain: from_tau2.Tau2(domain, None) for domain in from_tau2.DOMAINS}
    golds = [(f"tau/tau2/{domain}/{it}", domain, from_tau2.gold(environment.cases[it])) for domain, environment in environments.items() for it in environment.ids]

    def bridge(task, answers):
        domain, case = task.split("/")[2:]
        environment = environments[domain]
        environment.reset({"data": case}, 0)
        for answer in answers:
            environment.step(answer)
            if environment.ended:
                break
        if not environment.ended:
            environment.hear({"content": "###STOP###"})
        verdict = environment.verify()
        return verdict["success"], verdict["feedback"]

    # burnish wants the basis written down, which the package leaves to its default.
    folder = Path(tempfile.mkdtemp())
    for domain in environments:
        shutil.copytree(Path(path, domain), folder / domain)
        tasks = json.loads((folder / domain / "tasks.json").read_text())
        for case in tasks:
            case["evaluation_criteria"].setdefault("reward_basis", ["DB", "COMMUNICATE"])
        (folder / domain / "tasks.json").write_text(json.dumps(tasks))
    # Somebody else plays the user, and stops after the last answer.
    config = {"path": str(folder), "domain": list(environments), "user": "policy"}
    return ["tau", json.dumps(config)], golds, bridge, [*KINDS, "untold"]


def main():
    kind, path, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    command, golds, bridge, kinds = {"bfcl": of_bfcl, "tau2": of_tau2}[kind](path)
    golds = [gold for gold in golds if gold[2] is not None]
    cases = [(task, category, "gold", answers) for task, category, answers in golds]
    by_category = collections.defaultdict(list)
    for gold in golds:
        by_category[gold[1]].append(gold)
    # As many of every category.
    rounds = itertools.cycle(by_category)
    while len(cases) < len(golds) + count:
        task, category, answers = DRAW.choice(by_category[next(rounds)])
        what = DRAW.choice(kinds)
        changed = change(answers, what)
        if changed is not None and changed != answers:
            cases.append((task, category, what, changed))
    lines = "".join(json.dumps({"task": task, "answers": answers}) + "\n" for task, _, _, answers in cases)
    done = subprocess.run([VERDICTS, *command, str(len(golds) + 1000)], input=lines, capture_output=True, encoding="utf-8", check=False)
    ours = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(ours) == len(cases), done.stderr[-2000:]
    table = collections.Counter()
    for (task, category, what, answers), verdict in zip(cases, ours):
        success, why = bridge(task, answers)
        which = "gold" if what == "gold" else "changed"
        table[category, which] += 1
        table[category, which, "agree"] += success == verdict["success"]
        table[category, which, "right"] += success
        if success != verdict["success"]:
            print(json.dumps({"task": task, "change": what, "package": [success, why], "burnish": [verdict["success"], verdict["feedback"]], "answers": [it for it in answers if it.get("tool_calls")]}))
    print("| category | golds | agree | right | changed | agree | right |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for category in [*by_category, None]:
        row = [sum(it for key, it in table.items() if key[1:] == tail and category in (None, key[0])) for which in ("gold", "changed") for tail in ((which,), (which, "agree"), (which, "right"))]
        print(f"| {category or 'all'} | {' | '.join(map(str, row))} |")


if __name__ == "__main__":
    main()
