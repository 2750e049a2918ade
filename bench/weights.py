"""burnish weights merge beside mergekit, on two random bf16 checkpoints of Llama's shape.

    python bench/weights.py BURNISH [--gib 2] [--pairs 3] [--dir DIR] [METHOD ...]

Needs mergekit==0.1.5. Runs alternate; each is a whole process, from start to files on disk (`sync` after each, because
mergekit does not wait for the disk and burnish does), with inputs in the page cache. Prints one JSON line per method:
seconds of both, their ratio per pair, the most resident memory of either (which for burnish counts the mapped inputs)
and of burnish without mapped pages, and the disk's own rate for a file of the result's size.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import torch
from safetensors.torch import save_file

METHODS = {
    "linear": "merge_method: linear\nmodels:\n- {model: '@a', parameters: {weight: 0.6}}\n- {model: '@b', parameters: {weight: 0.4}}\n",
    "slerp": "merge_method: slerp\nbase_model: '@a'\nmodels:\n- {model: '@a'}\n- {model: '@b'}\nparameters: {t: 0.4}\n",
    "task_arithmetic": "merge_method: task_arithmetic\nbase_model: '@a'\nmodels:\n- {model: '@b', parameters: {weight: 0.5}}\n",
    "ties": "merge_method: ties\nbase_model: '@a'\nmodels:\n- {model: '@b', parameters: {weight: 0.5, density: 0.4}}\n",
    "dare_linear": "merge_method: dare_linear\nbase_model: '@a'\nmodels:\n- {model: '@b', parameters: {weight: 0.5, density: 0.4}}\n",
}


def checkpoints(folder, gib):
    """Two checkpoints of about gib/2 GiB each, in layers of Llama's shape: hidden 2048, inner 5632, vocabulary 32000."""
    hidden, inner, vocabulary = 2048, 5632, 32000
    layer = [(hidden, hidden)] * 2 + [(hidden // 4, hidden)] * 2 + [(inner, hidden)] * 2 + [(hidden, inner)]
    names = ["self_attn.q_proj", "self_attn.o_proj", "self_attn.k_proj", "self_attn.v_proj"]
    names += ["mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"]
    size = 2 * sum(rows * cols for rows, cols in layer)
    layers = max(1, int((gib * 2**29 - 4 * vocabulary * hidden) / size))
    shapes = {"model.embed_tokens.weight": (vocabulary, hidden), "lm_head.weight": (vocabulary, hidden)}
    for at in range(layers):
        for name, shape in zip(names, layer):
            shapes[f"model.layers.{at}.{name}.weight"] = shape
        for name in ["input_layernorm", "post_attention_layernorm"]:
            shapes[f"model.layers.{at}.{name}.weight"] = (hidden,)
    shapes["model.norm.weight"] = (hidden,)
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden,
        "intermediate_size": inner, "num_hidden_layers": layers, "num_attention_heads": 32,
        "num_key_value_heads": 8, "vocab_size": vocabulary, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
    }
    for seed, name in enumerate(["a", "b"]):
        target = folder / name
        if (target / "config.json").exists():
            continue
        target.mkdir(parents=True, exist_ok=True)
        torch.manual_seed(seed)
        tensors = {name: (torch.randn(shape) * 0.02).to(torch.bfloat16) for name, shape in shapes.items()}
        save_file(tensors, target / "model.safetensors", metadata={"format": "pt"})
        (target / "config.json").write_text(json.dumps(config))
    return 2 * max(rows * cols for rows, cols in [(vocabulary, hidden), (inner, hidden)])


def run(command):
    """Seconds of a process and of what it left to the disk, and its most resident memory: all, and not from files."""
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    peak = {"VmRSS": 0, "RssAnon": 0}

    def watch():
        while process.poll() is None:
            try:
                lines = pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines()
            except OSError:
                return
            for line in lines:
                key, _, value = line.partition(":")
                if key in peak and value.split():
                    peak[key] = max(peak[key], int(value.split()[0]) * 1024)
            time.sleep(0.005)

    watcher = threading.Thread(target=watch)
    watcher.start()
    said = process.communicate()[0]
    watcher.join()
    if process.returncode != 0:
        sys.exit(f"{command}: {said}")
    os.sync()
    return time.monotonic() - start, peak


def disk_rate(folder, size):
    """Bytes per second of writing so many bytes and putting them on disk."""
    block = os.urandom(1 << 24)
    path = folder / "rate"
    start = time.monotonic()
    with open(path, "wb") as file:
        for _ in range(size // len(block)):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
    rate = size / (time.monotonic() - start)
    path.unlink()
    return rate


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("burnish")
    parser.add_argument("methods", nargs="*")
    parser.add_argument("--gib", type=float, default=2)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--dir", type=pathlib.Path)
    # Methods may stand behind options.
    arguments = parser.parse_intermixed_args()
    folder = arguments.dir or pathlib.Path(tempfile.mkdtemp())
    largest = checkpoints(folder, arguments.gib)
    size = (folder / "a/model.safetensors").stat().st_size
    for name in arguments.methods or METHODS:
        text = METHODS[name].replace("@", f"{folder.absolute()}/") + "dtype: bfloat16\n"
        config = folder / f"{name}.yaml"
        config.write_text(text)
        commands = {
            "burnish": [arguments.burnish, "weights", "merge", config],
            "mergekit": [sys.executable, "-m", "mergekit.scripts.run_yaml", config],
        }
        seconds = {"burnish": [], "mergekit": []}
        memory = {}
        # The first read of either is not timed: both find their inputs in the page cache.
        for path in ["a", "b"]:
            with open(folder / path / "model.safetensors", "rb") as file:
                while file.read(1 << 24):
                    pass
        for _ in range(arguments.pairs):
            for who, command in commands.items():
                out = folder / f"out_{who}"
                took, peak = run([*map(str, command), str(out)])
                shutil.rmtree(out)
                seconds[who].append(round(took, 2))
                memory[who] = {key: max(value, memory.get(who, {}).get(key, 0)) for key, value in peak.items()}
        ratios = sorted(theirs / ours for ours, theirs in zip(seconds["burnish"], seconds["mergekit"]))
        print(
            json.dumps(
                {
                    "method": name,
                    "bytes": size,
                    "seconds": seconds,
                    "ratio": [round(ratio, 2) for ratio in ratios],
                    "burnish_bytes_per_s": [round(size / took / 1e6) * 10**6 for took in seconds["burnish"]],
                    "disk_bytes_per_s": round(disk_rate(folder, size) / 1e6) * 10**6,
                    "peak_mib": {who: {key: value >> 20 for key, value in peak.items()} for who, peak in memory.items()},
                    "largest_tensor_mib": largest >> 20,
                }
            ),
            flush=True,
        )
    if arguments.dir is None:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
