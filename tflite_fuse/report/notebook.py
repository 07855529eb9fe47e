"""Results as a notebook shows them: a sentence and a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tflite_fuse.report.printable import printable


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
