"""A section for a model card, in Markdown: figures with their scope, and how DVC and MLflow record the same numbers."""

from __future__ import annotations

from pathlib import Path, PurePath
from string import Template
from typing import Any

from tflite_fuse.report.notebook import printable
from tflite_fuse.report.report import change

_CARD = Path(__file__).with_name("card.md")

_ROWS = (
    ("tensor arena, bytes", "arena_bytes"),
    ("file, bytes", "file_bytes"),
    ("multiply-accumulates", "macs"),
    ("operators", "operators"),
    ("instructions, predicted", "instructions"),
)


def card(page: dict[str, Any]) -> str:
    """Return the section, with a front matter for Hugging Face.

    Args:
        page: the object of ``schemas/page.schema.json``, from ``page_content``.
    """
    figures = page["figures"]
    pairs = [(title, figures["before"][key], figures["after"][key]) for title, key in _ROWS]
    rows = [f"| {title} | {old:,} | {new:,} | {change(old, new)} |" for title, old, new in pairs]
    before, after = _file(page["model"]), _file(page["rewritten"])
    return Template(_CARD.read_text(encoding="utf-8")).substitute(
        verdict=page["verdict"],
        rows="\n".join(rows),
        runtime=page["runtime"],
        instructions=_instructions(page),
        proof=_sentence(page["certificate"]["sentence"]),
        before=before,
        after=after if after != before else f"small_{after}",
    )


def _file(name: str) -> str:
    """Return a file's name made safe for YAML, Python and a shell."""
    plain = PurePath(printable(name)).name
    return "".join(each if each.isalnum() or each in "._-" else "_" for each in plain) or "model"


def _instructions(page: dict[str, Any]) -> str:
    error = page["prediction_error"]
    scope = f", {100 * error['mean']:.0f} % off on average where counted" if error else ""
    return f"Instructions are a prediction for {page['target']}{scope}; nothing was measured on a board."


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}".rstrip(".") + "."
