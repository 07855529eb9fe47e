"""Text out of strange hands, made fit for a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text in one line, with an escape in place of each character that is not seen as itself.

    Such are control characters (``\\x1b`` starts commands to a terminal), line ends, marks that turn the direction of
    writing, and bytes that were no UTF-8.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
