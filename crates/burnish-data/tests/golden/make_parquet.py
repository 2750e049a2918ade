"""Parquet files as their owners write them, and what is in them as JSON.

Needs pyarrow, pandas, datasets: python make_parquet.py
Each NAME.parquet gets a NAME.jsonl with the same rows, made from what pyarrow reads back. `datasets` decides
itself how to write (`Dataset.to_parquet`); the others vary compression, row groups, encodings and types.
"""

import datetime
import decimal
import json
import os

import datasets
import pandas
import pyarrow
import pyarrow.parquet as pq

HERE = os.path.dirname(os.path.abspath(__file__))


def as_json(value, kind):
    """The documented form of a value of an Arrow type."""
    if value is None:
        return None
    if pyarrow.types.is_dictionary(kind):
        return as_json(value, kind.value_type)
    if pyarrow.types.is_struct(kind):
        return {field.name: as_json(value[field.name], field.type) for field in kind}
    if pyarrow.types.is_map(kind):
        return {key if isinstance(key, str) else json.dumps(key): as_json(v, kind.item_type) for key, v in value}
    if pyarrow.types.is_list(kind) or pyarrow.types.is_large_list(kind) or pyarrow.types.is_fixed_size_list(kind):
        return [as_json(item, kind.value_type) for item in value]
    if pyarrow.types.is_timestamp(kind):
        nanos = getattr(value, "nanosecond", 0)
        text = value.strftime("%Y-%m-%dT%H:%M:%S")
        fraction = value.microsecond * 1000 + nanos
        if fraction:
            digits = 3 if fraction % 1_000_000 == 0 else 6 if fraction % 1000 == 0 else 9
            text += f".{fraction:09d}"[: digits + 1]
        return text + ("Z" if kind.tz else "")
    if isinstance(value, (datetime.date, datetime.time)):
        text = value.isoformat()
        return text
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value.hex()
    if pyarrow.types.is_float32(kind):
        value = float(f"{value:.9g}") if value == value else value
        import struct

        # The shortest decimal form of a 32-bit float.
        for digits in range(1, 10):
            shorter = float(f"{value:.{digits}g}")
            if struct.pack("f", shorter) == struct.pack("f", value):
                value = shorter
                break
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return value


def describe(name):
    table = pq.read_table(os.path.join(HERE, name + ".parquet"))
    with open(os.path.join(HERE, name + ".jsonl"), "w") as out:
        for row in table.to_pylist():
            row = {field.name: as_json(row[field.name], field.type) for field in table.schema}
            out.write(json.dumps(row, ensure_ascii=False) + "\n")


def write(name, table, **options):
    pq.write_table(table, os.path.join(HERE, name + ".parquet"), **options)
    describe(name)


def conversation(n):
    messages = [{"role": "user", "content": f"What is {n} + {n}?"}]
    if n % 3 == 1:
        messages.insert(0, {"role": "system", "content": "Be brief."})
    messages.append({"role": "assistant", "content": str(2 * n)})
    return messages


# What `datasets` writes: list<struct<role, content>>, with tool calls in some rows, so that others get nulls.
calls = [
    {"role": "user", "content": "Weather in Köln?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"type": "function", "function": {"name": "weather", "arguments": {"city": "Köln"}}}],
    },
    {"role": "tool", "name": "weather", "content": "rain"},
    {"role": "assistant", "content": "It rains."},
]
rows = {"messages": [conversation(n) for n in range(7)] + [calls, []], "source": ["a", None] * 4 + ["b"]}
datasets.Dataset.from_dict(rows).to_parquet(os.path.join(HERE, "datasets_messages.parquet"), batch_size=4)
describe("datasets_messages")

# verl's columns, as its preprocessing scripts write them.
verl = [
    {
        "data_source": "openai/gsm8k",
        "prompt": [{"content": f"How much is {n} and {n}?", "role": "user"}],
        "ability": "math",
        "reward_model": {"ground_truth": str(2 * n), "style": "rule"},
        "extra_info": {"answer": f"... #### {2 * n}", "index": n, "split": "train"},
    }
    for n in range(5)
]
datasets.Dataset.from_list(verl).to_parquet(os.path.join(HERE, "datasets_verl.parquet"))
describe("datasets_verl")

