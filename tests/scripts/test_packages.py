"""Packages of the device library made by scripts, by the registries' rules."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest
import yaml

import tflite_fuse
from scripts.zoo.networks import inverted_residual_network
from tests import PATIENCE
from tflite_fuse.model import load_model, serialize_model

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "arduino"
EDGE_IMPULSE = ROOT / "scripts" / "edge_impulse"


def ran(*command: object) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, *map(str, command)]
    return subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, cwd=ROOT)


def library() -> dict[str, bytes]:
    paths = (path for path in LIBRARY.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(LIBRARY).as_posix(): path.read_bytes() for path in paths}


# ---- Arduino, PlatformIO, ESP's registry, Zephyr: a repository of its own ----


def test_the_tree_of_the_mirror_is_the_library_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("kept")
    (tmp_path / "old" / "file.c").parent.mkdir()
    (tmp_path / "old" / "file.c").write_text("of an earlier release")
    assert ran("scripts/package_arduino", "--tree", tmp_path).returncode == 0
    found = {
        path.relative_to(tmp_path).as_posix(): path.read_bytes()
        for path in tmp_path.rglob("*")
        if path.is_file() and ".git" not in path.parts
    }
    assert found == library() and (tmp_path / ".git" / "HEAD").read_text() == "kept"
    assert {"library.properties", "library.json", "idf_component.yml", "zephyr/module.yml"} <= found.keys()


def test_the_tree_goes_nowhere_where_something_else_is(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    done = ran("scripts/package_arduino", "--tree", tmp_path)
    assert done.returncode != 0 and "neither empty nor a repository" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_the_component_has_keys_of_esps_registry() -> None:
    found = yaml.safe_load((LIBRARY / "idf_component.yml").read_text())
    known = {"version", "description", "url", "repository", "documentation", "issues", "license", "tags", "files"}
    assert found.keys() == known | {"dependencies"}
    assert all(found[key].startswith("https://") for key in ("url", "repository", "documentation", "issues"))
    assert all(re.fullmatch(r"[a-z0-9-]{3,32}", tag) for tag in found["tags"])


# ---- Zephyr ----


def test_zephyrs_module_names_existing_files() -> None:
    module = yaml.safe_load((LIBRARY / "zephyr" / "module.yml").read_text())
    assert module.keys() == {"name", "build"} and module["build"].keys() == {"cmake", "kconfig"}
    assert (LIBRARY / module["build"]["cmake"] / "CMakeLists.txt").exists()
    assert (LIBRARY / module["build"]["kconfig"]).exists()


def test_zephyrs_build_reads_symbols_that_kconfig_defines() -> None:
    lines = (LIBRARY / "zephyr" / "Kconfig").read_text().splitlines()
    build = (LIBRARY / "zephyr" / "CMakeLists.txt").read_text()
    defined = {line.split()[1] for line in lines if line.startswith("config ")}
    assert set(re.findall(r"CONFIG_(\w+)", build)) - {"URE_DEPENDS"} == defined
    assert all(line.startswith(("\t", "config ", "if ", "endif", "#")) or not line for line in lines)
    assert sum(line.startswith("if ") for line in lines) == sum(line.startswith("endif") for line in lines)
    named = re.findall(r"TFLITE_FUSE_NO_\w+", build)
    sources = b"".join(library().values()).decode("utf-8", "replace")
    assert len(named) == 2 and all(f"def {name}" in sources or f"defined({name})" in sources for name in named)


# ---- CMSIS-Pack ----


def test_the_pack_lists_every_source_once_and_holds_all_of_them(tmp_path: Path) -> None:
    for name in ("one", "two"):
        done = ran("scripts/package_cmsis", "--folder", tmp_path / name, "--date", "2026-01-31")
        assert done.returncode == 0, done.stderr
    (pack,) = (tmp_path / "one").glob("*.pack")
    assert pack.name == f"tflite-fuse.tflite-fuse.{tflite_fuse.__version__}.pack"
    assert pack.read_bytes() == (tmp_path / "two" / pack.name).read_bytes()
    with zipfile.ZipFile(pack) as archive:
        names = set(archive.namelist())
        text = archive.read("tflite-fuse.tflite-fuse.pdsc")
    assert text == (tmp_path / "one" / "tflite-fuse.tflite-fuse.pdsc").read_bytes()
    root = Xml.fromstring(text)
    order = ["vendor", "name", "description", "url", "license", "releases", "keywords", "conditions", "components"]
    assert [child.tag for child in root] == order
    listed = [file.get("name") or "" for file in root.iter("file") if file.get("category") != "include"]
    assert len(listed) == len(set(listed)) and set(listed) <= names and root.findtext("license") in names
    assert set(listed) == {name for name in library() if name.startswith("src/")}
    release = root.find("releases/release")
    assert release is not None and release.attrib == {"version": tflite_fuse.__version__, "date": "2026-01-31"}
    components = [each.attrib for each in root.iter("component")]
    assert [each["Csub"] for each in components] == ["Blocks", "Operator"]
    assert all(each["Cversion"] == tflite_fuse.__version__ for each in components)
    conditions = {each.get("id") for each in root.iter("condition")}
    assert {each["condition"] for each in components if "condition" in each} == conditions


# ---- Edge Impulse ----


def impulse(folder: Path, content: bytes) -> Path:
    """What Edge Impulse hands to a deployment block, as far as it is read."""
    (folder / "input").mkdir()
    (folder / "input" / "trained.tflite").write_bytes(content)
    metadata = {
        "version": 1,
        "tfliteModels": [{"modelPath": "trained.tflite"}],
        "folders": {"input": str(folder / "input"), "output": str(folder / "output")},
    }
    (folder / "metadata.json").write_text(json.dumps(metadata))
    return folder / "metadata.json"


@pytest.mark.parametrize("format", ["arduino", "c"])
def test_a_deployment_block_answers_with_the_rewritten_network_in_a_project(format: str, tmp_path: Path) -> None:
    original = serialize_model(inverted_residual_network(size=24, blocks=2))
    done = ran(EDGE_IMPULSE / "build.py", "--format", format, "--metadata", impulse(tmp_path, original))
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(tmp_path / "output" / "deploy.zip") as archive:
        names = set(archive.namelist())
        assert load_model(archive.read("small.tflite")).main.operators
        report = json.loads(archive.read("report.json"))
    assert report["after"]["arena_bytes"] < report["before"]["arena_bytes"]
    assert "fused_impulse/README.md" in names
    assert ("fused_impulse/fused_impulse.ino" if format == "arduino" else "fused_impulse/model.c") in names


def test_a_deployment_block_reports_a_defect_in_one_sentence(tmp_path: Path) -> None:
    done = ran(EDGE_IMPULSE / "build.py", "--metadata", impulse(tmp_path, b"no model"))
    assert done.returncode == 1 and done.stderr.startswith("tflite-fuse: ") and done.stderr.count("\n") == 1
    assert not (tmp_path / "output").exists()


def test_the_blocks_parameters_are_of_the_kind_and_fit_its_script() -> None:
    found = json.loads((EDGE_IMPULSE / "parameters.json").read_text())
    assert (found["version"], found["type"]) == (1, "deploy")
    assert found["info"]["category"] in ("library", "firmware")
    words = found["info"]["cliArguments"].split()
    helped = ran(EDGE_IMPULSE / "build.py", "--help").stdout
    assert all(word in helped for word in words if word.startswith("--"))
    docker = (EDGE_IMPULSE / "Dockerfile").read_text()
    (pinned,) = re.findall(r"tflite-micro==\S+", (ROOT / "setup.cfg").read_text())
    assert pinned.rstrip(";") in docker and 'ENTRYPOINT ["python", "-u", "build.py"]' in docker
