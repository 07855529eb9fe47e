"""Ctrl-C and SIGTERM: the command ends within a second, with one sentence, and its child processes with it.

While a command runs, the first interrupt is raised as KeyboardInterrupt, so temporary files are removed and children
ended in order. A command that has not ended ``GRACE_SECONDS`` later is ended by a thread. Outside a command, while
modules are imported, an interrupt ends the process at once. Only small modules of the standard library are imported
here, because this module is imported before all others.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time

TYPE_CHECKING = False  # as in typing, whose import takes longer than all of this
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import FrameType

SENTENCE = "interrupted; files are as they were, or whole and new"
EXIT_CODE = 130
GRACE_SECONDS = 0.5

_SHOW_CURSOR = b"\x1b[?25h"
_AT_ONCE = getattr(signal, "SIGKILL", signal.SIGTERM)
"""Signal that ends a process at once; Windows has only SIGTERM, which does."""
_running = 0
_raised = False
_printed = False


def end_on_interrupts() -> None:
    """End this process on SIGINT and SIGTERM from now on; signals that it was started to ignore stay ignored."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _arrived)


@contextlib.contextmanager
def raised() -> Iterator[None]:
    """Return a context that raises the first interrupt inside as KeyboardInterrupt."""
    global _running
    _running += 1
    try:
        yield
    finally:
        _running -= 1


def was_printed() -> bool:
    """Return whether the sentence was printed before, and record that it is from now on."""
    global _printed
    before, _printed = _printed, True
    return before


def end_processes(roots: Iterable[int]) -> None:
    """Kill processes and all that they started."""
    for each in _with_descendants(roots):
        with contextlib.suppress(OSError):
            os.kill(each, _AT_ONCE)


def _arrived(number: int, frame: FrameType | None) -> None:
    global _raised
    if _raised or not _running:
        _end()
    _raised = True
    threading.Thread(target=_end_later, daemon=True).start()
    raise KeyboardInterrupt


def _end_later() -> None:
    time.sleep(GRACE_SECONDS)
    _end()


def _end() -> None:
    here = os.getpid()
    end_processes(each for each in _with_descendants([here]) if each != here)
    with contextlib.suppress(OSError):
        if os.isatty(2):
            os.write(2, _SHOW_CURSOR)
        if not was_printed():
            os.write(2, f"tflite-fuse: {SENTENCE}\n".encode())
    os._exit(EXIT_CODE)


def _with_descendants(roots: Iterable[int]) -> list[int]:
    """Return processes and all that they started, if the system lists them in /proc; else those of multiprocessing."""
    children: dict[int, list[int]] = {}
    for name in _listed():
        with contextlib.suppress(OSError, IndexError), open(f"/proc/{name}/stat", "rb") as line:  # noqa: PTH123
            children.setdefault(int(line.read().rpartition(b")")[2].split()[1]), []).append(int(name))
    if not children and "multiprocessing" in sys.modules:
        children[os.getpid()] = [each.pid for each in sys.modules["multiprocessing"].active_children()]
    processes, waiting = list[int](), [*roots]
    while waiting:
        processes.append(waiting.pop())
        waiting += children.get(processes[-1], ())
    return processes


def _listed() -> list[str]:
    try:
        return [name for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 (pathlib takes longer to import)
    except OSError:
        return []
