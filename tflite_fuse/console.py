"""Output of the command line, and the end of errors: one sentence on stderr and an exit code."""

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
from tflite_fuse.memory.budget import reporting_to
from tflite_fuse.report.notebook import printable

_PIPE_WIDTH = 200
"""Columns of a table in a pipe or a file, where lines must not break."""

log_file: ContextVar[Path | None] = ContextVar("log_file", default=None)
"""File for details of defects, if the user gave one."""

F = TypeVar("F", bound=Callable[..., Any])


def console(stderr: bool = False) -> Console:
    """Return the console: as wide as the terminal, or wide enough for a pipe, without markup in names."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else _PIPE_WIDTH
    return Console(stderr=stderr, width=width, soft_wrap=True, highlight=False, markup=False, emoji=False)


def answers_errors(command: F) -> F:
    """Return a command that turns the project's errors into one sentence on stderr and an exit code."""

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        try:
            with interrupts.raised():
                return command(*args, **kwargs)
        except TfliteFuseError as error:
            fail(str(error), 1 if isinstance(error, (LimitError, VerificationError, ClusterError)) else 2)
        except KeyboardInterrupt:
            if not interrupts.was_printed():
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
    """Return an error of the system, such as a full disk or a missing permission, as a sentence."""
    return f"the system refuses an operation ({error.strerror or error})"


def _described(error: Exception) -> str:
    """Return the defect in words, with the log file if one was requested."""
    words = f"{type(error).__name__}: {error}"
    log = log_file.get()
    if log is None:
        return f"{words} (tflite-fuse --log FILE ... writes the details)"
    here = f"tflite-fuse {tflite_fuse.__version__}, Python {platform.python_version()}, {platform.platform()}"
    text = "\n".join([here, " ".join(map(ascii, sys.argv[1:])), traceback.format_exc()])
    try:
        write_atomically(text.encode("utf-8", "backslashreplace"), Path(log))
    except UsageError as failure:
        return f"{words} (and no log: {failure})"
    return f"{words} (details are in {log})"


def fail(message: str, code: int) -> None:
    """End the command with one sentence on stderr."""
    say(f"tflite-fuse: {message}", stderr=True)
    raise typer.Exit(code)


def say(text: str, stderr: bool = False) -> None:
    """Print one line; names in it can neither move the cursor nor look like another line."""
    console(stderr).print(printable(text))


def print_json(value: dict[str, Any]) -> None:
    """Print one object on stdout."""
    sys.stdout.write(json.dumps(value, indent=2) + "\n")


def write_json(value: Mapping[str, Any], path: Path | None) -> None:
    """Write one object into a file, if there is a path. Raises UsageError."""
    if path is not None:
        write_atomically((json.dumps(value, indent=2) + "\n").encode(), path)


class Status:
    """A progress line on stderr; none if stderr is no terminal or JSON was requested."""

    def __init__(self, what: str, quiet: bool) -> None:
        self._status = console(stderr=True).status(f"{what} ...")
        self._what = what
        self._shown = not quiet and sys.stderr.isatty()
        self._reporting = reporting_to(self._update)

    def __enter__(self) -> Callable[[str, int, int], None]:
        if self._shown:
            self._status.start()
        self._reporting.__enter__()
        return self._update

    def __exit__(self, *exception: object) -> None:
        self._reporting.__exit__(None, None, None)
        if self._shown:
            self._status.stop()

    def _update(self, step: str, done: int, total: int) -> None:
        if self._shown:
            count = f"{done:,} of {total:,} {step}" if total else f"{done:,} {step}" if done else step
            self._status.update(f"{self._what}: {count}")
