"""An exported folder is complete, or unchanged."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.export.exported import FOR_ANY_MODEL, fused
from tflite_fuse.errors import TfliteFuseError, UsageError
from tflite_fuse.export import Export, export_model
from tflite_fuse.export import folder as folder_module
from tflite_fuse.export.folder import MANIFEST, write_folder

ROOT = Path(__file__).resolve().parents[2]


def names(directory: Path) -> set[str]:
    return {path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file()}


def content(directory: Path) -> dict[str, bytes]:
    return {name: (directory / name).read_bytes() for name in names(directory)}


@pytest.mark.parametrize("format", FOR_ANY_MODEL)
def test_makes_the_directory_and_its_parents(format: str, tmp_path: Path) -> None:
    target = tmp_path / "some" / "where" / "model"
    result = export_model(fused(), target, format)
    assert isinstance(result, Export)
    assert {path.relative_to(target).as_posix() for path in result.files} == names(target)
    assert [path.name for path in target.parent.iterdir()] == ["model"]


@pytest.mark.parametrize("format", FOR_ANY_MODEL)
def test_fills_an_empty_directory(format: str, tmp_path: Path) -> None:
    target = tmp_path / "model"
    target.mkdir()
    result = export_model(fused(), target, format)
    assert len(names(target)) == len(result.files) > 0


@pytest.mark.parametrize("format", FOR_ANY_MODEL)
def test_refuses_a_directory_with_something_in_it(format: str, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match=r"is not empty; give another directory, or --force"):
        export_model(fused(), tmp_path, format)
    assert names(tmp_path) == {"thesis.txt"}


@pytest.mark.parametrize("format", FOR_ANY_MODEL)
def test_refuses_a_cycle_of_links(format: str, tmp_path: Path) -> None:
    (target := tmp_path / "loop").symlink_to(target)
    with pytest.raises(UsageError, match="loop: cannot be "):
        export_model(fused(), target, format)


@pytest.mark.parametrize("format", FOR_ANY_MODEL)
def test_force_replaces_files_of_an_export_and_keeps_the_rest(format: str, tmp_path: Path) -> None:
    target = tmp_path / "model"
    first = export_model(fused("float"), target, format)
    (target / "thesis.txt").write_text("years of work")
    again = export_model(fused(), target, format, force=True)
    assert again.files == first.files
    fresh = export_model(fused(), tmp_path / "fresh" / "model", format)
    assert {path.name: path.read_bytes() for path in again.files} == {p.name: p.read_bytes() for p in fresh.files}
    assert names(target) - {path.relative_to(target).as_posix() for path in again.files} == {"thesis.txt"}


def test_force_removes_files_of_an_older_export_that_have_no_place_any_more(tmp_path: Path) -> None:
    write_folder(tmp_path / "model", {"a.c": "one", "gone/b.c": "two", "gone/mine.c": "three"}, force=False)
    (tmp_path / "model" / "other.c").write_text("mine")
    write_folder(tmp_path / "model", {"a.c": "new", "gone/mine.c": "three"}, force=True)
    assert names(tmp_path / "model") == {MANIFEST, "a.c", "gone/mine.c", "other.c"}


@pytest.mark.parametrize("format", FOR_ANY_MODEL)
def test_force_names_edited_files_and_touches_nothing(format: str, tmp_path: Path) -> None:
    target = tmp_path / "model"
    first = export_model(fused("float"), target, format)
    edited = next(path for path in first.files if path.name.startswith("model"))
    edited.write_text("my own")
    before = content(target)
    with pytest.raises(UsageError, match=f"would lose {edited.relative_to(target)}, which no export wrote"):
        export_model(fused(), target, format, force=True)
    assert content(target) == before


def test_a_file_that_lies_in_the_way_is_not_lost(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("mine")
    with pytest.raises(UsageError, match=r"would lose a\.c"):
        write_folder(tmp_path, {"a.c": "theirs"}, force=True)
    (tmp_path / MANIFEST).write_text("[" * 100_000)  # a manifest nobody can read lists nothing
    with pytest.raises(UsageError, match=r"would lose a\.c"):
        write_folder(tmp_path, {"a.c": "theirs"}, force=True)
    assert (tmp_path / "a.c").read_text() == "mine"


def test_links_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "a.c").write_text("mine")
    for name, target in (("a.c", secret / "a.c"), ("src", secret), (MANIFEST, secret / "a.c")):
        folder = tmp_path / f"folder-{name}"
        folder.mkdir()
        (folder / name).symlink_to(target)
        with pytest.raises(UsageError, match="is a link, and links are not followed"):
            write_folder(folder, {"a.c": "new", "src/a.c": "new"}, force=True)
    assert content(secret) == {"a.c": b"mine"}


def test_a_file_in_place_of_a_folder_is_refused_before_any_write(tmp_path: Path) -> None:
    target = tmp_path / "model"
    write_folder(target, {"a.txt": "old", "z.txt": "old"}, force=False)
    (target / "src").write_text("years of work")
    before = content(target)
    with pytest.raises(UsageError, match=r"would lose src/main\.c"):
        write_folder(target, {"a.txt": "new", "src/main.c": "new", "z.txt": "new"}, force=True)
    assert content(target) == before


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_remains_of_a_killed_export_move_no_file_from_elsewhere(kind: str, tmp_path: Path) -> None:
    target, home = tmp_path / "model", tmp_path / "home"
    write_folder(target, {"a.txt": "old"}, force=False)
    home.mkdir()
    (home / "key").write_text("years of work")
    stage = target / ".tflite-fuse-0123456789abcdef.tmp"
    stage.mkdir()
    if kind == "link":
        (stage / "new").symlink_to(home)
    else:
        (stage / "new").mkdir()
        os.mkfifo(stage / "new" / "a.txt")
    write_folder(target, {"a.txt": "new"}, force=True)
    assert (home / "key").read_text() == "years of work"
    assert names(target) == {"a.txt", MANIFEST} and not stage.exists()


def test_a_manifest_cannot_name_files_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    folder = tmp_path / "model"
    folder.mkdir()
    digest = hashlib.sha256(b"mine").hexdigest()
    listed = {"../mine": digest, str(tmp_path / "mine"): digest, "..\\mine": digest}
    (folder / MANIFEST).write_text(json.dumps({"version": 1, "files": listed}))
    write_folder(folder, {"a.c": "new"}, force=True)
    assert (tmp_path / "mine").read_text() == "mine"


NEW: dict[str, str | bytes] = {"a.c": b"new a", "src/b.c": b"new b", "src/c.c": b"new c"}


def write_and_die(folder: Path, left: int) -> int:
    """Write a folder in a process that is killed before the step behind so many; returns the code it ends with."""

    def counted(real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **named: object) -> object:
            nonlocal left
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **named)

        return call

    child = os.fork()
    if child == 0:
        try:
            for name in ("replace", "unlink", "mkdir", "rmdir", "open"):
                setattr(Path, name, counted(getattr(Path, name)))
            write_folder(folder, NEW, force=True)
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_wherever_it_is_killed_files_are_whole_and_the_same_export_finishes(tmp_path: Path) -> None:
    old: dict[str, str | bytes] = {"a.c": b"old a", "src/b.c": b"old b", "src/gone.c": b"old gone"}
    deaths = 0
    for step in range(0, 60):
        folder = tmp_path / f"folder{step}"
        write_folder(folder, old, force=False)
        (folder / "mine").write_text("mine")
        code = write_and_die(folder, step)
        found = {name: data for name, data in content(folder).items() if name not in ("mine", MANIFEST)}
        whole = {name: data for name, data in found.items() if not name.startswith(".tflite-fuse-")}
        assert all(data in (old.get(name), NEW.get(name)) for name, data in whole.items())
        assert len([path for path in folder.iterdir() if path.name.startswith(".tflite-fuse-")]) <= 1
        with suppress(UsageError):  # another export is refused where it would lose new files
            write_folder(folder, {"other.c": b"other"}, force=True)
            write_folder(folder, old, force=True)
        write_folder(folder, NEW, force=True)
        assert {n: d for n, d in content(folder).items() if n != MANIFEST} == {**NEW, "mine": b"mine"}
        if code == 0:
            break
        assert code == -signal.SIGKILL
        deaths += 1
    assert deaths > 10 and code == 0


def test_remains_of_a_killed_export_into_a_new_directory_are_removed(tmp_path: Path) -> None:
    assert write_and_die(tmp_path / "model", 5) == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 1
    write_folder(tmp_path / "model", {"a.c": "new"}, force=False)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_directory_may_have_the_longest_name(tmp_path: Path) -> None:
    write_folder(tmp_path / ("n" * 255), {"a.c": "new"}, force=False)
    assert [path.name for path in tmp_path.iterdir()] == ["n" * 255]


def test_a_file_in_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model").write_text("a file")
    for force in (False, True):
        with pytest.raises(UsageError, match="is a file"):
            export_model(fused(), tmp_path / "model", "c", force=force)
    with pytest.raises(UsageError, match="cannot be written"):
        export_model(fused(), tmp_path / "model" / "below", "c")
    assert (tmp_path / "model").read_text() == "a file"


def test_an_unknown_format_is_named(tmp_path: Path) -> None:
    formats = "arduino, platformio, esp-idf, esphome, c, zephyr"
    with pytest.raises(UsageError, match=f"no format 'mbed'; the formats are {formats}"):
        export_model(fused(), tmp_path / "model", "mbed")


@pytest.mark.parametrize("name", ["-model", "my model", "modèle", "x" * 64])
def test_a_sketch_needs_a_name_arduino_takes(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no name for one"):
        export_model(fused(), tmp_path / name, "arduino")
    export_model(fused(), tmp_path / name, "platformio")


def test_a_failure_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = folder_module._write_all

    def disk_full(root: Path, files: dict[str, bytes]) -> None:
        real(root, dict(list(files.items())[:3]))
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(folder_module, "_write_all", disk_full)
    with pytest.raises(UsageError, match="No space left on device"):
        export_model(fused(), tmp_path / "model", "c")
    assert list(tmp_path.iterdir()) == []


def test_a_failure_leaves_existing_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_files_have_the_permissions_of_new_files(tmp_path: Path) -> None:
    write_folder(tmp_path / "model", {"a/b.txt": "text"}, force=False)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    assert mode(tmp_path / "model") == mode(tmp_path / "model" / "a") == mode(tmp_path / "folder")
    assert mode(tmp_path / "model" / "a" / "b.txt") == mode(tmp_path / "file")


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_pipe_in_place_of_the_manifest_does_not_block(tmp_path: Path) -> None:
    """Not even Ctrl-C ended that, which waits until a folder is whole."""
    (tmp_path / "notes.txt").write_text("mine")
    os.mkfifo(tmp_path / MANIFEST)
    with pytest.raises(UsageError, match=r"would lose \.tflite-fuse\.json"):
        write_folder(tmp_path, {"main.c": "int x;\n"}, force=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == [MANIFEST, "notes.txt"]
