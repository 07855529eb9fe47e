"""Benchmarks: projects that run a model and its rewrite on a board, compare their bytes, and print times as JSON lines.

With TensorFlow Lite Micro the original and its rewrite run in the user's runtime. In plain C there is no other runtime:
each operator of the original runs as a block by itself, which gives the gain of fusing and the time of the rewritten
model, not TensorFlow Lite Micro's. Where one becomes no block, the rewritten model runs alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tflite_fuse.cost.instructions import Target, block_instructions
from tflite_fuse.emit.in_model import blocks_in
from tflite_fuse.emit.options import read_options
from tflite_fuse.errors import UsageError
from tflite_fuse.export import library
from tflite_fuse.export.flash import Flash
from tflite_fuse.export.folder import Files
from tflite_fuse.export.formats import plain_c
from tflite_fuse.export.formats.arduino import RUNTIME_HEADER
from tflite_fuse.export.ports import Port, checked_outside
from tflite_fuse.export.steps import Step, WholeModel, whole_model
from tflite_fuse.export.text import comment, fill
from tflite_fuse.export.tflm import TflmModel, data_files
from tflite_fuse.ir.enums import StageKind
from tflite_fuse.ir.program import FUSED_OPERATOR, has_blocks
from tflite_fuse.memory.tflm.runtimes import Runtime
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.schema import Model
from tflite_fuse.model.types import TensorType

RESULT_SCHEMA = "tflite-fuse/board-result/1"
"""Schema of a line that a benchmark prints."""

RUNS = 30
"""Inferences whose median time is printed."""

INPUT_SETS = 4
"""Number of inputs on which outputs are compared."""


@dataclass(frozen=True)
class OnBoard:
    """The board of a benchmark.

    Attributes:
        name: as ``tflite-fuse boards`` lists it; empty if the user fills it in.
        mhz: of its core; 0 if the user fills it in.
        target: the core whose instructions are predicted.
    """

    name: str = ""
    mhz: int = 0
    target: Target = Target.GENERIC


@dataclass(frozen=True)
class Contender:
    """A file to run.

    Attributes:
        run: ``original``, ``unfused`` or ``rewritten``.
        title: of the model.
        digest: SHA-256 of the file.
        nbytes: of the file.
        instructions: predicted for the board's core; 0 if operators are outside of blocks.
    """

    run: str
    title: str
    digest: str
    nbytes: int
    instructions: int

    def head(self, runtime: str, kernels: str) -> str:
        """Return the beginning of its lines, a C string literal of JSON up to the fields that the board fills in."""
        fields = {
            "schema": RESULT_SCHEMA,
            "run": self.run,
            "model": comment(self.title),
            "sha256": self.digest,
            "bytes": self.nbytes,
            "runtime": runtime,
            "kernels": kernels,
            "predicted_instructions": self.instructions,
        }
        return json.dumps(json.dumps(fields)[:-1])


def _quoted(text: str) -> str:
    """Return the C string literal of a text within a JSON string."""
    return json.dumps(json.dumps(text)[1:-1])


def contender(run: str, title: str, data: bytes, model: Model, board: OnBoard) -> Contender:
    """Return the data of a file before it runs.

    Raises:
        ModelError: a block is damaged.
    """
    blocks = blocks_in(model)
    whole = all(operator_name(model, each) == FUSED_OPERATOR for each in model.main.operators)
    count = block_instructions(((plan.block, plan.schedule) for plan in blocks.values()), board.target) if whole else 0
    return Contender(run, title, hashlib.sha256(data).hexdigest(), len(data), count)


def same_ports(ours: Sequence[Port], theirs: Sequence[Port]) -> bool:
    """Return whether two models have the same inputs, or outputs, in order: types, shapes and quantizations."""
    return [port.form for port in ours] == [port.form for port in theirs]


def require_resident(rewritten: Model) -> None:
    """Raise UsageError for a model that reads inputs from outside the arena."""
    if checked_outside(rewritten):
        raise UsageError(
            "a benchmark has inputs in the arena, and this model reads some from elsewhere; rewrite it without --input"
        )


NOT_THE_ORIGINAL = "inputs or outputs of the two models differ: give --benchmark the file that MODEL was rewritten from"


def benchmark_readme(format: str, title: str, flash: Flash, alone: str = "") -> str:
    """Return the text of a benchmark's README.md.

    Args:
        format: of the project.
        title: of the rewritten model.
        flash: of the rewritten model and the library.
        alone: the sentence on why the rewritten model runs alone; empty if both run.
    """
    other = "unfused" if format == "c" else "original"
    compared = fill("benchmark/compared.md", sets=INPUT_SETS, about=fill(f"benchmark/{other}.md"))
    return fill(
        "benchmark/README.md",
        title=comment(title),
        runners="rewritten" if alone else f"{other} and rewritten",
        steps=fill(f"benchmark/{format}.md"),
        compared=fill("benchmark/alone.md", why=f"{alone[0].upper()}{alone[1:]}") if alone else compared,
        runs=RUNS,
        flash=flash.sentence(),
    )


# ---- In plain C ----


def unfused(original: Model, rewritten: WholeModel) -> WholeModel | str:
    """Return the original with every operator as a block by itself, with the same inputs and outputs as its rewrite.

    Returns:
        The sentence on why the rewritten model runs alone if the original does not run without another runtime.

    Raises:
        UsageError: inputs and outputs differ.
        ModelError: a dynamic shape.
    """
    if has_blocks(original):
        raise UsageError("the file of --benchmark has fused blocks itself: give the original")
    try:
        whole = whole_model(original, like=rewritten)
    except UsageError as error:
        return f"the benchmark runs MODEL alone, because the original does not run in plain C: {error}"
    for ours, theirs in ((rewritten.inputs, whole.inputs), (rewritten.outputs, whole.outputs)):
        if not same_ports([port for port, _ in ours], [port for port, _ in theirs]):
            raise UsageError(NOT_THE_ORIGINAL)
    return whole


def plain_benchmark(
    original: WholeModel | None, rewritten: WholeModel, whose: tuple[Contender, ...], board: OnBoard
) -> Files:
    """Return the files of a folder in plain C.

    Args:
        original, rewritten: the models to run; without an original the rewritten one alone.
        whose: data of the lines about the two.
        board: the board.

    Raises:
        RuntimeUnavailableError: this installation lacks the library.
    """
    title, apart = whose[1].title, f"{whose[1].title}, every operator by itself,"
    run = {"model": (rewritten, whose[1])}
    if original is not None:
        run = {"original": (original, whose[0])} | run
    main = _main(
        "benchmark/plain_c.c",
        title,
        [port for port, _ in rewritten.outputs],
        how="alone" if original is None else "unfused and rewritten on the same inputs, compares their outputs",
        includes="".join(f'#include "{name}.h"\n' for name in sorted(run)),
        arena=max(model.arena_bytes for model, _ in run.values()),
        steps=max(len(model.steps) for model, _ in run.values()),
        tables="".join(_tables(name, model, each) for name, (model, each) in run.items()),
        contenders="".join(f"CONTENDER({name}), " for name in run),
    )
    return {
        **({} if original is None else plain_c.model_files(original, apart, "original")),
        **plain_c.model_files(rewritten, title, "model"),
        "main.c": main,
        "board.h": _board("benchmark/board.h", board),
        **library.flat_sources(),
        **library.licence(""),
    }


def _main(path: str, title: str, ports: Sequence[Port], **values: object) -> str:
    """Return a main program from its template."""
    nbytes, lines = sum(port.nbytes for port in ports), fill("benchmark/lines.c")
    return fill(path, title=comment(title), runs=RUNS, sets=INPUT_SETS, output_bytes=nbytes, lines=lines, **values)


def _board(path: str, board: OnBoard, **values: object) -> str:
    """Return ``board.h`` from its template."""
    name, hertz = _quoted(board.name or "unknown"), board.mhz * 1_000_000
    return fill(path, name=name, hertz=hertz, core=fill("benchmark/core.h"), **values)


def _stages(step: Step) -> str:
    """Return a step's name from the kinds of its stages."""
    kinds = [StageKind(stage.kind).name for stage in read_options(step.options).stages] if step.options else ["COPY"]
    return kinds[0] if len(kinds) == 1 else f"{kinds[0]} to {kinds[-1]}, {len(kinds)} stages"


