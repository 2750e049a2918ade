"""Checks what docs/coming-from-trl.md or docs/coming-from-verl.md says of the other side's keys and defaults.

    python docs/examples/check_keys.py trl             # needs trl 1.16
    python docs/examples/check_keys.py verl            # needs verl 0.9.1
"""

import re
import sys
from pathlib import Path

DOCS = Path(__file__).parent.parent


def of_trl():
    import dataclasses

    from trl import GRPOConfig

    missing = dataclasses.MISSING
    return {
        field.name: field.default if field.default_factory is missing else field.default_factory()
        for field in dataclasses.fields(GRPOConfig)
    }


def of_verl():
    import importlib.util

    import yaml

    folder = Path(importlib.util.find_spec("verl").origin).parent / "trainer/config"
    keys = {}

    def flatten(table, prefix):
        for name, value in table.items():
            keys[prefix + name] = value
            if isinstance(value, dict):
                flatten(value, f"{prefix}{name}.")

    flatten(yaml.safe_load((folder / "_generated_ppo_trainer.yaml").read_text()), "")
    return keys


def parsed(text):
    """A default as the page writes it: of Python or of YAML."""
    if text in ("None", "null"):
        return None
    if text in ("True", "False", "true", "false"):
        return text.lower() == "true"
    try:
        return float(text)
    except ValueError:
        return text.strip("\"'")


def normal(value):
    """YAML reads `1e-6` as a text."""
    return parsed(str(value)) if not isinstance(value, (list, dict)) else str(value)


side = sys.argv[1]
known = {"trl": of_trl, "verl": of_verl}[side]()
page = (DOCS / f"coming-from-{side}.md").read_text()
wrong, compared = [], 0
for table in page.split("<!-- keys -->")[1:]:
    for line in table.split("<!-- end -->")[0].splitlines():
        cells = [re.findall(r"`([^`]*)`", cell) for cell in line.strip("|").split("|")]
        if len(cells) < 4 or not cells[0]:
            continue
        keys, defaults = cells[:2]
        wrong += [f"{key}: no such key" for key in keys if key not in known]
        if defaults and len(keys) != len(defaults):
            wrong.append(f"{keys}: {len(defaults)} defaults")
        for key, said in zip(keys, defaults):
            compared += 1
            if key in known and normal(known[key]) != parsed(said):
                wrong.append(f"{key}: is {known[key]!r}, not {said}")
print("\n".join(wrong) or f"{compared} defaults of {side} are as the page says")
sys.exit(bool(wrong))
