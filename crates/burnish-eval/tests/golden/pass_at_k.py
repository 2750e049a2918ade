"""Golden values of pass@k (Chen et al. 2021, arXiv:2107.03374, equation 1), by exact fractions.

    python3 pass_at_k.py > pass_at_k.json

Needs Python 3.8 only. Each row is [n, c, k, pass@k]. The binomial coefficients are computed as they stand in the
paper; for small n the value is checked by listing every choice of k among n samples.
"""
import itertools, json
from fractions import Fraction
from math import comb


def pass_at_k(n, c, k):
    return 1 - Fraction(comb(n - c, k), comb(n, k))


def by_listing(n, c, k):
    choices = list(itertools.combinations(range(n), k))
    return Fraction(sum(any(sample < c for sample in choice) for choice in choices), len(choices))


rows = []
for n in range(1, 8):
    for c in range(n + 1):
        for k in range(1, n + 1):
            assert pass_at_k(n, c, k) == by_listing(n, c, k)
            rows.append((n, c, k))
for n in (16, 64, 200, 1024, 10000):
    for c in (0, 1, 3, n // 7, n // 2, n - 2, n):
        for k in (1, 2, 8, n // 3, n):
            rows.append((n, c, k))
print("[")
print(",\n".join(json.dumps([n, c, k, float(pass_at_k(n, c, k))]) for n, c, k in sorted(set(rows))))
print("]")
