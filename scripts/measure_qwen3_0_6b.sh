#!/usr/bin/env bash
# Seconds and peak memory of single steps on a model directory of Qwen3-0.6B's shape (make_qwen3_0_6b.py):
# GRPO on an adapter (2 prompts x 2 rollouts of about 256 + 64 tokens), and SFT of every parameter on as much text.
#
#   scripts/measure_qwen3_0_6b.sh MODEL_DIR [BURNISH]        one JSON line a row
set -euo pipefail
model=$(realpath "$1")
burnish=$(realpath "${2:-target/release/burnish}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# Two prompts of some 250 words that are one token each, and answers of 64.
python3 - <<'PYTHON'
import json
words = "the robot moves up down left right and waits one step then goes on to the goal".split()
text = lambda count, start: " ".join(words[(start + at * 7) % len(words)] for at in range(count))
with open("prompts.jsonl", "w") as file:
    for start in range(2):
        file.write(json.dumps({"prompt": [{"role": "user", "content": text(244, start)}]}) + "\n")
with open("conversations.jsonl", "w") as file:
    for start in range(4):
        user = {"role": "user", "content": text(244, start % 2)}
        file.write(json.dumps({"messages": [user, {"role": "assistant", "content": text(63, start)}]}) + "\n")
PYTHON
# Any reward that differs between rollouts: the share of letters.
cat > verifier.py <<'PYTHON'
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    text = request["completion"]
    share = sum(c.isascii() and c.isalpha() for c in text) / max(len(text), 1)
    print(json.dumps({"id": request["id"], "reward": share}), flush=True)
PYTHON
cat > common.toml <<TOML
[policy]
path = "$model"
[env]
id = "rows"
tasks = 2
[env.config]
path = "prompts.jsonl"
verifier = { command = ["python3", "verifier.py"] }
[eval]
tasks = 0
[optimizer]
learning_rate = 1e-5
TOML
{ cat common.toml; cat <<'TOML'
[run]
dir = "grpo"
[train]
method = "grpo"
max_steps = 2
[rollout]
tasks_per_step = 2
group_size = 2
tokens_max = 64
TOML
} > grpo.toml
{ cat common.toml; cat <<'TOML'
[run]
dir = "sft"
[train]
method = "sft"
max_steps = 2
sequences_per_step = 4
[data]
path = "conversations.jsonl"
TOML
} > sft.toml

measure() {
  local work=$1 recipe=$2; shift 2
  rm -rf grpo sft
  /usr/bin/time -f %M -o peak "$burnish" train "$recipe" "$@" > log 2>&1 || { cat log >&2; exit 1; }
  python3 - "$work" "$(tail -1 peak)" "${recipe%.toml}/metrics.jsonl" <<'PYTHON'
import json, sys
work, peak, path = sys.argv[1:]
steps = [row for row in map(json.loads, open(path)) if row["event"] == "train"]
row = {"work": work, "seconds": [round(step["step_time"], 1) for step in steps], "peak_gib": round(int(peak) / 2**20, 2)}
for key in ["tokens/total", "tokens/trained", "grad_norm", "sampling/sampling_logp_difference/mean"]:
    if key in steps[-1]:
        row[key] = steps[-1][key]
print(json.dumps(row), flush=True)
PYTHON
}
for precision in f32 bf16; do
  lora="policy.lora={rank=16,alpha=32}"
  measure "LoRA GRPO step, $precision" grpo.toml "$lora" "policy.precision=$precision"
  measure "full SFT step, $precision" sft.toml "policy.precision=$precision"
  measure "full SFT step, $precision, activation checkpointing" sft.toml "policy.precision=$precision" train.activation_checkpointing=true
done
