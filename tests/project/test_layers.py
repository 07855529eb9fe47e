"""Imports flow one way: a room may use those below it, never one above."""

from __future__ import annotations

import ast
import configparser
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "tflite_fuse"

ORDER = (
    "errors",
    "interrupts",
    "units",
    "claim",
    "notes",
    "tuning",
    "files",
    "model",
    "data",
    "ir",
    "ops",
    "cost",
    "memory",
    "emit",
    "search",
    "passes",
    "check",
    "runtime",
    "litert",
    "converting",
    "report",
    "rewriting",
    "split",
    "export",
    "pipelines",
    "api",
    "boards",
    "__init__",
    "pages",
    "console",
    "explorer",
    "commands",
    "cli",
    "__main__",
)
"""From the bottom to the top. A room holds all folders below it."""

FORBIDDEN = {
    "ops": ("memory",),
    "cost": ("memory",),
    "memory": ("ops", "cost", "emit", "search", "passes"),
    "check": ("ops", "cost", "emit", "search", "passes"),
    "runtime": ("passes", "search", "cost"),
    "report": ("runtime", "passes", "search"),
}
"""What a room must not know although it stands higher."""

SPLIT_ORDER = (
    "devices",
    "protocol",
    "cut",
    "fragments",
    "needs",
    "simulate",
    "search",
    "verify",
    "splitting",
    "report",
    "cluster",
)
"""The rooms of a split from the bottom to the top."""


def modules() -> dict[str, Path]:
    """Every module of the package by its path inside, without suffix."""
    return {path.relative_to(PACKAGE).with_suffix("").as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """The package's modules that a module imports, and whether it does so when it is imported itself."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    at_top = {id(node) for node in tree.body}
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "tflite_fuse":
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.split(".")[0] == "tflite_fuse"]
        for name in names:
            yield module_of(name), id(node) in at_top


def module_of(name: str) -> str:
    """The module a dotted name lies in: ``tflite_fuse.model.file.load_model`` is in ``model/file``."""
    parts = name.split(".")[1:]
    for length in range(len(parts), 0, -1):
        path = PACKAGE.joinpath(*parts[:length])
        if path.with_suffix(".py").is_file():
            return "/".join(parts[:length])
        if path.is_dir():
            return "/".join((*parts[:length], "__init__"))
    return "__init__"


def room_of(module: str) -> str:
    """The room a module is in, the module itself where none is."""
    inside = [room for room in ORDER if module == room or module.startswith(f"{room}/")]
    return max(inside, key=len, default=module)


def uses() -> Iterator[tuple[str, str]]:
    """Which module imports which of another room."""
    for module, path in modules().items():
        for used, _ in imports(path):
            if room_of(used) != room_of(module):
                yield module, used


def test_every_package_is_installed() -> None:
    listed = configparser.ConfigParser()
    listed.read(ROOT / "setup.cfg")
    here = {".".join(path.parent.relative_to(ROOT).parts) for path in PACKAGE.rglob("__init__.py")}
    assert here <= set(listed["options"]["packages"].split())


def test_every_module_is_in_a_room() -> None:
    homeless = [module for module in modules() if room_of(module) not in ORDER and not module.endswith("/__init__")]
    assert not homeless, f"give {homeless} a place in ORDER, where everything they import is below"


def test_imports_point_down() -> None:
    up = [f"{module} imports {used}" for module, used in uses() if level(module) <= level(used)]
    assert not up, up


def test_imports_of_a_split_point_down() -> None:
    inside = {module: module.split("/")[1] for module in modules() if module.startswith("split/")}
    rooms = {module: room for module, room in inside.items() if room != "__init__"}
    assert set(rooms.values()) == set(SPLIT_ORDER)
    up = [
        f"{module} imports {used}"
        for module, room in rooms.items()
        for used, _ in imports(modules()[module])
        if used in rooms and SPLIT_ORDER.index(rooms[used]) > SPLIT_ORDER.index(room)
    ]
    assert not up, up


def level(module: str) -> int:
    return ORDER.index(room_of(module)) if room_of(module) in ORDER else -1


@pytest.mark.parametrize("room", FORBIDDEN)
def test_rooms_import_no_forbidden_room(room: str) -> None:
    wrong = [
        f"{module} imports {used}"
        for module, used in uses()
        if room_of(module) == room and used.startswith(FORBIDDEN[room])
    ]
    assert not wrong, wrong


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = {module: {used for used, at_top in imports(path) if at_top} for module, path in modules().items()}
    circle = find_circle({module: used & graph.keys() - {module} for module, used in graph.items()})
    assert not circle, " -> ".join(circle)


def find_circle(graph: dict[str, set[str]]) -> list[str]:
    """Some circle of a graph, its first node also last; empty if there is none."""
    done: set[str] = set()

    def visit(node: str, way: list[str]) -> list[str]:
        if node in way:
            return [*way[way.index(node) :], node]
        if node in done:
            return []
        for following in sorted(graph[node]):
            if found := visit(following, [*way, node]):
                return found
        done.add(node)
        return []

    return next((found for node in graph if (found := visit(node, []))), [])


def test_a_circle_is_found_where_there_is_one() -> None:
    assert find_circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert not find_circle({"a": {"b", "c"}, "b": {"c"}, "c": set()})
    assert all(lower != higher for lower, higher in pairwise(ORDER))
