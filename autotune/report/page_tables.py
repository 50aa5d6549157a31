"""The tables of the report page. Each cell carries its exact value for sorting beside the rounded one for reading."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape

from autotune.core.study import Study
from autotune.core.trial import TrialRecord
from autotune.core.units import format_bytes, format_rate, format_seconds
from autotune.report.accumulation import accumulation_rows
from autotune.report.words import factor, half_width, one_line, scale_words, share, state_words

Value = int | float | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    """A column of the trials table: how to read its exact value, and how to write it for people."""

    header: str
    value: Callable[[TrialRecord], Value]
    text: Callable[[TrialRecord], str]
    number: bool = True


def trials_html(study: Study) -> str:
    """Returns the sortable and filterable trials table with the reasons for failures."""
    if not study.records:
        return '<section id="trials"><h2>Trials</h2><p>No trial was run.</p></section>'
    columns = _columns(study)
    heads = (
        "".join(f'<th scope="col"{_number(c)}><button type="button">{escape(c.header)}</button></th>' for c in columns)
        + '<th scope="col"><button type="button">reason and remarks</button></th>'
    )
    rows = "".join(_row(study, record, columns) for record in study.records)
    return f"""<section id="trials"><h2>Trials</h2>
<div class="controls">
<label>Search <input type="search" id="filter-text" autocomplete="off"></label>
<label>State <select id="filter-state"><option value="">all</option>{_state_options(study)}</select></label>
<label class="check"><input type="checkbox" id="filter-front"> only the memory/throughput front</label>
<span id="filter-count" role="status" class="hint"></span>
</div>
<div class="scroll" role="region" aria-label="Trials" tabindex="0">
<table class="data" id="trials-table"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>
</div></section>"""


def _state_options(study: Study) -> str:
    states = dict.fromkeys(str(record.state) for record in study.records)
    return "".join(f'<option value="{s}">{escape(s.replace("_", " "))}</option>' for s in states)


def _row(study: Study, record: TrialRecord, columns: list[_Column]) -> str:
    chosen, front = record.number == study.chosen, record.number in study.pareto
    cells = "".join(
        f'<td{_number(c)} data-value="{_exact(c.value(record))}">{escape(c.text(record))}</td>' for c in columns
    )
    classes = " ".join(filter(None, ("chosen" if chosen else "", "" if record.completed else "failed")))
    return (
        f'<tr class="{classes}" data-state="{record.state}" data-front="{int(front)}">{cells}'
        f'<td class="reason" data-value="{escape(_remarks(study, record))}">{_reason(study, record)}</td></tr>'
    )


def _reason(study: Study, record: TrialRecord) -> str:
    state = "" if record.completed else f'<span class="state">{escape(state_words(record))}</span> '
    return state + escape(_remarks(study, record))


def _remarks(study: Study, record: TrialRecord) -> str:
    outcome = record.outcome
    measured = outcome.throughput
    parts = [
        "chosen" if record.number == study.chosen else "",
        "on the front" if record.number in study.pareto else "",
        outcome.reason or "",
        outcome.user_error if outcome.user_error and outcome.user_error not in (outcome.reason or "") else "",
        f"{measured.updates_skipped} of {measured.updates_measured} updates skipped"
        if measured and measured.updates_skipped
        else "",
        "timings not steady" if measured and not measured.steady else "",
        *outcome.warnings,
    ]
    return "; ".join(one_line(part) for part in parts if part)


def _columns(study: Study) -> list[_Column]:
    def varies(read: Callable[[TrialRecord], Value]) -> bool:
        return len({read(record) for record in study.records}) > 1

    columns = [
        _plain("trial", lambda r: r.number),
        _plain("micro-batch", lambda r: r.candidate.micro_batch),
        _plain("steps", lambda r: r.candidate.accumulation_steps),
        _word("precision", lambda r: r.candidate.precision),
        _word("execution", lambda r: r.candidate.execution),
        _word("jit", lambda r: _on(r.candidate.jit_compile)),
        _rate_column(),
        _Column(header="±", value=_spread, text=lambda r: share(_spread(r))),
        _Column(header="peak", value=lambda r: r.peak_bytes, text=lambda r: format_bytes(r.peak_bytes)),
        _Column(header="wall time", value=lambda r: r.wall_s, text=lambda r: format_seconds(r.wall_s)),
    ]
    optional = [
        _plain("replicas", lambda r: r.candidate.replicas),
        _Column(
            header="loss scale",
            value=lambda r: r.candidate.initial_loss_scale,
            text=lambda r: scale_words(r.candidate.initial_loss_scale),
        ),
        _word("recompute", lambda r: _on(r.candidate.recompute)),
    ]
    columns[6:6] = [column for column in optional if varies(column.value)]
    return columns


def _plain(header: str, value: Callable[[TrialRecord], Value]) -> _Column:
    def text(record: TrialRecord) -> str:
        shown = value(record)
        return "-" if shown is None else str(shown)

    return _Column(header=header, value=value, text=text)


def _word(header: str, value: Callable[[TrialRecord], Value]) -> _Column:
    return _Column(header=header, value=value, text=lambda r: str(value(r) or "-"), number=False)


def _rate_column() -> _Column:
    def rate(record: TrialRecord) -> float | None:
        return record.samples_per_s if record.completed else None

    return _Column(header="samples/s", value=rate, text=lambda r: format_rate(rate(r)))


def _spread(record: TrialRecord) -> float | None:
    measured = record.outcome.throughput
    return half_width(measured) if measured and record.completed else None


def _on(value: bool | None) -> str | None:
    return None if value is None else "on" if value else "off"


def _number(column: _Column) -> str:
    return ' class="number"' if column.number else ""


def _exact(value: Value) -> str:
    return "" if value is None else escape(repr(value) if isinstance(value, float) else str(value))


def accumulation_html(study: Study) -> str:
    """Returns what accumulation costs and saves, relative to one step in the same precision."""
    rows = accumulation_rows(study)
    if not rows:
        return ""
    heads = ("precision", "steps", "micro-batch", "samples/s", "relative", "update time", "peak", "relative", "trial")
    body = []
    for row in rows:
        record, candidate = row.record, row.record.candidate
        words = (candidate.precision or "-", str(candidate.accumulation_steps), str(candidate.micro_batch))
        figures = (
            (
                format_rate(record.samples_per_s),
                factor(row.relative_samples_per_s),
                factor(row.relative_update_s),
                format_bytes(record.peak_bytes),
                share(row.relative_peak),
            )
            if record.completed
            else (state_words(record), "-", "-", "-", "-")
        )
        numbers = (*words[1:], *figures, str(record.number))
        cells = "".join(f'<td class="number">{escape(text)}</td>' for text in numbers)
        body.append(f"<tr{'' if record.completed else ' class=failed'}><td>{escape(words[0])}</td>{cells}</tr>")
    head = "".join(f'<th scope="col"{"" if i == 0 else " class=number"}>{h}</th>' for i, h in enumerate(heads))
    return (
        "<section><h2>What accumulation costs and saves</h2>"
        '<p class="hint">The fastest trial of each number of steps, relative to the fastest without accumulation '
        "in the same precision; both figures of a row are from the same trial.</p>"
        '<div class="scroll" role="region" aria-label="Accumulation" tabindex="0">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div></section>"
    )
