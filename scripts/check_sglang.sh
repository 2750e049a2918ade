#!/usr/bin/env bash
# Checks burnish's client against a real SGLang, which needs a GPU: log-probs of three steps agree, and so do greedy
# answers.
#
#   scripts/check_sglang.sh PYTHON_WITH_SGLANG [PORT]
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1 port=${2:-30000}
work=$(mktemp -d)
cleanup() { [ -z "${server:-}" ] || kill "$server" || true; rm -rf "$work"; }
trap cleanup EXIT

# A small policy in f32 whose head is its own.
cargo run --locked --release --quiet -- train recipes/starter.toml run.dir="$work/run" train.max_steps=20 eval.tasks=0 \
  policy.new.tie_word_embeddings=false policy.new.dtype=f32
model=$work/run/checkpoints/step_20

"$python" -m sglang.launch_server --model-path "$model" --port "$port" --dtype float32 \
  --enable-deterministic-inference >"$work/log" 2>&1 &
server=$!
until curl -sf "http://127.0.0.1:$port/model_info" >/dev/null; do
  kill -0 "$server" || { cat "$work/log"; exit 1; }
  sleep 2
done
BURNISH_SGLANG=http://127.0.0.1:$port BURNISH_SGLANG_MODEL=$model \
  cargo test --locked --release -p burnish --test it sglang:: -- --show-output
