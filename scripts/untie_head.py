#!/usr/bin/env python3
"""Copies a model directory and gives the copy an output head of its own, in f32; it computes the same.

    python untie_head.py MODEL_DIR OUT

Needs torch and safetensors. vLLM for the CPU does not renew a head that is the embedding (docs/scale.md).
"""
import argparse
import json
import shutil
from pathlib import Path

from safetensors.torch import load_file, save_file


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    shutil.copytree(arguments.model, arguments.out)
    file = arguments.out / "model.safetensors"
    tensors = {name: tensor.float() for name, tensor in load_file(file).items()}
    tensors.setdefault("lm_head.weight", tensors["model.embed_tokens.weight"].clone())
    save_file(tensors, file, metadata={"format": "pt"})
    config = json.loads((arguments.out / "config.json").read_text())
    config.update(tie_word_embeddings=False, dtype="float32")
    config.pop("torch_dtype", None)
    (arguments.out / "config.json").write_text(json.dumps(config, indent=2) + "\n")


if __name__ == "__main__":
    main()
