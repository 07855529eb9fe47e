"""A .tflite file from and to bytes, losslessly."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from tflite_fuse.errors import ModelError
from tflite_fuse.files import read_file, write_atomically
from tflite_fuse.model.options import read_options, write_options
from tflite_fuse.model.schema import Model
from tflite_fuse.model.validate import validate
from tflite_fuse.model.wire import Reader, Writer

IDENTIFIER = b"TFL3"
_ZIP_ENTRY = b"PK\x03\x04"


Source = str | os.PathLike[str] | bytes | bytearray | memoryview
"""A path, or a file's bytes."""


def read_source(source: Source) -> bytes:
    """The bytes, read once: what a pipe has given is gone. Raises UsageError."""
    return bytes(source) if isinstance(source, (bytes, bytearray, memoryview)) else read_file(Path(source))


def load_model(source: Source, name: str | None = None) -> Model:
    """Read and check a model.

    Args:
        source: a path, or the file's bytes.
        name: what messages call it; the path, if that is given, or "the model".

    Raises:
        ModelError: not a TensorFlow Lite file, damaged, or using parts that would be lost on writing.
        UsageError: the path cannot be read.
    """
    if name is None:
        name = "the model" if isinstance(source, (bytes, bytearray, memoryview)) else str(source)
    return _parse(read_source(source), name)


def _parse(data: bytes, name: str) -> Model:
    if not data:
        raise ModelError(f"{name}: the file is empty")
    if len(data) < 12 or data[4:8] != IDENTIFIER:
        raise ModelError(f"{name}: not a TensorFlow Lite model (no TFL3 identifier at byte 4)")
    try:
        reader = Reader(data, read_options)
        model = reader.table(Model, reader.target(0))
        _refuse_outside_data(model)
        start = data.find(_ZIP_ENTRY, reader.end)
        model = replace(model, trailing=data[start:] if start >= 0 else b"")
        validate(model)
    except ModelError as error:
        raise ModelError(f"{name}: {error}") from error
    return model


def _refuse_outside_data(model: Model) -> None:
    if any(buffer.offset > 1 for buffer in model.buffers) or any(
        operator.large_custom_options_offset > 1 for graph in model.subgraphs for operator in graph.operators
    ):
        raise ModelError("it keeps data outside its FlatBuffer (a model of more than 2 GB), which is not supported")


def serialize_model(model: Model) -> bytes:
    """The bytes of a .tflite file. Every buffer starts at a multiple of 16."""
    size = sum(len(buffer.data or b"") + 64 for buffer in model.buffers)
    writer = Writer(size + 65536, write_options)
    writer.builder.Finish(writer.table(model), IDENTIFIER)
    return bytes(writer.builder.Output()) + model.trailing


def save_model(model: Model | bytes, path: str | os.PathLike[str]) -> None:
    """Write a model so that the path holds either the old content or the whole new one, never a part.

    Raises:
        UsageError: the path cannot be written.
    """
    data = model if isinstance(model, bytes) else serialize_model(model)
    write_atomically(data, Path(path))
