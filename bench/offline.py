#!/usr/bin/env python3
"""Compares learning from rows with TRL's trainers: the losses of the first steps, time and memory.

    python3 bench/offline.py --burnish target/release/burnish --python PYTHON_WITH_TRL [--methods sft dpo kto]

Both train the same tiny model (models/starter, in f32) on the same made rows, in the order of the file, without dropout, with the
same AdamW. Runs alternate; the peer's losses are its own, before they are rounded for its log. Exits with 1 where a loss
of the first steps differs by more than the tolerance.
"""
import argparse
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# No newline after an answer: TRL learns what the template writes after the end token, burnish ends with the end token.
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
WORDS = "up down left right wait goal hole start agent board move step turn plan first second".split()


def text(draw, least, most):
    return " ".join(draw.choice(WORDS) for _ in range(draw.randint(least, most)))


def make_rows(method, count):
    """Rows of the method's usual columns, with lengths that differ."""
    draw = random.Random(f"{method}")
    rows = []
    for _ in range(count):
        prompt = [{"role": "user", "content": text(draw, 3, 20)}]
        answer = lambda: [{"role": "assistant", "content": text(draw, 2, 25)}]
        if method == "sft":
            rows.append({"prompt": prompt, "completion": answer()})
        elif method == "kto":
            rows.append({"prompt": prompt, "completion": answer(), "label": draw.random() < 0.5})
        else:
            rows.append({"prompt": prompt, "chosen": answer(), "rejected": answer()})
    return rows


def make_model(folder):
    """The starter in f32, with a template that both sides read."""
    model = folder / "model"
    shutil.copytree(ROOT / "models/starter", model)
    (model / "chat_template.jinja").write_text(TEMPLATE)
    config = json.loads((model / "config.json").read_text())
    config["dtype"] = "float32"
    (model / "config.json").write_text(json.dumps(config))
    return model


RECIPES = {
    "sft": '[train]\nmethod = "sft"\n',
    "dpo": '[train]\nmethod = "preference"\n[loss]\nobjective = "dpo"\nconfig = { beta = 0.1 }\n',
    "kto": '[train]\nmethod = "preference"\n[loss]\nobjective = "kto"\n'
    'config = { beta = 0.1, baseline = "mismatched" }\n',
    "reward": '[train]\nmethod = "reward"\n',
}


def recipe(args, method, model, rows, run):
    """TRL leaves pairs out that are too long for a reward model, and truncates everything else."""
    lines = RECIPES[method].replace(
        "[train]\n", f"[train]\nmax_steps = {args.steps}\nsequences_per_step = {args.batch}\n"
    )
    return (
        f'[run]\ndir = "{run}"\nthreads = {args.threads}\n[policy]\npath = "{model}"\n{lines}'
        f'[data]\npath = "{rows}"\nmax_length = {args.max_length}\n'
        f'overlong = "{"drop" if method == "reward" else "truncate"}"\nshuffle = false\n'
        f"[optimizer]\nlearning_rate = {args.learning_rate}\nschedule = \"constant\"\n[checkpoint]\nevery = 0\n"
    )


def of_burnish(args, method, model, rows, folder):
    run = folder / "run"
    file = folder / "recipe.toml"
    file.write_text(recipe(args, method, model, rows, run))
    start = time.perf_counter()
    child = subprocess.Popen([args.burnish, "train", file, "--overwrite"], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - start
    if status != 0:
        sys.exit(f"{args.burnish} train {file} failed")
    steps = [json.loads(line) for line in (run / "metrics.jsonl").open()]
    steps = [step for step in steps if step["event"] == "train"]
    return {
        "losses": [step["loss"] for step in steps],
        "seconds": [step["step_time"] for step in steps],
        "total_seconds": seconds,
        "peak_bytes": usage.ru_maxrss * 1024,
    }


def of_trl(args, method, model, rows, folder):
    command = [args.python, ROOT / "bench/peers/offline.py", method, model, rows, "--out", folder / "trl"]
    for key in ["steps", "batch", "learning_rate", "max_length", "threads"]:
        command += ["--" + key.replace("_", "-"), str(getattr(args, key))]
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"the peer failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--burnish", default=str(ROOT / "target/release/burnish"))
    parser.add_argument("--python", required=True, help="a Python with torch, transformers and TRL 1.16")
    parser.add_argument("--methods", nargs="+", default=list(RECIPES), choices=list(RECIPES))
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--max-length", type=int, default=256)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=3, help="runs of each, alternately; times are medians")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    args = parser.parse_args()
    is_equal = True
    print("| method | largest difference of a loss | step, burnish | step, TRL | ratio | memory, burnish | memory, TRL |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for method in args.methods:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            model, rows = make_model(folder), folder / "rows.jsonl"
            lines = [json.dumps(row) for row in make_rows(method, 2 * args.steps * args.batch)]
            rows.write_text("\n".join(lines) + "\n")
            ours, theirs = [], []
            for _ in range(args.pairs):
                ours.append(of_burnish(args, method, model, rows, folder))
                theirs.append(of_trl(args, method, model, rows, folder))
        pairs = zip(ours[0]["losses"], theirs[0]["losses"], strict=True)
        difference = max(abs(one - other) for one, other in pairs)
        is_equal &= difference <= args.tolerance
        # The first step has memory to get, and weights to pack.
        step = lambda runs: statistics.median(statistics.median(run["seconds"][1:]) for run in runs)
        memory = lambda runs: statistics.median(run["peak_bytes"] for run in runs) / 2**20
        print(
            f"| {method} | {difference:.1e} | {1e3 * step(ours):.1f} ms | {1e3 * step(theirs):.1f} ms "
            f"| {step(ours) / step(theirs):.2f} | {memory(ours):.0f} MiB | {memory(theirs):.0f} MiB |"
        )
    if not is_equal:
        sys.exit(f"a loss differs by more than {args.tolerance}")


if __name__ == "__main__":
    main()
