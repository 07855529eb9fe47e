"""Streaming models in the forms of converters: variables that hold the last time steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from tests.drawing.raw_models import VALID, RawModel, edgy_int8
from tflite_fuse.model.options import make_options
from tflite_fuse.model.schema import Buffer, Model, Operator, OperatorCode, OptionsTable, SubGraph, Tensor
from tflite_fuse.model.types import BUILTIN_CODES, TensorType

_HANDLE_OPTIONS = 111
CUTS = ("STRIDED_SLICE", "from the end", "SLICE", "SPLIT_V", "GATHER")


class RawStream(RawModel):
    """A model with variables; ``axis`` of [1, H, W, C] is time."""

    def __init__(self, axis: int = 1) -> None:
        super().__init__()
        self.axis = axis
        self.first: dict[bytes, tuple[int, bytes]] = {}
        self.called = -1

    def call_once(self) -> None:
        """Where the variables are initialized."""
        self.called = self.operator("CALL_ONCE", (), (), make_options("CallOnceOptions", init_subgraph_index=1))

    def variable(self, like: int, steps: int, first: bytes | None = None) -> int:
        """The handle of a variable for so many steps of a tensor."""
        name = f"state {len(self.tensors)}".encode()
        self.tensors.append(Tensor((), TensorType.RESOURCE, name=name.decode()))
        handle = len(self.tensors) - 1
        self.operator("VAR_HANDLE", (), (handle,), handle_options(name))
        if first is not None:
            self.first[name] = self.like(like, steps), first
        return handle

    def like(self, tensor: int, steps: int) -> int:
        """A tensor of another number of steps."""
        dims = list(self.tensors[tensor].dims)
        dims[self.axis] = steps
        self.tensors.append(replace(self.tensors[tensor], shape=tuple(dims), name=f"t{len(self.tensors)}", buffer=0))
        return len(self.tensors) - 1

    def steps(self, tensor: int) -> int:
        return self.tensors[tensor].dims[self.axis]

    def cut(self, tensor: int, begin: int, how: str) -> int:
        """The steps from ``begin`` on."""
        whole, axis = self.steps(tensor), self.axis
        if begin == 0:
            return tensor
        output, rank = self.like(tensor, whole - begin), len(self.tensors[tensor].dims)
        at = [begin if dim == axis else 0 for dim in range(rank)]
        if how in ("STRIDED_SLICE", "from the end"):
            start, end, by = (
                self.constant(np.array(values, np.int32))
                for values in (
                    at if how == "STRIDED_SLICE" else [begin - whole if dim == axis else 0 for dim in range(rank)],
                    [0] * rank,
                    [1] * rank,
                )
            )
            masks = {"begin_mask": (1 << rank) - 1 - (1 << axis), "end_mask": (1 << rank) - 1}
            options = make_options("StridedSliceOptions", **masks)
            self.operator("STRIDED_SLICE", (tensor, start, end, by), (output,), options)
        elif how == "SLICE":
            sizes = [-1 if dim == axis else size for dim, size in enumerate(self.tensors[tensor].dims)]
            operands = (self.constant(np.array(values, np.int32)) for values in (at, sizes))
            self.operator("SLICE", (tensor, *operands), (output,), None)
        elif how == "SPLIT_V":
            rest = self.like(tensor, begin)
            sizes_, axis_ = self.constant(np.array([begin, whole - begin], np.int32)), self.constant(np.int32(axis))
            options = make_options("SplitVOptions", num_splits=2)
            self.operator("SPLIT_V", (tensor, sizes_, axis_), (rest, output), options)
        else:
            listed = self.constant(np.arange(begin, whole, dtype=np.int32))
            self.operator("GATHER", (tensor, listed), (output,), make_options("GatherOptions", axis=axis))
        return output

    def window(self, new: int, earlier: int, held: int, how: str, first: bytes | None = None) -> int:
        """Earlier and new steps of a tensor, from a variable of ``held`` steps (at least ``earlier``)."""
        handle = self.variable(new, held, first)
        read = self.like(new, held)
        self.operator("READ_VARIABLE", (handle,), (read,), None)
        joined = self.join(self.cut(read, held - earlier, how), new)
        kept = self.cut(joined, self.steps(joined) - held, how)
        self.operator("ASSIGN_VARIABLE", (handle, kept), (), None)
        return joined

    def join(self, earlier: int, new: int) -> int:
        output = self.like(new, self.steps(earlier) + self.steps(new))
        self.operator("CONCATENATION", (earlier, new), (output,), make_options("ConcatenationOptions", axis=self.axis))
        return output

    def side_by_side(self, one: int, other: int) -> int:
        """Their channels."""
        dims = self.tensors[one].dims
        joined = self.tensor((*dims[:3], dims[3] + self.tensors[other].dims[3]), *affine(self.tensors[one]))
        self.operator("CONCATENATION", (one, other), (joined,), make_options("ConcatenationOptions", axis=3))
        return joined

    def convolution(
        self,
        x: int,
        channels: int,
        kernel: Sequence[int],
        dilation: Sequence[int],
        rng: np.random.Generator,
        stride: Sequence[int] = (1, 1),
        depthwise: bool = False,
        quantization: tuple[float, int] | None = None,
    ) -> int:
        """VALID."""
        _, height, width, depth = self.tensors[x].dims
        channels = depth if depthwise else channels
        shape = (1, *kernel, depth) if depthwise else (channels, *kernel, depth)
        out = [
            (size - (k - 1) * d - 1) // s + 1
            for size, k, d, s in zip((height, width), kernel, dilation, stride, strict=True)
        ]
        scale, zero_point = quantization or (float(np.float32(rng.uniform(0.05, 0.5))), int(rng.integers(-128, 128)))
        scales = [float(np.float32(v)) for v in rng.uniform(0.002, 0.02, channels)]
        filter_ = self.constant(edgy_int8(rng, shape), scales, 3 if depthwise else 0)
        bias = self.constant(rng.integers(-500, 500, channels).astype(np.int32), scales)
        output = self.tensor((1, *out, channels), scale, zero_point)
        numbers: dict[str, Any] = {
            "padding": VALID,
            "stride_h": stride[0],
            "stride_w": stride[1],
            "dilation_h_factor": dilation[0],
            "dilation_w_factor": dilation[1],
            "fused_activation_function": int(rng.integers(0, 2)),
        }
        if depthwise:
            options = make_options("DepthwiseConv2DOptions", depth_multiplier=1, **numbers)
            self.operator("DEPTHWISE_CONV_2D", (x, filter_, bias), (output,), options)
        else:
            self.operator("CONV_2D", (x, filter_, bias), (output,), make_options("Conv2DOptions", **numbers))
        return output

    def mixed(self, x: int, kernels: Sequence[int], rng: np.random.Generator, how: str) -> int:
        """As MixConv spells it: a kernel for each part of the channels, each over the last steps it needs."""
        dims, parts = self.tensors[x].dims, len(kernels)
        pieces = [self.tensor((*dims[:3], dims[3] // parts), *affine(self.tensors[x])) for _ in kernels]
        sizes, axis = self.constant(np.full(parts, dims[3] // parts, np.int32)), self.constant(np.int32(-1))
        options = make_options("SplitVOptions", num_splits=parts)
        self.operator("SPLIT_V", (x, sizes, axis), pieces, options)
        longest, quantization = max(kernels), (0.25, -7)
        outputs = []
        for piece, kernel in zip(pieces, kernels, strict=True):
            seen = self.cut(piece, longest - kernel, how)
            size = (kernel, 1) if self.axis == 1 else (1, kernel)
            seed = np.random.default_rng(int(rng.integers(1 << 30)))
            outputs.append(self.convolution(seen, 0, size, (1, 1), seed, depthwise=True, quantization=quantization))
        for operator in range(len(self.operators)):  # all parts clamp alike
            if self.codes[self.operators[operator].opcode_index] == "DEPTHWISE_CONV_2D":
                old = self.operators[operator]
                if set(old.outputs or ()) & set(outputs):
                    known = next(o for o in self.operators if set(o.outputs or ()) & {outputs[0]})
                    self.operators[operator] = replace(old, builtin_options=known.builtin_options)
        joined = self.tensor((*self.tensors[outputs[0]].dims[:3], dims[3]), *quantization)
        self.operator("CONCATENATION", outputs, (joined,), make_options("ConcatenationOptions", axis=-1))
        return joined

    def stream(self, inputs: Sequence[int], outputs: Sequence[int]) -> Model:
        """The model, with the subgraph that initializes variables."""
        if self.called < 0:
            return self.build(inputs, outputs)
        tensors: list[Tensor] = []
        for name in ("VAR_HANDLE", "ASSIGN_VARIABLE"):
            if name not in self.codes:
                self.codes.append(name)
        made: list[Operator] = []
        for name, (tensor, first) in self.first.items():
            self.buffers.append(Buffer(first))
            tensors.append(Tensor((), TensorType.RESOURCE, name=name.decode()))
            tensors.append(replace(self.tensors[tensor], buffer=len(self.buffers) - 1))
            made.append(Operator(self.codes.index("VAR_HANDLE"), (), (len(tensors) - 2,), handle_options(name)))
            inside = len(tensors) - 2, len(tensors) - 1
            made.append(Operator(self.codes.index("ASSIGN_VARIABLE"), inside, (), None))
        model = self.build(inputs, outputs)
        codes = tuple(OperatorCode(min(BUILTIN_CODES[n], 127), None, 1, BUILTIN_CODES[n]) for n in self.codes)
        once = SubGraph(tuple(tensors), (), (), tuple(made), "once")
        return replace(model, operator_codes=codes, subgraphs=(*model.subgraphs, once))


def affine(tensor: Tensor) -> tuple[float, int]:
    """Its scale and zero point."""
    assert tensor.quantization is not None and tensor.quantization.scale and tensor.quantization.zero_point
    return tensor.quantization.scale[0], tensor.quantization.zero_point[0]


def handle_options(name: bytes) -> OptionsTable:
    """Those of a VAR_HANDLE."""
    return OptionsTable(_HANDLE_OPTIONS, (), ((0, 1, b"\0"), (1, 1, name + b"\0")))


def first_values(rng: np.random.Generator, kind: str, size: int, zero_point: int) -> bytes | None:
    """What a variable is initialized with."""
    if kind == "nothing":
        return None
    values: npt.NDArray[np.int8] = edgy_int8(rng, (size,)) if kind == "any" else np.full(size, zero_point, np.int8)
    return values.tobytes()


@st.composite
def streams(draw: st.DrawFn) -> Model:
    """A few layers, each over a window of the last steps; perhaps a FULLY_CONNECTED or a MixConv among them."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    axis, hop = draw(st.sampled_from([1, 1, 2])), draw(st.integers(1, 3))
    model = RawStream(axis)
    kinds = draw(st.sampled_from([("nothing",), ("zero point",), ("any",), ("any", "zero point")]))
    if kinds != ("nothing",):
        model.call_once()
    depth, beside = draw(st.sampled_from([1, 3, 4, 8])), draw(st.sampled_from([1, 1, 4])) if axis == 1 else 1
    shape = (1, hop, beside, depth) if axis == 1 else (1, beside, hop, depth)
    source = x = model.tensor(shape, 0.1, draw(st.sampled_from([-128, 0, 5])))
    outputs: list[int] = []
    for _ in range(draw(st.integers(1, 3))):
        taps, apart = draw(st.integers(2, 4)), draw(st.sampled_from([1, 1, 2, 3]))
        earlier = (taps - 1) * apart
        held = earlier + draw(st.sampled_from([0, 0, model.steps(x)]))
        dims = model.tensors[x].dims
        size = int(np.prod(dims)) // model.steps(x) * held
        first = first_values(rng, draw(st.sampled_from(kinds)), size, affine(model.tensors[x])[1])
        window = model.window(x, earlier, held, draw(st.sampled_from(CUTS)), first)
        if apart == 1 and dims[2 if axis == 1 else 1] == 1 and dims[3] % 2 == 0 and draw(st.booleans()):
            x = model.mixed(window, (draw(st.integers(1, taps)), taps), rng, draw(st.sampled_from(CUTS[:3])))
            continue
        kernel, dilation = ((taps, 1), (apart, 1)) if axis == 1 else ((1, taps), (1, apart))
        depthwise, channels = draw(st.booleans()), draw(st.sampled_from([2, 4, 5]))
        if draw(st.integers(0, 3)) == 0:  # beside it a look further back, into a variable of its own
            shorter = model.convolution(window, channels, kernel, dilation, rng, quantization=(0.2, 3))
            further = model.window(x, 2 * earlier, 2 * earlier, draw(st.sampled_from(CUTS)))
            wider = (2 * apart, 1) if axis == 1 else (1, 2 * apart)
            longer = model.convolution(further, channels, kernel, wider, rng, quantization=(0.2, 3))
            x = model.side_by_side(shorter, longer)
            continue
        x = model.convolution(window, channels, kernel, dilation, rng, depthwise=depthwise)
        if draw(st.integers(0, 3)) == 0:
            outputs.append(window)
    return model.stream([source], [x, *outputs])