# Preference rows with an implicit prompt.
pairs = [
    {"chosen": conversation(n), "rejected": conversation(n)[:-1] + [{"role": "assistant", "content": "no"}]}
    for n in range(4)
]
datasets.Dataset.from_list(pairs).to_parquet(os.path.join(HERE, "datasets_preference.parquet"))
describe("datasets_preference")

# pandas with its index, snappy.
frame = pandas.DataFrame({"question": ["1+1?", "2+2?", "3+3?"], "answer": ["2", "4", None], "level": [1, 2, 3]})
frame.index = [5, 6, 7]
frame.to_parquet(os.path.join(HERE, "pandas_snappy.parquet"))
describe("pandas_snappy")

# The three compressions, several row groups, large strings, data pages of both versions.
plain = pyarrow.table(
    {
        "prompt": pyarrow.array([f"Say {n} in words." for n in range(25)], pyarrow.large_string()),
        "answer": pyarrow.array([None if n % 7 == 3 else f"answer {n % 4}" for n in range(25)]).dictionary_encode(),
        "extra_info": [{"index": n, "tags": ["x"] * (n % 3) if n % 5 else None} for n in range(25)],
    }
)
write("none_groups", plain, compression="none", row_group_size=10)
write("zstd_groups", plain, compression="zstd", row_group_size=7, data_page_version="2.0")
write("gzip_plain", plain, compression="gzip", use_dictionary=False)

# Types.
moment = datetime.datetime(2024, 2, 29, 12, 34, 56, 789000)
utc = datetime.timezone.utc
types = pyarrow.table(
    {
        "prompt": ["p", "q", "r"],
        "i8": pyarrow.array([-1, None, 127], pyarrow.int8()),
        "u64": pyarrow.array([2**64 - 1, 0, None], pyarrow.uint64()),
        "i64": pyarrow.array([-(2**53) - 1, 2**62, None], pyarrow.int64()),
        "f16": pyarrow.array([0.5, None, -2.25], pyarrow.float16()),
        "f32": pyarrow.array([0.1, float("nan"), 16777216.0], pyarrow.float32()),
        "f64": pyarrow.array([0.1, float("inf"), -1e-300], pyarrow.float64()),
        "bool": [True, None, False],
        "text": ["", None, "line\nbreak \u2028 \U0001f600"],
        "bytes": pyarrow.array([b"plain", b"\xff\x00", None], pyarrow.binary()),
        "date": pyarrow.array([datetime.date(1969, 12, 31), None, datetime.date(2024, 2, 29)], pyarrow.date32()),
        "time_ms": pyarrow.array([datetime.time(1, 2, 3), None, datetime.time(23, 59, 59)], pyarrow.time32("ms")),
        "time_us": pyarrow.array([datetime.time(1, 2, 3, 4), None, datetime.time(0, 0)], pyarrow.time64("us")),
        "ts_ms": pyarrow.array([moment, None, datetime.datetime(1960, 1, 1)], pyarrow.timestamp("ms")),
        "ts_us_utc": pyarrow.array([moment, None, moment], pyarrow.timestamp("us", "UTC")),
        "ts_ns": pyarrow.array([1709210096789000123, None, 0], pyarrow.timestamp("ns")),
        "decimal": pyarrow.array([decimal.Decimal("12.340"), None, decimal.Decimal("-0.001")], pyarrow.decimal128(9, 3)),
        "nested": pyarrow.array([[[1, None], []], None, [None, [2]]], pyarrow.list_(pyarrow.list_(pyarrow.int32()))),
        "map": pyarrow.array([[("a", 1), ("b", None)], None, []], pyarrow.map_(pyarrow.string(), pyarrow.int32())),
        "struct": [{"a": {"b": None}}, None, {"a": {"b": [True]}}],
    }
)
write("types", types)
write("types_old_lists", types.select(["prompt", "nested", "struct"]), use_compliant_nested_type=False)

# No rows at all.
write("empty", plain.slice(0, 0))
