"""The loop benchmark's rows: merged into one CSV, told as Markdown."""

from __future__ import annotations

import csv
import math

from tests.benchmarks.loop_cells import OURS

KEY = ("kind", "workload", "steps", "variant", "reference")
COLUMNS = [
    *KEY,
    *("ratio", "ratio_low", "ratio_high", "seconds", "reference_seconds", "first_call_s", "rounds"),
    *("peak_bytes", "growing_bytes", "error"),
]


def load(path):
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        return {tuple(row[name] for name in KEY): row for row in csv.DictReader(file)}


def store(path, rows, row):
    """Adds or replaces a row, and writes all of them."""
    text = {name: f"{value:.6g}" if isinstance(value, float) else str(value) for name, value in row.items()}
    rows[tuple(text.get(name, "") for name in KEY)] = {name: text.get(name, "") for name in COLUMNS}
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[key] for key in sorted(rows))


def ratio(rows, workload, steps, variant, reference="full"):
    row = rows.get(("time", workload, str(steps), variant, reference))
    return float(row["ratio"]) if row and row["ratio"] else None


def best_of_ours(rows, workload, steps):
    """Our fastest execution of a cell, by its ratio to the full batch; None before any was measured."""
    known = {variant: ratio(rows, workload, steps, variant) for variant in OURS}
    known = {variant: value for variant, value in known.items() if value is not None}
    return min(known, key=known.get) if known else None


def markdown(rows):
    cells = sorted({(key[1], int(key[2])) for key in rows if key[0] == "time"})
    variants = [*OURS, "full-jit", "keras-fit", "gradient-accumulator"]
    lines = [
        "# The training loop, measured",
        "",
        "Time of one update relative to one plain step on the full batch, without XLA (medians of interleaved rounds,",
        "each pair in a process of its own; lower is better). Bold: the fastest of ours. `keras-fit` and",
        "`gradient-accumulator` accumulate by themselves. A dash was not measured or does not run.",
        "",
        "| workload, N | " + " | ".join(variants) + " | Keras fit / our best |",
        "|---" * (len(variants) + 2) + "|",
    ]
    gains = []
    for workload, steps in cells:
        best = best_of_ours(rows, workload, steps)
        shown = []
        for variant in variants:
            value = ratio(rows, workload, steps, variant)
            text = "-" if value is None else f"{value:.2f}"
            shown.append(f"**{text}**" if variant == best else text)
        gain = ratio(rows, workload, steps, "keras-fit", best) if best else None
        if gain is not None and steps > 1:
            gains.append(gain)
        lines.append(f"| {workload}, {steps} | " + " | ".join(shown) + f" | {'-' if gain is None else f'{gain:.2f}'} |")
    if gains:
        mean = math.exp(sum(map(math.log, gains)) / len(gains))
        lines += [
            "",
            f"Geometric mean of Keras fit / our best over N above 1: **{mean:.2f}** (lowest {min(gains):.2f}).",
        ]
    return "\n".join([*lines, "", *memory_table(rows), "", *ideas_table(rows)]) + "\n"


def ideas_table(rows):
    found = [row for key, row in rows.items() if key[0] == "time" and "+" in key[3] and row["ratio"]]
    if not found:
        return []
    cells = sorted({(row["workload"], int(row["steps"])) for row in found})
    lines = [
        "Ideas tried once (`tests/benchmarks/loop_ideas.py`): time relative to the execution that each changes, with",
        "the quartiles of the rounds; below 1 the idea is faster.",
        "",
        "| idea | " + " | ".join(f"{workload}, {steps}" for workload, steps in cells) + " |",
        "|---" * (len(cells) + 1) + "|",
    ]
    for idea in dict.fromkeys(row["variant"] for row in found):
        shown = {
            (row["workload"], int(row["steps"])): "{:.2f} ({:.2f} to {:.2f})".format(
                *(float(row[name]) for name in ("ratio", "ratio_low", "ratio_high"))
            )
            for row in found
            if row["variant"] == idea
        }
        lines.append(f"| {idea} | " + " | ".join(shown.get(cell, "-") for cell in cells) + " |")
    return lines


def memory_table(rows):
    peaks = {key[1:4]: row for key, row in rows.items() if key[0] == "memory" and row["growing_bytes"]}
    if not peaks:
        return []
    lines = [
        "Peak of the allocator (BFC, settled conditions): the part that grows with the batch, relative to the full",
        "batch's.",
        "",
        "| workload, N | " + " | ".join(OURS) + " |",
        "|---" * (len(OURS) + 1) + "|",
    ]
    for workload, steps in sorted({(key[0], int(key[1])) for key in peaks if key[2] in OURS}):
        base = peaks.get((workload, "1", "full"))
        shown = []
        for variant in OURS:
            row = peaks.get((workload, str(steps), variant))
            shown.append(f"{int(row['growing_bytes']) / int(base['growing_bytes']):.2f}" if row and base else "-")
        lines.append(f"| {workload}, {steps} | " + " | ".join(shown) + " |")
    return lines
