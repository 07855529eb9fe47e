"""The section of a model card: the report's figures, and valid snippets for any model name."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from scripts.zoo.networks import inverted_residual_network
from tflite_fuse.cli import app
from tflite_fuse.model import serialize_model
from tflite_fuse.pages.card import card

NAMES = ('a"); import os#.tflite', "x; rm -rf ~.tflite", "b\n```\n# c.tflite", "$(id).tflite", "é: {.tflite")


def run_main(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, [str(each) for each in arguments])
    return done.exit_code, done.stdout


def parts(text: str) -> dict[str, str]:
    """Its fenced pieces by language."""
    return dict(re.findall(r"```(\w+)\n(.*?)```", text, re.DOTALL))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """A card, and the report it is of."""
    folder = tmp_path_factory.mktemp("card")
    (folder / "model.tflite").write_bytes(serialize_model(inverted_residual_network(size=24, blocks=2)))
    command = ["report", folder / "model.tflite", "-o", folder / "page.html", "--card", folder / "card.md", "--json"]
    code, printed = run_main(*command)
    assert code == 0
    return (folder / "card.md").read_text(), json.loads(printed)


def test_the_figures_are_the_reports(made: tuple[str, dict[str, Any]]) -> None:
    text, page = made
    assert page["verdict"] in text and page["runtime"] in text
    for key in ("arena_bytes", "file_bytes", "macs", "operators", "instructions"):
        assert f"| {page['figures']['before'][key]:,} | {page['figures']['after'][key]:,} |" in text
    assert page["certificate"]["sentence"][1:].rstrip(".") in text


def test_front_matter_and_snippets_are_sound(made: tuple[str, dict[str, Any]]) -> None:
    text, _ = made
    front = yaml.safe_load(text.split("---\n")[1])
    assert front["library_name"] == "tflite" and "tflite-micro" in front["tags"]
    found = parts(text)
    stage = yaml.safe_load(found["yaml"])["stages"]["fuse"]
    assert stage["deps"] == ["model.tflite"] and stage["outs"] == ["small_model.tflite"]
    assert stage["cmd"] in found["sh"] and stage["metrics"] == [{"metrics.json": {"cache": False}}]
    ast.parse(found["python"])


@pytest.mark.parametrize("name", NAMES)
def test_a_models_name_ends_nothing(name: str, made: tuple[str, dict[str, Any]]) -> None:
    found = parts(card(made[1] | {"model": name, "rewritten": f"small {name}"}))
    assert set(found) == {"sh", "yaml", "python"}
    stage = yaml.safe_load(found["yaml"])["stages"]["fuse"]
    assert all(re.fullmatch(r"[\w.-]+", each) for each in (*stage["deps"], *stage["outs"]))
    assert len(ast.parse(found["python"]).body) == 3


def test_the_card_is_not_written_over_the_page_or_a_model(tmp_path: Path) -> None:
    model = tmp_path / "model.tflite"
    model.write_bytes(serialize_model(inverted_residual_network(size=24, blocks=2)))
    page = tmp_path / "page.html"
    for target in (page, model):
        assert run_main("report", model, "-o", page, "--card", target)[0] == 2
    assert not page.exists()
