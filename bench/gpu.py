"""The stages of gpu.sh: ours on a GPU, beside the CPU and beside PyTorch. One JSON line a row."""
import argparse
import csv
import json
import os
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path

BENCH = Path(__file__).resolve().parent
# The limit of a stage, in seconds.
LIMIT = 480

STAGES = {
    "compare": "logits, log-probs, one training step and 200 greedy tokens: the GPU's beside the CPU's",
    "quickstart": "40 steps of recipes/quickstart.toml",
    "grpo": "Qwen3-0.6B's shape: GRPO of 256 answers of 512 tokens, bf16, sampled and trained on one card",
    "rate": "products of 8192 x 8192 x 8192 in bf16 and f32, and copies of 2 GiB, by PyTorch: the card's measured rates",
    "step-16x1024": "Qwen3-0.6B's shape: training steps of 16 sequences of 1024 tokens, bf16, ours",
    "step-16x1024-torch": "the same in PyTorch: autocast, SDPA",
    "step-16x1024-hybrid": "Qwen3.5-0.8B's shape, three of four layers a gated delta rule: the same, ours",
    "step-16x1024-hybrid-torch": "the same in PyTorch, its delta rule as transformers finds it: flash-linear-attention, or PyTorch",
    "step-1x16384": "training steps of one sequence of 16,384 tokens, bf16, ours; everything is kept",
    "step-1x16384-selective": "the same with selective activation checkpointing",
    "step-1x16384-full": "the same with full activation checkpointing",
    "step-1x16384-torch": "the same in PyTorch with full activation checkpointing",
    "largest": "Qwen3-8B's shape, random weights, all of it trained: two steps of 8 sequences of 1024 tokens, 8-bit moments",
    "sample": "batch 64, 512 + 512 tokens, bf16, ours",
    "sample-filtered": "the same with top-k 20, top-p 0.95 and a repetition penalty",
    "sample-hybrid": "`sample` with Qwen3.5-0.8B's shape",
    "sample-256x512": "batch 256, 512 + 128 tokens, ours",
    "sample-256x64": "batch 256, 64 + 128 tokens, ours",
    "sample-long": "batch 48, 15,872 + 256 tokens, ours",
    "sample-one": "one sequence, 512 + 512 tokens, ours",
    "sample-yardstick": "nano-vllm's bench: 256 requests of 100 to 1,024 tokens in and out, the lengths of its seed, ours",
    "sample-torch": "`sample` by transformers' generate with a static cache",
    "attention-torch": "SDPA of PyTorch, causal, 16 heads of 128: each backend, also with sums in a fixed order",
    "kernels-step": "the kernels of a training step of 8 sequences of 1024 tokens by time, by Nsight Compute (ncu)",
    "kernels-step-hybrid": "the same of Qwen3.5-0.8B's shape",
    "kernels-sample": "the same of 64 prompts of 512 tokens and 4 decoding steps",
}

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("stages", nargs="*", metavar="STAGE")
parser.add_argument("--device", default="cuda:0")
parser.add_argument("--binaries", type=Path, default=Path("target/release"))
parser.add_argument("--cache", type=Path, default=Path("target/bench"))
parser.add_argument("--out", type=Path)
parser.add_argument("--units", type=int, default=8, help="most units of a stage that are counted")
parser.add_argument("--list", action="store_true")
args = parser.parse_args()


def say(row):
    line = json.dumps(row)
    print(line, flush=True)
    if args.out:
        with args.out.open("a") as file:
            file.write(line + "\n")


def run(command, timeout=LIMIT):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=timeout)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}: {done.stderr.strip()[-2000:]}")
    return done.stdout


def model(name="qwen3_0_6b"):
    """The directory of a random model, made when it is first needed."""
    directory = args.cache / name
    if not (directory / "model.safetensors").exists():
        run([sys.executable, BENCH.parent / "scripts" / f"make_{name}.py", directory])
    return directory


