"""The documentation: every page is in the index, and the reference matches the code."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

import tflite_fuse
from scripts.reference import pages
from tests.project.test_readme import known_options
from tflite_fuse.ops.table import KINDS, LOWERINGS

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def reference() -> dict[str, str]:
    return pages()


def test_every_page_is_in_the_index(reference: dict[str, str]) -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    listed = {line for block in re.findall(r"```\{toctree\}\n(.*?)```", index, re.S) for line in block.splitlines()}
    written = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"index"}
    assert written <= listed
    assert {f"reference/{name.removesuffix('.md')}" for name in reference} <= listed


def test_every_option_of_every_command_is_in_the_reference(reference: dict[str, str]) -> None:
    named = set(re.findall(r"`(--?[a-z][\w-]*)`", reference["commands.md"]))
    options = {option for option in known_options() if option.startswith("-")}
    assert options - {"--help", "-h"} <= named


def test_every_operator_and_kind_is_in_the_reference(reference: dict[str, str]) -> None:
    words = set(re.findall(r"[A-Z0-9_]{3,}", reference["operators.md"]))
    assert {name for name in LOWERINGS if not name.startswith("CUSTOM:")} <= words
    assert {kind.name for kind in KINDS} <= words


def test_everything_exported_is_in_the_reference(reference: dict[str, str]) -> None:
    named = set(re.findall(r"tflite_fuse\.(\w+)", reference["python.md"]))
    public = {name for name in tflite_fuse.__all__ if callable(getattr(tflite_fuse, name))}
    assert public and public <= named


def test_every_schema_and_field_is_in_the_reference(reference: dict[str, str]) -> None:
    for path in (ROOT / "schemas").glob("*.schema.json"):
        assert f"## {path.name}" in reference["schemas.md"]
        for field in json.loads(path.read_text()).get("properties", {}):
            assert f"\n- `{field}`" in reference["schemas.md"]


def test_every_json_document_of_the_package_has_a_schema() -> None:
    sources = [path.read_text() for path in (ROOT / "tflite_fuse").rglob("*.py")]
    printed = {name for text in sources for name in re.findall(r"\"(tflite-fuse/[a-z-]+/\d+)\"", text)}
    described = " ".join(path.read_text() for path in (ROOT / "schemas").glob("*.schema.json"))
    assert len(printed) > 12 and [name for name in sorted(printed) if f'"const": "{name}"' not in described] == []


def test_error_sentences_are_listed_with_variables_in_brackets(reference: dict[str, str]) -> None:
    text = reference["errors.md"]
    assert r"\<name\> is no board that is known: \<hint\>" in text
    assert "the options are of another version: rewrite the model with the tflite-fuse of this library" in text
    assert text.count("\n- ") > 200 and "Exit code 1." in text


def test_captions_of_the_comparison_explain_columns_that_are_there() -> None:
    text = (ROOT / "docs" / "comparison.md").read_text()
    found = re.findall(r"((?:^\|.*\n)+)\n\*(.*)\*$", text, re.M)
    assert len(found) > 8
    for table, caption in found:
        head = table.splitlines()[0]
        assert not re.search(r"[a-z]_[a-z]", caption), caption
        for word in ("ratio", "image"):
            assert not re.search(rf"(^|[;.] ){word}:", caption) or word in head, caption


def test_scripts_run_as_pages_write_them() -> None:
    scripts = [path for path in (ROOT / "scripts").glob("*.py") if "__main__" in path.read_text()]
    assert len(scripts) > 30
    for path in scripts:
        assert os.access(path, os.X_OK) and path.read_text().startswith("#!/usr/bin/env python3\n"), path.name
