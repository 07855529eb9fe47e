"""Models of a few operators, made by hand, for tests of the runtimes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tflite_fuse.model import schema as s
from tflite_fuse.model import serialize_model
from tflite_fuse.model.options import make_options
from tflite_fuse.model.types import BUILTIN_CODES, CUSTOM, TensorType
from tflite_fuse.runtime.comparing.compare import Runtime
from tflite_fuse.runtime.processes.worker import Array


def code(name: str) -> s.OperatorCode:
    """An operator code; names that are no built-in operator are custom."""
    if name not in BUILTIN_CODES:
        return s.OperatorCode(CUSTOM, name, 1, CUSTOM)
    return s.OperatorCode(min(BUILTIN_CODES[name], 127), None, 1, BUILTIN_CODES[name])


def int8(name: str, shape: Sequence[int], buffer: int = 0, scale: float = 0.5, zero_point: int = 0) -> s.Tensor:
    return s.Tensor(
        tuple(shape), TensorType.INT8, buffer, name, s.Quantization(scale=(scale,), zero_point=(zero_point,))
    )


def model_file(
    codes: Sequence[str],
    tensors: Sequence[s.Tensor],
    operators: Sequence[s.Operator],
    inputs: Sequence[int],
    outputs: Sequence[int],
    buffers: Sequence[bytes] = (),
) -> bytes:
    """A .tflite file of one subgraph. Buffer 0 is the empty one; ``buffers`` follow."""
    graph = s.SubGraph(tuple(tensors), tuple(inputs), tuple(outputs), tuple(operators), "main")
    data = (s.Buffer(), *(s.Buffer(each) for each in buffers))
    return serialize_model(s.Model(3, tuple(code(name) for name in codes), (graph,), "", data))


def dense_model(changed: bool = False, features: int = 12, units: int = 7, output_name: str = "scores") -> bytes:
    """int8 [1, features] → FULLY_CONNECTED → [1, units]. ``changed`` alters the last weight of the last unit."""
    weights = np.random.default_rng(1).integers(-90, 90, (units, features)).astype(np.int8)
    if changed:
        weights[-1, -1] += 30
    bias = np.arange(units, dtype=np.int32) * 10
    tensors = (
        int8("image", (1, features), zero_point=3),
        int8("weights", weights.shape, 1, 0.01),
        s.Tensor(bias.shape, TensorType.INT32, 2, "bias", s.Quantization(scale=(0.005,), zero_point=(0,))),
        int8(output_name, (1, units), scale=1.0),
    )
    operators = (s.Operator(0, (0, 1, 2), (3,), make_options("FullyConnectedOptions")),)
    return model_file(["FULLY_CONNECTED"], tensors, operators, [0], [3], [weights.tobytes(), bias.tobytes()])


def counter_model() -> bytes:
    """int8 [1, 4]: the output is the input plus the output of the inference before (a resource variable)."""
    tensors = (
        int8("step", (1, 4)),
        s.Tensor((), TensorType.RESOURCE, 0, "handle"),
        int8("before", (1, 4)),
        int8("after", (1, 4)),
    )
    operators = (
        s.Operator(0, (), (1,), s.OptionsTable(111, (), ((0, 1, b""), (1, 1, b"memory")))),
        s.Operator(1, (1,), (2,)),
        s.Operator(2, (0, 2), (3,), make_options("AddOptions")),
        s.Operator(3, (1, 3), ()),
    )
    codes = ["VAR_HANDLE", "READ_VARIABLE", "ADD", "ASSIGN_VARIABLE"]
    return model_file(codes, tensors, operators, [0], [3])


def custom_model(name: str, options: bytes, shape: Sequence[int] = (1, 4, 4, 2), scratch: int = 64) -> bytes:
    """int8 input and a constant → custom operator → int8 output of the same shape, and a scratch nobody reads."""
    tensors = (
        int8("image", shape),
        int8("constants", (16,), 1),
        int8("result", shape),
        int8("scratch", (scratch,)),
    )
    operators = (s.Operator(0, (0, 1), (2, 3), custom_options=options),)
    return model_file([name], tensors, operators, [0], [2], [bytes(range(16))])


def run_in(runtime: Runtime, model_bytes: bytes, inputs: Sequence[Sequence[Array]]) -> list[list[Array]]:
    """The outputs of each inference in a runtime, with its reference kernels."""
    with runtime.session(model_bytes, "the model") as loaded:
        return [loaded.infer(arrays) for arrays in inputs]
