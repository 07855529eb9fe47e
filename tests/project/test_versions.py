"""One version, and bounds of dependencies that mean something."""

from __future__ import annotations

import configparser
import re
import subprocess
import sys
from pathlib import Path

import yaml

import tflite_fuse

ROOT = Path(__file__).resolve().parents[2]


def setup() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser


def test_the_version_stands_in_one_place() -> None:
    assert setup()["metadata"]["version"] == "attr: tflite_fuse.__version__"
    assert re.fullmatch(r"\d+\.\d+\.\d+", tflite_fuse.__version__)


def test_the_changelog_begins_with_this_version_or_the_next() -> None:
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    released = headings[headings[0] == "Unreleased" :]
    assert released[0] == tflite_fuse.__version__ and len(set(headings)) == len(headings)


def test_the_newest_release_has_one_line_per_change() -> None:
    """Earlier releases stay as they were."""
    _, newest, *_ = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    _, *lines = filter(None, newest.splitlines())
    assert lines and [line for line in lines if not line.startswith(("### ", "- ")) or len(line) > 140] == []


def test_every_dependency_has_a_lowest_version() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "lowest_versions.py")]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+(; .*)?", line) for line in lines), lines
    names = [line.partition("==")[0] for line in lines]
    assert {"numpy", "typer", "pytest"} <= set(names) and len(set(names)) == len(names)


def test_the_workflow_runs_every_python_from_the_lowest_one_allowed() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    pythons = workflow["jobs"]["dependencies"]["strategy"]["matrix"]["python-version"]
    assert pythons[0] == setup()["options"]["python_requires"].removeprefix(">=")
    minors = [int(python.partition(".")[2]) for python in pythons]
    assert minors == list(range(minors[0], minors[-1] + 1))


def test_ruff_checks_for_the_lowest_python() -> None:
    lowest = setup()["options"]["python_requires"].removeprefix(">=").replace(".", "")
    assert f'target-version = "py{lowest}"' in (ROOT / "pyproject.toml").read_text()
