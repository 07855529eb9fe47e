"""Files hold their old bytes or their new ones; leftovers of killed processes are removed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests import PATIENCE
from tflite_fuse import files
from tflite_fuse.errors import UsageError
from tflite_fuse.files import read_file, require_apart, write_atomically

ROOT = Path(__file__).resolve().parents[1]


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_name_may_be_as_long_as_the_system_takes(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 255)
    write_atomically(b"one", path)
    write_atomically(b"two", path)
    assert path.read_bytes() == b"two" and len(names(tmp_path)) == 1


def test_links_that_lead_to_each_other_are_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(UsageError, match="cannot be written"):
        write_atomically(b"data", tmp_path / "a")
    with pytest.raises(UsageError, match="cannot be read"):
        read_file(tmp_path / "a")
    require_apart((tmp_path / "a",), (tmp_path / "b", Path("a\0b")))
    assert names(tmp_path) == {"a", "b"}


def test_a_name_with_a_zero_byte_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_file(tmp_path / "a\0b")
    with pytest.raises(UsageError, match="cannot be written"):
        write_atomically(b"data", tmp_path / "a\0b")


def test_a_file_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_BYTES", 1 << 20)
    with pytest.raises(UsageError, match="more than 1,048,576 bytes"):
        read_file(Path("/dev/zero"))


def test_file_and_folder_are_on_the_disk_before_success_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    write_atomically(b"data", tmp_path / "file")
    assert Path(synced[0]).parent == tmp_path and synced[0].endswith(".tmp")
    assert synced[1:] == [str(tmp_path)]


def test_a_failure_leaves_no_temporary_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"old")

    def disk_full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", disk_full)
    with pytest.raises(UsageError, match="No space left"):
        write_atomically(b"new", tmp_path / "file")
    assert names(tmp_path) == {"file"} and (tmp_path / "file").read_bytes() == b"old"


def _run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    program = (
        f"import os, signal, sys\nfrom pathlib import Path\nfrom tflite_fuse import files\n{textwrap.dedent(code)}"
    )
    command = [sys.executable, "-c", program, str(folder)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


DIES_WHILE_WRITING = """
    os.fsync = lambda descriptor: os.kill(os.getpid(), signal.SIGKILL)
    files.write_atomically(b"new", Path(sys.argv[1]) / "file")
"""


def test_the_next_write_removes_remains_of_a_killed_process(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    for _ in range(2):
        assert _run(DIES_WHILE_WRITING, tmp_path).returncode == -signal.SIGKILL
    assert (tmp_path / "file").read_bytes() == b"old"
    assert len(names(tmp_path)) == 2  # the second one removed what the first one left
    write_atomically(b"new", tmp_path / "file")
    assert names(tmp_path) == {"file"} and (tmp_path / "file").read_bytes() == b"new"


def test_the_temporary_file_of_a_living_process_stays(tmp_path: Path) -> None:
    descriptor, temporary = files._locked_temporary(tmp_path)
    write_atomically(b"data", tmp_path / "file")
    assert names(tmp_path) == {"file", temporary.name}
    os.close(descriptor)
    write_atomically(b"data", tmp_path / "file")
    assert names(tmp_path) == {"file"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_while_writing_comes_when_the_file_is_whole(number: int, tmp_path: Path) -> None:
    code = f"""
        for number in (signal.SIGTERM, signal.SIGINT):  # a shell starts what runs in its background deaf to SIGINT
            signal.signal(number, signal.default_int_handler)
        real = os.fsync
        os.fsync = lambda descriptor: (os.kill(os.getpid(), {number}), real(descriptor))
        try:
            files.write_atomically(b"new", Path(sys.argv[1]) / "file")
        except KeyboardInterrupt:
            print("interrupted")
    """
    done = _run(code, tmp_path)
    assert done.stdout == "interrupted\n", done.stderr
    assert names(tmp_path) == {"file"} and (tmp_path / "file").read_bytes() == b"new"


def test_a_pipe_called_like_a_leftover_does_not_keep_a_writer_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".tflite-fuse-0123456789abcdef.tmp")
    code = "import sys, pathlib, tflite_fuse.files as f; f.write_atomically(b'new', pathlib.Path(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "out")], check=True, timeout=PATIENCE)
    assert (tmp_path / "out").read_bytes() == b"new"
