#!/usr/bin/env python3
"""Split a model over three workers, start them, run inferences, and stop one of them on the way.

    demo_split.py [MODEL] [--on boards|processes]

The workers are emulated boards with a Cortex-M7, 64 KB of RAM and 1 MB of flash, on serial lines; or processes of this
machine, the default without an emulator. Without a model, boards run one of 2.4 MB of weights, which fits none of them
alone, and processes the bundled sample. The outputs are compared with TensorFlow Lite Micro running the whole model,
byte by byte.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.device.split.boards import FLASH, RAM, board, started, wait_for
from tests.split.networks import large_model
from tflite_fuse.data import SAMPLE_MODEL
from tflite_fuse.model import load_model, serialize_model
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.inputs import generate_inputs

NAMES = ("left", "middle", "right")
INPUTS = 4
WORKER = '[[worker]]\nname = "{}"\ntarget = "cortex-m7"\nmhz = 600\n'
BOARD = WORKER.replace("600", "100") + f"ram = {RAM}\nflash = {FLASH}\n"
LINK = '[[link]]\nbetween = ["left", "middle", "right"]\n'


def tflite_fuse(*arguments: object, expect: int = 0) -> None:
    """Run a command of the package. Raises SystemExit for another exit code than expected."""
    words = [str(each) for each in arguments]
    print(f"\n$ tflite-fuse {' '.join(words)}", flush=True)
    code = subprocess.run([sys.executable, "-m", "tflite_fuse", *words], check=False).returncode
    if code != expect:
        raise SystemExit(f"demo: the command ended with {code} instead of {expect}")


Worker = tuple[str, subprocess.Popen[bytes]]
"""name=address, and what runs it."""


def start(folder: Path, name: str, stack: contextlib.ExitStack) -> Worker:
    """Start a worker process."""
    command = [sys.executable, "-m", "tflite_fuse", "cluster", "worker", str(folder), name]
    process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE))
    stack.callback(process.kill)
    assert process.stdout is not None
    words = process.stdout.readline().decode().split()
    if len(words) != 4:
        raise SystemExit(f"demo: the worker {name} does not start")
    return f"{name}={words[3]}", process


def start_board(folder: Path, name: str, stack: contextlib.ExitStack) -> Worker:
    """Start an emulated board with the worker's fragment."""
    fragment = (folder / "fragments" / f"{NAMES.index(name)}.fragment").read_bytes()
    address, process = started(fragment, Path(tempfile.mkdtemp(dir=folder.parent)), stack)
    wait_for(address, process)
    return f"{name}={address}", process


def places(workers: Sequence[Worker]) -> list[str]:
    """Return the addresses of the workers as options."""
    return [text for address, _ in workers for text in ("--at", address)]


def main() -> None:
    """Split, start, run and compare; then repeat without one worker."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, nargs="?")
    parser.add_argument("--on", choices=("boards", "processes"))
    chosen = parser.parse_args()
    missing = board().missing() if chosen.on != "processes" else []
    if missing:
        lack = f"no emulated boards, because {', '.join(missing)} is not installed"
        if chosen.on:
            raise SystemExit(f"demo: {lack}")
        print(f"{lack}: processes instead")
    on_boards = chosen.on != "processes" and not missing
    begin, device = (start_board, BOARD) if on_boards else (start, WORKER)
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        model = chosen.model or SAMPLE_MODEL
        if on_boards and not chosen.model:
            model = folder / "model.tflite"
            model.write_bytes(serialize_model(large_model()))
        (folder / "workers.toml").write_text("".join(map(device.format, NAMES)) + ("" if on_boards else LINK))
        samples = generate_inputs(load_model(model), INPUTS)
        np.savez(folder / "x.npz", *(np.stack(each) for each in zip(*samples, strict=True)))
        plan, outputs = folder / "plan", folder / "y.npz"
        tflite_fuse("split", model, "--workers", folder / "workers.toml", "-o", plan)
        tflite_fuse("cluster", "simulate", plan)
        workers = [begin(plan, each, stack) for each in NAMES]
        tflite_fuse("cluster", "status", plan, *places(workers))
        run = ("cluster", "run", plan, "--input", folder / "x.npz", "--output", outputs, "--timeout", 240)
        tflite_fuse(*run, *places(workers))
        expected = tflm.run(model.read_bytes(), samples).outputs
        with np.load(outputs) as file:
            arrays = [file[key] for key in file.files]
        for index, of_sample in enumerate(expected):
            if not all(np.array_equal(array[index], each) for array, each in zip(arrays, of_sample, strict=True)):
                raise SystemExit(f"demo: inference {index} gives other bytes than {tflm.RUNTIME_NAME}")
        print(f"\nThe same bytes as {tflm.RUNTIME_NAME} on {INPUTS} inputs. Now without {NAMES[1]}:")
        workers[1][1].kill()
        workers[1][1].wait()
        tflite_fuse(*run, *places(workers), expect=1)
        workers[1] = begin(plan, NAMES[1], stack)
        print(f"\nAnd with a new {NAMES[1]}:")
        tflite_fuse(*run, *places(workers))


if __name__ == "__main__":
    main()
