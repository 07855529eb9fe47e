"""Sizes of TensorFlow Lite Micro's persistent structs in the tail of the arena, by build.

``ARM`` is a 32-bit Arm build: its compilers pack enums into one byte. ``WIDE_ENUMS`` is a 32-bit build with 4-byte
enums (RISC-V, Xtensa, Arm with ``-fno-short-enums``). Both have the reference kernels. The sizes were measured with
``sizeof``.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, field, replace
from pathlib import Path

from tflite_fuse.ir.program import CUSTOM_CODE
from tflite_fuse.memory.tflm.kernel_sets import REFERENCE, Kernels

FUSED_BLOCK_BYTES = 28
"""Bytes that this project's operator keeps per block: a ``tflite_fuse_block``. Weights and tables stay in flash."""


@dataclass(frozen=True)
class Struct:
    """Bytes and alignment of one of the runtime's structs."""

    bytes: int
    align: int = 4


@dataclass(frozen=True)
class OperatorSizes:
    """Persistent sizes of one kind of operator.

    Attributes:
        options: struct of the parsed options of the schema.
        data: bytes that the kernel requests itself; 0 for none.
    """

    options: Struct | None = None
    data: int = 0


@dataclass(frozen=True)
class Build:
    """Struct sizes in bytes of one build of the runtime; see the module's docstring.

    Attributes:
        pointer: a pointer.
        allocator: the allocator's own objects, in order of allocation.
        option_allocator: the allocator of parsed options.
        subgraph: bookkeeping of a subgraph.
        tensor: TfLiteEvalTensor.
        node: an operator's node and registration.
        edge_tensor: TfLiteTensor, one for each input and output of the model.
        quantization: TfLiteAffineQuantization, without its array of zero points.
        resources: MicroResourceVariables, and one entry of it.
        scratch_request: a request for scratch, kept while the model loads.
        allocation_info: record of a tensor or scratch buffer while the plan is made.
        operators: by operator name; operators without an entry keep only their node.
        custom: persistent bytes of custom operators, by name.
        kernels: kernel set.
    """

    pointer: int
    allocator: tuple[Struct, ...]
    option_allocator: Struct
    subgraph: Struct
    tensor: Struct
    node: Struct
    edge_tensor: Struct
    quantization: Struct
    resources: tuple[int, int]
    scratch_request: int
    allocation_info: int
    operators: dict[str, OperatorSizes]
    custom: dict[str, int] = field(default_factory=dict)
    kernels: Kernels = REFERENCE


CUSTOM_OPERATORS = {CUSTOM_CODE: FUSED_BLOCK_BYTES, "TFLite_Detection_PostProcess": 112, "CIRCULAR_BUFFER": 8}


_TABLE = Path(__file__).resolve().parents[2] / "data" / "tflm_operator_sizes.csv"
"""For each operator: bytes and alignment of its options with 4-byte enums and with 1-byte enums (empty without
options), and bytes that its kernel requests on 32 bits and in the 64-bit wheel.
"""


def operator_sizes(options: str, data: str, pointer: int) -> dict[str, OperatorSizes]:
    """Return the sizes from the table's columns ``options`` and ``data``, which select a build."""
    with _TABLE.open(newline="") as file:
        rows = {row["operator"]: row for row in csv.DictReader(file)}
    table = {}
    for name, row in rows.items():
        sizes = row[options], row[options.replace("options", "align")]
        table[name] = OperatorSizes(Struct(*map(int, sizes)) if all(sizes) else None, int(row[data]))
    handle = table["VAR_HANDLE"]
    return table | {"VAR_HANDLE": replace(handle, options=Struct(2 * pointer, pointer))}


ARM = Build(
    pointer=4,
    allocator=(Struct(36), Struct(44), Struct(36)),
    option_allocator=Struct(8),
    subgraph=Struct(8),
    tensor=Struct(12),
    node=Struct(32),
    edge_tensor=Struct(32),
    quantization=Struct(12),
    resources=(12, 20),
    scratch_request=12,
    allocation_info=24,
    operators=operator_sizes("packed_options", "data", 4),
    custom=CUSTOM_OPERATORS,
)

WIDE_ENUMS = replace(ARM, edge_tensor=Struct(40), operators=operator_sizes("options", "data", 4))


def of_2024(build: Build) -> Build:
    """Return the sizes of July 2024: convolutions, fully connected layers and variables kept less."""
    wide = build.operators["ADD"].options == Struct(8)
    changed = {
        "CONV_2D": replace(build.operators["CONV_2D"], options=Struct(24)),
        "FULLY_CONNECTED": OperatorSizes(Struct(12) if wide else Struct(4, 1), 36),
        "STRIDED_SLICE": replace(build.operators["STRIDED_SLICE"], options=Struct(20)),
        **{name: replace(build.operators[name], data=40) for name in ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN")},
    }
    handle, variable = build.resources
    return replace(build, operators=build.operators | changed, resources=(handle, variable - build.pointer))
