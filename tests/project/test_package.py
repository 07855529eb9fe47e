"""Content for a package index: metadata, links, messages that name libraries, and the publishing workflow."""

from __future__ import annotations

import configparser
import re
import runpy
from pathlib import Path
from typing import Any

import yaml

from tflite_fuse.errors import LIBRARIES, how_to_install

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = ROOT / ".github" / "workflows"
BUILD = runpy.run_path(str(ROOT / "setup.py"), run_name="read")
INDEXED: str = BUILD["readme"]((ROOT / "README.md").read_text(encoding="utf-8"), "v1.2.3")


def setup() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser


def workflow(name: str) -> dict[Any, Any]:
    found: dict[Any, Any] = yaml.safe_load((WORKFLOWS / name).read_text(encoding="utf-8"))
    return found


def test_every_link_on_an_index_is_absolute_and_leads_to_a_file_of_that_version() -> None:
    links = re.findall(r"(!?)\[[^\]]*\]\(([^)\s]+)\)", INDEXED)
    assert len(links) > 10 and any(picture for picture, _ in links)
    for picture, target in links:
        start = BUILD["FILES"] if picture else BUILD["PAGES"]
        if not target.startswith(start):
            assert re.match(r"https://", target), target
            continue
        path = target.removeprefix(f"{start}/v1.2.3/").partition("#")[0].removesuffix("?sanitize=true")
        assert (ROOT / path).exists(), target


def test_nothing_else_of_the_readme_is_changed() -> None:
    undone = re.sub(
        rf"{re.escape(BUILD['FILES'])}/v1.2.3/|{re.escape(BUILD['PAGES'])}/v1.2.3/|\?sanitize=true", "", INDEXED
    )
    assert undone == (ROOT / "README.md").read_text(encoding="utf-8")


def test_links_of_other_places_and_of_the_page_itself_stay() -> None:
    text = "[a](https://a.example/b.svg) [c](#c) [m](mailto:a@b.example) ![p](docs/p.svg) [q](docs/q.md#r)"
    made = BUILD["readme"](text, "v1")
    assert made.startswith(text.partition(" ![")[0])
    assert f"![p]({BUILD['FILES']}/v1/docs/p.svg?sanitize=true) [q]({BUILD['PAGES']}/v1/docs/q.md#r)" in made


def test_the_version_of_the_links_is_that_of_the_package() -> None:
    import tflite_fuse

    assert BUILD["version"]() == tflite_fuse.__version__


def test_messages_name_the_libraries_of_the_extras() -> None:
    extras = setup()["options.extras_require"]
    for extra, libraries in LIBRARIES.items():
        assert tuple(line.partition(";")[0] for line in extras[extra].split("\n") if line) == libraries
    assert how_to_install("serial") == "pip install 'pyserial>=3.5'"


def test_no_message_names_an_extra_of_a_package_that_may_not_be_on_an_index() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in (ROOT / "tflite_fuse").rglob("*.py")}
    assert not [str(path) for path, text in texts.items() if "tflite-fuse[" in text]


def test_the_pythons_named_are_those_the_workflow_tries() -> None:
    named = re.findall(r"Python :: (3\.\d+)", setup()["metadata"]["classifiers"])
    assert named == workflow("ci.yml")["jobs"]["dependencies"]["strategy"]["matrix"]["python-version"]


def test_the_systems_named_are_those_the_workflow_installs_on() -> None:
    systems = workflow("ci.yml")["jobs"]["package"]["strategy"]["matrix"]["os"]
    classifiers = setup()["metadata"]["classifiers"]
    for start, name in {"macos": "MacOS", "windows": "Windows", "ubuntu": "Linux"}.items():
        assert any(each.startswith(start) for each in systems) and f":: {name}\n" in classifiers


def test_a_release_is_published_by_the_identity_of_its_workflow_alone() -> None:
    release = workflow("release.yml")
    assert release[True]["push"] == {"tags": ["v*"]}  # YAML 1.1 reads the key "on" as true
    assert release["permissions"] == {"contents": "read"}
    publish = release["jobs"]["publish"]
    assert publish["permissions"] == {"id-token": "write"} and publish["environment"] == "pypi"
    assert publish["needs"] == "build" and "secrets." not in (WORKFLOWS / "release.yml").read_text(encoding="utf-8")
    assert not any(key in (step.get("with") or {}) for step in publish["steps"] for key in ("user", "password"))
