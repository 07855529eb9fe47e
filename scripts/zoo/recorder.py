"""The recording half of ``ModelBuilder``: checks and stores tensors and operators, independent of their kind."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from scripts.zoo import numerics
from scripts.zoo.arguments import need_affordable
from scripts.zoo.numerics import FloatArray
from scripts.zoo.recording import Activation, Operand, Operation, Recording, Ref, Shape, assemble
from tflite_fuse.errors import ModelError, UsageError
from tflite_fuse.model.schema import Model, OptionsTable
from tflite_fuse.model.types import TensorType


class Recorder:
    """The two ends of a graph under construction and what lies between.

    Args:
        seed: of weights and calibration images.
        calibration: number of calibration images.
    """

    def __init__(self, seed: int = 0, calibration: int = 8) -> None:
        self._rng = np.random.default_rng(seed)
        self._calibration = calibration
        self._recording = Recording()

    def input(self, shape: Shape, *, name: str | None = None, type: TensorType = TensorType.INT8) -> Ref:
        """Add a network input of shape (1, ...), int8 or float32, holding reals in [-1, 1]."""
        if not shape or shape[0] != 1 or min(shape) < 1:
            raise UsageError(f"an input needs a shape of positive sizes with batch 1, not {tuple(shape)}")
        need_affordable(prod(shape))
        values = numerics.calibration_images(tuple(shape[1:]), self._calibration, self._rng)
        ref = self._activation(name or f"input_{len(self._recording.inputs)}", values, type)
        self._recording.inputs.append(ref.index)
        return ref

    def build(self, outputs: Sequence[Ref] = (), description: str = "tflite-fuse zoo") -> Model:
        """Return the model. ``outputs`` defaults to what the last operator writes; anything else may stay unread."""
        if not self._recording.operations:
            raise UsageError("a model needs at least one operator")
        last = self._recording.operations[-1].outputs
        return assemble(self._recording, [ref.index for ref in outputs] or last, description)

    def samples(self, x: Ref) -> FloatArray:
        """Return the values of the calibration images in a tensor, float32, images along the first axis."""
        return self._values(x, x.type).copy()

    def _values(self, x: Ref, type: TensorType = TensorType.INT8) -> FloatArray:
        known = self._recording.activations
        if not 0 <= x.index < len(known) or known[x.index].shape != x.shape:
            raise UsageError(f"{x} is not a tensor of this builder")
        if x.type != type:
            raise UsageError(f"tensor {known[x.index].name} is {x.type.name.lower()}; quantize() it first")
        return known[x.index].values

    def _need_image(self, x: Ref) -> None:
        if self._values(x).ndim != 4:
            raise ModelError(f"a sliding window needs a tensor of shape (1, height, width, channels), not {x.shape}")

    def _need_broadcast(self, a: Ref, b: Ref) -> None:
        try:
            np.broadcast_shapes(a.shape, b.shape)
        except ValueError:
            raise ModelError(f"tensors of shapes {a.shape} and {b.shape} cannot be combined by element") from None

    def _name(self, operator: str) -> str:
        return f"{operator.lower()}_{len(self._recording.operations)}"

    def _activation(self, name: str, values: FloatArray, type: TensorType = TensorType.INT8) -> Ref:
        recording = self._recording
        values = values.astype(np.float32, copy=False)
        ref = Ref(len(recording.activations), (1, *values.shape[1:]), type)
        recording.activations.append(
            Activation(name, ref.shape, type, values, float(values.min()), float(values.max()))
        )
        recording.group.append(ref.index)
        return ref

    def _record(
        self, operator: str, operands: tuple[Operand, ...], outputs: Sequence[Ref], options: OptionsTable | None
    ) -> None:
        self._recording.operations.append(
            Operation(operator, operands, tuple(output.index for output in outputs), options)
        )

    def _emit(
        self,
        operator: str,
        operands: tuple[Operand, ...],
        values: FloatArray,
        options: OptionsTable | None,
        name: str | None,
        type: TensorType = TensorType.INT8,
    ) -> Ref:
        output = self._activation(name or self._name(operator), values, type)
        self._record(operator, operands, [output], options)
        return output

    def _share(self, x: Ref, y: Ref) -> Ref:
        self._recording.share_scale(x.index, y.index)
        return y
