"""Results in a notebook as a sentence and a table, and untrusted text made safe for a terminal."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table


def printable(text: str) -> str:
    """Return the text in one line, with an escape in place of each character that is not visible as itself.

    Those are control characters (``\\x1b`` starts terminal commands), line ends, marks that change the direction of
    writing, and bytes that were no UTF-8.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def plain_table(*headings: str, right: Collection[str], caption: str | None = None) -> Table:
    """Return an empty table without edges; columns whose headings are in ``right`` are aligned there."""
    from rich.table import Table  # slow to import, and most rewrites print none

    table = Table(show_edge=False, pad_edge=False, caption=caption, caption_justify="left")
    for heading in headings:
        table.add_column(heading, justify="right" if heading in right else "left")
    return table


def html_table(sentence: str, table: Table) -> str:
    """Return a sentence and a table of texts, as a terminal shows it, as HTML; its caption follows."""

    def cells(tag: str, texts: Iterable[object]) -> str:
        pairs = zip(table.columns, texts, strict=True)
        return "".join(f'<{tag} style="text-align: {column.justify}">{_safe(text)}</{tag}>' for column, text in pairs)

    heads = cells("th", (column.header for column in table.columns))
    rows = zip(*(column.cells for column in table.columns), strict=True)
    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    caption = f"<p>{_safe(table.caption)}</p>" if table.caption else ""
    return f"<p>{_safe(sentence)}</p><table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>{caption}"


def _safe(text: object) -> str:
    from html import escape  # its table of names is for notebooks alone

    return escape(printable(str(text)))
