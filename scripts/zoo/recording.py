"""The content that a ``ModelBuilder`` recorded, and its assembly into a ``Model`` once every range is known.

Quantization is done at the end because operators that copy bytes (PAD, pooling, RESHAPE, CONCATENATION, SPLIT) force
one scale on all their tensors: those tensors form a group whose range covers all members.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from scripts.zoo.numerics import FloatArray
from scripts.zoo.quantization import ActivationParameters, QuantizedWeights, activation_parameters, quantize_bias
from tflite_fuse.errors import ModelError
from tflite_fuse.model.schema import Buffer, Model, Operator, OperatorCode, OptionsTable, Quantization, SubGraph, Tensor
from tflite_fuse.model.types import BUILTIN_CODES, TensorType

Shape = tuple[int, ...]

ABSENT = -1
"""Operator input that is left out (optional bias)."""

_VERSIONS = {"CONV_2D": 3, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": 4, "RESHAPE": 1, "VAR_HANDLE": 1}
_INT8_VERSION = 2
"""Operator versions that hold int8: those in the table, 2 for every other operator."""


@dataclass(frozen=True)
class Ref:
    """Handle of a tensor while building. ``shape`` includes the batch axis (1)."""

    index: int
    shape: Shape
    type: TensorType = TensorType.INT8


@dataclass
class Activation:
    """A tensor that is computed (or fed), with what the calibration images gave in it.

    Attributes:
        values: float32, calibration images along the first axis.
        low, high: range of ``values``.
        fixed: quantization the runtime dictates, else None.
    """

    name: str
    shape: Shape
    type: TensorType
    values: FloatArray
    low: float
    high: float
    fixed: ActivationParameters | None = None


@dataclass(frozen=True)
class Constant:
    """An operator input that lives in flash. ``scales`` empty: not quantized."""

    name: str
    shape: Shape
    type: TensorType
    data: bytes
    scales: Sequence[float] = ()
    axis: int = 0


@dataclass(frozen=True)
class Bias:
    """Int32 biases whose scale depends on the scale that activation ``input`` will get."""

    name: str
    weights: QuantizedWeights
    input: int


Operand = int | Constant | Bias


@dataclass(frozen=True)
class Operation:
    """One operator by its schema name; integers among ``operands`` are activations (or ``ABSENT``)."""

    name: str
    operands: tuple[Operand, ...]
    outputs: tuple[int, ...]
    options: OptionsTable | None = None


@dataclass
class Recording:
    """Everything recorded so far. ``group`` is a union-find forest over activations that share one scale."""

    activations: list[Activation] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    group: list[int] = field(default_factory=list)

    def root(self, index: int) -> int:
        """Return the activation that represents the group of ``index``."""
        while self.group[index] != index:
            self.group[index] = self.group[self.group[index]]
            index = self.group[index]
        return index

    def share_scale(self, first: int, second: int) -> None:
        """Give both activations, and all that share with them, one scale and zero point."""
        self.group[self.root(second)] = self.root(first)

    def parameters(self) -> list[ActivationParameters]:
        """Return scale and zero point of each activation.

        Raises:
            ModelError: an output whose scale the runtime dictates shares its scale with something outside its range.
        """
        members: dict[int, list[Activation]] = {}
        for index, activation in enumerate(self.activations):
            members.setdefault(self.root(index), []).append(activation)
        by_root = {root: _group_parameters(group) for root, group in members.items()}
        return [by_root[self.root(index)] for index in range(len(self.activations))]


def _group_parameters(group: Sequence[Activation]) -> ActivationParameters:
    low, high = min(a.low for a in group), max(a.high for a in group)
    fixed = next((a for a in group if a.fixed is not None), None)
    if fixed is None or fixed.fixed is None:
        return activation_parameters(low, high)
    if any(a.fixed != fixed.fixed for a in group) and (low < 0.0 or high > 1.0):
        raise ModelError(
            f"tensor {fixed.name} has a fixed scale but shares it with a tensor that ranges over [{low:.3g}, "
            f"{high:.3g}]; put quantize() between them"
        )
    return fixed.fixed


class _Assembler:
    """Collects tensors and buffers while operators are written one after another."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._parameters = recording.parameters()
        self.tensors: list[Tensor] = []
        self.buffers: list[Buffer] = [Buffer()]
        self.names: list[str] = []
        self._placed: dict[int, int] = {}

    def activation(self, index: int) -> int:
        """Return the tensor index of an activation, created at its first use."""
        if index not in self._placed:
            activation = self._recording.activations[index]
            quantization = None
            if activation.type == TensorType.INT8:
                parameters = self._parameters[index]
                quantization = Quantization(scale=(parameters.scale,), zero_point=(parameters.zero_point,))
            self._placed[index] = len(self.tensors)
            self.tensors.append(
                Tensor(
                    shape=activation.shape,
                    type=int(activation.type),
                    name=activation.name,
                    quantization=quantization,
                    has_rank=True,
                )
            )
        return self._placed[index]

    def constant(self, constant: Constant) -> int:
        """Return the tensor index of a new constant with its own buffer."""
        quantization = None
        if constant.scales:
            quantization = Quantization(
                scale=tuple(constant.scales),
                zero_point=(0,) * len(constant.scales),
                quantized_dimension=constant.axis if len(constant.scales) > 1 else 0,
            )
        self.buffers.append(Buffer(data=constant.data))
        self.tensors.append(
            Tensor(
                shape=constant.shape,
                type=int(constant.type),
                buffer=len(self.buffers) - 1,
                name=constant.name,
                quantization=quantization,
                has_rank=True,
            )
        )
        return len(self.tensors) - 1

    def bias(self, bias: Bias) -> int:
        """Return the tensor index of int32 biases with the scale of their input and weights."""
        scale = self._parameters[bias.input].scale
        values = quantize_bias(bias.weights, scale)
        scales = np.float32(scale) * bias.weights.scales
        return self.constant(
            Constant(bias.name, values.shape, TensorType.INT32, values.astype("<i4").tobytes(), scales.tolist())
        )

    def operand(self, operand: Operand) -> int:
        """Return the tensor index of an operator input."""
        if isinstance(operand, Constant):
            return self.constant(operand)
        if isinstance(operand, Bias):
            return self.bias(operand)
        return ABSENT if operand == ABSENT else self.activation(operand)

    def operator(self, operation: Operation) -> Operator:
        """Add the operator; its tensors and operator code are created where they are new."""
        if operation.name not in self.names:
            self.names.append(operation.name)
        return Operator(
            opcode_index=self.names.index(operation.name),
            inputs=tuple(self.operand(operand) for operand in operation.operands),
            outputs=tuple(self.activation(index) for index in operation.outputs),
            builtin_options=operation.options,
        )


def assemble(recording: Recording, outputs: Sequence[int], description: str) -> Model:
    """Return the recorded graph as a model with one subgraph, operators in recorded order.

    Raises:
        ModelError: see ``Recording.parameters``.
    """
    assembler = _Assembler(recording)
    inputs = tuple(assembler.activation(index) for index in recording.inputs)
    operators = tuple(assembler.operator(operation) for operation in recording.operations)
    subgraph = SubGraph(
        tensors=tuple(assembler.tensors),
        inputs=inputs,
        outputs=tuple(assembler.activation(index) for index in outputs),
        operators=operators,
        name="main",
    )
    return Model(
        version=3,
        operator_codes=tuple(_operator_code(name) for name in assembler.names),
        subgraphs=(subgraph,),
        description=description,
        buffers=tuple(assembler.buffers),
    )


def _operator_code(name: str) -> OperatorCode:
    code = BUILTIN_CODES[name]
    version = _VERSIONS.get(name, _INT8_VERSION)
    return OperatorCode(deprecated_builtin_code=min(code, 127), version=version, builtin_code=code)
