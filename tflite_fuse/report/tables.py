"""Results as tables for a terminal."""

from __future__ import annotations

from rich.table import Table

from tflite_fuse.report.inspection import Inspection
from tflite_fuse.report.notebook import plain_table, printable
from tflite_fuse.report.report import FIGURE_ROWS, Report, change

_FIGURES = ("before", "after", "change")

_BAR = 24
"""Characters of a full bar."""


def report_table(report: Report) -> Table:
    """Return the figures before and after, with the change in percent."""
    table = plain_table("", *_FIGURES, right=_FIGURES)
    for label, field in FIGURE_ROWS:
        before, after = getattr(report.before, field), getattr(report.after, field)
        table.add_row(label, f"{before:,}", f"{after:,}", change(before, after))
    return table


def inspection_table(inspection: Inspection) -> Table:
    """Return one row per operator; the bottleneck is marked and its bar is full."""
    table = plain_table("#", "operator", "output", "live bytes", "", "MACs", right=("#", "live bytes", "MACs"))
    for column in table.columns:
        column.no_wrap = column.header in ("operator", "")
    for row in inspection.operators:
        style = "bold red" if row.bottleneck else None
        table.add_row(
            str(row.index),
            printable(row.name),
            "x".join(map(str, row.shape)),
            f"{row.working_set_bytes:,}",
            _bar(row.working_set_bytes, inspection.figures.peak_bytes) + (" <- peak" if row.bottleneck else ""),
            f"{row.macs:,}",
            style=style,
        )
    return table


def _bar(value: int, full: int) -> str:
    return "#" * round(_BAR * value / full) if full else ""
