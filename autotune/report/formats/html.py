"""HTML: the whole report page of a study; a plain page with one table for a comparison."""

from __future__ import annotations

from html import escape

from autotune.report.page import report_page, style_sheet
from autotune.report.sheet import Sheet


def render(sheet: Sheet) -> bytes:
    """Returns one file that needs no network."""
    if sheet.study is not None:
        return report_page(sheet.study).encode()
    heads = "".join(f'<th scope="col" class="{_class(c.align)}">{escape(c.header)}</th>' for c in sheet.columns)
    rows = "".join(
        "<tr>" + "".join(f'<td class="{_class(c.align)}">{escape(c.cells[i])}</td>' for c in sheet.columns) + "</tr>"
        for i in range(len(sheet.columns[0].cells) if sheet.columns else 0)
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(sheet.title)}</title><style>{style_sheet()}</style></head><body>"
        f"<h1>{escape(sheet.title)}</h1><pre>{escape(sheet.text)}</pre>"
        f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div></body></html>\n'
    ).encode()


def _class(align: str) -> str:
    return "number" if align == "right" else ""
