"""The exporter: writes a folder for a model file, with a README of five steps to a running board."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tflite_fuse.emit.in_model import block_overlaps, load_with_plans
from tflite_fuse.errors import PlanError, UsageError
from tflite_fuse.export import library
from tflite_fuse.export.benchmark import (
    OnBoard,
    benchmark_readme,
    both,
    contender,
    plain_benchmark,
    require_resident,
    tflm_benchmark,
    unfused,
)
from tflite_fuse.export.flash import Flash, measured
from tflite_fuse.export.folder import Files, require_usable, write_folder
from tflite_fuse.export.formats import arduino, esp_idf, esphome, plain_c
from tflite_fuse.export.library import parts_of
from tflite_fuse.export.ports import Port
from tflite_fuse.export.steps import whole_model
from tflite_fuse.export.text import comment, fill
from tflite_fuse.export.tflm import TflmModel, tflm_model
from tflite_fuse.ir.program import FUSED_OPERATOR
from tflite_fuse.memory.checker import plan_fault
from tflite_fuse.memory.tflm.runtimes import Runtime, runtime_for
from tflite_fuse.model.edit import remove_metadata
from tflite_fuse.model.file import read_source, serialize_model
from tflite_fuse.model.memories import slow_bytes
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.schema import Model
from tflite_fuse.model.witness import WITNESS_METADATA

CHIRALE = "2.0.0"
"""Newest version of Chirale_TensorFlowLite."""

WITHOUT_TFLM = ("c", "zephyr")
"""Formats of projects without TensorFlow Lite Micro."""


def readme(
    format: str, title: str, folder: str, arena_bytes: int, flash: Flash, notes: Sequence[str], outputs: Sequence[Port]
) -> str:
    """Return the text of ``README.md``.

    Args:
        format: of ``FORMATS``.
        title: of the model.
        folder: the directory's name.
        arena_bytes: of the declared arena.
        flash: of model and library.
        notes: of the export, one sentence each.
        outputs: of the model.

    Raises:
        RuntimeUnavailableError: this installation lacks the library.
    """
    arena, version = f"{arena_bytes:,}", library.version()
    listed = [f"- {note[0].upper()}{note[1:]}.\n" for note in notes]
    return fill(
        "readme/README.md",
        title=comment(title),
        format=format,
        version=version,
        steps=fill(f"readme/{format}.md", folder=folder, chirale=CHIRALE, arena=arena, version=version),
        flash=_flash(format, flash),
        notes="".join((*listed, "\n")) if listed else "",
        printed="\n".join((*_printed(format, arena_bytes, outputs), "")),
    )


def _flash(format: str, flash: Flash) -> str:
    text = f"{flash.sentence()}."
    if flash.library_bytes:
        text += " The library was measured at export, after the linker removed unused sections."
    if format in WITHOUT_TFLM:
        return text
    return f"{text} The file that registers the operator, and the runtime, come on top."


def _printed(format: str, arena_bytes: int, outputs: Sequence[Port]) -> list[str]:
    with_tflm = format not in WITHOUT_TFLM
    free = 16 if with_tflm else 0
    lines = [f"arena: {arena_bytes - free} bytes used, {free} free (MODEL_ARENA_BYTES)"]
    lines += ["microseconds: 41873"] if with_tflm else []
    for port in outputs:
        lines += [
            f"output {port.number}[{number}]{port.factor} = {12 - 7 * number}"
            for number in range(min(2, port.elements))
        ]
        lines += ["..."] if port.elements > 2 else []
    return lines


FORMATS = ("arduino", "platformio", "esp-idf", "esphome", "c", "zephyr")
"""Formats of exported folders."""


EXPORT_SCHEMA = "tflite-fuse/export/1"


@dataclass(frozen=True)
class Export:
    """The result of an export.

    Attributes:
        files: paths of all files, sorted.
        arena_bytes: the arena that the program declares.
        flash: bytes of flash of model and library.
        notes: one sentence each.
    """

    files: tuple[Path, ...]
    arena_bytes: int
    flash: Flash
    notes: tuple[str, ...] = ()

    def to_json(self, format: str, directory: Path) -> dict[str, Any]:
        """Return the object that ``export --json`` prints."""
        return {
            "schema": EXPORT_SCHEMA,
            "format": format,
            "directory": str(directory),
            "files": [str(path) for path in self.files],
            "arena_bytes": self.arena_bytes,
            "flash": asdict(self.flash),
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class _Content:
    """Files, bytes of the arena, bytes of the model in flash, options of its blocks, notes, outputs.

    ``alone`` is the sentence on why a benchmark runs the rewritten model alone, if it does.
    """

    files: Files
    arena_bytes: int
    model_bytes: int
    blocks: tuple[bytes, ...]
    notes: tuple[str, ...]
    outputs: tuple[Port, ...]
    alone: str = ""


def export_model(
    source: str | os.PathLike[str] | bytes,
    directory: str | os.PathLike[str],
    format: str,
    *,
    force: bool = False,
    kernels: str | None = None,
    tflm: str | None = None,
    benchmark: str | os.PathLike[str] | bytes | None = None,
    board: OnBoard | None = None,
    two_arenas: bool = False,
) -> Export:
    """Write a folder with the model, the device library and a main program.

    Args:
        source: path or bytes of a .tflite file, rewritten or not.
        directory: the folder; made with its parents if it does not exist. Complete afterwards, or unchanged.
        format: ``arduino`` (a sketch), ``platformio``, ``esp-idf`` (projects with TFLM), ``esphome`` (a model of
            microWakeWord and its manifest), ``c`` or ``zephyr``: without TFLM, for models whose operators all are in
            fused blocks.
        force: write into a directory that is not empty. Other files in it stay.
        kernels, tflm: the runtime of the declared arena, ``reference``, ``cmsis-nn`` or ``esp-nn`` and ``2024`` or
            ``2026``. None for the format's default: CMSIS-NN of 2024 for Arduino and PlatformIO, ESP-NN of 2026 for
            ESP-IDF; the manifest of ESPHome is for all releases with ESP-NN.
        benchmark: path or bytes of the file that ``source`` was rewritten from: the project then runs both, compares
            their outputs and prints their times. None for a project that runs ``source``.
        board: the board of a benchmark; None if the user fills it in.
        two_arenas: write the arena of TensorFlow Lite Micro as two arrays, which may be in two memories: the runtime's
            own data, and activations.

    Raises:
        UsageError: an unknown format; a directory that cannot be used; an operator that the format does not support.
        ModelError, PlanError: the model is damaged.
        RuntimeUnavailableError: this installation lacks the library's sources.
    """
    target = Path(directory)
    if format not in FORMATS:
        raise UsageError(f"there is no format {format!r}; the formats are {', '.join(FORMATS)}")
    require_usable(target, force=force)
    if format == "arduino":
        arduino.check(target)
    runtime = _runtime(format, kernels, tflm, benchmark is not None, two_arenas)
    read = _read(source)
    if benchmark is not None:
        content = _benchmark(read, _read(benchmark), board or OnBoard(), format, target, runtime)
    elif runtime is None:
        content = _plain(read.model, read.title, target, format)
    elif format == "esphome":
        content = _esphome(read, target, None if isinstance(source, bytes) else Path(source), runtime)
    else:
        tflm_model = replace(_tflm_model(read, runtime), two_arenas=two_arenas)
        content = _with_tflm(tflm_model, read.model, target, format)
    parts = parts_of(content.blocks)
    more = (*_about_floats(parts), *_about_second_memory(slow_bytes(read.model), format))
    content = replace(content, notes=(*content.notes, *more))
    files = library.with_parts(content.files, parts)
    flash = measured(files, format, content.model_bytes)
    if format == "esphome":
        fused, name = bool(content.blocks), next(name for name in files if name.endswith(".tflite"))
        about = esphome.readme(read.title, Path(name).stem, content.arena_bytes, fused)
    elif benchmark is not None:
        about = benchmark_readme(format, read.title, flash, content.alone)
    else:
        folder = target.resolve().name
        about = readme(format, read.title, folder, content.arena_bytes, flash, content.notes, content.outputs)
    written = write_folder(target, {"README.md": about, **files}, force=force)
    return Export(written, content.arena_bytes, flash, content.notes)


def _runtime(format: str, kernels: str | None, tflm: str | None, benchmark: bool, two_arenas: bool) -> Runtime | None:
    """Return the runtime of a project, None in plain C. Raises UsageError for options that its format does not have."""
    plain = format in WITHOUT_TFLM
    if plain and (kernels or tflm):
        raise UsageError("a project in plain C has no TensorFlow Lite Micro: leave out which one")
    if format == "esphome" and (kernels or tflm or benchmark or two_arenas):
        raise UsageError("a manifest for ESPHome has one arena, for all releases: leave out kernels, tflm, benchmark")
    if two_arenas and (plain or benchmark):
        raise UsageError("two arenas are for projects with TensorFlow Lite Micro that are no benchmarks")
    return None if plain else runtime_for(format, kernels, tflm)


def _about_floats(parts: library.Parts) -> Iterator[str]:
    if any(kind.name.startswith("FLOAT_") for kind in parts.kinds):
        yield (
            "blocks on float32 round every product and sum: compile with -ffp-contract=off and without -ffast-math, or "
            "a run may end with a message that says so"
        )


def _about_second_memory(nbytes: int, format: str) -> Iterator[str]:
    if nbytes:
        yield (
            f"tensors between blocks take {nbytes:,} bytes of a second memory, the array second_memory; the macro "
            "MODEL_MEMORY_SECTION says where it lies"
        )
        if format == "esp-idf":
            yield "sdkconfig.defaults switches PSRAM on; PSRAM with eight lines needs CONFIG_SPIRAM_MODE_OCT=y, too"
        if format in WITHOUT_TFLM:
            yield "an input or output with a macro such as MODEL_INPUT_0_MEMORY_OFFSET lies in second_memory"


@dataclass(frozen=True)
class _Read:
    """A model's name, its file, its bytes with every buffer aligned, and the model, without data for the proof."""

    title: str
    file: bytes
    data: bytes
    model: Model


