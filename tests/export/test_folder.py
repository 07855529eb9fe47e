"""An exported folder is complete, or as it was before."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.export.exported import fused
from tflite_fuse.errors import TfliteFuseError, UsageError
from tflite_fuse.export import FORMATS, Export, export_model
from tflite_fuse.export import folder as folder_module
from tflite_fuse.export.folder import write_folder


def names(directory: Path) -> set[str]:
    return {path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.parametrize("format", FORMATS)
def test_makes_the_directory_and_its_parents(format: str, tmp_path: Path) -> None:
    target = tmp_path / "some" / "where" / "model"
    result = export_model(fused(), target, format)
    assert isinstance(result, Export)
    assert {path.relative_to(target).as_posix() for path in result.files} == names(target)
    assert [path.name for path in target.parent.iterdir()] == ["model"]


@pytest.mark.parametrize("format", FORMATS)
def test_fills_an_empty_directory(format: str, tmp_path: Path) -> None:
    target = tmp_path / "model"
    target.mkdir()
    result = export_model(fused(), target, format)
    assert len(names(target)) == len(result.files) > 0


@pytest.mark.parametrize("format", FORMATS)
def test_refuses_a_directory_with_something_in_it(format: str, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match=r"is not empty; give another directory, or --force"):
        export_model(fused(), tmp_path, format)
    assert names(tmp_path) == {"thesis.txt"}


@pytest.mark.parametrize("format", FORMATS)
def test_force_keeps_other_files_and_replaces_its_own(format: str, tmp_path: Path) -> None:
    target = tmp_path / "model"
    first = export_model(fused(), target, format)
    (target / "thesis.txt").write_text("years of work")
    for path in first.files:
        path.write_text("old")
    kernels = next(path.parent for path in first.files if path.name == "tflite_fuse_conv.c")
    (kernels / "tflite_fuse_dropped_kernel.c").write_text("int twice_defined;")
    again = export_model(fused(), target, format, force=True)
    assert again.files == first.files
    assert not any(path.read_bytes() == b"old" for path in again.files)
    assert (target / "thesis.txt").read_text() == "years of work"
    assert not (kernels / "tflite_fuse_dropped_kernel.c").exists()


@pytest.mark.parametrize("format", FORMATS)
def test_force_removes_a_library_whose_files_lay_elsewhere(format: str, tmp_path: Path) -> None:
    """Libraries up to 0.1 had all their files in one folder, and what is in it is compiled."""
    target = tmp_path / "model"
    first = export_model(fused(), target, format)
    headers = next(path.parent for path in first.files if path.name == "tflite_fuse.h")
    (headers / "tflite_fuse_gone.c").write_text("int twice_defined;")
    export_model(fused(), target, format, force=True)
    assert not (headers / "tflite_fuse_gone.c").exists()


def test_a_file_in_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model").write_text("a file")
    for force in (False, True):
        with pytest.raises(UsageError, match="is a file"):
            export_model(fused(), tmp_path / "model", "c", force=force)
    with pytest.raises(UsageError, match="cannot be written"):
        export_model(fused(), tmp_path / "model" / "below", "c")
    assert (tmp_path / "model").read_text() == "a file"


def test_an_unknown_format_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no format 'mbed'; the formats are arduino, platformio, esp-idf, c"):
        export_model(fused(), tmp_path / "model", "mbed")


@pytest.mark.parametrize("name", ["-model", "my model", "modèle", "x" * 64])
def test_a_sketch_needs_a_name_arduino_takes(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no name for one"):
        export_model(fused(), tmp_path / name, "arduino")
    export_model(fused(), tmp_path / name, "platformio")


def test_a_failure_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = folder_module._write_all

    def disk_full(root: Path, files: dict[str, str | bytes]) -> None:
        real(root, dict(list(files.items())[:3]))
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(folder_module, "_write_all", disk_full)
    with pytest.raises(UsageError, match="No space left on device"):
        export_model(fused(), tmp_path / "model", "c")
    assert list(tmp_path.iterdir()) == []


def test_a_failure_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "model"
    export_model(fused(), target, "c")
    before = {name: (target / name).read_bytes() for name in names(target)}

    def disk_full(root: Path, files: dict[str, str | bytes]) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(folder_module, "_write_all", disk_full)
    with pytest.raises(UsageError):
        export_model(fused("none"), target, "c", force=True)
    assert {name: (target / name).read_bytes() for name in names(target)} == before


def test_a_refused_model_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(TfliteFuseError):
        export_model(b"no model", tmp_path / "model", "arduino")
    assert list(tmp_path.iterdir()) == []


def test_files_are_readable_by_all_who_may_read_new_files(tmp_path: Path) -> None:
    write_folder(tmp_path / "model", {"a/b.txt": "text"}, force=False)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    assert mode(tmp_path / "model") == mode(tmp_path / "model" / "a") == mode(tmp_path / "folder")
    assert mode(tmp_path / "model" / "a" / "b.txt") == mode(tmp_path / "file")


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777
