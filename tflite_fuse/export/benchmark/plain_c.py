"""A benchmark in plain C without another runtime: each operator of the original runs as a block by itself.

It measures the gain of fusing on a board and the time of the rewritten model, not TensorFlow Lite Micro's.
"""

from __future__ import annotations

from tflite_fuse.emit.options import read_options
from tflite_fuse.errors import UsageError
from tflite_fuse.export import library
from tflite_fuse.export.benchmark.candidate import INPUT_SETS, NOT_THE_ORIGINAL, RUNS, Candidate, OnBoard, same_ports
from tflite_fuse.export.folder import Files
from tflite_fuse.export.formats import plain_c
from tflite_fuse.export.steps import Step, WholeModel, whole_model
from tflite_fuse.export.text import comment, fill
from tflite_fuse.ir.enums import StageKind
from tflite_fuse.ir.program import FUSED_OPERATOR
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.schema import Model


def unfused(original: Model, rewritten: WholeModel) -> WholeModel:
    """Return the original with every operator as a block by itself, with the same inputs and outputs as its rewrite.

    Raises:
        UsageError: inputs and outputs differ, or no block can hold an operator.
        ModelError: a dynamic shape.
    """
    if any(operator_name(original, each) == FUSED_OPERATOR for each in original.main.operators):
        raise UsageError("the file of --benchmark has fused blocks itself: give the original")
    for kept in ((), ("SOFTMAX",)):
        found = whole_model(original, kept)
        if all(
            same_ports([port for port, _ in ours], [port for port, _ in theirs])
            for ours, theirs in ((rewritten.inputs, found.inputs), (rewritten.outputs, found.outputs))
        ):
            return found
    raise UsageError(NOT_THE_ORIGINAL)


def files(original: WholeModel, rewritten: WholeModel, whose: tuple[Candidate, ...], board: OnBoard) -> Files:
    """Return the folder's files.

    Args:
        original, rewritten: the models to run.
        whose: data of the lines about them.
        board: the board.

    Raises:
        RuntimeUnavailableError: this installation lacks the library.
    """
    title = whose[1].title
    outputs = sum(port.nbytes for port, _ in rewritten.outputs)
    tables = _tables("original", original, whose[0]) + _tables("model", rewritten, whose[1])
    main = fill(
        "benchmark/plain_c.c",
        title=comment(title),
        runs=RUNS,
        sets=INPUT_SETS,
        output_bytes=outputs,
        tables=tables,
        lines=fill("benchmark/lines.c"),
    )
    return {
        **plain_c.model_files(original, f"{title}, every operator by itself,", "original"),
        **plain_c.model_files(rewritten, title, "model"),
        "main.c": main,
        "board.h": fill(
            "benchmark/board.h",
            name=board.name or "unknown",
            hertz=board.mhz * 1_000_000,
            core=fill("benchmark/core.h"),
        ),
        **library.flat_sources(),
        **library.licence(""),
    }


def _stages(step: Step) -> str:
    """Return a step's name from the kinds of its stages."""
    kinds = [StageKind(stage.kind).name for stage in read_options(step.options).stages] if step.options else ["COPY"]
    return kinds[0] if len(kinds) == 1 else f"{kinds[0]} to {kinds[-1]}, {len(kinds)} stages"


def _tables(name: str, model: WholeModel, whose: Candidate) -> str:
    """Return names of the steps, ports, and the beginning of the model's line."""
    names = ", ".join(f'"{_stages(step)}"' for step in model.steps)
    ports = {
        kind: "".join(f"{{{place.offset}, {port.nbytes}}}, " for port, place in found)
        for kind, found in (("inputs", model.inputs), ("outputs", model.outputs))
    }
    lines = [
        f"static const char* const {name}_head = {whose.head('none', 'tflite-fuse')};",
        f"static const char* const {name}_names[] = {{{names}}};",
        *(f"static const port {name}_{kind}[] = {{{text}{{0, 0}}}};" for kind, text in ports.items()),
    ]
    return "\n".join(lines) + "\n"
