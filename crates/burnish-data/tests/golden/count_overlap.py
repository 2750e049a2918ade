"""Rows of gsm8k's training file that share 13, or 8, words in a row with its test file: an implementation of its
own, with sets of tuples instead of hashes.

Plain Python 3: python3 count_overlap.py ../../../../../shared/data/gsm8k > gsm8k_overlap.json
"""

import collections
import gzip
import json
import sys

SHARED_MAX = 10


def words(text):
    stripped = ("".join(c.lower() for c in chunk if c.isalnum()) for chunk in text.split())
    return [word for word in stripped if word]


def runs(row, n):
    found = set()
    for column in ("question", "answer"):
        own = words(row[column])
        found |= {tuple(own[at : at + n]) for at in range(len(own) - n + 1)}
    return found


folder = sys.argv[1]
train = [json.loads(line) for line in gzip.open(folder + "/train.jsonl.gz", "rt")]
test = [json.loads(line) for line in open(folder + "/test.jsonl")]
counts = {}
for n in (13, 8):
    rows_of = collections.Counter(run for row in test for run in runs(row, n))
    counted = {run for run, rows in rows_of.items() if rows <= SHARED_MAX}
    short = {tuple(words(row["question"])) for row in test if len(words(row["question"])) < n}
    overlapping = [bool(runs(row, n) & counted) or tuple(words(row["question"])) in short for row in train]
    counts[n] = sum(overlapping)
print(json.dumps(counts))
