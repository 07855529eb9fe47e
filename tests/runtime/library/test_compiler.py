from __future__ import annotations

import ctypes
import os
import shutil
import stat
import tempfile
import threading
from pathlib import Path

import pytest

from tflite_fuse.errors import RuntimeUnavailableError
from tflite_fuse.files import lock_alone
from tflite_fuse.runtime.library import compiler
from tflite_fuse.runtime.library.compiler import build_library, find_compiler


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    cache = tmp_path / "cache"
    monkeypatch.setenv("TFLITE_FUSE_CACHE", str(cache))
    return cache


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "answer.h").write_text("#define ANSWER 42\n")
    (tmp_path / "answer.c").write_text('#include "answer.h"\nint answer(void);\nint answer(void) { return ANSWER; }\n')
    return tmp_path / "answer.c"


def answer(library: Path) -> int:
    """Of a copy: a library that is changed while it is loaded ends the process when that ends."""
    with tempfile.TemporaryDirectory() as folder:
        return int(ctypes.CDLL(shutil.copy(library, folder)).answer())


def test_built_once(source: Path, own_cache: Path) -> None:
    library = build_library("answer", [source], [source.parent])
    assert library.parent == own_cache
    assert answer(library) == 42
    built = library.stat().st_mtime_ns
    assert build_library("answer", [source], [source.parent]) == library
    assert library.stat().st_mtime_ns == built
    assert list(own_cache.iterdir()) == [library]


def test_another_text_header_or_flag_is_another_library(source: Path) -> None:
    first = build_library("answer", [source], [source.parent])
    flagged = build_library("answer", [source], [source.parent], flags=["-DUNUSED"])
    (source.parent / "answer.h").write_text("#define ANSWER 43\n")
    changed = build_library("answer", [source], [source.parent])
    assert len({first, flagged, changed}) == 3
    assert answer(changed) == 43


def test_many_at_once(source: Path, own_cache: Path) -> None:
    built: list[Path] = []
    threads = [
        threading.Thread(target=lambda: built.append(build_library("answer", [source], [source.parent])))
        for _ in range(4)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(built) == 4
    assert set(built) == set(own_cache.iterdir())


def test_a_library_that_another_process_builds_is_waited_for(
    source: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library, built = build_library("answer", [source], [source.parent]), list[tuple[object, ...]]()
    content = library.read_bytes()
    library.unlink()
    with library.with_suffix(".lock").open("w") as building:
        lock_alone(building.fileno())
        monkeypatch.setattr(compiler, "_compile", lambda *given: built.append(given))
        waiting = threading.Thread(target=build_library, args=("answer", [source], [source.parent]))
        waiting.start()
        waiting.join(0.5)
        assert waiting.is_alive()
        library.write_bytes(content)
        library.chmod(0o700)
    waiting.join()
    assert not built and list(own_cache.iterdir()) == [library]


def test_compiler_errors_are_one_sentence(source: Path, own_cache: Path) -> None:
    source.write_text("int answer(void) { return missing_name; }\n")
    with pytest.raises(RuntimeUnavailableError, match=r"cannot compile answer.*missing_name") as caught:
        build_library("answer", [source], [source.parent])
    assert "\n" not in str(caught.value)
    assert list(own_cache.iterdir()) == []


def test_a_compiler_that_takes_too_long_is_one_short_sentence(
    source: Path, tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = tmp_path / "slow"
    slow.write_text('#!/bin/sh\ncase "$*" in *answer*) exec sleep 60;; esac\necho slow\n')
    slow.chmod(0o700)
    monkeypatch.setenv("CC", str(slow))
    monkeypatch.setattr(compiler, "_TIMEOUT", 1.0)
    with pytest.raises(
        RuntimeUnavailableError, match=r"slow took more than 1 s for answer-\w+: try again when"
    ) as caught:
        build_library("answer", [source], [source.parent])
    assert len(str(caught.value)) < 300 and list(own_cache.iterdir()) == []


def test_a_missing_compiler_is_reported_with_a_remedy(
    source: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(RuntimeUnavailableError, match="install gcc, or set CC"):
        build_library("answer", [source], [source.parent])


def test_compiler_of_the_users_choice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wrapper = tmp_path / "my-cc"
    wrapper.write_text(f'#!/bin/sh\nexec {find_compiler().command[0]} "$@"\n')
    wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CC", f"{wrapper} -O1")
    assert find_compiler().command == (str(wrapper), "-O1")
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(RuntimeUnavailableError, match="no-such-compiler"):
        find_compiler()


@pytest.mark.parametrize("words", ['"', "gcc 'x", "\\"])
def test_a_damaged_command_line_is_no_compiler(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", words)
    with pytest.raises(RuntimeUnavailableError, match="CC"):
        find_compiler()


@pytest.mark.parametrize("does", ["", "printf '\\377\\n'; echo 'error: \377' >&2; exit ${2:+1}"])
def test_a_compiler_without_output_is_reported_in_one_sentence(
    does: str, source: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whatever bytes it says that in."""
    idle = tmp_path / "idle"
    idle.write_bytes(b"#!/bin/sh\n" + does.encode("latin-1") + b"\n")
    idle.chmod(0o755)
    monkeypatch.setenv("CC", str(idle))
    with pytest.raises(RuntimeUnavailableError, match="idle"):
        build_library("answer", [source], [source.parent])
    assert list(own_cache.iterdir()) == []


def test_cache_that_cannot_be_written(source: Path, own_cache: Path) -> None:
    own_cache.write_text("")
    assert answer(build_library("answer", [source], [source.parent])) == 42


@pytest.mark.parametrize("length", [0, 100, -1])
def test_a_library_cut_short_or_changed_is_built_again(length: int, source: Path) -> None:
    library = build_library("answer", [source], [source.parent])
    content = library.read_bytes()
    library.write_bytes(content[:length])
    assert build_library("answer", [source], [source.parent]) == library
    assert library.read_bytes() == content and answer(library) == 42
    changed = bytearray(content)
    changed[len(content) // 2] ^= 1
    library.write_bytes(changed)
    build_library("answer", [source], [source.parent])
    assert library.read_bytes() == content


def test_a_library_others_could_have_written_is_built_again(source: Path) -> None:
    library = build_library("answer", [source], [source.parent])
    library.chmod(0o777)
    build_library("answer", [source], [source.parent])
    assert stat.S_IMODE(library.stat().st_mode) == 0o700
    elsewhere = library.with_name("elsewhere")
    library.rename(elsewhere)
    library.symlink_to(elsewhere)
    build_library("answer", [source], [source.parent])
    assert not library.is_symlink()


def test_a_cache_others_can_write_to_is_not_used(source: Path, own_cache: Path) -> None:
    own_cache.mkdir()
    own_cache.chmod(0o777)
    assert build_library("answer", [source], [source.parent]).parent != own_cache
    own_cache.chmod(0o755)
    assert build_library("answer", [source], [source.parent]).parent == own_cache


def test_the_cache_is_made_for_its_user_alone(source: Path, own_cache: Path) -> None:
    build_library("answer", [source], [source.parent])
    assert stat.S_IMODE(own_cache.stat().st_mode) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_another_users_library_is_not_loaded(source: Path) -> None:
    library = build_library("answer", [source], [source.parent])
    os.chown(library, 12345, 12345)
    build_library("answer", [source], [source.parent])
    assert library.stat().st_uid == 0
