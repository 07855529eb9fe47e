"""Refused operations of a process without rights, tried in one."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from tests import PATIENCE
from tests.runtime.small_models import dense_model
from tflite_fuse.errors import ModelError
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.processes import confinement
from tflite_fuse.runtime.processes.worker import Worker, WorkerKind

filtered = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="calls are filtered on x86-64 Linux"
)

PROGRAM = """
import ctypes, fcntl, os, resource, runpy, signal, socket, subprocess, sys, threading, time
log = open(sys.argv[3], "wb")
go, result = threading.Event(), []
def write():
    go.wait()
    try:
        open(sys.argv[2] + '/new', 'w')
    except OSError as error:
        result.append(error)
thread = threading.Thread(target=write, daemon=True)
thread.start()
sound = runpy.run_path(sys.argv[1])
assert sound["confine"]() == "", "no filter here"
folder, libc = sys.argv[2], ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    if libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments)) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
{0}
print("done")
"""

FORBIDDEN = {
    "create a file": "open(folder + '/new', 'w')",
    "append to a file": "open(folder + '/old', 'a')",
    "write to one": "os.open(folder + '/old', os.O_RDWR)",
    "remove one": "os.unlink(folder + '/old')",
    "rename one": "os.rename(folder + '/old', folder + '/new')",
    "make a folder": "os.mkdir(folder + '/new')",
    "link": "os.link(folder + '/old', folder + '/new')",
    "link by name": "os.symlink(folder + '/old', folder + '/new')",
    "change a mode": "os.chmod(folder + '/old', 0o777)",
    "change a time": "os.utime(folder + '/old')",
    "truncate": "os.truncate(folder + '/old', 0)",
    "open a socket": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
    "open a local socket": "socket.socketpair()",
    "fork": "os.fork()",
    "run a program": "os.execv('/bin/true', ['true'])",
    "start a program": "subprocess.run(['/bin/true'])",
    "signal another": "os.kill(os.getppid(), 0)",
    "queue a signal for another": "call(129, os.getppid(), 0, ctypes.addressof(ctypes.create_string_buffer(128)))",
    "queue one for a thread": "call(297, *[os.getppid()] * 2, 0, ctypes.addressof(ctypes.create_string_buffer(128)))",
    "make another a file's owner": "fcntl.fcntl(log, fcntl.F_SETOWN, os.getppid())",
    "choose an owner's signal": "fcntl.fcntl(log, 10, signal.SIGKILL)",
    "make another a pipe's owner": "fcntl.ioctl(os.pipe()[0], 0x8901, os.getppid().to_bytes(4, 'little'))",
    "type into a terminal": "fcntl.ioctl(0, 0x5412, b'x')",
    "change another's priority": "os.setpriority(os.PRIO_PROCESS, os.getppid(), 19)",
    "change another's cores": "os.sched_setaffinity(os.getppid(), [0])",
    "leave its session": "os.setsid()",
    "map shared memory by number": "call(30, 0, 0, 0)",
    "take from shared semaphores": "call(65, 0, 0, 0)",
    "make a file in memory": "os.memfd_create('x')",
    "set the clock": "call(305, 0, 0)",
    "change another's limits": "resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (1000, 1000))",
    "raise a limit": "resource.setrlimit(resource.RLIMIT_AS, (-1, -1)) if os.geteuid() else os.fork()",
    "change a limit of its own": "call(302, 0, resource.RLIMIT_AS, ctypes.addressof((ctypes.c_long * 2)(-1, -1)), 0)",
    "change one the old way": "call(160, resource.RLIMIT_AS, ctypes.addressof((ctypes.c_long * 2)(-1, -1)))",
    "change one from an address with a low half of zero": "call(302, 0, resource.RLIMIT_AS, 1 << 32, 0)",
    "lock a file": "fcntl.flock(open(folder + '/old'), fcntl.LOCK_EX)",
    "lock a part of one": "fcntl.lockf(open(folder + '/old'), fcntl.LOCK_SH)",
    "choose a signal for its parent's end": "call(157, 1, signal.SIGKILL, 0, 0, 0)",
    "share another's core": "call(157, 62, 1, os.getppid(), 0, 0)",
    "be another user": "os.setuid(os.geteuid())",
    "hang up a terminal": "call(153)",
    "change what addresses are": "call(154, 0, 0, 0)",
    "write by a thread it had before": "go.set(); thread.join(); raise result[0]",
}


def confined(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "old").write_text("old")
    arguments = [str(Path(confinement.__file__)), str(folder), str(folder.parent / "log")]
    command = [sys.executable, "-c", PROGRAM.format(code), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)


@filtered
@pytest.mark.parametrize("what", FORBIDDEN)
def test_it_may_not(what: str, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    done = confined(FORBIDDEN[what], folder)
    assert done.returncode == 1 and "done" not in done.stdout, done.stderr
    assert "Operation not permitted" in done.stderr or "not allowed" in done.stderr, done.stderr
    assert [(path.name, path.read_text()) for path in folder.iterdir()] == [("old", "old")]


@filtered
@pytest.mark.parametrize("number", [425, 426, 427, 435, 437, 438, 440, 448, 452, 463, 470, 1000])
def test_calls_newer_than_the_filter_are_unknown(number: int, tmp_path: Path) -> None:
    done = confined(f"call({number}, 0, 0, 0, 0, 0, 0)", tmp_path)
    assert done.returncode == 1 and "Function not implemented" in done.stderr, done.stderr


@filtered
def test_it_may_read_compute_and_write_where_it_could_before(tmp_path: Path) -> None:
    code = """
assert open(folder + '/old').read() == 'old'
other = threading.Thread(target=time.sleep, args=(0.01,)); other.start(); other.join()
assert resource.getrlimit(resource.RLIMIT_STACK) and resource.prlimit(0, resource.RLIMIT_NOFILE)[0] == 256
log.write(b'said'); log.flush(); log.truncate(2)
assert not os.isatty(0) and fcntl.fcntl(log, fcntl.F_GETFD) == fcntl.FD_CLOEXEC
"""
    folder = tmp_path / "folder"
    folder.mkdir()
    done = confined(code, folder)
    assert done.stdout == "done\n", done.stderr
    assert (tmp_path / "log").read_text() == "sa"


@filtered
def test_memory_and_files_are_bounded(tmp_path: Path) -> None:
    done = confined("bytearray(1 << 33)", tmp_path)
    assert "MemoryError" in done.stderr
    done = confined("log.write(bytes(1 << 25)); log.flush()", tmp_path)
    assert "File too large" in done.stderr


@filtered
def test_processor_time_is_bounded(tmp_path: Path) -> None:
    done = confined("sound['allow_seconds'](0)\nwhile True: pass", tmp_path)
    assert done.returncode == -24  # SIGXCPU


@filtered
def test_it_can_still_crash_as_itself(tmp_path: Path) -> None:
    assert confined("os.abort()", tmp_path).returncode == -6


@filtered
@pytest.mark.skipif(not tflm.available(), reason="tflite-micro is not installed")
def test_the_runtime_is_confined_and_its_crash_is_reported() -> None:
    child = Worker(WorkerKind())
    try:
        assert child.unconfined == ""
        status = Path(f"/proc/{child.process_id}/status").read_text()
        assert "NoNewPrivs:\t1" in status and "Seccomp:\t2" in status
        child.load(dense_model())
        Path(f"/proc/{child.process_id}/comm").read_text()
        subprocess.run(["kill", "-SEGV", str(child.process_id)], check=True)
        with pytest.raises(ModelError, match="the runtime crashed with SIGSEGV"):
            child.load(dense_model())
    finally:
        child.close()
