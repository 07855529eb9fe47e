"""Pages match the code: operators, options, links, marks of generated sections."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer

import tflite_fuse
from scripts.bench_readme import MODELS, row
from scripts.readme import part
from scripts.write_operators import PAGE, operators
from tests.conftest import SHARED_MODELS
from tflite_fuse.cli import app
from tflite_fuse.data import SAMPLE_MODEL

ROOT = Path(__file__).resolve().parents[2]
PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "arduino/README.md",
    *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md")),
)


def test_the_operators_listed_are_those_of_the_table_of_kinds() -> None:
    assert part("operators", PAGE) == operators(), "run scripts/write_operators.py"


@pytest.mark.parametrize("name", ["table", "speed"])
def test_tables_that_scripts_write_are_there(name: str) -> None:
    lines = part(name).splitlines()
    assert len(lines) > 3 and len({line.count("|") for line in lines}) == 1


ROWS = {line.split("|")[1].strip(): line for line in part("table").splitlines()[2:]}


@pytest.mark.slow
@pytest.mark.parametrize("path", [Path(SAMPLE_MODEL), *SHARED_MODELS], ids=lambda path: path.stem)
def test_the_arenas_in_the_table_equal_its_script(path: Path) -> None:
    if path.stem in ROWS:
        assert arenas(row(path, inputs=0)) == arenas(ROWS[path.stem]), "run scripts/bench_readme.py --write"


@pytest.mark.slow
@pytest.mark.parametrize(("target", "most"), [("cortex-m7", 0.09), ("cortex-m4", 0.14)])
@pytest.mark.parametrize("path", [Path(SAMPLE_MODEL), *SHARED_MODELS], ids=lambda path: path.stem)
def test_the_files_of_the_speed_table_need_the_arenas_of_the_first(path: Path, target: str, most: float) -> None:
    if path.stem in ROWS and path.stem in part("speed"):
        found = tflite_fuse.rewrite(path, target=target, verify=False).report.after.arena_bytes
        assert -0.015 <= found / int(arenas(ROWS[path.stem])[4].replace(",", "")) - 1 <= most


def test_the_table_has_the_models_of_its_script() -> None:
    assert {*ROWS} == {Path(SAMPLE_MODEL).stem, *MODELS}


def arenas(line: str) -> list[str]:
    """A row but for what it says about the runs."""
    return line.split("|")[:-2]


def known_options() -> set[str]:
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    context = typer.Context(group)
    outer: list[Any] = [group.get_command(context, name) for name in group.list_commands(context)]
    inner = [each for command in outer for each in getattr(command, "commands", {}).values()]
    return {
        option
        for command in (group, *outer, *inner)
        for parameter in command.params
        for option in (*parameter.opts, *parameter.secondary_opts)
    }


@pytest.mark.parametrize("page", sorted({*PAGES} - {"CHANGELOG.md", "CONTRIBUTING.md", "docs/architecture.md"}))
def test_every_option_named_exists(page: str) -> None:
    text = (ROOT / page).read_text()
    of_commands = re.findall(r"tflite-fuse [^`\n]*", text) + re.findall(r"`(--[^`]*)`", text)
    options = {option for line in of_commands for option in re.findall(r"(?<!\S)--[a-z][\w-]*", line)}
    scripts = {"--on", "--paper", "--write", "--help", "--version"}
    assert options - scripts <= known_options()


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    links = re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text())
    made = ("reference/",)  # by scripts/reference.py, when the pages are built
    kept = [link for link in links if "://" not in link and not link.startswith(made)]
    assert not [link for link in kept if not ((ROOT / page).parent / link).exists()]


@pytest.mark.parametrize("page", PAGES)
def test_files_named_exist(page: str) -> None:
    named = re.findall(r"`((?:scripts|tests|schemas|arduino|tflite_fuse|docs)/[\w./-]+)`", (ROOT / page).read_text())
    missing = [name for name in named if "NAME" not in name and not (ROOT / name).exists()]
    assert not missing
