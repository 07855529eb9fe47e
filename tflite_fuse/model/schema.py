"""The tables of a .tflite file as frozen dataclasses.

Field order, slots and defaults are facts of the TensorFlow Lite FlatBuffer schema (identifier ``TFL3``, version 3).
Optional vectors and tables that are absent from a file are ``None``, which differs from an empty vector.
Options tables of built-in operators are kept as ``OptionsTable``: their bytes survive unread.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tflite_fuse.model.wire import Kind, slot

Ints = tuple[int, ...]


@dataclass(frozen=True)
class CustomQuantization:
    custom: bytes | None = slot(0, Kind.BYTES, align=16)


@dataclass(frozen=True)
class BlockwiseQuantization:
    scales: int = slot(0, Kind.INT32)
    zero_points: int = slot(1, Kind.INT32)
    block_size: int = slot(2, Kind.INT32)


@dataclass(frozen=True)
class MultiAxisQuantization:
    scales: int = slot(0, Kind.INT32)
    zero_points: int = slot(1, Kind.INT32)
    block_size: int = slot(2, Kind.INT32)
    quantized_dimensions: Ints | None = slot(3, Kind.INT32_VECTOR)


@dataclass(frozen=True)
class Quantization:
    """``real = scale * (quantized - zero_point)``, per tensor or per slice of ``quantized_dimension``."""

    min: tuple[float, ...] | None = slot(0, Kind.FLOAT32_VECTOR)
    max: tuple[float, ...] | None = slot(1, Kind.FLOAT32_VECTOR)
    scale: tuple[float, ...] | None = slot(2, Kind.FLOAT32_VECTOR)
    zero_point: Ints | None = slot(3, Kind.INT64_VECTOR)
    details: Any = slot(4, Kind.UNION, union=(CustomQuantization, BlockwiseQuantization, MultiAxisQuantization))
    quantized_dimension: int = slot(6, Kind.INT32)


@dataclass(frozen=True)
class Int32Vector:
    values: Ints | None = slot(0, Kind.INT32_VECTOR)


@dataclass(frozen=True)
class Uint16Vector:
    values: Ints | None = slot(0, Kind.UINT16_VECTOR, align=4)


@dataclass(frozen=True)
class Uint8Vector:
    values: bytes | None = slot(0, Kind.BYTES, align=4)


_INDEX_VECTOR = (Int32Vector, Uint16Vector, Uint8Vector)


@dataclass(frozen=True)
class DimensionMetadata:
    format: int = slot(0, Kind.INT8)
    dense_size: int = slot(1, Kind.INT32)
    array_segments: Any = slot(2, Kind.UNION, union=_INDEX_VECTOR)
    array_indices: Any = slot(4, Kind.UNION, union=_INDEX_VECTOR)


@dataclass(frozen=True)
class Sparsity:
    traversal_order: Ints | None = slot(0, Kind.INT32_VECTOR)
    block_map: Ints | None = slot(1, Kind.INT32_VECTOR)
    dim_metadata: tuple[DimensionMetadata, ...] | None = slot(2, Kind.TABLE_VECTOR, table=DimensionMetadata)


@dataclass(frozen=True)
class VariantSubType:
    shape: Ints | None = slot(0, Kind.INT32_VECTOR)
    type: int = slot(1, Kind.INT8)
    has_rank: bool = slot(2, Kind.BOOL)


@dataclass(frozen=True)
class Tensor:
    """One tensor. ``type`` is a ``TensorType`` number; ``buffer`` indexes ``Model.buffers`` (0 = no data)."""

    shape: Ints | None = slot(0, Kind.INT32_VECTOR)
    type: int = slot(1, Kind.INT8)
    buffer: int = slot(2, Kind.UINT32)
    name: str | None = slot(3, Kind.STRING)
    quantization: Quantization | None = slot(4, Kind.TABLE, table=Quantization)
    is_variable: bool = slot(5, Kind.BOOL)
    sparsity: Sparsity | None = slot(6, Kind.TABLE, table=Sparsity)
    shape_signature: Ints | None = slot(7, Kind.INT32_VECTOR)
    has_rank: bool = slot(8, Kind.BOOL)
    variant_tensors: tuple[VariantSubType, ...] | None = slot(9, Kind.TABLE_VECTOR, table=VariantSubType)
    external_buffer: int = slot(10, Kind.UINT32)

    @property
    def dims(self) -> Ints:
        """The shape; a scalar (or absent shape) is ``()``."""
        return self.shape or ()

    @property
    def is_open(self) -> bool:
        """Whether the file leaves a dimension open, other than the batch: the shape may have any number there."""
        return any(dim < 0 for dim in (self.shape_signature or ())[1:])


@dataclass(frozen=True)
class OperatorCode:
    deprecated_builtin_code: int = slot(0, Kind.INT8)
    custom_code: str | None = slot(1, Kind.STRING)
    version: int = slot(2, Kind.INT32, default=1)
    builtin_code: int = slot(3, Kind.INT32)

    @property
    def code(self) -> int:
        """The ``BuiltinOperator`` number. Old files store it in a byte, newer ones in an int32."""
        return max(self.deprecated_builtin_code, self.builtin_code)


@dataclass(frozen=True)
class OptionsTable:
    """An options table kept by its structure: inline fields as bytes, referenced vectors beside them.

    Attributes:
        type: number in the ``BuiltinOptions`` (or ``BuiltinOptions2``) union.
        fields: (slot, little-endian bytes) of each inline scalar that is present.
        vectors: (slot, element size in bytes, bytes) of each vector or string that is present.
    """

    type: int
    fields: tuple[tuple[int, bytes], ...] = ()
    vectors: tuple[tuple[int, int, bytes], ...] = ()


@dataclass(frozen=True)
class Operator:
    opcode_index: int = slot(0, Kind.UINT32)
    inputs: Ints | None = slot(1, Kind.INT32_VECTOR)
    outputs: Ints | None = slot(2, Kind.INT32_VECTOR)
    builtin_options: OptionsTable | None = slot(3, Kind.OPTIONS)
    custom_options: bytes | None = slot(5, Kind.BYTES, align=16)
    custom_options_format: int = slot(6, Kind.INT8)
    mutating_variable_inputs: tuple[bool, ...] | None = slot(7, Kind.BOOL_VECTOR)
    intermediates: Ints | None = slot(8, Kind.INT32_VECTOR)
    large_custom_options_offset: int = slot(9, Kind.UINT64)
    large_custom_options_size: int = slot(10, Kind.UINT64)
    builtin_options_2: OptionsTable | None = slot(11, Kind.OPTIONS_2)
    debug_metadata_index: int = slot(13, Kind.INT32, default=-1)
    plan: Any = field(default=None, compare=False, repr=False)
    """The ``BlockPlan`` of a fused block that a pass made; not part of the file."""
    label: str = field(default="", compare=False, repr=False)
    """Its kind and index in the file that it was read from, for messages; passes keep it. Not part of the file."""

    @property
    def output(self) -> int:
        """The first tensor that it writes; -1 without one."""
        return self.outputs[0] if self.outputs else -1


@dataclass(frozen=True)
class SubGraph:
    tensors: tuple[Tensor, ...] = slot(0, Kind.TABLE_VECTOR, table=Tensor, required=True)
    inputs: Ints = slot(1, Kind.INT32_VECTOR, required=True)
    outputs: Ints = slot(2, Kind.INT32_VECTOR, required=True)
    operators: tuple[Operator, ...] = slot(3, Kind.TABLE_VECTOR, table=Operator, required=True)
    name: str | None = slot(4, Kind.STRING)
    debug_metadata_index: int = slot(5, Kind.INT32, default=-1)

    @cached_property
    def readers(self) -> Mapping[int, Sequence[int]]:
        """The indices of the operators that read each tensor, once for each operand; only tensors with readers."""
        readers = defaultdict[int, list[int]](list)
        for index, operator in enumerate(self.operators):
            for tensor in operator.inputs or ():
                readers[tensor].append(index)
        return dict(readers)

    @cached_property
    def writers(self) -> Mapping[int, int]:
        """The index of the operator that writes each tensor; only tensors with a writer."""
        return {tensor: index for index, operator in enumerate(self.operators) for tensor in operator.outputs or ()}

    def read_by(self, operator: Operator, position: int) -> Tensor | None:
        """Return the tensor of an operator's input ``position``; None where it has no such input or leaves it out."""
        index = dict(enumerate(operator.inputs or ())).get(position, -1)
        return self.tensors[index] if index >= 0 else None

    def written_by(self, operator: Operator) -> Tensor | None:
        """Return the first tensor that an operator writes, None for one without outputs."""
        return self.tensors[operator.outputs[0]] if operator.outputs else None


