"""What the command line prints, and how errors end: one sentence on stderr, an exit code, nothing else."""

from __future__ import annotations

import functools
import json
import os
import platform
import sys
import traceback
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

import typer
from rich.console import Console

import tflite_fuse
from tflite_fuse import interrupts
from tflite_fuse.errors import ClusterError, LimitError, TfliteFuseError, UsageError, VerificationError
from tflite_fuse.files import write_atomically
from tflite_fuse.memory.budget import heard_by
from tflite_fuse.report.notebook import printable

_PIPE_WIDTH = 200
"""Columns of a table that goes into a pipe or a file, where no line must break."""

log_file: ContextVar[Path | None] = ContextVar("log_file", default=None)
"""Where defects are written down, if the user said where."""

F = TypeVar("F", bound=Callable[..., Any])


def console(stderr: bool = False) -> Console:
    """Where to print: as wide as the terminal, or wide enough for a pipe; names hold no markup."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else _PIPE_WIDTH
    return Console(stderr=stderr, width=width, soft_wrap=True, highlight=False, markup=False, emoji=False)


def answers_errors(command: F) -> F:
    """Turn the project's errors into one sentence on stderr and an exit code."""

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        try:
            with interrupts.raised():
                return command(*args, **kwargs)
        except TfliteFuseError as error:
            fail(str(error), 1 if isinstance(error, (LimitError, VerificationError, ClusterError)) else 2)
        except KeyboardInterrupt:
            if not interrupts.is_said():
                say(f"tflite-fuse: {interrupts.SENTENCE}", stderr=True)
            raise typer.Exit(interrupts.EXIT_CODE) from None
        except BrokenPipeError:  # the reader has closed the pipe
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(1) from None
        except OSError as error:
            fail(refusal(error), 2)
        except (MemoryError, RecursionError) as error:
            fail(f"the model is too large for this machine ({type(error).__name__})", 2)
        except (typer.Exit, typer.Abort):
            raise
        except Exception as error:
            fail(f"a defect of tflite-fuse, please report it with the model: {_described(error)}", 3)

    return wrapped  # type: ignore[return-value]


def refusal(error: OSError) -> str:
    """A full disk, a missing permission and the like, as a sentence."""
    return f"the system refuses what is needed here ({error.strerror or error})"


def _described(error: Exception) -> str:
    """What happened, and where the log file is if one was asked for."""
    words = f"{type(error).__name__}: {error}"
    log = log_file.get()
    if log is None:
        return f"{words} (tflite-fuse --log FILE ... writes down where)"
    here = f"tflite-fuse {tflite_fuse.__version__}, Python {platform.python_version()}, {platform.platform()}"
    text = "\n".join([here, " ".join(map(ascii, sys.argv[1:])), traceback.format_exc()])
    try:
        write_atomically(text.encode("utf-8", "backslashreplace"), Path(log))
    except UsageError as failure:
        return f"{words} (and no log: {failure})"
    return f"{words} (where is written in {log})"


def fail(message: str, code: int) -> None:
    """End the command with one sentence on stderr."""
    say(f"tflite-fuse: {message}", stderr=True)
    raise typer.Exit(code)


def say(text: str, stderr: bool = False) -> None:
    """One line; nothing a file or a path is named can move the cursor or look like another line."""
    console(stderr).print(printable(text))


def print_json(value: dict[str, Any]) -> None:
    """One object on stdout, whatever is printed elsewhere."""
    sys.stdout.write(json.dumps(value, indent=2) + "\n")


def write_json(value: Mapping[str, Any], path: Path | None) -> None:
    """One object into a file, if there is one to be written. Raises UsageError."""
    if path is not None:
        write_atomically((json.dumps(value, indent=2) + "\n").encode(), path)


class Status:
    """A line on stderr for work that takes more than a second; nothing where stderr is no terminal or JSON is asked."""

    def __init__(self, what: str, quiet: bool) -> None:
        self._status = console(stderr=True).status(f"{what} ...")
        self._what = what
        self._shown = not quiet and sys.stderr.isatty()
        self._heard = heard_by(self._update)

    def __enter__(self) -> Callable[[str, int, int], None]:
        if self._shown:
            self._status.start()
        self._heard.__enter__()
        return self._update

    def __exit__(self, *exception: object) -> None:
        self._heard.__exit__(None, None, None)
        if self._shown:
            self._status.stop()

    def _update(self, step: str, done: int, total: int) -> None:
        if self._shown:
            count = f"{done:,} of {total:,} {step}" if total else f"{done:,} {step}" if done else step
            self._status.update(f"{self._what}: {count}")
