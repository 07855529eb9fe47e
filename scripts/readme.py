"""Sections of pages that scripts write between two marks; of the README by default."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).resolve().parents[1] / "README.md"


def part(name: str, page: Path = README) -> str:
    """Return the text between the marks of a part. Raises ValueError without marks."""
    return _find(name, page)[2]


def write_part(name: str, text: str, page: Path = README) -> None:
    """Replace the text between the marks of a part. Raises ValueError without marks."""
    start, end = _find(name, page).span(2)
    whole = page.read_text(encoding="utf-8")
    page.write_text(f"{whole[:start]}{text}{whole[end:]}", encoding="utf-8")


def _find(name: str, page: Path) -> re.Match[str]:
    marked = re.search(
        rf"(<!-- {name}:start .*?-->\n)(.*?\n|)([ ]*<!-- {name}:end -->)", page.read_text("utf-8"), re.DOTALL
    )
    if marked is None:
        raise ValueError(f"{page.name} has no part {name}")
    return marked
