"""Processes killed and interrupted at random moments of writing: files afterwards must be old or new, and whole."""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import shutil
import signal
import tempfile
import time
from pathlib import Path
from random import Random

import tflite_fuse
from scripts.fuzzing.seeds import SEEDS, without_runtime
from tflite_fuse.export import export_model


@functools.cache
def _models() -> dict[str, tuple[bytes, bytes]]:
    """Return what is written first, and what replaces it."""
    return {"rewrite": (SEEDS["random"](), SEEDS["control"]()), "export": (SEEDS["fused"](), SEEDS["fused_overlap"]())}


def _write(kind: str, data: bytes, target: Path) -> None:
    with without_runtime():
        if kind == "rewrite":
            tflite_fuse.rewrite(data, verify=False).save(target)
        else:
            export_model(data, target, "platformio", force=True)


def _tree(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@functools.cache
def _undisturbed(kind: str) -> tuple[Path, dict[str, str], dict[str, str], float]:
    """Return a folder with the old result, its content, its content with the new one, and the processor seconds.

    Moments are drawn from processor time, not from the clock: on a busy machine all of them would be early ones.
    """
    folder = Path(tempfile.mkdtemp(prefix="tflite-fuse-kill-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    old, new = (folder / name for name in ("old", "new"))
    old.mkdir()
    _write(kind, _models()[kind][0], old / "result")
    shutil.copytree(old, new)
    _, _, used = os.wait4(_writer(kind, new / "result"), 0)
    return old, _tree(old), _tree(new), used.ru_utime + used.ru_stime


def _writer(kind: str, target: Path) -> int:
    """Start a process that writes the new result."""
    child = os.fork()
    if child == 0:
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            _write(kind, _models()[kind][1], target)
        finally:
            os._exit(0)
    return child


def _end_at_random(rng: Random, kind: str, target: Path, seconds: float, death: signal.Signals) -> None:
    """Write in a process of its own, which gets the signal somewhere in between."""
    moment = rng.random() * seconds
    child = _writer(kind, target)
    while _processor_seconds(child) < moment:
        if os.waitpid(child, os.WNOHANG)[0]:
            return
        time.sleep(0.0005)
    os.kill(child, death)
    os.waitpid(child, 0)


def _processor_seconds(process: int) -> float:
    return int(Path(f"/proc/{process}/schedstat").read_text().split()[0]) / 1e9


def case(kind: str, number: int, death: signal.Signals) -> str:
    """End a process while it replaces an older result; its outcome starts with ``bad`` if it must not be."""
    rng = Random(number)
    start, old, new, seconds = _undisturbed(kind)
    with tempfile.TemporaryDirectory(prefix="tflite-fuse-kill-") as name:
        work = Path(name) / "work"
        shutil.copytree(start, work)
        _end_at_random(rng, kind, work / "result", seconds, death)
        files = _tree(work)
        left = {path.name for path in work.rglob(".tflite-fuse-*.tmp")}
        whole = {name: data for name, data in files.items() if not any(each in name for each in left)}
        if any(data not in (old.get(name), new.get(name)) for name, data in whole.items()):
            return "bad: a file that is neither old nor new"
        if death is signal.SIGINT and (left or files not in (old, new)):
            return "bad: something left after an interrupt"
        if len(left) > 1:
            return "bad: more than one temporary"
        _write(kind, _models()[kind][1], work / "result")
        if _tree(work) != new:
            return "bad: the next run did not repair it"
        return "new" if files == new else "old" if files == old else "between"
