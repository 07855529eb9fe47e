"""The tables of the page on published work: written from results, and none is empty."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.comparison import PAGE, TABLES, main, table
from scripts.readme import part


@pytest.mark.parametrize("name", sorted(TABLES))
def test_a_table_is_there_with_what_it_counts(name: str) -> None:
    lines = part(name, PAGE).splitlines()
    rows = [line for line in lines if line.startswith("|")]
    assert len(rows) > 4 and len({line.count("|") for line in rows}) == 1
    assert lines[-1].startswith("*") and len(lines[-1]) > 80


def test_a_column_without_figures_is_left_out() -> None:
    assert table(("a", "b", "c"), [("x", "-", "1"), ("y", "-", "-")]).splitlines()[0] == "| a | c |"


def test_results_are_written_between_the_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page, results = tmp_path / "page.md", tmp_path / "split.txt"
    page.write_text("# Page\n\n<!-- split:start (x) -->\nold\n<!-- split:end -->\n")
    results.write_text("figures\n")
    monkeypatch.setattr("scripts.comparison.PAGE", page)
    main([str(results)])
    assert page.read_text() == "# Page\n\n<!-- split:start (x) -->\n```text\nfigures\n```\n<!-- split:end -->\n"
