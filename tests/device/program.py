"""Models as bare-metal programs: the fusable piece, its blocks, and C that describes them to runner.c."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tflite_fuse.emit.in_model import operands_of
from tflite_fuse.emit.insert_blocks import insert_blocks
from tflite_fuse.ir.block import BlockChoice
from tflite_fuse.ir.program import CUSTOM_CODE
from tflite_fuse.model.edit import prune, replace_main
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.outside import InputMode, OutsideInput, outside_inputs
from tflite_fuse.model.schema import Model, Operator
from tflite_fuse.model.types import tensor_nbytes, type_name
from tflite_fuse.ops.lowering.extract import fusability
from tflite_fuse.passes.preparing.sink_transpose import SinkTranspose

Int8Array = npt.NDArray[np.int8]


@dataclass(frozen=True)
class Step:
    """One fused block of a program; operands are the model's tensors. It keeps so many bytes from run to run."""

    options: bytes
    constants: bytes
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    scratch_bytes: int
    state_bytes: int = 0


@dataclass(frozen=True)
class Program:
    """Blocks in execution order.

    Attributes:
        steps: the blocks.
        inputs, outputs: the model's tensors fed and read.
        sizes: bytes of every tensor the blocks read or write.
        streamed: inputs that are handed out pixel by pixel.
    """

    steps: tuple[Step, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    sizes: dict[int, int]
    streamed: tuple[OutsideInput, ...] = ()


def fusable_core(model: Model) -> Model:
    """The model without the operators at its ends that no block can hold, such as QUANTIZE and SOFTMAX.

    TRANSPOSE before MEAN is taken out first, as the rewriter does.
    """
    model = SinkTranspose().run(model).model
    reasons = fusability(model)
    inside = [index for index, reason in enumerate(reasons) if reason is None]
    operators = model.main.operators[inside[0] : inside[-1] + 1]
    written = {tensor for operator in operators for tensor in operator.outputs or ()}
    read = {tensor for operator in operators for tensor in operator.inputs or ()}
    constant = {i for i, t in enumerate(model.main.tensors) if model.buffers[t.buffer].data}
    later = {t for operator in model.main.operators[inside[-1] + 1 :] for t in operator.inputs or ()}
    graph = replace(
        model.main,
        operators=operators,
        inputs=tuple(sorted(tensor for tensor in read - written - constant if tensor >= 0)),
        outputs=tuple(sorted(written & (later | set(model.main.outputs)))),
    )
    return prune(replace(replace_main(model, graph), signature_defs=None))


def whole_program(model: Model, choices: Sequence[BlockChoice]) -> Program:
    """The model as the program of these blocks.

    Raises:
        ValueError: an operator is left that is no block.
    """
    return program_of(insert_blocks(model, choices)[0])


def program_of(rewritten: Model) -> Program:
    """The program of a model that consists of blocks.

    Raises:
        ValueError: an operator is left that is no block, or an input is in memory of the application's.
    """
    steps = tuple(_step(rewritten, operator) for operator in rewritten.main.operators)
    used = {tensor for step in steps for tensor in (*step.inputs, *step.outputs)}
    sizes = {index: tensor_nbytes(rewritten.main.tensors[index]) for index in sorted(used)}
    streamed = outside_inputs(rewritten)
    if any(each.mode is not InputMode.STREAMED for each in streamed):
        raise ValueError("programs have no inputs in memory of the application's")
    return Program(steps, rewritten.main.inputs, rewritten.main.outputs, sizes, streamed)


def _step(model: Model, operator: Operator) -> Step:
    name = operator_name(model, operator)
    if name != f"CUSTOM:{CUSTOM_CODE}" or operator.custom_options is None:
        raise ValueError(f"{name} is not part of any block")
    found, tensors = operands_of(model.main, operator), model.main.tensors
    return Step(
        options=operator.custom_options,
        constants=model.buffers[tensors[found.constants].buffer].data or b"",
        inputs=found.inputs,
        outputs=found.outputs,
        scratch_bytes=tensor_nbytes(tensors[found.scratch]),
        state_bytes=sum(tensor_nbytes(tensors[tensor]) for tensor in found.state),
    )


# ---- C ----


def write_program(
    program: Program, inputs: Sequence[Sequence[Int8Array]], directory: Path, guarded: bool = False
) -> None:
    """Writes program.h and the files it includes to a directory; runs on each element of ``inputs``.

    Args:
        program: what to run.
        inputs: for each run one array per input the model had before any was streamed.
        directory: for the files.
        guarded: whether memory lies between guard bytes. Painting them moves the ticks of a program's clock.
    """
    sizes = {f"tensor_{index}": size for index, size in program.sizes.items()}
    for number, step in enumerate(program.steps):
        sizes |= {f"scratch_{number}": step.scratch_bytes, f"state_{number}": step.state_bytes}
    lines = list(_between_guards(sizes) if guarded else (memory(name, size) for name, size in sizes.items()))
    for number, step in enumerate(program.steps):
        lines += [binary(directory, f"options_{number}", step.options)]
        lines += [binary(directory, f"constants_{number}", step.constants)]
        lines += [_pointers(f"static const int8_t* const inputs_{number}[]", step.inputs)]
        lines += [_pointers(f"static int8_t* const outputs_{number}[]", step.outputs)]
    lines.append("static const program_block blocks[] = {")
    for number in range(len(program.steps)):
        names = [f"{kind}_{number}{end}" for kind in ("options", "constants") for end in ("", "_end")]
        names += [f"{kind}_{number}" for kind in ("inputs", "outputs", "scratch", "state")]
        lines.append(f"    {{{', '.join(names)}}},")
    lines.append("};")
    outside = {each.position for each in program.streamed}
    inside = [at for at in range(len(program.inputs) + len(outside)) if at not in outside]
    for position, tensor in zip(inside, program.inputs, strict=True):
        lines.append(binary(directory, f"values_{tensor}", _values(inputs, position)))
    lines += _tensors(program, "inputs", program.inputs, "values_{}")
    lines += _tensors(program, "outputs", program.outputs, "0")
    lines += _pictures(program.streamed, inputs, directory)
    lines.append(f"#define INPUT_SETS {len(inputs)}")
    (directory / "program.h").write_text("\n".join(lines) + "\n")


def _pictures(
    streamed: Sequence[OutsideInput], inputs: Sequence[Sequence[Int8Array]], directory: Path
) -> Iterator[str]:
    """Of inputs that are handed out: their pixels, and the sources by number."""
    numbered = sorted(streamed, key=lambda each: each.number)
    for each in numbered:
        yield binary(directory, f"picture_{each.number}", _values(inputs, each.position))
    yield "static program_picture pictures[] = {"
    for each in numbered:
        row = each.nbytes // each.rows
        yield f"    {{0, picture_{each.number}, {each.nbytes}, {row}, {row // each.columns}}},"
    yield "};"
    yield "static const tflite_fuse_source sources[] = {"
    for each in numbered:
        kind = f"TFLITE_FUSE_{type_name(each.type).upper()}"
        yield f"    {{read_picture, &pictures[{each.number}], {each.rows}, {each.columns}, {each.channels}, {kind}}},"
    yield "};"


def _values(inputs: Sequence[Sequence[Int8Array]], position: int) -> bytes:
    return b"".join(np.ascontiguousarray(arrays[position]).tobytes() for arrays in inputs)


def _between_guards(sizes: Mapping[str, int]) -> Iterator[str]:
    """Memory by name, each between guard bytes; the first of those behind it follow its last byte at once."""
    yield "#define GUARD_BYTES 32"
    for name, size in sizes.items():
        parts = f"int8_t before[GUARD_BYTES], bytes[{max(size, 1)}], after[GUARD_BYTES];"
        yield f"static struct {{{parts}}} whole_{name} __attribute__((aligned(16)));"
        yield f"#define {name} whole_{name}.bytes"
    yield "static int8_t* const guards[] = {"
    for name in sizes:
        yield f"    whole_{name}.before, whole_{name}.after,"
    yield "};"


def memory(name: str, size: int) -> str:
    return f"static int8_t {name}[{max(size, 1)}] __attribute__((aligned(16)));"


def binary(directory: Path, name: str, data: bytes) -> str:
    (directory / f"{name}.bin").write_bytes(data)
    content = f'{name}:\\n.incbin \\"{name}.bin\\"\\n{name}_end:\\n'
    assembly = f'__asm__(".section .rodata.{name},\\"a\\"\\n.balign 16\\n{content}.previous");'
    return f"{assembly}\nextern const uint8_t {name}[], {name}_end[];"


def _pointers(declaration: str, tensors: Sequence[int]) -> str:
    return f"{declaration} = {{{', '.join(f'tensor_{index}' for index in tensors)}}};"


def _tensors(program: Program, name: str, tensors: Sequence[int], values: str) -> list[str]:
    rows = [f"    {{tensor_{index}, {values.format(index)}, {program.sizes[index]}}}," for index in tensors]
    return [f"static const program_tensor {name}[] = {{", *rows, "};"]