def _benchmark(
    rewritten: _Read, original: _Read, board: OnBoard, format: str, target: Path, runtime: Runtime | None
) -> _Content:
    """Return the files and notes of a project that compares two models on a board. Raises UsageError."""
    if format == "zephyr":
        raise UsageError("there is no benchmark for zephyr: export one for c and add its files to an application")
    require_resident(rewritten.model)
    whose = tuple(
        contender(run, read.title, read.file, read.model, board)
        for run, read in (("unfused" if runtime is None else "original", original), ("rewritten", rewritten))
    )
    if runtime is None:
        whole = whole_model(rewritten.model)
        unfused_or_why = unfused(original.model, whole)
        apart, alone = (None, unfused_or_why) if isinstance(unfused_or_why, str) else (unfused_or_why, "")
        content, own = _plain(rewritten.model, rewritten.title, target, format), () if apart is None else apart.steps
        return replace(
            content,
            files=plain_benchmark(apart, whole, whose, board),
            blocks=tuple(step.options for step in (*own, *whole.steps) if step.options),
            notes=(*filter(None, [alone]), *content.notes),
            alone=alone,
        )
    models = [_tflm_model(each, runtime) for each in (original, rewritten)]
    content = _with_tflm(both(*models), rewritten.model, target, format)
    count = max(len(each.model.main.operators) for each in (original, rewritten))
    files = tflm_benchmark(content.files, format, models[0], models[1], whose, board, runtime, count)
    return replace(content, files=files)