@dataclass(frozen=True)
class Buffer:
    """Constant data. ``data`` is written at an address that is a multiple of 16."""

    data: bytes | None = slot(0, Kind.BYTES, align=16)
    offset: int = slot(1, Kind.UINT64)
    size: int = slot(2, Kind.UINT64)


@dataclass(frozen=True)
class Metadata:
    name: str | None = slot(0, Kind.STRING)
    buffer: int = slot(1, Kind.UINT32)


@dataclass(frozen=True)
class TensorMap:
    name: str | None = slot(0, Kind.STRING)
    tensor_index: int = slot(1, Kind.UINT32)


@dataclass(frozen=True)
class SignatureDef:
    inputs: tuple[TensorMap, ...] | None = slot(0, Kind.TABLE_VECTOR, table=TensorMap)
    outputs: tuple[TensorMap, ...] | None = slot(1, Kind.TABLE_VECTOR, table=TensorMap)
    signature_key: str | None = slot(2, Kind.STRING)
    deprecated_tag: str | None = slot(3, Kind.STRING)
    subgraph_index: int = slot(4, Kind.UINT32)


@dataclass(frozen=True)
class ExternalBufferGroup:
    name: str | None = slot(0, Kind.STRING)


@dataclass(frozen=True)
class ExternalBuffer:
    id: int = slot(0, Kind.UINT32)
    group: int = slot(1, Kind.UINT32)
    offset: int = slot(2, Kind.UINT64)
    length: int = slot(3, Kind.UINT64)
    packing: str | None = slot(4, Kind.STRING)