def _tables(name: str, model: WholeModel, whose: Contender) -> str:
    """Return names of the steps, ports, and the beginning of the model's line."""
    names = ", ".join(f'"{_stages(step)}"' for step in model.steps)
    ports = {
        kind: "".join(f"{{{place.offset}, {port.nbytes}}}, " for port, place in ends)
        for kind, ends in (("inputs", model.inputs), ("outputs", model.outputs))
    }
    lines = [
        f"static const char* const {name}_head = {whose.head('none', 'tflite-fuse')};",
        f"static const char* const {name}_names[] = {{{names}}};",
        f"static tflite_fuse_block {name}_blocks[{name.upper()}_STEPS];",
        *(f"static const port {name}_{kind}[] = {{{text}{{0, 0}}}};" for kind, text in ports.items()),
    ]
    return "\n".join(lines) + "\n"


# ---- In TensorFlow Lite Micro ----


def both(original: TflmModel, rewritten: TflmModel) -> TflmModel:
    """Return the rewritten model with the operators of both, for a project that runs them one after the other.

    Raises:
        UsageError: inputs or outputs differ, or a model has resource variables.
    """
    if not (same_ports(original.inputs, rewritten.inputs) and same_ports(original.outputs, rewritten.outputs)):
        raise UsageError(NOT_THE_ORIGINAL)
    if original.remembers or rewritten.remembers:
        raise UsageError(
            "there is no benchmark of a model that remembers earlier runs here; --format c has one where blocks can "
            "hold all operators"
        )
    return replace(rewritten, operators=tuple(dict.fromkeys((*original.operators, *rewritten.operators))))


def tflm_benchmark(
    files: Files,
    format: str,
    original: TflmModel,
    rewritten: TflmModel,
    whose: tuple[Contender, ...],
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
    text = _main(
        "benchmark/tflm.cpp",
        rewritten.title,
        rewritten.outputs,
        first=first,
        operators=count,
        original_head=whose[0].head(str(runtime), runtime.kernels),
        model_head=whose[1].head(str(runtime), runtime.kernels),
        inputs=_port_rows(rewritten.inputs),
        outputs=_port_rows(rewritten.outputs),
        start=fill(f"benchmark/start_{'esp_idf' if of_idf else 'arduino'}.cpp"),
    )
    header = _board(
        "benchmark/board_tflm.h",
        board,
        includes=fill("benchmark/includes_esp_idf.h") if of_idf else "",
        now="esp_timer_get_time()" if of_idf else "micros()",
        print='printf("%s", text)' if of_idf else "Serial.print(text)",
    )
    return {**files, main: text, f"{where}board.h": header, **data_files(original, where, "original")}


def _port_rows(ports: Sequence[Port]) -> str:
    return ", ".join(
        f"{{{port.nbytes}, {'true' if port.tensor.type == TensorType.FLOAT32 else 'false'}}}" for port in ports
    )
