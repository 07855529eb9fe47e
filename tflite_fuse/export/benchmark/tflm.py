"""A benchmark for projects with TensorFlow Lite Micro: the original and its rewrite in the user's runtime."""

from __future__ import annotations

from dataclasses import replace

from tflite_fuse.errors import UsageError
from tflite_fuse.export.benchmark.candidate import (
    INPUT_SETS,
    NOT_THE_ORIGINAL,
    RUNS,
    Candidate,
    OnBoard,
    same_ports,
)
from tflite_fuse.export.folder import Files
from tflite_fuse.export.formats.arduino import RUNTIME_HEADER
from tflite_fuse.export.text import comment, fill
from tflite_fuse.export.tflm import TflmModel, data_files
from tflite_fuse.memory.tflm.runtimes import Runtime
from tflite_fuse.model.types import TensorType


def both(original: TflmModel, rewritten: TflmModel) -> TflmModel:
    """Return the rewritten model with the operators of both, for a project that runs them one after the other.

    Raises:
        UsageError: inputs or outputs differ, or a model has resource variables.
    """
    if not (same_ports(original.inputs, rewritten.inputs) and same_ports(original.outputs, rewritten.outputs)):
        raise UsageError(NOT_THE_ORIGINAL)
    if original.remembers or rewritten.remembers:
        raise UsageError("there is no benchmark of a model that remembers earlier runs here: --format c has one")
    return replace(rewritten, operators=tuple(dict.fromkeys((*original.operators, *rewritten.operators))))


def with_benchmark(
    files: Files,
    format: str,
    original: TflmModel,
    rewritten: TflmModel,
    whose: tuple[Candidate, ...],
    board: OnBoard,
    runtime: Runtime,
    count: int,
) -> Files:
    """Return the files of a project with a benchmark in place of its main program.

    Args:
        files: of the project that runs the rewritten model, with the operators of both.
        format: of the project.
        original, rewritten: the models to run.
        whose: data of the lines about them.
        board: the board.
        runtime: the runtime of the arenas.
        count: number of operators of the larger model.
    """
    main = next(name for name in files if name.endswith((".ino", "main.cpp")))
    where = main[: main.rfind("/") + 1]
    includes = {"arduino": "", "platformio": "#include <Arduino.h>\n"}.get(format, "")
    of_idf = format == "esp-idf"
    first = "" if of_idf else f"{includes}#include <{RUNTIME_HEADER}>\n\n"
    text = fill(
        "benchmark/tflm.cpp",
        title=comment(rewritten.title),
        first=first,
        lines=fill("benchmark/lines.c"),
        runs=RUNS,
        sets=INPUT_SETS,
        output_bytes=sum(port.nbytes for port in rewritten.outputs),
        operators=count,
        original_head=whose[0].head(str(runtime), runtime.kernels),
        model_head=whose[1].head(str(runtime), runtime.kernels),
        inputs=_ports(rewritten, "inputs"),
        outputs=_ports(rewritten, "outputs"),
        start=fill(f"benchmark/start_{'esp_idf' if of_idf else 'arduino'}.cpp"),
    )
    header = fill(
        "benchmark/board_tflm.h",
        name=board.name or "unknown",
        hertz=board.mhz * 1_000_000,
        includes=fill("benchmark/includes_esp_idf.h") if of_idf else "",
        now="esp_timer_get_time()" if of_idf else "micros()",
        print='printf("%s", text)' if of_idf else "Serial.print(text)",
        core=fill("benchmark/core.h"),
    )
    return {**files, main: text, f"{where}board.h": header, **data_files(original, where, "original")}


def _ports(model: TflmModel, which: str) -> str:
    ports = model.inputs if which == "inputs" else model.outputs
    return ", ".join(
        f"{{{port.nbytes}, {'true' if port.tensor.type == TensorType.FLOAT32 else 'false'}}}" for port in ports
    )
