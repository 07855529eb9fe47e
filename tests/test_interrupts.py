"""Ctrl-C: one sentence, exit code 130, no process left, at any moment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tflite_fuse.interrupts import EXIT_CODE, SENTENCE

ROOT = Path(__file__).parents[1]

PATIENCE = 60.0
"""Seconds until a process that does not end fails the test; what it would wait for takes ten times as long."""

TOLD = f"tflite-fuse: {SENTENCE}\n"
BEGIN = """
import os, signal, subprocess, sys, time
from tflite_fuse import interrupts

signal.signal(signal.SIGINT, signal.default_int_handler)
interrupts.end_on_interrupts()

def interrupt():
    os.kill(os.getpid(), signal.SIGINT)

"""


def ended(program: str, *arguments: str) -> tuple[int, str]:
    """Exit code and what was said on stderr."""
    call = [sys.executable, "-c", BEGIN + program, *arguments]
    done = subprocess.run(call, capture_output=True, check=False, cwd=ROOT, text=True, timeout=PATIENCE)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "program",
    [
        "interrupt(); time.sleep(600)",
        "with interrupts.raised():\n  try:\n    interrupt()\n  finally:\n    time.sleep(600)",
        "with interrupts.raised():\n  try:\n    interrupt()\n  finally:\n    interrupt(); time.sleep(600)",
        "from tflite_fuse.console import answers_errors\n@answers_errors\ndef command(): interrupt(); time.sleep(600)\n"
        "import typer; typer.run(command)",
        "os.kill(os.getpid(), signal.SIGTERM); time.sleep(600)",
    ],
    ids=["outside", "cleaning up takes long", "twice", "a command", "asked to end"],
)
def test_an_interrupt_ends_in_one_sentence(program: str) -> None:
    assert ended(program) == (EXIT_CODE, TOLD)


def test_temporary_files_go_before_the_process_does(tmp_path: Path) -> None:
    program = (
        "with interrupts.raised():\n  try:\n    interrupt(); time.sleep(600)\n  finally:\n    os.rmdir(sys.argv[1])"
    )
    (tmp_path / "left").mkdir()
    code, _ = ended(program, str(tmp_path / "left"))
    assert code != 0 and not (tmp_path / "left").exists()


def test_an_interrupt_that_was_ignored_from_the_start_stays_so() -> None:
    program = "signal.signal(signal.SIGINT, signal.SIG_IGN); interrupts.end_on_interrupts(); interrupt()"
    assert ended(program) == (0, "")


def test_an_interrupt_while_modules_are_imported_ends_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text(
        "import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(600)\n"
    )
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    program = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "import runpy; runpy.run_module('tflite_fuse', run_name='__main__')"
    )
    call = [sys.executable, "-c", program, "inspect", "no.tflite"]
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        call, capture_output=True, check=False, cwd=tmp_path, env=environment, text=True, timeout=PATIENCE
    )
    assert (done.returncode, done.stderr) == (EXIT_CODE, TOLD)


SWEEP = """
from tests.test_interrupts import never_ends
from tflite_fuse.console import answers_errors
from tflite_fuse.pipelines.executors import run_here
from tflite_fuse.pipelines.sweep import Item
import typer

@answers_errors
def command():
    list(run_here(iter([Item(sys.argv[1], "", b"", "{}", "estimate")]), 1, never_ends))

try:
    command()
except typer.Exit as end:
    sys.exit(end.exit_code)
"""


def never_ends(item: object) -> object:
    """Work on an item that starts a process of its own, and says so."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    (Path(item.model) / "begun").write_text(f"{os.getpid()} {child.pid}")  # type: ignore[attr-defined]
    time.sleep(600)
    return item


def is_alive(process: int) -> bool:
    try:
        return "(zombie)" not in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are listed in /proc")
def test_a_pool_and_its_processes_children_end_in_the_middle_of_items(tmp_path: Path) -> None:
    call = [sys.executable, "-c", BEGIN + SWEEP, str(tmp_path)]
    process = subprocess.Popen(call, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    try:
        begun = tmp_path / "begun"
        while not (begun.exists() and len(begun.read_text().split()) == 2):
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=PATIENCE)
        assert (process.returncode, told) == (EXIT_CODE, TOLD)
        left = [int(word) for word in begun.read_text().split()]
        for _ in range(100):
            left = [each for each in left if is_alive(each)]
            if left:
                time.sleep(0.05)
        assert not left
    finally:
        process.kill()
