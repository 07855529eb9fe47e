"""Text out of strange hands, made fit for a terminal.

Results as a notebook shows them: a sentence and a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def printable(text: str) -> str:
    """The text in one line, with an escape in place of each character that is not seen as itself.

    Such are control characters (``\\x1b`` starts commands to a terminal), line ends, marks that turn the direction of
    writing, and bytes that were no UTF-8.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def html_table(sentence: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """All texts are escaped; numbers, which are all columns but the first, stand to the right."""

    def cells(tag: str, texts: Sequence[str]) -> str:
        left = f'<{tag} style="text-align: left">{_safe(texts[0])}</{tag}>'
        return left + "".join(f'<{tag} style="text-align: right">{_safe(text)}</{tag}>' for text in texts[1:])

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<p>{_safe(sentence)}</p><table><thead><tr>{cells('th', heads)}</tr></thead><tbody>{body}</tbody></table>"


def _safe(text: str) -> str:
    from html import escape  # its table of names is for notebooks alone

    return escape(printable(text))
