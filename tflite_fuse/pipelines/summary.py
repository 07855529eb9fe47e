"""The rows of a sweep as CSV, Parquet and HTML."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

from tflite_fuse.files import without_interrupts, write_atomically
from tflite_fuse.pipelines.sweep import Row

SHOWN = ("before_arena_bytes", "arena_bytes", "file_bytes", "compute_factor", "feasible")
"""Metrics shown in tables."""

_SHOWN_AS: dict[str, Callable[[float], str]] = {
    "compute_factor": "{:,.2f}".format,
    "feasible": lambda value: "yes" if value else "no",
}

_STYLE = """:root { color-scheme: light dark; --bad: #c8323f; }
@media (prefers-color-scheme: dark) { :root { --bad: #ef6a72; } }
body { font: 1rem/1.5 system-ui, sans-serif; margin: 1rem auto; max-width: 72rem; padding: 0 1rem; }
div { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .25rem .6rem .25rem 0; border-bottom: 1px solid #8886; } .n { text-align: right; }
.broken { color: var(--bad); } td:first-child { overflow-wrap: anywhere; min-width: 5rem; } p { margin: 0; }
@media (max-width: 30rem) { body { padding: 0 .6rem; } table { font-size: .7rem; } th, td { padding-right: 0; }
  .n { padding-left: .35rem; } td:first-child { min-width: 3.6rem; } p { max-width: 42vw; }
  h1 { font-size: 1.3rem; } }"""


def write_summary(folder: Path, rows: Sequence[Row]) -> tuple[Path, ...]:
    """Write summary.csv, index.html and, if pyarrow is installed, summary.parquet; return their paths.

    Raises:
        UsageError: a file cannot be written.
    """
    names = sorted({name for row in rows for name in row.metrics})
    files = {
        folder / "summary.csv": _csv(rows, names).encode("utf-8", "backslashreplace"),
        folder / "index.html": _page(rows).encode("utf-8", "backslashreplace"),
    }
    parquet = _parquet(rows, names)
    if parquet is not None:
        files[folder / "summary.parquet"] = parquet
    with without_interrupts():  # keeps the files consistent
        for path, data in files.items():
            write_atomically(data, path)
    return tuple(files)


def shown_values(row: Row) -> list[str]:
    """Return the metrics shown in tables; empty for a broken model."""
    return [_SHOWN_AS.get(name, "{:,.0f}".format)(row.metrics[name]) for name in SHOWN]


def _csv(rows: Sequence[Row], names: Sequence[str]) -> str:
    stream = io.StringIO()
    table = csv.writer(stream)
    table.writerow(("model", "options", "error", *names))
    for row in rows:
        table.writerow((row.model, row.options, row.error, *(row.metrics.get(name, "") for name in names)))
    return stream.getvalue()


def _parquet(rows: Sequence[Row], names: Sequence[str]) -> bytes | None:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        return None
    columns: dict[str, list[object]] = {
        "model": [row.model for row in rows],
        "options": [row.options for row in rows],
        "error": [row.error for row in rows],
    }
    columns |= {name: [row.metrics.get(name) for row in rows] for name in names}
    sink = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(pyarrow.table(columns), sink)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _page(rows: Sequence[Row]) -> str:
    several = len({row.options for row in rows}) > 1
    heads = "<th>options</th>" if several else ""
    heads += "".join(f'<th class="n">{name.replace("_", " ")}</th>' for name in SHOWN)
    body = "".join(_line(row, several) for row in rows)
    broken = sum(row.broken for row in rows)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Sweep</title>'
        '<link rel="icon" href="data:,">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head><body>'
        f"<h1>{len(rows):,} rows, {broken:,} broken</h1><div><table><tr><th>model</th>{heads}</tr>"
        f"{body}</table></div></body></html>\n"
    )


def _line(row: Row, several: bool) -> str:
    """Return a table row; ``several``: there is more than one set of options."""
    named = f"<td>{escape(row.model)}</td>" + (f"<td>{escape(row.options)}</td>" if several else "")
    if row.broken:
        return f'<tr class="broken">{named}<td colspan="{len(SHOWN)}"><p>{escape(row.error)}</p></td></tr>\n'
    return f"<tr>{named}{''.join(f'<td class=n>{value}</td>' for value in shown_values(row))}</tr>\n"
