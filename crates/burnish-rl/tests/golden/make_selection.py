"""Golden numbers of beliefs about success rates: the digamma function, Beta-binomial outcomes, information, quantiles.

    python make_selection.py             # needs mpmath; writes selection.json

`digamma`: mpmath's function. `information`: InSight's closed form as printed (card: H_seq - K E[h]), with 40 digits, and
`integral`: the same by numerical integration of its definition, sum_k int p(phi) P(k|phi) ln(P(k|phi) / P(k)) dphi,
where the density is bounded. `outcomes`: the Beta-binomial distribution by ln Gamma. `cdf`: the regularised incomplete beta
function at some rates.
"""

import json
from pathlib import Path

from mpmath import beta, betainc, binomial, digamma, loggamma, exp, log, mp, mpf, quad

mp.dps = 40

POINTS = ["1e-6", "1e-3", "0.1", "0.5", "1", "1.4616321449683623", "2", "3.25", "9.99", "10", "10.01", "50", "1000", "1e6", "1e9"]
BELIEFS = [
    ("1", "1"), ("2", "5"), ("50", "50"), ("0.000001", "1"), ("0.3", "0.7"), ("1", "9"), ("9.5", "3.25"), ("17", "1"), ("400", "3"),
    ("1e6", "1e6"), ("3e8", "7"),
]
ROLLOUTS = [1, 2, 8, 16]


def number(value):
    return float(mp.nstr(value, 18))


def entropy(p):
    return -p * log(p) - (1 - p) * log(1 - p) if 0 < p < 1 else mpf(0)


def log_beta(a, b):
    return loggamma(a) + loggamma(b) - loggamma(a + b)


def outcomes(a, b, rollouts):
    return [binomial(rollouts, k) * exp(log_beta(a + k, b + rollouts - k) - log_beta(a, b)) for k in range(rollouts + 1)]


def expected_entropy(a, b):
    n = a + b
    return -a / n * (digamma(a + 1) - digamma(n + 1)) - b / n * (digamma(b + 1) - digamma(n + 1))


def information(a, b, rollouts):
    """H_seq - K E[h]."""
    sequences = [log_beta(a + k, b + rollouts - k) - log_beta(a, b) for k in range(rollouts + 1)]
    whole = -sum(binomial(rollouts, k) * exp(ln) * ln for k, ln in enumerate(sequences))
    return whole - rollouts * expected_entropy(a, b)


def integral(a, b, rollouts):
    """The definition of mutual information, without ψ and without ln Γ."""
    norm = beta(a, b)
    total = mpf(0)
    for k in range(rollouts + 1):
        chance = outcomes(a, b, rollouts)[k] / binomial(rollouts, k)

        def density(p):
            if p <= 0 or p >= 1:
                return mpf(0)
            of_k = p**k * (1 - p) ** (rollouts - k)
            return p ** (a - 1) * (1 - p) ** (b - 1) / norm * of_k * log(of_k / chance)

        total += binomial(rollouts, k) * quad(density, [0, 0.05, 0.3, 0.5, 0.7, 0.95, 1])
    return total


def main():
    cases = []
    for a, b in [(mpf(a), mpf(b)) for a, b in BELIEFS]:
        for rollouts in ROLLOUTS:
            mp.dps = 60
            case = dict(
                alpha=number(a),
                beta=number(b),
                rollouts=rollouts,
                information=number(information(a, b, rollouts)),
                expected_entropy=number(expected_entropy(a, b)),
                outcomes=[number(p) for p in outcomes(a, b, rollouts)],
            )
            mp.dps = 40
            if rollouts <= 2 and 1 <= a <= 50 and b >= 1:
                mp.dps = 20
                case["integral"] = number(integral(a, b, rollouts))
            cases.append(case)
    draws = []
    for a, b in [(1, 1), (2, 5), (0.3, 0.7), (40, 12)]:
        cdf = [[p, number(betainc(a, b, 0, p, regularized=True))] for p in [0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95]]
        draws.append(dict(alpha=a, beta=b, cdf=cdf))
    found = dict(
        digamma=[[float(x), number(digamma(mpf(float(x))))] for x in POINTS],
        cases=cases,
        draws=draws,
    )
    Path(__file__).with_name("selection.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
