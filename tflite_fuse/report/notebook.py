"""Results in a notebook as a sentence and a table, and untrusted text made safe for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def printable(text: str) -> str:
    """Return the text in one line, with an escape in place of each character that is not visible as itself.

    Those are control characters (``\\x1b`` starts terminal commands), line ends, marks that change the direction of
    writing, and bytes that were no UTF-8.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def html_table(sentence: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a sentence and a table as HTML, escaped; all columns but the first are numbers, aligned to the right."""

    def cells(tag: str, texts: Sequence[str]) -> str:
        left = f'<{tag} style="text-align: left">{_safe(texts[0])}</{tag}>'
        return left + "".join(f'<{tag} style="text-align: right">{_safe(text)}</{tag}>' for text in texts[1:])

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<p>{_safe(sentence)}</p><table><thead><tr>{cells('th', heads)}</tr></thead><tbody>{body}</tbody></table>"


def _safe(text: str) -> str:
    from html import escape  # its table of names is for notebooks alone

    return escape(printable(text))