def units(command, warm=2, most=None):
    """Units of a worker, `most` or until the stage's time is used up; those after the warm-up."""
    start = time.monotonic()
    worker = subprocess.Popen([str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        ready = json.loads(worker.stdout.readline() or '{"ready": false}')
        if not ready["ready"]:
            raise RuntimeError(f"{command[0]} did not start")
        done = []
        for _ in range(warm + (most or args.units)):
            longest = max([0.0] + [unit["seconds"] for unit in done])
            if len(done) > warm and time.monotonic() - start + longest > 0.8 * LIMIT:
                break
            worker.stdin.write("\n")
            worker.stdin.flush()
            line = worker.stdout.readline()
            if not line:
                raise RuntimeError(f"{command[0]} ended after {len(done)} units")
            done.append(json.loads(line))
        return ready["worker"], done[warm:]
    finally:
        worker.stdin.close()
        worker.wait(timeout=60)


def rate(dtype, n=8192):
    """Best of 20 products, in operations a second: 2 n^3 over the time."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    a, b = (torch.randn(n, n, device="cuda").to(dtype) for _ in range(2))
    best = float("inf")
    for _ in range(20):
        torch.cuda.synchronize()
        start = time.perf_counter()
        a @ b
        torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start)
    return 2 * n**3 / best


def copy_rate(size=2 << 30):
    """Best of 20 copies on the card, in bytes a second that are read or written."""
    import torch

    a, b = (torch.zeros(size, dtype=torch.uint8, device="cuda") for _ in range(2))
    best = float("inf")
    for _ in range(20):
        torch.cuda.synchronize()
        start = time.perf_counter()
        a.copy_(b)
        torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start)
    return 2 * size / best


def measured_rates():
    """The card's rates, measured once: shares of different stages are of the same numbers."""
    path = args.cache / "gpu-rate.json"
    if not path.exists() or "copy" not in json.loads(path.read_text()):
        run([sys.executable, __file__, "rate", "--cache", args.cache])
    return json.loads(path.read_text())


def memory(done):
    """Bytes on the device: planned, in buffers at most, and taken as the driver counts."""
    names = ["planned_bytes", "device_memory_bytes", "device_taken_bytes"]
    return {name: max(unit.get(name, 0) for unit in done) for name in names}


def speed(stage, command, **counts):
    worker, done = units(command, **counts)
    seconds = statistics.median(unit["seconds"] for unit in done)
    row = {
        "stage": stage,
        "worker": worker,
        "tokens_per_second": done[0]["tokens"] / seconds,
        "seconds": seconds,
        "units": len(done),
        **memory(done),
    }
    # Operations as bench/src/flops.rs counts them: 2 W rows + 2 V D scored + 4 layers heads head_dim pairs, three times in
    # training; nothing that is computed again counts.
    if "flops" in done[0]:
        row["flops"] = done[0]["flops"]
        row["share_of_measured_rate"] = done[0]["flops"] / seconds / measured_rates()["bf16"]
    # What a sampler can't do without: reading the weights in each step, and the keys and values of all tokens before, at the
    # rate of copies; and the products of the prompts.
    if "kv_bytes" in done[0]:
        rates, one = measured_rates(), done[0]
        bound = (one["bytes"] + one["kv_bytes"]) / rates["copy"] + one["prompt_flops"] / rates["bf16"]
        row["bound_seconds"], row["share_of_bound"] = bound, bound / seconds
    row.update({"notice": unit["notice"] for unit in done if "notice" in unit})
    say(row)


def stage_attention(stage, heads=16, head_dim=128, rounds=10):
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention as sdpa

    def seconds(work):
        times = []
        for _ in range(rounds + 2):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            work()
            end.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(end) / 1e3)
        return statistics.median(times[2:])

    for batch, length in [(1, 16384), (16, 1024)]:
        size = (batch, heads, length, head_dim)
        q, k, v, d = (torch.randn(size, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(4))
        operations = 4 * batch * heads * head_dim * length * (length + 1) / 2
        for fixed in (False, True):
            torch.use_deterministic_algorithms(fixed)
            for backend in (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION):
                row = {"stage": stage, "backend": backend.name, "batch": batch, "length": length, "fixed_order": fixed}
                try:
                    with sdpa_kernel(backend):
                        forward = seconds(lambda: sdpa(q, k, v, is_causal=True))
                        out = sdpa(q, k, v, is_causal=True)
                        backward = seconds(lambda: torch.autograd.grad(out, (q, k, v), d, retain_graph=True))
                except RuntimeError as error:
                    say({**row, "failed": str(error).splitlines()[0]})
                    continue
                say({**row, "forward_seconds": forward, "backward_seconds": backward,
                     "forward_tflops": operations / forward / 1e12, "backward_tflops": 2.5 * operations / backward / 1e12})


def kernels(stage, command, shown=30):
    """The kernels of one unit, those that take longest first. Each is timed by itself, with caches as they are."""
    ncu = ["ncu", "--metrics", "gpu__time_duration.sum", "--clock-control", "none", "--cache-control", "none", "--csv"]
    command = [str(part) for part in [*ncu, *command]]
    done = subprocess.run(command, input="\n", capture_output=True, text=True, timeout=LIMIT)
    lines = [line for line in done.stdout.splitlines() if line.startswith('"')]
    if not lines:
        raise RuntimeError(f"ncu measured nothing: {done.stderr.strip()[-2000:]}")
    microseconds = {"ns": 1e-3, "us": 1.0, "ms": 1e3}
    totals = {}
    for row in csv.DictReader(lines):
        # Older versions write nsecond, usecond, msecond.
        time_of = float(row["Metric Value"].replace(",", "")) * microseconds[row["Metric Unit"].replace("second", "s")]
        launches, total = totals.get(row["Kernel Name"], (0, 0.0))
        totals[row["Kernel Name"]] = (launches + 1, total + time_of)
    say({"stage": stage, "launches": sum(n for n, _ in totals.values()), "milliseconds": sum(t for _, t in totals.values()) / 1e3})
    for name, (launches, total) in sorted(totals.items(), key=lambda item: -item[1][1])[:shown]:
        say({"stage": stage, "kernel": name[:80], "launches": launches, "milliseconds": total / 1e3})


def stage_compare(stage):
    for line in run([args.binaries / "burnish-bench", "gpu", BENCH.parent / "models" / "starter", "--device", args.device]).splitlines():
        say({"stage": stage, **json.loads(line)})


def stage_quickstart(stage):
    directory = args.cache / f"gpu-quickstart-{int(time.time())}"
    start = time.monotonic()
    recipe = BENCH.parent / "recipes" / "quickstart.toml"
    policy = BENCH.parent / "models" / "starter"
    run([args.binaries / "burnish", "train", recipe, f"device={args.device}", f"run.dir={directory}", f"policy.path={policy}",
         "train.max_steps=40", "eval.tasks=100"])
    seconds = time.monotonic() - start
    rows = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    steps = [row for row in rows if row["event"] == "train"]
    say({
        "stage": stage, "seconds": seconds, "steps": len(steps),
        "median_step_seconds": statistics.median(row["step_time"] for row in steps),
        "reward_first": steps[0]["reward"], "reward_last": steps[-1]["reward"],
        "largest_logp_difference": max(row.get("sampling/sampling_logp_difference/max", 0.0) for row in steps),
    })


def stage_grpo(stage):
    directory = args.cache / f"gpu-grpo-{int(time.time())}"
    # Random weights earn nothing, so the bonus for entropy is what there is to learn.
    run([args.binaries / "burnish", "train", BENCH.parent / "recipes" / "quickstart.toml", f"device={args.device}",
         f"run.dir={directory}", f"policy.path={model()}", "policy.precision=bf16", "train.max_steps=5", "rollout.tokens_max=512",
         "train.micro_batch_tokens=16384", "loss.entropy_coef=0.001", "eval.every=0", "eval.tasks=1", "checkpoint.every=0"])
    rows = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    steps = [row for row in rows if row["event"] == "train"][1:]
    seconds = statistics.median(row["step_time"] for row in steps)
    say({"stage": stage, "median_step_seconds": seconds, "steps": len(steps),
         "sampled_tokens_per_second": statistics.median(row["tokens/sampled"] for row in steps) / seconds,
         "tokens_per_second": statistics.median(row["tokens/total"] for row in steps) / seconds})


def stage_largest(stage):
    directory = args.cache / "qwen3-8b"
    directory.mkdir(parents=True, exist_ok=True)
    config = dict(
        architectures=["Qwen3ForCausalLM"], model_type="qwen3", attention_bias=False, head_dim=128, hidden_act="silu",
        hidden_size=4096, initializer_range=0.02, intermediate_size=12_288, max_position_embeddings=40_960,
        num_attention_heads=32, num_hidden_layers=36, num_key_value_heads=8, rms_norm_eps=1e-6, rope_theta=1_000_000,
        tie_word_embeddings=False, torch_dtype="bfloat16", vocab_size=151_936,
    )
    (directory / "config.json").write_text(json.dumps(config))
    start = time.monotonic()
    worker, done = units([args.binaries / "burnish-bench", "worker", "step", directory, "--bf16", "--device", args.device,
                          "--random", "--eight-bit", "--batch", "8", "--length", "1024", "--checkpointing", "selective",
                          "--threads", str(os.cpu_count())], warm=0, most=2)
    row = {"stage": stage, "worker": worker, "stage_seconds": time.monotonic() - start, "seconds": done[-1]["seconds"],
           "tokens_per_second": done[-1]["tokens"] / done[-1]["seconds"], "losses": [unit["loss"] for unit in done], **memory(done)}
    row["planned_share"] = row["planned_bytes"] / row["device_memory_bytes"] if row["device_memory_bytes"] else None
    say(row)


def stage_rate(stage):
    import torch

    rates = {"bf16": rate(torch.bfloat16), "f32": rate(torch.float32), "copy": copy_rate()}
    args.cache.mkdir(parents=True, exist_ok=True)
    (args.cache / "gpu-rate.json").write_text(json.dumps(rates))
    say({"stage": stage, "card": torch.cuda.get_device_name(), "torch": torch.__version__, **rates})


def ours(kind, *flags, name="qwen3_0_6b"):
    return [args.binaries / "burnish-bench", "worker", kind, model(name), "--bf16", "--device", args.device, *flags]


def torchs(script, *flags, name="qwen3_0_6b"):
    return [sys.executable, BENCH / "peers" / script, model(name), "--bf16", "--device", "cuda", *flags]


def yardstick():
    """The lengths of nano-vllm's bench.py: Python's generator, seeded with 0, draws prompts (length, then ids), then answers."""
    path = args.cache / "yardstick.json"
    draw = random.Random(0).randint
    prompts = [len([draw(0, 10000) for _ in range(draw(100, 1024))]) for _ in range(256)]
    args.cache.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([[prompt, draw(100, 1024)] for prompt in prompts]))
    return path


def sample(batch, prompt, new):
    return ours("sample", "--batch", batch, "--prompt", prompt, "--new", new)


HYBRID = "qwen3_5_0_8b"
SHORT = ["--batch", "16", "--length", "1024"]
LONG = ["--batch", "1", "--length", "16384"]
LONG_ROWS = [*LONG, "--micro-batch", "16384", "--checkpointing"]
SAMPLES = ["--batch", "64", "--prompt", "512", "--new", "512"]
RUNS = {
    "compare": stage_compare,
    "quickstart": stage_quickstart,
    "grpo": stage_grpo,
    "rate": stage_rate,
    "step-16x1024": lambda stage: speed(stage, ours("step", *SHORT)),
    "step-16x1024-torch": lambda stage: speed(stage, torchs("train_step.py", *SHORT)),
    "step-16x1024-hybrid": lambda stage: speed(stage, ours("step", *SHORT, name=HYBRID)),
    "step-16x1024-hybrid-torch": lambda stage: speed(stage, torchs("train_step.py", *SHORT, name=HYBRID)),
    "step-1x16384": lambda stage: speed(stage, ours("step", *LONG_ROWS, "off")),
    "step-1x16384-selective": lambda stage: speed(stage, ours("step", *LONG_ROWS, "selective")),
    "step-1x16384-full": lambda stage: speed(stage, ours("step", *LONG_ROWS, "full")),
    "step-1x16384-torch": lambda stage: speed(stage, torchs("train_step.py", *LONG, "--checkpointing")),
    "largest": stage_largest,
    "sample": lambda stage: speed(stage, ours("sample", *SAMPLES)),
    "sample-filtered": lambda stage: speed(stage, ours("sample", *SAMPLES, "--filtered")),
    "sample-hybrid": lambda stage: speed(stage, ours("sample", *SAMPLES, name=HYBRID)),
    "sample-256x512": lambda stage: speed(stage, sample(256, 512, 128)),
    "sample-256x64": lambda stage: speed(stage, sample(256, 64, 128)),
    "sample-long": lambda stage: speed(stage, sample(48, 15872, 256), warm=1, most=1),
    "sample-one": lambda stage: speed(stage, sample(1, 512, 512)),
    "sample-yardstick": lambda stage: speed(stage, ours("sample", "--requests", yardstick())),
    "sample-torch": lambda stage: speed(stage, torchs("sample.py", *SAMPLES)),
    "attention-torch": stage_attention,
    "kernels-step": lambda stage: kernels(stage, ours("step", "--batch", "8", "--length", "1024")),
    "kernels-step-hybrid": lambda stage: kernels(stage, ours("step", "--batch", "8", "--length", "1024", name=HYBRID)),
    "kernels-sample": lambda stage: kernels(stage, sample(64, 512, 4)),
}
assert RUNS.keys() == STAGES.keys()

if args.list:
    for stage, what in STAGES.items():
        print(f"{stage:26} {what}")
    sys.exit()
unknown = [stage for stage in args.stages if stage not in STAGES]
if unknown:
    sys.exit(f"gpu.py: no stage {unknown[0]}; there are {', '.join(STAGES)}")
failed = False
for stage in args.stages or STAGES:
    try:
        RUNS[stage](stage)
    except (RuntimeError, OSError, subprocess.TimeoutExpired, ImportError, KeyError, IndexError) as error:
        failed = True
        say({"stage": stage, "failed": f"{type(error).__name__}: {error}"})
sys.exit(1 if failed else 0)
