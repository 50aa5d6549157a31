"""The parts of the report page that are text: each returns HTML with everything from outside escaped."""

from __future__ import annotations

from dataclasses import fields
from html import escape

from autotune.config import TunedConfig
from autotune.config.differences import HARDWARE_NAMES, SOFTWARE_NAMES
from autotune.core.study import Study
from autotune.core.units import format_bytes, format_rate
from autotune.report.accumulation import full_batch_record, ratio
from autotune.report.words import factor, half_width, one_line, share


def status_html(study: Study) -> str:
    """How far the study has come, in a sentence."""
    completed = sum(record.completed for record in study.records)
    parts = [f"{completed} of {len(study.records)} trials completed"]
    if study.stop_reason:
        parts.append(study.stop_reason)
    if study.chosen is not None:
        parts.append("confirmed by a longer run" if study.confirmed else "not confirmed by a longer run")
    if study.job.memory_limit_bytes is not None:
        parts.append(f"memory limit {format_bytes(study.job.memory_limit_bytes)}")
    return escape("; ".join(one_line(part) for part in parts)) + "."


def figures_html(study: Study) -> str:
    """The chosen trial's figures."""
    chosen, base = study.chosen_record, full_batch_record(study)
    measured = study.confirmation or (chosen.outcome.throughput if chosen else None)
    if chosen is None or measured is None:
        return ""
    memory = chosen.outcome.memory
    figures = [
        (
            "Throughput, confirmed" if study.confirmation else "Throughput",
            format_rate(measured.samples_per_s),
            f"samples/s ±{share(half_width(measured))}",
        ),
        ("Peak memory", format_bytes(chosen.peak_bytes), (memory.peak_source if memory else None) or "not measured"),
    ]
    if base is not None:
        name = f"trial {base.number}, no accumulation"
        if study.confirmation is None:  # else the verdict says it, from runs side by side
            relative = factor(ratio(chosen.samples_per_s, base.samples_per_s))
            figures.append(("Throughput against a full batch", relative, name))
        figures.append(("Peak against a full batch", share(ratio(chosen.peak_bytes, base.peak_bytes)), name))
    cells = (
        f"<div><dt>{escape(title)}</dt><dd>{escape(value)} <small>{escape(note)}</small></dd></div>"
        for title, value, note in figures
    )
    return f'<dl class="figures">{"".join(cells)}</dl>'


def warnings_html(study: Study) -> str:
    """What to know about the study as a whole."""
    if not study.warnings:
        return ""
    items = "".join(f"<li>{escape(text)}</li>" for text in study.warnings)
    return f'<div class="warnings" role="note"><strong>Please note</strong><ul>{items}</ul></div>'


def facts_html(study: Study) -> str:
    """The hardware, software and workload that the figures hold for."""
    job = study.job
    hardware = [
        (title, format_bytes(value) if name == "memory_bytes" else str(value))
        for name, title in HARDWARE_NAMES.items()
        if (value := getattr(job.hardware, name)) is not None
    ]
    software = [
        (title, str(value))
        for name, title in SOFTWARE_NAMES.items()
        if (value := getattr(job.software, name)) is not None
    ]
    workload = [
        (f.name.replace("_", " "), str(value))
        for f in fields(job.workload)
        if (value := getattr(job.workload, f.name)) is not None
    ]
    workload += [("global batch", str(job.global_batch)), ("seed", str(job.seed)), ("objective", job.objective)]
    workload += [(f"axis {name}", ", ".join(values)) for name, values in job.axes.items()]
    sides = "".join(
        f"<div><h3>{title}</h3>{_facts(pairs)}</div>"
        for title, pairs in (("Hardware", hardware), ("Software", software), ("Workload", workload))
    )
    return (
        f'<section><h2>What the figures hold for</h2><div class="sides">{sides}</div>'
        '<p class="hint">On other hardware or versions, measure again.</p></section>'
    )


def reproduce_html(study: Study) -> str:
    """The command line that reproduces the study."""
    if not study.command:
        return ""
    return f"<section><h2>Reproduce</h2>{_copyable('command', study.command)}</section>"


def config_html(study: Study) -> str:
    """The tuned config, to copy."""
    if study.chosen is None:
        return ""
    text = TunedConfig.from_study(study).dumps("toml")
    return f"<section><h2>Tuned config (tuned.toml)</h2>{_copyable('config', text)}</section>"


def _copyable(name: str, text: str) -> str:
    return (
        f'<pre id="{name}-text" tabindex="0">{escape(text)}</pre>'
        f'<button type="button" class="copy" data-of="{name}-text" aria-live="polite">Copy</button>'
    )


def _facts(pairs: list[tuple[str, str]]) -> str:
    items = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in pairs)
    return f'<dl class="facts">{items}</dl>'
