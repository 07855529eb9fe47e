"""The tables of the page on published work: written from results, and none is empty."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from scripts.comparison import PAGE, TABLES, main, table
from scripts.readme import part
from tests.conftest import SHARED


@pytest.mark.parametrize("name", sorted(TABLES))
def test_each_table_has_its_counts(name: str) -> None:
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


@pytest.mark.parametrize("content", [None, "", "not JSON"])
def test_results_that_are_none_are_a_sentence(tmp_path: Path, capsys: Any, content: str | None) -> None:
    if content is not None:
        (tmp_path / "papers.json").write_text(content)
    with pytest.raises(SystemExit) as ended:
        main([str(tmp_path / "papers.json")])
    assert ended.value.code == 2 and "papers.json has no results" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["peers_ram", "peers_cycles"])
def test_every_published_figure_is_on_the_page_with_version_and_source(name: str) -> None:
    facts = SHARED / "facts" / f"{name}.csv"
    if not facts.exists():
        pytest.skip(f"no {facts.name} beside the project")
    lines = part(name.replace("_", "-"), PAGE).splitlines()
    for row in csv.DictReader(facts.read_text().splitlines()):
        theirs = row.get("ram_bytes") or f"{float(row['million_cycles']):.2f}"
        words = (row["model"], row["system"], row["source"], f"{int(theirs):,}" if theirs.isdigit() else theirs)
        assert any(all(f" {word}" in line for word in words) for line in lines), row
