"""Bits of short runs of every recipe: weights, metrics without times, and verdicts, for two builds.

    python3 bench/bits.py burnish-before burnish-after [RECIPE ...]

A change of structure must leave them as they are. Recipes are copied, with at most three steps for each run and each
stage. RECIPE is its path without the ending, such as systems/arm/recipe. A recipe that fails in both builds with the same
words is equal too, and is named.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ["recipes", "systems"]
STEPS = 3
TIMED = re.compile(r"(^|[/_])(time|seconds?)($|[/_])|rss|memory")
SHORT = {
    r"^max_steps\s*=.*": f"max_steps = {STEPS}",
    r"^num_train_epochs\s*=.*": f"max_steps = {STEPS}",
    r"^every\s*=.*": f"every = {STEPS}",
    r"^(warmup_updates)\s*=.*": r"\1 = 1",
    r"^(sequences_per_step|tasks_per_step)\s*=.*": r"\1 = 2",
}


def shortened(folder):
    """The recipes, with few steps in each of them and in each of their stages."""
    os.symlink(ROOT / "models", folder / "models")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / name)
    for path in (path for name in FOLDERS for path in (folder / name).rglob("*.toml")):
        text = path.read_text()
        for pattern, short in SHORT.items():
            text = re.sub(pattern, short, text, flags=re.M)
        # The only `tasks` that is not a count of training is that of evaluations.
        path.write_text(re.sub(r"(^\[eval[^\]]*\][^\[]*?^tasks\s*=\s*)\d+", r"\g<1>4", text, flags=re.M | re.S))


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def outcome(binary, folder, recipe):
    """What a run of the recipe leaves, by name."""
    run = folder / "run" / recipe.replace("/", "-")
    command = [binary, "train", f"{recipe}.toml", f"run.dir={run}", f"run.cache={folder / 'cache'}"]
    environment = {**os.environ, "RAYON_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, timeout=900)
    if done.returncode != 0:
        return {"error": done.stderr.replace(str(folder), "").strip()[-400:]}
    found = {}
    for weights in sorted(run.glob("checkpoints/*/*.safetensors")):
        found[str(weights.relative_to(run))] = digest(weights)
    for line in (run / "metrics.jsonl").read_text().splitlines():
        row = json.loads(line)
        values = {name: value for name, value in row.items() if not TIMED.search(name)}
        for name, value in values.items():
            found[f"{row['event']} {row['step']} {name}"] = value
    shown = [binary, "rollout", "--from", str(run), "--json"]
    shown = subprocess.run(shown, cwd=folder, capture_output=True, text=True).stdout
    found["verdicts"] = hashlib.sha256(shown.encode()).hexdigest()[:16] if shown else None
    return found


def main():
    before, after, *wanted = sys.argv[1:]
    skipped = {"recipes/starter", "systems/Cargo"}
    files = [path for name in FOLDERS for path in (ROOT / name).rglob("*.toml") if "[study]" not in path.read_text()]
    known = sorted({str(path.relative_to(ROOT).with_suffix("")) for path in files} - skipped)
    differ, failed = [], []
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        folders = [Path(first), Path(second)]
        for folder in folders:
            shortened(folder)
        binaries = [os.path.abspath(before), os.path.abspath(after)]
        for recipe in wanted or known:
            # The same folder name cannot be had twice, so messages leave it out.
            with ThreadPoolExecutor(2) as pool:
                one, other = pool.map(outcome, binaries, folders, [recipe, recipe])
            names = [name for name in {**one, **other} if one.get(name) != other.get(name)]
            words = "equal" if not names else "DIFFERS: " + ", ".join(sorted(names)[:6])
            if "error" in one:
                failed.append(recipe)
                words += f" (fails: {one['error'].splitlines()[-1] if one['error'] else ''})"
            if names:
                differ.append(recipe)
            print(f"{recipe:36} {len(one):5} values  {words}", flush=True)
    print(f"{len(wanted or known)} recipes: {len(differ)} differ {differ}, {len(failed)} fail in the first build {failed}")
    sys.exit(bool(differ))


main()
