"""Reading, validating and writing a .tflite file, losslessly."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from math import prod
from pathlib import Path

from tflite_fuse.errors import ModelError
from tflite_fuse.files import read_file, write_atomically
from tflite_fuse.model.options import has_foreign_options, read_options, write_options
from tflite_fuse.model.schema import Model, Operator, OperatorCode, SubGraph, Tensor
from tflite_fuse.model.types import labelled, operator_name, tensor_nbytes
from tflite_fuse.model.wire import Reader, Writer

MAX_ELEMENTS = 2**31 - 1
"""Largest number of elements of a tensor; TFLM counts them in an int."""

MAX_DIMENSIONS = 32
"""Largest number of dimensions of a tensor, as in numpy before 2.0. TFLM's kernels support up to 6."""

COMPRESSION_METADATA = "COMPRESSION_METADATA"
"""Metadata of a model whose constants TFLM unpacks: they have fewer bytes than their shapes need."""


def validate(model: Model) -> None:
    """Check a model's indices, shapes and dataflow: every operator reads tensors that were written before it.

    Raises:
        ModelError: the message names the first inconsistent place.
    """
    if not model.subgraphs:
        raise ModelError("it has no subgraph")
    for number, graph in enumerate(model.subgraphs):
        _check_tensors(model, graph, number)
        _check_constants(model, graph, number)
        _check_operators(model, graph, number)
        _check_dataflow(model, graph, number)
        _check_maps(model, graph, number)
    _check_values(model)
    _check_extras(model)


def _check_tensors(model: Model, graph: SubGraph, number: int) -> None:
    for index, tensor in enumerate(graph.tensors):
        where = f"tensor {index} ({tensor.name}) of subgraph {number}"
        if tensor.buffer >= len(model.buffers):
            raise ModelError(f"{where} refers to buffer {tensor.buffer}, the file has {len(model.buffers)}")
        if len(tensor.dims) > MAX_DIMENSIONS:
            raise ModelError(f"{where} has {len(tensor.dims):,} dimensions, more than {MAX_DIMENSIONS}")
        if any(dim < -1 for dim in tensor.dims):
            raise ModelError(f"{where} has the shape {list(tensor.dims)}")
        if prod(max(dim, 1) for dim in tensor.dims) > MAX_ELEMENTS:
            raise ModelError(f"{where} has the impossible shape {list(tensor.dims)}")
    for kind, indices in (("input", graph.inputs), ("output", graph.outputs)):
        _check_indices(indices, len(graph.tensors), f"{kind} list of subgraph {number}")


def _check_constants(model: Model, graph: SubGraph, number: int) -> None:
    """Require as many bytes of each constant as its shape needs: a runtime reads them even beyond the file's end."""
    if any(entry.name == COMPRESSION_METADATA for entry in model.metadata or ()):
        return
    for index, tensor in enumerate(graph.tensors):
        data = model.buffers[tensor.buffer].data
        if data and any(dim < 0 for dim in tensor.dims):
            raise ModelError(
                f"tensor {index} ({tensor.name}) of subgraph {number} is a constant of the dynamic shape "
                f"{list(tensor.dims)}"
            )
        if data and tensor.sparsity is None and len(data) < _needed(tensor):
            raise ModelError(
                f"tensor {index} ({tensor.name}) of subgraph {number} is a constant of {len(data):,} bytes, its shape "
                f"{list(tensor.dims)} needs {_needed(tensor):,}"
            )


def _needed(tensor: Tensor) -> int:
    """Return the bytes that a constant's shape needs; 0 if it does not determine them."""
    try:
        return tensor_nbytes(tensor)
    except ModelError:
        return 0


def _check_indices(indices: Iterable[int], count: int, where: str, lowest: int = 0) -> None:
    for index in indices:
        if not lowest <= index < count:
            raise ModelError(f"the {where} refers to tensor {index}, the subgraph has {count}")


