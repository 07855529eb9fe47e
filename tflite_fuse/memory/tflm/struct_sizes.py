"""Sizes of what TensorFlow Lite Micro keeps in the tail of the arena, by build.

``ARM`` is a 32-bit Arm build: its compilers pack enums into one byte. ``WIDE_ENUMS`` is a 32-bit build with 4-byte
enums (RISC-V, Xtensa, Arm with ``-fno-short-enums``). ``HOST`` is the 64-bit Linux build of the ``tflite-micro`` wheel,
there so that the prediction can be held against a running runtime. All have the reference kernels. Sizes are facts of
the runtime's structs, taken with ``sizeof``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

FUSED_BLOCK_BYTES = 28
"""What this project's operator keeps for one block: a ``tflite_fuse_block``. Weights and tables stay in flash."""


@dataclass(frozen=True)
class Struct:
    """Bytes and alignment of one of the runtime's structs."""

    bytes: int
    align: int = 4


@dataclass(frozen=True)
class OperatorSizes:
    """What one kind of operator keeps.

    Attributes:
        options: the parsed options of the schema.
        data: what the kernel asks for itself, 0 = nothing.
    """

    options: Struct | None = None
    data: int = 0


@dataclass(frozen=True)
class Build:
    """Struct sizes of one build of the runtime. Bytes; see the module's docstring.

    Attributes:
        pointer: bytes of a pointer.
        allocator: the allocator's own objects, in order of allocation.
        option_allocator: the helper that hands out memory for options.
        subgraph: bookkeeping of a subgraph.
        tensor: TfLiteEvalTensor.
        node: an operator's node and registration.
        edge_tensor: TfLiteTensor, one for each input and output of the model.
        quantization: TfLiteAffineQuantization, beside its array of zero points.
        resources: MicroResourceVariables, and one entry of it.
        scratch_request: a request for scratch, kept while the model loads.
        allocation_info: what is noted of a tensor or scratch buffer while the plan is made.
        operators: by operator name; absent = the runtime keeps nothing beyond the node.
        custom: bytes a custom operator keeps, by its name.
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


_OPTIONS: dict[str, tuple[int, int]] = {
    # name: (bytes, alignment) with 4-byte enums
    "ADD": (8, 4),
    "ARG_MAX": (4, 4),
    "ARG_MIN": (4, 4),
    "AVERAGE_POOL_2D": (40, 4),
    "BATCH_MATMUL": (3, 1),
    "CALL_ONCE": (4, 4),
    "CAST": (8, 4),
    "CONCATENATION": (8, 4),
    "CONV_2D": (28, 4),
    "CUMSUM": (2, 1),
    "DEPTHWISE_CONV_2D": (28, 4),
    "DEPTH_TO_SPACE": (4, 4),
    "DIV": (4, 4),
    "FULLY_CONNECTED": (16, 4),
    "GATHER": (8, 4),
    "IF": (8, 4),
    "L2_NORMALIZATION": (4, 4),
    "L2_POOL_2D": (40, 4),
    "LEAKY_RELU": (4, 4),
    "MAX_POOL_2D": (40, 4),
    "MEAN": (1, 1),
    "MIRROR_PAD": (4, 4),
    "MUL": (4, 4),
    "PACK": (8, 4),
    "REDUCE_ALL": (1, 1),
    "REDUCE_MAX": (1, 1),
    "REDUCE_MIN": (1, 1),
    "RESHAPE": (36, 4),
    "RESIZE_BILINEAR": (2, 1),
    "RESIZE_NEAREST_NEIGHBOR": (2, 1),
    "SHAPE": (4, 4),
    "SOFTMAX": (4, 4),
    "SPACE_TO_DEPTH": (4, 4),
    "SPLIT": (4, 4),
    "SPLIT_V": (4, 4),
    "SQUEEZE": (36, 4),
    "STRIDED_SLICE": (24, 4),
    "SUB": (8, 4),
    "SUM": (1, 1),
    "SVDF": (12, 4),
    "TRANSPOSE_CONV": (20, 4),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": (16, 4),
    "UNPACK": (8, 4),
    "WHILE": (8, 4),
}

_PACKED_OPTIONS: dict[str, tuple[int, int]] = {
    # name: (bytes, alignment) with 1-byte enums, where that makes a difference
    "ADD": (2, 1),
    "ARG_MAX": (1, 1),
    "ARG_MIN": (1, 1),
    "CAST": (2, 1),
    "DIV": (1, 1),
    "FULLY_CONNECTED": (5, 1),
    "L2_NORMALIZATION": (1, 1),
    "MIRROR_PAD": (1, 1),
    "MUL": (1, 1),
    "SHAPE": (1, 1),
    "SUB": (2, 1),
    "SVDF": (8, 4),
    "TRANSPOSE_CONV": (16, 4),
}

_DATA: dict[str, tuple[int, int]] = {
    # name: (32 bits, HOST)
    "ABS": (28, 28),
    "ADD": (60, 60),
    "ADD_N": (40, 40),
    "ASSIGN_VARIABLE": (0, 4),
    "AVERAGE_POOL_2D": (32, 32),
    "BATCH_MATMUL": (16, 32),
    "CALL_ONCE": (8, 8),
    "CONCATENATION": (24, 80),
    "CONV_2D": (56, 80),
    "CUMSUM": (36, 36),
    "DEPTHWISE_CONV_2D": (56, 80),
    "DEQUANTIZE": (32, 32),
    "DIV": (28, 28),
    "ELU": (256, 256),
    "EMBEDDING_LOOKUP": (8, 16),
    "EQUAL": (32, 32),
    "FULLY_CONNECTED": (48, 88),
    "GREATER": (32, 32),
    "GREATER_EQUAL": (32, 32),
    "HARD_SWISH": (20, 20),
    "IF": (8, 8),
    "L2_NORMALIZATION": (4, 4),
    "LEAKY_RELU": (24, 24),
    "LESS": (32, 32),
    "LESS_EQUAL": (32, 32),
    "LOGISTIC": (16, 16),
    "LOG_SOFTMAX": (28, 40),
    "MAX_POOL_2D": (32, 32),
    "MEAN": (44, 44),
    "MIRROR_PAD": (20, 20),
    "MUL": (36, 36),
    "NOT_EQUAL": (32, 32),
    "PAD": (56, 56),
    "PADV2": (56, 56),
    "PRELU": (28, 28),
    "QUANTIZE": (32, 32),
    "REDUCE_ALL": (44, 44),
    "REDUCE_MAX": (44, 44),
    "REDUCE_MIN": (44, 44),
    "RELU": (28, 28),
    "RELU6": (8, 8),
    "RSQRT": (28, 28),
    "SELECT_V2": (1, 1),
    "SOFTMAX": (56, 80),
    "SPACE_TO_BATCH_ND": (4, 4),
    "SQUARED_DIFFERENCE": (112, 112),
    "STRIDED_SLICE": (84, 84),
    "SUB": (52, 52),
    "SUM": (44, 44),
    "SVDF": (36, 36),
    "TANH": (16, 16),
    "TRANSPOSE_CONV": (72, 88),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": (688, 688),
    "VAR_HANDLE": (4, 4),
    "WHILE": (8, 8),
}


_CUSTOM = {"TFLITE_FUSE": FUSED_BLOCK_BYTES, "TFLite_Detection_PostProcess": 112, "CIRCULAR_BUFFER": 8}


def _operators(options: dict[str, tuple[int, int]], column: int, pointer: int) -> dict[str, OperatorSizes]:
    table = {
        name: OperatorSizes(
            Struct(*options[name]) if name in options else None, _DATA[name][column] if name in _DATA else 0
        )
        for name in {*options, *_DATA}
    }
    table["VAR_HANDLE"] = OperatorSizes(Struct(2 * pointer, pointer), _DATA["VAR_HANDLE"][column])
    return table


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
    operators=_operators(_OPTIONS | _PACKED_OPTIONS, 0, 4),
    custom=_CUSTOM,
)

WIDE_ENUMS = replace(ARM, edge_tensor=Struct(40), operators=_operators(_OPTIONS, 0, 4))

HOST = Build(
    pointer=8,
    allocator=(Struct(104, 8), Struct(72, 8), Struct(272, 8)),
    option_allocator=Struct(16, 8),
    subgraph=Struct(24, 8),
    tensor=Struct(24, 8),
    node=Struct(64, 8),
    edge_tensor=Struct(64, 8),
    quantization=Struct(24, 8),
    resources=(16, 40),
    scratch_request=16,
    allocation_info=32,
    operators=_operators(_OPTIONS, 1, 8),
    custom=_CUSTOM,
)
