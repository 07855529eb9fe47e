"""The operators that TensorFlow Lite Micro registers, and the methods of its resolver for them."""

from __future__ import annotations

from tflite_fuse.model.schema import Model
from tflite_fuse.model.types import operator_name

_NAMES = """
    ABS ADD ADD_N ARG_MAX ARG_MIN ASSIGN_VARIABLE BATCH_TO_SPACE_ND BROADCAST_ARGS BROADCAST_TO CALL_ONCE CAST CEIL
    CONCATENATION COS DEPTH_TO_SPACE DEQUANTIZE DIV DYNAMIC_UPDATE_SLICE ELU EMBEDDING_LOOKUP EQUAL EXP EXPAND_DIMS
    FILL FLOOR FLOOR_DIV FLOOR_MOD FULLY_CONNECTED GATHER GATHER_ND GREATER GREATER_EQUAL HARD_SWISH IF
    L2_NORMALIZATION LEAKY_RELU LESS LESS_EQUAL LOG LOGICAL_AND LOGICAL_NOT LOGICAL_OR LOGISTIC LOG_SOFTMAX MAXIMUM
    MEAN MINIMUM MIRROR_PAD MUL NEG NOT_EQUAL PACK PAD PRELU QUANTIZE READ_VARIABLE REDUCE_ALL REDUCE_MAX REDUCE_MIN
    RELU RELU6 RESHAPE RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR REVERSE_V2 ROUND RSQRT SELECT_V2 SHAPE SIN SLICE SOFTMAX
    SPACE_TO_BATCH_ND SPACE_TO_DEPTH SPLIT SPLIT_V SQRT SQUARE SQUARED_DIFFERENCE SQUEEZE STRIDED_SLICE SUB SUM SVDF
    TANH TRANSPOSE TRANSPOSE_CONV UNPACK VAR_HANDLE WHILE ZEROS_LIKE
"""

_REGULAR = frozenset(_NAMES.split())
"""Operators whose method is ``Add`` plus the operator's name in capitalised words."""

_SIGNAL = """
    Delay Energy FftAutoScale FilterBank FilterBankLog FilterBankSpectralSubtraction FilterBankSquareRoot Framer Irfft
    OverlapAdd PCAN Rfft Stacker Window
"""
"""Custom operators ``Signal…`` by the rest of their names; their method is ``Add`` plus that."""

_IRREGULAR = {
    "AVERAGE_POOL_2D": "AddAveragePool2D",
    "BATCH_MATMUL": "AddBatchMatMul",
    "CONV_2D": "AddConv2D",
    "CUMSUM": "AddCumSum",
    "DEPTHWISE_CONV_2D": "AddDepthwiseConv2D",
    "L2_POOL_2D": "AddL2Pool2D",
    "MAX_POOL_2D": "AddMaxPool2D",
    "PADV2": "AddPadV2",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": "AddUnidirectionalSequenceLSTM",
    "CUSTOM:CIRCULAR_BUFFER": "AddCircularBuffer",
    "CUSTOM:TFLM_DECODE": "AddDecode",
    "CUSTOM:TFLite_Detection_PostProcess": "AddDetectionPostprocess",
}


def registered() -> tuple[str, ...]:
    """Return the names of all operators that the runtime registers; those of custom ones begin with ``CUSTOM:``."""
    return (*_REGULAR, *_IRREGULAR, *(f"CUSTOM:Signal{name}" for name in _SIGNAL.split()))


def used_operators(model: Model) -> tuple[str, ...]:
    """Return the names of the operators in all subgraphs, each once, in order of appearance."""
    names = (operator_name(model, operator) for graph in model.subgraphs for operator in graph.operators)
    return tuple(dict.fromkeys(names))


def method(name: str) -> str | None:
    """Return the resolver's method that registers an operator, None if there is none."""
    if name in _REGULAR:
        return f"Add{''.join(word.capitalize() for word in name.split('_'))}"
    signal = name.removeprefix("CUSTOM:Signal")
    return f"Add{signal}" if signal in _SIGNAL.split() else _IRREGULAR.get(name)
