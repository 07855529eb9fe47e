"""The README's parts that scripts write, between two marks each."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).resolve().parents[1] / "README.md"


def part(name: str) -> str:
    """What stands between the marks of a part. Raises ValueError where they are missing."""
    return _find(name)[2]


def write_part(name: str, text: str) -> None:
    """Replace what stands between the marks of a part. Raises ValueError where they are missing."""
    start, end = _find(name).span(2)
    whole = README.read_text(encoding="utf-8")
    README.write_text(f"{whole[:start]}{text}{whole[end:]}", encoding="utf-8")


def _find(name: str) -> re.Match[str]:
    found = re.search(
        rf"(<!-- {name}:start .*?-->\n)(.*?\n|)([ ]*<!-- {name}:end -->)", README.read_text("utf-8"), re.DOTALL
    )
    if found is None:
        raise ValueError(f"README.md has no part {name}")
    return found
