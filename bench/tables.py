"""Markdown of what `bench/peers.sh --out FILE` appended: a table a machine and commit, the newest line of each row.

    python3 bench/tables.py FILE > tables.md
"""
import json
import sys


def number(value, unit=""):
    return "–" if value is None else f"{value:.3g}{unit}" if value < 1000 else f"{value:,.0f}{unit}"


def cells(row):
    is_ratio = row["unit"] not in ("MiB",) and row.get("peer") is not None
    sign = "×" if is_ratio else ""
    limit = "" if is_ratio else "≤ "
    measured = f"**{number(row['ratio'], sign)}** ({number(row['min'])}–{number(row['max'])})" if "ratio" in row else "–"
    difference = row.get("logprob_difference")
    verdict = row.get("failed") or {True: "yes", False: "no", None: ""}[row["holds"]]
    return [
        f"`{row['id']}` {row['work']}",
        row["shape"],
        row["precision"],
        number(row["ours"], " " + row["unit"]),
        number(row.get("peer")) if row.get("peer") is None else number(row["peer"], " " + row["unit"]),
        measured,
        number(row.get("floor"), "×") if row.get("floor") else "–",
        "" if row["bar"] is None else f"{limit}{row['bar']:g}{sign}",
        "" if row["aim"] is None else f"{limit}{row['aim']:g}{sign}",
        verdict,
        "–" if difference is None else f"{difference:.1e}",
    ]


HEAD = ["work", "shape", "precision", "ours", "peer", "ratio (min–max)", "floor", "bar", "aim", "holds", "log-prob difference"]


def main():
    with open(sys.argv[1]) as file:
        rows = [json.loads(line) for line in file if line.strip()]
    runs = {}
    for row in rows:
        runs.setdefault((row["machine"], row["commit"]), {})[row["id"]] = row
    for (machine, commit), newest in runs.items():
        any_row = next(iter(newest.values()))
        rates = any_row["rates"]
        print(f"\n{machine}; commit `{commit}`; {any_row['date']}.")
        print(
            f"Measured rates: {rates['f32_gflops']:.0f} GFLOP/s f32, {rates['bf16_gflops']:.0f} GFLOP/s bf16, "
            f"{rates['read_gb_per_s']:.0f} GB/s read. "
        )
        print("Peers: " + "; ".join(sorted({row["peer_is"] for row in newest.values() if "peer_is" in row})) + ".\n")
        print("| " + " | ".join(HEAD) + " |\n|" + " --- |" * len(HEAD))
        for row in newest.values():
            print("| " + " | ".join(cells(row)) + " |")


main()
