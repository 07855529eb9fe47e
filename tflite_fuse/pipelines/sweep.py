"""Sweeps: many models under many sets of options, one row each, in the order they are done, each computed once.

Only this process appends rows to ``results.jsonl``, as soon as a worker returns them. A row's key is the hash of the
model's bytes, the options and this package's version; a repeated sweep skips items that have a row.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tflite_fuse.errors import ModelError, TfliteFuseError, UsageError
from tflite_fuse.files import about, lock_alone, nearest, only, read_file, read_toml, size_of
from tflite_fuse.model.file import load_model
from tflite_fuse.passes.declared import Declared, declared, fits, type_in_words
from tflite_fuse.passes.goal import Goal, read_limit
from tflite_fuse.passes.options import MetricsOptions
from tflite_fuse.pipelines.metrics import model_metrics
from tflite_fuse.report.notebook import printable
from tflite_fuse.units import parse_bytes

RESULTS = "results.jsonl"

_APPENDED = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)

_OPTIONS = {each.typed: each for kind in (Goal, MetricsOptions) for each in declared(kind, "metrics") if each.typed}
"""Options of a set by their names in commands; the effort is that of the whole sweep."""
del _OPTIONS["effort"], _OPTIONS["max-flash"]


@dataclass(frozen=True)
class Item:
    """One model under one set of options.

    Attributes:
        model: path, relative to the folder of the sweep.
        options: the set's name.
        data: the file; None if it could not be read.
        settings: those of ``MetricsOptions``, as JSON.
        effort: as for ``metrics``.
        fault: why the item cannot be processed.
        version: of this package.
    """

    model: str
    options: str
    data: bytes | None
    settings: str
    effort: str
    fault: str = ""
    version: str = ""

    @property
    def key(self) -> str:
        """Return its key among the results."""
        content = hashlib.sha256(self.data or self.fault.encode()).hexdigest()
        text = json.dumps([content, self.model, self.options, self.settings, self.effort, self.version])
        return hashlib.sha256(text.encode()).hexdigest()[:24]


@dataclass(frozen=True)
class Row:
    """The result of an item: its metrics, or the error."""

    key: str
    model: str
    options: str
    error: str
    metrics: dict[str, float] = field(default_factory=dict)

    @property
    def broken(self) -> bool:
        return bool(self.error)


def measure(item: Item) -> Row:
    """Process one item; errors of a model become its row."""

    def row(error: str, metrics: dict[str, float] | None = None) -> Row:
        return Row(item.key, printable(item.model), printable(item.options), printable(error), metrics or {})

    if item.data is None:
        return row(item.fault)
    try:
        settings = json.loads(item.settings)
        goal = Goal(**settings.pop("goal", {}))
        model = load_model(item.data, item.model)
        return row("", model_metrics(model, item.data, MetricsOptions(goal=goal, effort=item.effort, **settings)))
    except TfliteFuseError as error:
        return row(str(error))
    except (MemoryError, RecursionError) as error:
        return row(f"the model is too large for this machine ({type(error).__name__})")
    except Exception as error:  # a defect with one model must not end the others
        return row(f"a defect of tflite-fuse, please report it with the model: {type(error).__name__}: {error}")


def items_in(folder: Path, sets: Mapping[str, str], effort: str, version: str = "") -> Iterator[Item]:
    """Yield every .tflite below a folder under every set of options; files are read when their turn comes."""
    for path in models_in(folder):
        name = path.relative_to(folder).as_posix()
        data, fault = None, ""
        try:
            if path.exists() and not path.is_file():
                raise UsageError(f"{path}: is no file to read whole, but a pipe, a socket or a device")
            data = read_file(path)
        except (UsageError, ModelError) as error:
            fault = str(error)
        for options, settings in sets.items():
            yield Item(name, options, data, settings, effort, fault, version)


def models_in(folder: Path) -> list[Path]:
    """Return the .tflite files below a folder, sorted.

    Raises:
        UsageError: there is no such folder, or no model below it.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder}: is no folder")
    models = sorted(path for path in folder.rglob("*.tflite") if not path.is_dir())
    if not models:
        raise UsageError(f"{folder}: has no .tflite in it")
    return models


def option_sets(path: Path | None) -> dict[str, str]:
    """Return the sets of options by name from a TOML file with a table for each; the default without a file.

    Raises:
        UsageError: the file is damaged, or has unknown or wrong options.
    """
    if path is None:
        return {"default": "{}"}
    document = read_toml(path)
    with about(path):
        if not document:
            raise UsageError("has no [table] of options in it")
        return {name: json.dumps(_settings(name, table)) for name, table in document.items()}


def _settings(name: str, table: object) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise UsageError(f"{name} is a table of options, [{name}]{nearest(name, _OPTIONS)}")
    only(table, _OPTIONS, f"[{name}]")
    options = {_OPTIONS[key].name: _value(_OPTIONS[key], table[key], f"{key} of [{name}]") for key in table}
    goal = {each.name: options.pop(each.name) for each in declared(Goal) if each.name in options}
    MetricsOptions(goal=Goal(**goal), **options)  # raises where they contradict each other
    return options | ({"goal": goal} if goal else {})


def _value(option: Declared, value: object, what: str) -> Any:
    """Return an option's value from a file. Raises UsageError if its type is wrong."""
    if option.hint is bool and not isinstance(value, bool):
        raise UsageError(f"{what} is true or false, not {value!r}")
    if option.option.read in (parse_bytes, read_limit):
        return size_of(value, what)
    if not fits(value, option.hint):
        raise UsageError(f"{what} is {type_in_words(option.hint)}, not {value!r}")
    return value


class Results:
    """The rows of a folder. Only one sweep writes at a time."""

    def __init__(self, folder: Path) -> None:
        """Open the folder's file. Raises UsageError if it cannot be used, or another sweep writes into it."""
        self.path = folder / RESULTS
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(self.path, _APPENDED, 0o644)
        except OSError as error:
            raise UsageError(f"{self.path}: cannot be written ({error.strerror or error})") from error
        if not lock_alone(self._descriptor):
            os.close(self._descriptor)
            raise UsageError(f"{self.path}: another sweep is writing into it")
        self.done = {row.key for row in self.rows()}
        if self.path.read_bytes()[-1:] not in (b"", b"\n"):  # of a killed process
            os.write(self._descriptor, b"\n")

    def add(self, row: Row) -> bool:
        """Append a row; return False if it exists already."""
        if row.key in self.done:
            return False
        os.write(self._descriptor, (json.dumps(asdict(row)) + "\n").encode())
        self.done.add(row.key)
        return True

    def rows(self) -> Iterator[Row]:
        """Yield every complete row of the file; a row that a killed process left incomplete is skipped."""
        with self.path.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                try:
                    yield Row(**json.loads(line))
                except (ValueError, TypeError):
                    continue

    def of(self, keys: Iterable[str]) -> list[Row]:
        """Return the rows with these keys, in order."""
        by_key = {row.key: row for row in self.rows()}
        return [by_key[key] for key in keys if key in by_key]

    def close(self) -> None:
        os.close(self._descriptor)
