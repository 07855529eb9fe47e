"""Fits a model to a board, as it is or with options of ``rewrite``; every result is of an actual rewrite."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

from tflite_fuse import api
from tflite_fuse.boards.table import Board, known_boards
from tflite_fuse.boards.time import Time, report_time
from tflite_fuse.cost.instructions import Target
from tflite_fuse.errors import LimitError, UsageError
from tflite_fuse.memory.tflm.runtimes import DEFAULT_RUNTIME
from tflite_fuse.model.file import Source, load_model
from tflite_fuse.passes.goal import Goal
from tflite_fuse.passes.options import RewriteOptions
from tflite_fuse.report.notebook import plain_table
from tflite_fuse.report.report import Figures, Report
from tflite_fuse.rewriting.advice import changes

BOARD_SCHEMA = "tflite-fuse/board/1"

_MOST_NAMED = 5
"""Most boards that are named in one line."""


@dataclass(frozen=True)
class Fit:
    """Memory of a model rewritten with some options.

    Attributes:
        options: of ``rewrite``, may be empty; None for the model as it is.
        arena_bytes: to allocate.
        file_bytes: of the model in flash.
        fits: whether the board has both.
        time: of one inference; None if no block was made.
        second_bytes: of the board's second memory.
    """

    options: str | None
    arena_bytes: int
    file_bytes: int
    fits: bool
    time: Time | None = None
    second_bytes: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return an entry of ``tried`` in the JSON objects."""
        return asdict(self) | {"time": None if self.time is None else self.time.to_json()}

    def how(self) -> str:
        """Return how the model was rewritten, in words."""
        return "as it is" if self.options is None else f"after `{f'rewrite {self.options}'.rstrip()}`"


