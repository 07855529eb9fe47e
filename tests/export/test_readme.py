"""Every exported folder describes the steps to a running board."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tflite_fuse
from scripts.zoo.float_twin import float_twin
from tests.arduino.fake_runtime import GENERATIONS
from tests.export.exported import FOR_ANY_MODEL, chained, fused, network, outside
from tests.export.stand_ins import FORMATS as WITH_TFLM
from tests.export.stand_ins import run_with_stand_ins
from tflite_fuse.export import export_model
from tflite_fuse.export.library import version
from tflite_fuse.ir.enums import Storage
from tflite_fuse.model import load_model, serialize_model


@pytest.mark.parametrize("format", FOR_ANY_MODEL)
def test_the_readme_has_five_steps_places_and_the_output(format: str, tmp_path: Path) -> None:
    written = export_model(fused(), tmp_path / "my_model", format)
    text = (tmp_path / "my_model" / "README.md").read_text()
    assert [int(number) for number in re.findall(r"^(\d)\. ", text, re.MULTILINE)] == [1, 2, 3, 4, 5]
    assert f"{written.arena_bytes:,} bytes of RAM" in text and version() in text
    named = re.findall(r"`([\w./*]+)`(?= \|$|, where)", text, re.MULTILINE)
    assert len(named) > 3 and all(list((tmp_path / "my_model").glob(path)) for path in named)
    assert all("{" not in line for line in text.splitlines())


@pytest.mark.parametrize("storage", [Storage.INPUT, Storage.SCRATCH, Storage.EXTERNAL])
@pytest.mark.parametrize("format", FOR_ANY_MODEL)
def test_the_readme_names_the_place_for_the_input(format: str, storage: Storage, tmp_path: Path) -> None:
    model = fused() if storage is Storage.INPUT else outside(storage)
    export_model(model, tmp_path / "my_model", format)
    text = (tmp_path / "my_model" / "README.md").read_text()
    place, marked = re.findall(r"Fill the input in (.*), where it says \*(.*)\*", text)[0]
    file = "my_model.ino" if place == "the sketch" else place.strip("`")
    assert marked in (tmp_path / "my_model" / file).read_text()


def numberless(line: str) -> str:
    return re.sub(r"-?\d+", "N", line)


@pytest.mark.parametrize("format", WITH_TFLM)
def test_the_lines_are_those_that_the_program_prints(format: str, tmp_path: Path) -> None:
    """Up to numbers."""
    export_model(chained("float"), tmp_path / "my_model", format)
    text = (tmp_path / "my_model" / "README.md").read_text()
    said = text.split("```\n")[1].replace("...\n", "").splitlines()
    printed = run_with_stand_ins(tmp_path / "my_model" / WITH_TFLM[format], format, max(GENERATIONS), tmp_path)
    assert {numberless(line) for line in said} <= {numberless(line) for line in printed.splitlines()}


@pytest.mark.parametrize(
    ("format", "names"),
    [
        ("arduino", ["Chirale_TensorFlowLite", "2.0.0"]),
        ("platformio", ["Chirale_TensorFlowLite", "2.0.0"]),
        ("esp-idf", ["espressif/esp-tflite-micro", "1.3.0"]),
        ("zephyr", ["3.7"]),
    ],
)
def test_libraries_stand_there_by_name_and_version(format: str, names: list[str], tmp_path: Path) -> None:
    export_model(fused(), tmp_path / "my_model", format)
    text = (tmp_path / "my_model" / "README.md").read_text()
    assert all(name in text for name in names)


def test_platformio_fetches_pinned_versions(tmp_path: Path) -> None:
    export_model(fused(), tmp_path / "my_model", "platformio")
    text = (tmp_path / "my_model" / "platformio.ini").read_text()
    assert all(
        re.fullmatch(r"\w+@\d+\.\d+\.\d+", name) for name in re.findall(r"^platform = (.*)$", text, re.MULTILINE)
    )
    assert all(re.search(r"#v\d", line) for line in re.findall(r"https://\S+", text))


def test_a_zephyr_application_is_the_plain_c_folder_and_two_files(tmp_path: Path) -> None:
    export_model(fused(), tmp_path / "c", "c")
    export_model(fused(), tmp_path / "zephyr", "zephyr")
    plain = {path.name: path.read_bytes() for path in (tmp_path / "c").iterdir() if path.suffix in (".c", ".h")}
    source = tmp_path / "zephyr" / "src"
    assert {path.name: path.read_bytes() for path in source.iterdir() if path.suffix in (".c", ".h")} == plain
    assert "find_package(Zephyr REQUIRED" in (tmp_path / "zephyr" / "CMakeLists.txt").read_text()
    settings = (tmp_path / "zephyr" / "prj.conf").read_text().splitlines()
    assert all(re.fullmatch(r"#.*|CONFIG_[A-Z_]+=(y|n|\d+)", line) for line in settings)


@pytest.mark.parametrize("format", FOR_ANY_MODEL)
def test_flags_for_float32_stand_where_blocks_are_on_float32(format: str, tmp_path: Path) -> None:
    floats = tflite_fuse.rewrite(serialize_model(float_twin(load_model(network()))), verify=False).model
    for name, model in (("floats", floats), ("bytes", fused())):
        export_model(model, tmp_path / name, format)
        assert ("-ffp-contract=off" in (tmp_path / name / "README.md").read_text()) == (name == "floats")
