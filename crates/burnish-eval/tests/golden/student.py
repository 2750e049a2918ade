"""Student's t distribution by scipy: `python3 student.py > student.json`.

Rows: degrees of freedom, t, P(|T| > t), p, the quantile of p.
"""
import json

from scipy.stats import t

rows = [
    [freedom, at, 2 * t.sf(at, freedom), p, t.ppf(p, freedom)]
    for freedom in (1, 2, 3, 4, 5, 7, 9, 10, 19, 30, 99)
    for at, p in ((0.1, 0.55), (1.0, 0.8), (2.5, 0.975), (4.0, 0.99), (12.0, 0.9995))
]
print("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]")
