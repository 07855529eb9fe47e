"""The folder is a library by the rules of Arduino, PlatformIO and ESP-IDF, and the release archive holds all of it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

import tflite_fuse
from tests import PATIENCE
from tests.arduino.fake_runtime import build, compiler
from tflite_fuse.runtime.library.sources import library_directory

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "arduino"
PUBLIC_HEADERS = (
    "tflite_fuse.h",
    "tflite_fuse_outside.h",
    "tflite_fuse_model.h",
    "tflite_fuse_rows.h",
    "tflite_fuse_profile.h",
    "tflite_fuse_link.h",
)


def properties() -> dict[str, str]:
    lines = (LIBRARY / "library.properties").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line)


# ---- Manifests ----


def test_library_properties_follow_arduinos_specification() -> None:
    found = properties()
    required = {"name", "version", "author", "maintainer", "sentence", "paragraph", "category", "url", "architectures"}
    assert required <= set(found) and all(found[key] for key in required)
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_. -]{0,62}", found["name"])
    assert not found["name"].lower().startswith("arduino")
    assert re.fullmatch(r"\d+\.\d+\.\d+", found["version"])
    categories = "Display Communication Signal Input/Output Sensors Device Control Timing Data Storage Processing Other"
    assert set(found["category"].split()) <= set(categories.split())
    for header in found["includes"].split(","):
        assert (LIBRARY / "src" / header).exists()


def test_all_manifests_have_the_same_version() -> None:
    component = re.findall(r'^version: "(.*)"$', (LIBRARY / "idf_component.yml").read_text(), re.MULTILINE)
    platformio = json.loads((LIBRARY / "library.json").read_text())["version"]
    assert [properties()["version"], platformio, *component] == [tflite_fuse.__version__] * 3


def test_the_licence_is_the_projects() -> None:
    assert (LIBRARY / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_keywords_are_names_of_the_headers() -> None:
    headers = "".join(path.read_text() for path in (LIBRARY / "src").glob("*.h"))
    lines = [line for line in (LIBRARY / "keywords.txt").read_text().splitlines() if line]
    assert len(lines) > 10
    for line in lines:
        word, kind = line.split("\t")
        assert re.search(rf"\b{word}\b", headers), word
        assert kind in {"KEYWORD1", "KEYWORD2", "LITERAL1"}


def test_examples_are_sketches() -> None:
    sketches = sorted((LIBRARY / "examples").iterdir())
    assert len(sketches) >= 2
    assert all((folder / f"{folder.name}.ino").exists() for folder in sketches)


def test_the_component_is_valid_yaml_with_its_runtime() -> None:
    found = yaml.safe_load((LIBRARY / "idf_component.yml").read_text())
    assert found["dependencies"]["espressif/esp-tflite-micro"]["public"] is True
    assert found["license"] == "Apache-2.0"


@pytest.mark.parametrize("header", PUBLIC_HEADERS)
@pytest.mark.parametrize(("name", "standard"), [("gcc", "c11"), ("gcc", "c99"), ("g++", "c++11")])
def test_public_headers_stand_alone(header: str, name: str, standard: str, tmp_path: Path) -> None:
    source = tmp_path / ("alone.c" if name == "gcc" else "alone.cpp")
    source.write_text(f'#include "{header}"\n#include "{header}"\nint unused;\n')
    flags = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{library_directory()}", "-fsyntax-only"]
    build([compiler(name), f"-std={standard}", *flags, source])


# ---- Archives ----


def packed_names(folder: Path) -> set[str]:
    unwanted = {"__pycache__"}
    paths = (path for path in folder.rglob("*") if path.is_file() and not unwanted & set(path.parts))
    return {path.relative_to(folder).as_posix() for path in paths}


def make_zip(folder: Path) -> Path:
    script = ROOT / "scripts" / "package_arduino"
    subprocess.run([sys.executable, script, "--folder", folder], check=True, capture_output=True)
    (archive,) = folder.glob("*.zip")
    return archive


def test_the_release_archive_has_the_library_at_its_root(tmp_path: Path) -> None:
    archive = make_zip(tmp_path / "one")
    assert archive.name == f"tflite-fuse-{tflite_fuse.__version__}.zip"
    with zipfile.ZipFile(archive) as found:
        names = found.namelist()
        root = f"tflite-fuse-{tflite_fuse.__version__}/"
        assert {name.removeprefix(root) for name in names} == packed_names(LIBRARY)
        assert all(name.startswith(root) for name in names)
        assert found.read(f"{root}library.properties") == (LIBRARY / "library.properties").read_bytes()
    assert make_zip(tmp_path / "two").read_bytes() == archive.read_bytes()


PACK = """
import sys
from platformio.package.manifest.schema import ManifestSchema

# The tool looks the licence up on the network; that it is a known one is all that is taken over here.
ManifestSchema.load_spdx_licenses = staticmethod(lambda: {"licenses": [{"licenseId": "Apache-2.0"}]})
from platformio.__main__ import main
sys.exit(main())
"""


@pytest.mark.parametrize("broken", [False, True])
def test_platformios_own_tool_packs_it(broken: bool, tmp_path: Path) -> None:
    """And refuses it once a required field is gone, so it does look."""
    with zipfile.ZipFile(make_zip(tmp_path)) as archive:
        archive.extractall(tmp_path)
    folder = tmp_path / f"tflite-fuse-{tflite_fuse.__version__}"
    manifest = json.loads((folder / "library.json").read_text())
    if broken:
        del manifest["version"]
        (folder / "library.json").write_text(json.dumps(manifest))
    target = tmp_path / "packed.tar.gz"
    environment = {
        **os.environ,
        "PLATFORMIO_CORE_DIR": str(tmp_path / "core"),
        "PLATFORMIO_SETTING_ENABLE_TELEMETRY": "No",
    }
    command = [sys.executable, "-c", PACK, "pkg", "pack", str(folder), "--output", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=PATIENCE)
    assert (done.returncode == 0) is not broken, done.stdout + done.stderr
    if not broken:
        with tarfile.open(target) as archive:
            names = set(archive.getnames())
        assert {"library.json", "src/tflite_fuse.h", "src/tflm/tflite_fuse_tflm.cpp", "LICENSE"} <= names
        assert any(name.startswith("examples/") for name in names)