def _check_operators(model: Model, graph: SubGraph, number: int) -> None:
    for index, operator in enumerate(graph.operators):
        if operator.opcode_index >= len(model.operator_codes):
            raise ModelError(
                f"operator {index} of subgraph {number} refers to operator code {operator.opcode_index}, "
                f"the file has {len(model.operator_codes)}"
            )
        where = f"{_label(model, operator, index)} of subgraph {number}"
        _check_indices(operator.inputs or (), len(graph.tensors), f"input list of {where}", lowest=-1)
        _check_indices(operator.outputs or (), len(graph.tensors), f"output list of {where}")
        _check_indices(operator.intermediates or (), len(graph.tensors), f"intermediate list of {where}", lowest=-1)
        if has_foreign_options(operator_name(model, operator), operator):
            raise ModelError(f"{where} has the options of another kind of operator")


_OF_MAPS = ("AVERAGE_POOL_2D", "CONV_2D", "DEPTHWISE_CONV_2D", "MAX_POOL_2D")
"""Operators whose kernels in TFLM read and write four dimensions of a tensor with any number of them."""


def _check_maps(model: Model, graph: SubGraph, number: int) -> None:
    for position, operator in enumerate(graph.operators):
        if operator_name(model, operator) not in _OF_MAPS:
            continue
        for index in (*(operator.inputs or ())[:1], *(operator.outputs or ())):
            tensor = graph.tensors[index]
            if index >= 0 and len(tensor.dims) != 4:
                raise ModelError(
                    f"{_label(model, operator, position)} of subgraph {number} needs a map of four dimensions, and "
                    f"tensor {index} ({tensor.name}) has the shape {list(tensor.dims)}"
                )


def _label(model: Model, operator: Operator, index: int) -> str:
    return f"operator {index} ({operator_name(model, operator)})"


def _check_dataflow(model: Model, graph: SubGraph, number: int) -> None:
    producers: dict[int, int] = {}
    for index, operator in enumerate(graph.operators):
        for tensor in operator.outputs or ():
            if tensor in producers:
                raise ModelError(
                    f"tensor {tensor} of subgraph {number} is written by operator {producers[tensor]} and again by "
                    f"{_label(model, operator, index)}"
                )
            producers[tensor] = index
    for index, operator in enumerate(graph.operators):
        for tensor in operator.inputs or ():
            if producers.get(tensor, -1) >= index:
                raise ModelError(
                    f"{_label(model, operator, index)} of subgraph {number} reads tensor {tensor}, which operator "
                    f"{producers[tensor]} writes only later: the operators form a cycle or are out of order"
                )


_UNWRITTEN = "nothing writes: no operator does, and it is neither an input nor a constant"


def _check_values(model: Model) -> None:
    """Refuse outputs and operands of an inference that hold nothing; variables outlive it.

    Custom operators may use tensors as memory. Without operators there is no inference.
    """
    graph = model.main
    for position, operator in enumerate(graph.operators):
        if model.operator_codes[operator.opcode_index].custom_code is not None:
            continue
        for index in operator.inputs or ():
            if index >= 0 and not _holds_a_value(model, index):
                where = f"{_label(model, operator, position)} of subgraph 0"
                raise ModelError(f"{where} reads tensor {index} ({graph.tensors[index].name}), which {_UNWRITTEN}")
    for index in graph.outputs if graph.operators else ():
        if not _holds_a_value(model, index):
            name = graph.tensors[index].name
            raise ModelError(f"tensor {index} ({name}) of subgraph 0 is an output that {_UNWRITTEN}")


def _holds_a_value(model: Model, index: int) -> bool:
    graph, tensor = model.main, model.main.tensors[index]
    if index in graph.inputs or index in graph.writers or tensor.is_variable:
        return True
    return 0 in tensor.dims or bool(model.buffers[tensor.buffer].data)


def _check_extras(model: Model) -> None:
    named = [(f"metadata {entry.name}", entry.buffer) for entry in model.metadata or ()]
    for where, buffer in (*named, *(("the list of metadata buffers", each) for each in model.metadata_buffer or ())):
        if not 0 <= buffer < len(model.buffers):
            raise ModelError(f"{where} refers to buffer {buffer}, the file has {len(model.buffers)}")
    for signature in model.signature_defs or ():
        if signature.subgraph_index >= len(model.subgraphs):
            raise ModelError(f"signature {signature.signature_key} refers to subgraph {signature.subgraph_index}")
        count = len(model.subgraphs[signature.subgraph_index].tensors)
        for mapping in (*(signature.inputs or ()), *(signature.outputs or ())):
            if mapping.tensor_index >= count:
                raise ModelError(f"signature {signature.signature_key} refers to tensor {mapping.tensor_index}")