def _read(source: str | os.PathLike[str] | bytes) -> _Read:
    title, name = ("a model", "the model") if isinstance(source, bytes) else (Path(source).name, str(source))
    file = read_source(source)
    model = remove_metadata(load_with_plans(file, name), WITNESS_METADATA)
    return _Read(title, file, serialize_model(model), model)


def _plain(model: Model, title: str, target: Path, format: str) -> _Content:
    whole = whole_model(model)
    blocks = tuple(step.options for step in whole.steps if step.options)
    data = sum(len(step.options) + len(step.constants) for step in whole.steps)
    files = plain_c.files(whole, title) if format == "c" else plain_c.zephyr_files(whole, title, target)
    return _Content(files, whole.arena_bytes, data, blocks, whole.notes, tuple(port for port, _ in whole.outputs))


def _esphome(read: _Read, target: Path, source: Path | None, runtime: Runtime) -> _Content:
    esphome.require_wake_word(read.model)
    largest = esphome.largest_arena(read.model)
    tflm_model = replace(_tflm_model(read, runtime), arenas=(largest,))
    notes = ["tensor_arena_size holds for TensorFlow Lite Micro of 2024 and 2026 with ESP-NN on every core"]
    blocks = _blocks(read.model)
    if blocks:
        notes.append("micro_wake_word does not register TFLITE_FUSE: README.md says how to add it")
    files = esphome.files(tflm_model, target, source)
    return _Content(files, largest.nbytes, len(tflm_model.data), blocks, tuple(notes), tflm_model.outputs)


def _tflm_model(read: _Read, runtime: Runtime) -> TflmModel:
    fault = plan_fault(read.model, block_overlaps(read.model))
    if fault is not None:
        raise PlanError(f"the offline memory plan in the file is unsound, rewrite the model to have a new one: {fault}")
    return tflm_model(read.model, read.data, read.title, runtime)


def _with_tflm(tflm_model: TflmModel, model: Model, target: Path, format: str) -> _Content:
    """Return the files and notes of a project with TensorFlow Lite Micro."""
    *by_core, usual = tflm_model.arenas
    notes = [f"the arena is declared for {tflm_model.runtime}"]
    if tflm_model.two_arenas:
        apart = usual.apart
        notes.append(
            f"what the runtime keeps is an array of {apart.persistent:,} bytes, activations with scratch one of "
            f"{apart.activations + usual.margin:,}; the macros MODEL_PERSISTENT_SECTION and MODEL_ACTIVATIONS_SECTION "
            "say where they lie"
        )
    notes += [f"on {other.core} the arena is {other.nbytes:,} bytes" for other in by_core]
    if usual.margin:
        notes.append(f"{usual.margin:,} bytes of the arena are a margin, as versions of ESP-NN differ")
    if usual.arena.unknown:
        names = ", ".join(usual.arena.unknown)
        notes.append(f"what {names} needs of the arena is not known: the declared size may be too small")
    nbytes = usual.apart.persistent + usual.apart.activations + usual.margin if tflm_model.two_arenas else usual.nbytes
    if format == "platformio":
        files = arduino.platformio_files(tflm_model)
    else:
        files = {"arduino": arduino.files, "esp-idf": esp_idf.files}[format](tflm_model, target)
    return _Content(files, nbytes, len(tflm_model.data), _blocks(model), tuple(notes), tflm_model.outputs)


def _blocks(model: Model) -> tuple[bytes, ...]:
    """Return the options of a model's fused blocks."""
    fused = (each for each in model.main.operators if operator_name(model, each) == FUSED_OPERATOR)
    return tuple(each.custom_options or b"" for each in fused)