@dataclass(frozen=True)
class BoardVerdict:
    """The result of fitting a model to a board.

    Attributes:
        board: the board.
        reserve_bytes: RAM for everything but the tensor arena.
        tried: the model as it is, then rewrites up to the first that fits; those that change nothing are left out.
        also: names of boards with less RAM on which the last one also fits, with a quarter of it reserved, or
            ``reserve_bytes`` if requested.
        requested: whether ``reserve_bytes`` were requested.
        report: of the last rewrite; None if none was possible.
        runtime: name of the runtime on the device.
    """

    board: Board
    reserve_bytes: int
    tried: tuple[Fit, ...]
    also: tuple[str, ...]
    requested: bool = False
    report: Report | None = None
    runtime: str = DEFAULT_RUNTIME

    @property
    def fitting(self) -> Fit | None:
        """Return the first result that fits."""
        return next((fit for fit in self.tried if fit.fits), None)

    @property
    def available_bytes(self) -> int:
        """Return the RAM bytes for an arena."""
        return self.board.ram_bytes - self.reserve_bytes

    def sentence(self) -> str:
        """Return the verdict in words."""
        board, fitting = self.board, self.fitting
        room = f"{self.available_bytes:,} of {board.ram_bytes:,} bytes of RAM ({self.reserve_bytes:,} reserved)"
        if fitting is not None:
            least = self.tried[-1]
            more = "" if least is fitting else f"; {least.how()} it is {least.arena_bytes:,} bytes"
            second = f" and {fitting.second_bytes:,} bytes of {board.second.name}" if board.second else ""
            arena = f"an arena of {fitting.arena_bytes:,} bytes in {room}"
            return f"fits {board.name} {fitting.how()}: {arena}{second if fitting.second_bytes else ''}{more}"
        least = min(self.tried, key=lambda fit: fit.arena_bytes)
        excess = least.file_bytes - board.flash_bytes
        flash = f"the file is {excess:,} bytes larger than its {board.flash_bytes:,} of flash"
        if least.arena_bytes <= self.available_bytes:
            return f"does not fit {board.name}: {flash}"
        lacking = f"{least.arena_bytes - self.available_bytes:,} more than {room}"
        text = f"does not fit {board.name}: {least.how()} the arena is {least.arena_bytes:,} bytes, {lacking}"
        return f"{text}, and {flash}" if excess > 0 else text

    def also_fits(self) -> str:
        """Return the smallest boards that would also fit, in words; empty if there are none."""
        if not self.also:
            return ""
        more = len(self.also) - _MOST_NAMED
        named = ", ".join(self.also[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
        kept = f"{self.reserve_bytes:,} bytes" if self.requested else "a quarter"
        return f"{self.tried[-1].how()} it also fits {named}, which have less RAM ({kept} of it reserved)"

    def to_json(self) -> dict[str, Any]:
        """Return the object under ``board`` that ``inspect --board --json`` prints."""
        return {
            "schema": BOARD_SCHEMA,
            "board": asdict(self.board),
            "reserve_bytes": self.reserve_bytes,
            "verdict": self.sentence(),
            "tried": [fit.to_json() for fit in self.tried],
            "also": list(self.also),
        }


def fit_board(
    source: Source,
    board: Board,
    reserve_bytes: int | None = None,
    progress: Callable[[str], None] | None = None,
    runtime: str = DEFAULT_RUNTIME,
    *,
    quick: bool = False,
) -> BoardVerdict:
    """Fit a model to a board: as it is, then rewritten with options that change more and more of the application.

    Rewrites are proven but not run in a runtime, as only their memory matters here.

    Args:
        source: path or bytes of a ``.tflite``.
        board: the board.
        reserve_bytes: RAM for everything but the tensor arena, on every board; None for a quarter of each.
        progress: called with the options about to be tried.
        runtime: name of the runtime on the device.
        quick: try only the model as it is.

    Raises:
        ModelError, UsageError: the model cannot be used.
    """
    available = board.room(reserve_bytes)
    today = api.inspect(source, runtime=runtime).figures
    limit, least = _typed(board, reserve_bytes, runtime)
    tried, last = [_fit(board, available, None, today)], None
    for option, arguments in () if quick else (("", {}), *changes(load_model(source), RewriteOptions())):
        if progress is not None:
            progress(f"{limit} {option}".rstrip())
        options = {"target": board.target.value, "runtime": runtime, **arguments}
        report = _rewritten(source, {**options, "goal": Goal(max_ram=available), "memory": board.memories(available)})
        typed = limit if report is not None else least
        report = report or _rewritten(source, {**options, "goal": Goal(least_ram=True)})
        if report is None:
            continue
        last = report
        if report.after.arena_bytes < min(each.arena_bytes for each in tried):
            tried.append(_fit(board, available, f"{typed} {option}".rstrip(), report.after, report))
        if tried[-1].fits:
            break
    also = _smaller_boards(board, reserve_bytes, tried[-1])
    return BoardVerdict(
        board, board.ram_bytes - available, tuple(tried), also, reserve_bytes is not None, last, runtime
    )


def _typed(board: Board, reserve_bytes: int | None, runtime: str) -> tuple[str, str]:
    """Return options of ``rewrite`` for a board, and those for the least RAM on its core."""
    name = board.source if board.source.lower().endswith(".toml") else board.name
    kept = "" if reserve_bytes is None else f" --reserve {reserve_bytes}"
    named = "" if runtime == DEFAULT_RUNTIME else f" --runtime {runtime}"
    core = "" if board.target is Target.GENERIC else f" --target {board.target.value}"
    return f"--board {name}{kept}{named}", f"--least-ram{core}{named}"


def _rewritten(source: Source, options: Mapping[str, Any]) -> Report | None:
    """Return the report of a proven rewrite; None if the options are not possible."""
    try:
        return api.rewrite(source, verify=False, **options).report
    except (LimitError, UsageError):  # the option does not apply to this model
        return None


def _fit(board: Board, available: int, options: str | None, figures: Figures, report: Report | None = None) -> Fit:
    arena, size = figures.arena_bytes, figures.file_bytes
    time = None if report is None else report_time(board, report)
    second = 0 if report is None or report.memories is None else report.memories.slow_bytes
    return Fit(options, arena, size, arena <= available and size <= board.flash_bytes, time, second)


@dataclass(frozen=True)
class Forecast:
    """The memory that a rewrite saves, from an actual rewrite.

    Attributes:
        best: the rewritten model's memory; None if a rewrite saves nothing.
        options: of ``rewrite``, for the next step.
        report: of the rewrite; None if none was possible.
        fit: clause about boards.
    """

    best: Fit | None
    options: str
    report: Report | None
    fit: str


def forecast(source: Source, today: Figures, runtime: str = DEFAULT_RUNTIME, *, quick: bool = False) -> Forecast:
    """Rewrite a model by default, proven and not run, and count the known boards that have the RAM and the flash.

    Args:
        source: path or bytes of a ``.tflite``.
        today: figures of the model as it is.
        runtime: name of the runtime on the device.
        quick: leave out the rewrite.
    """
    options = "" if runtime == DEFAULT_RUNTIME else f"--runtime {runtime}"
    report = None if quick else _rewritten(source, {"runtime": runtime})
    before = fit_sentence(today.arena_bytes, today.file_bytes)
    if report is None or report.after.arena_bytes >= today.arena_bytes:
        return Forecast(None, options, report, before)
    after = report.after
    count = len(fitting_boards(after.arena_bytes, after.file_bytes))
    return Forecast(
        Fit(options, after.arena_bytes, after.file_bytes, count > 0),
        options,
        report,
        f"{before}; rewritten it fits {count}",
    )


def forecast_of(verdict: BoardVerdict) -> Forecast:
    """Return the memory that a rewrite saves on a board."""
    last = verdict.tried[-1]
    best = None if last.options is None else last
    limit = _typed(verdict.board, verdict.reserve_bytes if verdict.requested else None, verdict.runtime)[0]
    return Forecast(best, limit if best is None else last.options or "", verdict.report, verdict.sentence())


def fitting_boards(
    arena_bytes: int, file_bytes: int, reserve_bytes: int | None = None, second_bytes: int = 0
) -> tuple[Board, ...]:
    """Return the known boards that have the RAM and the flash, those of least RAM first.

    Args:
        arena_bytes: bytes of the tensor arena.
        file_bytes: bytes of the model in flash.
        reserve_bytes: bytes of RAM for everything but the arena; None for a quarter of each board.
        second_bytes: bytes of a second memory.
    """
    fitting = (
        board
        for board in known_boards()
        if arena_bytes <= board.room(reserve_bytes)
        and file_bytes <= board.flash_bytes
        and second_bytes <= (0 if board.second is None else board.second.nbytes)
    )
    return tuple(sorted(fitting, key=lambda board: (board.ram_bytes, board.name)))


def fit_sentence(
    arena_bytes: int,
    file_bytes: int,
    board: Board | None = None,
    reserve_bytes: int | None = None,
    second_bytes: int = 0,
) -> str:
    """Return whether a board has the RAM and the flash, or how many known boards have them and which are smallest.

    Args: as those of ``fitting_boards``.
    """
    fitting = fitting_boards(arena_bytes, file_bytes, reserve_bytes, second_bytes)
    if board is not None:
        room = board.room(reserve_bytes)
        fits = arena_bytes <= room and file_bytes <= board.flash_bytes
        share = f"{room:,} of {board.ram_bytes:,} bytes of RAM ({board.ram_bytes - room:,} reserved)"
        return f"{'fits' if fits else 'does not fit'} {board.name}: {share}"
    if not fitting:
        return f"fits none of the {len(known_boards())} known boards"
    named = ", ".join(each.name for each in fitting[:3])
    second = f", and {second_bytes:,} bytes of their second memory" if second_bytes else ""
    return (
        f"fits {len(fitting)} of {len(known_boards())} known boards with a quarter of their RAM reserved{second}, the "
        f"smallest are {named}"
    )


def fit_of(report: Report, board: Board | None, reserve_bytes: int | None) -> str:
    """Return ``fit_sentence`` of a rewritten model."""
    second = 0 if report.memories is None else report.memories.slow_bytes
    return fit_sentence(report.after.arena_bytes, report.after.file_bytes, board, reserve_bytes, second)


def _smaller_boards(board: Board, reserve_bytes: int | None, fit: Fit) -> tuple[str, ...]:
    alone = fit.fits and not fit.second_bytes
    fitting = fitting_boards(fit.arena_bytes, fit.file_bytes, reserve_bytes) if alone else ()
    return tuple(other.name for other in fitting if other.ram_bytes < board.ram_bytes)


def boards_table(boards: Iterable[Board]) -> Table:
    """Return a table of name, core, clock, RAM, flash, second memory and title, one board a line."""
    sizes = "MHz", "RAM", "flash", "second"
    table = plain_table("name", "core", *sizes, "", right=sizes)
    for board in boards:
        ram, flash = (f"{size / 1024:,.0f} KiB" for size in (board.ram_bytes, board.flash_bytes))
        second = f"{board.second.nbytes / 1024:,.0f} KiB" if board.second else ""
        table.add_row(board.name, board.core or board.mcu, str(board.mhz), ram, flash, second, board.title)
    return table