@dataclass(frozen=True)
class Model:
    """A whole file. ``trailing`` has the bytes behind the flatbuffer (TFLite Metadata appends a ZIP there)."""

    version: int = slot(0, Kind.UINT32)
    operator_codes: tuple[OperatorCode, ...] = slot(1, Kind.TABLE_VECTOR, table=OperatorCode, required=True)
    subgraphs: tuple[SubGraph, ...] = slot(2, Kind.TABLE_VECTOR, table=SubGraph, required=True)
    description: str | None = slot(3, Kind.STRING)
    buffers: tuple[Buffer, ...] = slot(4, Kind.TABLE_VECTOR, table=Buffer, required=True)
    metadata_buffer: Ints | None = slot(5, Kind.INT32_VECTOR)
    metadata: tuple[Metadata, ...] | None = slot(6, Kind.TABLE_VECTOR, table=Metadata)
    signature_defs: tuple[SignatureDef, ...] | None = slot(7, Kind.TABLE_VECTOR, table=SignatureDef)
    external_buffer_groups: tuple[ExternalBufferGroup, ...] | None = slot(
        8, Kind.TABLE_VECTOR, table=ExternalBufferGroup
    )
    external_buffers: tuple[ExternalBuffer, ...] | None = slot(9, Kind.TABLE_VECTOR, table=ExternalBuffer)
    trailing: bytes = field(default=b"")

    @property
    def main(self) -> SubGraph:
        """The subgraph that inference runs: the first one."""
        return self.subgraphs[0]
