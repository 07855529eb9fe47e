"""Construction of a model: operators of another one, written for other numbers of time steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tflite_fuse.memory.tflm.offline_plan import remove_plan
from tflite_fuse.model.edit import Editor, prune, renumber_signatures, replace_main
from tflite_fuse.model.operators import VALID, get_options, make_options, operator_name, with_options
from tflite_fuse.model.schema import Model, Operator, Quantization, Tensor
from tflite_fuse.model.types import TensorType
from tflite_fuse.ops.kinds.state import STATE_OPERATOR
from tflite_fuse.ops.lowering.operands import read_constant
from tflite_fuse.passes.sliding.time_windows import Time, TimeWindow, WindowKind

LEAST = -128


class Writing(Editor):
    """Additions to a model for other numbers of time steps; equal constants are shared."""

    def __init__(self, model: Model) -> None:
        super().__init__(remove_plan(model))
        self._constants: dict[tuple[bytes, tuple[int, ...], Quantization | None], int] = {}
        self._names: dict[str, int] = {}

    # ---- Parts ----

    def over(self, tensor: int, time: Time, steps: int) -> int:
        """Append a tensor like another one with a different number of steps; return its index."""
        old, dims = self.tensors[tensor].name, list(self.dims(tensor))
        dims[time.axis] = steps * time.each
        count = self._names[old or ""] = self._names.get(old or "", 0) + 1
        return self.like(tensor, dims, f"{old}/{count}" if count > 1 or steps != time.steps else old)

    def shared(self, values: npt.NDArray[np.generic], type_: TensorType, like: int | None = None) -> int:
        """Return a constant with a tensor's quantization; equal constants are shared."""
        quantization = None if like is None else self.tensors[like].quantization
        data = values.astype(values.dtype.newbyteorder("<")).tobytes()
        key = (data, values.shape, quantization)
        if key not in self._constants:
            described = Tensor(values.shape, type_, 0, f"stream/constant {len(self._constants)}", quantization)
            self._constants[key] = self.constant(described, data)
        return self._constants[key]

    def integers(self, values: Sequence[int]) -> int:
        return self.shared(np.array(values, np.int32), TensorType.INT32)

    def state(self, new: int, time: Time, steps: int) -> int:
        """Append a state of ``steps`` earlier and new steps; return its output. Its reset value is set later."""
        rows = self.over(new, time, steps)
        fill = self.tensor(Tensor((1,), TensorType.INT8, 0, f"{self.tensors[rows].name}/reset"))
        return self.add(f"CUSTOM:{STATE_OPERATOR}", (new, fill), rows)

    # ---- Steps ----

    def cut(self, tensor: int, time: Time, begin: int, end: int, stride: int = 1) -> int:
        """Return every ``stride``-th of the steps begin … end - 1."""
        dims = self.tensors[tensor].dims
        if (begin, end, stride) == (0, dims[time.axis] // time.each, 1):
            return tensor
        assert stride == 1 or time.each == 1
        at, to, by = [0] * len(dims), list(dims), [1] * len(dims)
        at[time.axis], to[time.axis], by[time.axis] = begin * time.each, end * time.each, stride
        output = self.over(tensor, time, -(-(end - begin) // stride))
        operands = (tensor, *map(self.integers, (at, to, by)))
        return self.add("STRIDED_SLICE", operands, output, make_options("StridedSliceOptions"))

    def padded(self, tensor: int, axes: Mapping[int, tuple[int, int]], value: int | None) -> int:
        """Return the tensor with more values before and behind some axes: ``value``, or the zero point's."""
        dims = list(self.tensors[tensor].dims)
        if not any(map(any, axes.values())):
            return tensor
        amounts = np.zeros((len(dims), 2), np.int32)
        for axis, amount in axes.items():
            amounts[axis] = amount
            dims[axis] += sum(amount)
        output = self.like(tensor, dims, f"{self.tensors[tensor].name}/padded {len(self.tensors)}")
        operands = [tensor, self.shared(amounts, TensorType.INT32)]
        if value is None:
            return self.add("PAD", operands, output, make_options("PadOptions"))
        operands.append(self.shared(np.array([value], np.int8), TensorType.INT8, tensor))
        return self.add("PADV2", operands, output)

    def joined(self, parts: Sequence[int], time: Time) -> int:
        """Return steps joined along time.

        Each part is padded to the whole with the least value, and the maximum of all is taken. A block has no other way
        to join along time, and this one only copies values.
        """
        if len(parts) == 1:
            return parts[0]
        sizes = [self.tensors[part].dims[time.axis] for part in parts]
        whole, result = sum(sizes), -1
        for number, part in enumerate(parts):
            before = sum(sizes[:number])
            placed = self.padded(part, {time.axis: (before, whole - before - sizes[number])}, LEAST)
            if result < 0:
                result = placed
                continue
            result = self.add("MAXIMUM", (result, placed), self.over(part, time, whole))
        return result

    # ---- Operators ----

    def applied(
        self, operator: Operator, window: TimeWindow, replacements: Mapping[int, int], edges: tuple[int, int] = (0, 0),
        *, dilation: int = 0, stride: int = 0, steps: int | None = None,
    ) -> tuple[int, ...]:  # fmt: skip
        """Append an operator of the original for other numbers of steps; return its outputs.

        Args:
            operator: the operator.
            window: its window along time.
            replacements: new tensors in place of its inputs.
            edges: steps outside the window before and behind these.
            dilation, stride: those of its windows along time; 0 for its own.
            steps: steps of its output; None for those of the window.

        Returns:
            Replacements of its outputs.
        """
        inputs = [replacements.get(tensor, tensor) for tensor in operator.inputs or ()]
        count = window.steps if steps is None else steps
        outputs = tuple(
            self.over(tensor, time, count) for tensor, time in zip(operator.outputs or (), window.times, strict=True)
        )
        changed = operator
        if window.kind is WindowKind.SLIDING:
            axis = window.times[0].axis
            inputs[0] = self.padded(inputs[0], {axis: edges, 3 - axis: window.columns}, window.fill)
            changed = self._other_window(operator, window, dilation, stride)
        elif window.kind is WindowKind.PAD:
            amounts = read_constant(self.model, inputs[1], TensorType.INT32, "paddings").reshape(-1, 2).copy()
            amounts[window.times[0].axis] = edges
            inputs[1] = self.shared(amounts.astype(np.int32), TensorType.INT32)
        else:
            changed = self._other_shapes(operator, inputs, outputs[0], window.times[0])
        self.operators.append(replace(changed, inputs=tuple(inputs), outputs=outputs))
        return outputs

    def _other_window(self, operator: Operator, window: TimeWindow, dilation: int, stride: int) -> Operator:
        sign = "hw"[window.times[0].axis - 1]
        changes = {"padding": VALID, f"stride_{sign}": stride or window.stride}
        if not operator_name(self.model, operator).endswith("POOL_2D"):
            changes[f"dilation_{sign}_factor"] = dilation or window.dilation
        return with_options(self.model, operator, **changes)

    def _other_shapes(self, operator: Operator, inputs: list[int], output: int, time: Time) -> Operator:
        """Return the operator with constants and options for the new shapes."""
        name = operator_name(self.model, operator)
        dims = self.tensors[output].dims
        if name == "RESHAPE":
            if len(inputs) > 1 and inputs[1] >= 0:
                inputs[1] = self.integers(dims)
            return replace(operator, builtin_options=make_options("ReshapeOptions", new_shape=dims))
        if name == "SLICE":
            sizes = [-1 if axis == time.axis else size for axis, size in enumerate(dims)]
            inputs[2] = self.integers(sizes)
        if name == "STRIDED_SLICE":
            options = get_options(operator)
            masks = {what: _number(options[what]) | 1 << time.axis for what in ("begin_mask", "end_mask")}
            return with_options(self.model, operator, **masks)
        return operator

    # ---- The end ----

    def between(self, inputs: Sequence[int], outputs: Sequence[int]) -> Model:
        """Return the model from inputs to outputs, without operators and tensors that no output depends on."""
        read, kept = set(outputs), []
        for operator in reversed(self.operators):
            if read.intersection(operator.outputs or ()):
                read.update(operator.inputs or ())
                kept.append(operator)
        self.operators = kept[::-1]
        moved = dict(zip((*self.model.main.inputs, *self.model.main.outputs), (*inputs, *outputs), strict=True))
        model = renumber_signatures(self.finish(), moved)
        return prune(replace_main(model, replace(model.main, inputs=tuple(inputs), outputs=tuple(outputs))))


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