IDENTIFIER = b"TFL3"
_OPERATOR_CODES = 1
"""Slot of the operator codes in the root table."""
_ZIP_ENTRY = b"PK\x03\x04"


_CONVERTED_BY = (
    dict.fromkeys((".onnx", ".pt2"), "`tflite-fuse rewrite` converts it to one")
    | dict.fromkeys((".h5", ".keras", ".pb"), "tensorflow's TFLiteConverter converts it to one")
    | dict.fromkeys((".pt", ".pth"), "torch.export.save writes a .pt2, which `tflite-fuse rewrite` converts to one")
)
"""Ways to a .tflite from files that others write, by the ends of their names."""

Source = str | os.PathLike[str] | bytes | bytearray | memoryview
"""A path, or the bytes of a file."""


def read_source(source: Source) -> bytes:
    """Return the bytes of a source, read only once, because a pipe cannot be read again. Raises UsageError."""
    return bytes(source) if isinstance(source, (bytes, bytearray, memoryview)) else read_file(Path(source))


def load_model(source: Source, name: str | None = None) -> Model:
    """Read and check a model.

    Args:
        source: a path, or the file's bytes.
        name: name in messages; by default the path or "the model".

    Raises:
        ModelError: not a TensorFlow Lite file, damaged, or with parts that would be lost on writing.
        UsageError: the path cannot be read.
    """
    if name is None:
        name = "the model" if isinstance(source, (bytes, bytearray, memoryview)) else str(source)
    return _parse(read_source(source), name)


def _parse(data: bytes, name: str) -> Model:
    if not data:
        raise ModelError(f"{name}: the file is empty")
    if data.startswith(b"version https://git-lfs"):
        raise ModelError(f"{name}: is a pointer of Git LFS; `git lfs pull` fetches the model")
    if len(data) < 12 or data[4:8] != IDENTIFIER:
        reason = _CONVERTED_BY.get(Path(name).suffix.lower(), "no TFL3 identifier at byte 4")
        raise ModelError(f"{name}: not a TensorFlow Lite model ({reason})")
    try:
        reader = Reader(data, read_options)
        model = reader.table(Model, reader.target(0))
        _refuse_outside_data(model)
        start = data.find(_ZIP_ENTRY, reader.end)
        model = replace(model, trailing=data[start:]) if start >= 0 else model
        validate(model)
        model = labelled(model)
    except ModelError as error:
        raise ModelError(f"{name}: {error}") from error
    return model


def custom_codes(data: bytes) -> set[str]:
    """Return the names of a file's custom operators; nothing else of it is read. Raises ModelError if it is damaged."""
    reader = Reader(data, read_options)
    codes = reader.vtable(reader.target(0))[0].get(_OPERATOR_CODES)
    start, count = (0, 0) if codes is None else reader.span(reader.target(codes), 4)
    read = (reader.table(OperatorCode, reader.target(start + 4 * index)) for index in range(count))
    return {code.custom_code for code in read if code.custom_code}


def _refuse_outside_data(model: Model) -> None:
    if any(buffer.offset > 1 for buffer in model.buffers) or any(
        operator.large_custom_options_offset > 1 for graph in model.subgraphs for operator in graph.operators
    ):
        raise ModelError("it keeps data outside its FlatBuffer (a model of more than 2 GB), which is not supported")
    if elsewhere := [tensor.name for graph in model.subgraphs for tensor in graph.tensors if tensor.external_buffer]:
        raise ModelError(f"it keeps the data of tensor {elsewhere[0]} in another file, which is not supported")


def serialize_model(model: Model) -> bytes:
    """Return the bytes of a .tflite file. Every buffer starts at a multiple of 16."""
    size = sum(len(buffer.data or b"") + 64 for buffer in model.buffers)
    writer = Writer(size + 65536, write_options)
    writer.builder.Finish(writer.table(model), IDENTIFIER)
    return bytes(writer.builder.Output()) + model.trailing


def save_model(model: Model | bytes, path: str | os.PathLike[str]) -> None:
    """Write a model atomically: the path holds either its old content or the whole new one.

    Raises:
        UsageError: the path cannot be written.
    """
    data = model if isinstance(model, bytes) else serialize_model(model)
    write_atomically(data, Path(path))
