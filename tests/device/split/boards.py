"""Workers of a split on emulated boards: a QEMU Cortex-M7 each, joined to this machine by its serial line."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tests.device.program import binary
from tests.device.targets import TARGETS, Target, link
from tflite_fuse.split.fragments.encode import Fragments, decode

HERE = Path(__file__).parent

RAM, FLASH = 64 * 1024, 1024 * 1024
"""Of a board, for everything: the linker script has no more."""

EMULATOR = "qemu-system-arm -M mps2-an500 -cpu cortex-m7 -nographic -monitor none -semihosting-config"


def board() -> Target:
    """A Cortex-M7 with little memory."""
    target = TARGETS["cortex-m7"]
    small = target.link.replace("code_length=0x3fffc0", f"code_length={FLASH - 0x40:#x}")
    return replace(target, link=small.replace("data_length=0x400000", f"data_length={RAM:#x}"))


def firmware(fragment: bytes, folder: Path, target: Target | None = None, flags: str = "-O2") -> Path:
    """What is flashed on a board: library, link, fragment. Raises RuntimeError: it does not fit the board's memory."""
    folder.mkdir(parents=True, exist_ok=True)
    size = max(1, decode(fragment).header.buffer_bytes)
    lines = [binary(folder, "fragment", fragment), f"static _Alignas(16) uint8_t buffer[{size}];"]
    (folder / "fragment.h").write_text("\n".join(lines) + "\n")
    return link(target or board(), HERE / "board.c", folder, flags)


@dataclass
class Boards:
    """Running boards.

    Attributes:
        addresses: where each worker's serial line is reached, by its number.
        processes: the emulators.
    """

    addresses: Mapping[int, str]
    processes: Mapping[int, subprocess.Popen[bytes]]


@contextmanager
def running(fragments: Fragments, folder: Path, target: Target | None = None, flags: str = "-O2") -> Iterator[Boards]:
    """A board for every worker that has something to do, until the end of the block. What it writes is in ``told``."""
    with ExitStack() as stack:
        addresses, processes = dict[int, str](), dict[int, subprocess.Popen[bytes]]()
        for number, fragment in enumerate(fragments.workers):
            if decode(fragment).steps:
                addresses[number], processes[number] = started(fragment, folder / str(number), stack, target, flags)
        for number, address in addresses.items():
            wait_for(address, processes[number])
        yield Boards(addresses, processes)


def started(
    fragment: bytes, folder: Path, stack: ExitStack, target: Target | None = None, flags: str = "-O2"
) -> tuple[str, subprocess.Popen[bytes]]:
    """A board with a fragment, until the stack is left; where its serial line will be reached."""
    elf, port = firmware(fragment, folder, target, flags), _free_port()
    command = [*EMULATOR.split(), "enable=on,target=native", "-serial"]
    command += [f"tcp:127.0.0.1:{port},server=on,wait=off,nodelay=on", "-kernel", str(elf)]
    said = stack.enter_context((folder / "told").open("wb"))
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
    stack.callback(_end, process)
    return f"socket://127.0.0.1:{port}", process


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(address: str, process: subprocess.Popen[bytes]) -> None:
    """Until the emulator listens."""
    host, port = address.removeprefix("socket://").rsplit(":", 1)
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=10).close()
        except OSError:
            if process.poll() is not None:
                raise RuntimeError(f"the emulator ended with {process.returncode}") from None
            continue
        return
