"""Interface of a kind of stage: the fields of an entry in the table of kinds.

An entry lists only its differences from the default kind, which computes every output pixel from the pixel at the same
place of its one input, without constants and multiplications.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from math import prod
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import BlockTensor, Int8Array, Int32Array, Requantization, Stage, StageKind
from tflite_fuse.ops.arithmetic import Int64Array
from tflite_fuse.ops.lowering.view import Lowered, OperatorView
from tflite_fuse.ops.packing import WeightLayout

T = TypeVar("T")

Tensors = Sequence[BlockTensor]
"""All tensors of a block or layer graph: a stage's ``inputs`` and ``output`` index them."""

Operand = tuple[BlockTensor, npt.NDArray[Any]]
"""An input of a stage: the tensor and its values, int64 [H, W, C], or float32 if the kind reads float32."""

Values = npt.NDArray[Any]
"""Output values of a stage."""

Runs = Mapping[int, int]
"""Number of runs of each length in output pixels."""


class Kernels(Enum):
    """Family of cores for which the device library's kernels compile to similar code, with common counts."""

    PLAIN = "plain C"
    ROOMY = "plain C, many registers"
    DSP = "DSP instructions"
    HELIUM = "Helium"


NOWHERE = -1
"""Offset of an absent section of the constants."""


class Window(Enum):
    """Input pixels that an output pixel needs."""

    PIXEL = "the one at the same place"
    SHIFTED = "the one at the same place less the padding; none outside the input"
    SLIDING = "a kernel's taps, with stride, dilation and padding; none outside the input"
    SPREAD = "those under a window on the input spread out, with stride and padding; none outside the input"


@dataclass(frozen=True)
class Tables:
    """Encoded constants of a stage.

    Attributes:
        layout: layout of the weights and their table.
        weights: int8; empty for none.
        table: little-endian; empty for none.
        looks_outside: whether the kernel reads the padding pixel even if no window leaves the input.
    """

    layout: WeightLayout = WeightLayout.PLAIN
    weights: bytes = b""
    table: bytes = b""
    looks_outside: bool = False


@dataclass(frozen=True)
class StoredTables:
    """Constants of a stage in an encoded block. They are untrusted: offsets may be invalid.

    Attributes:
        constants: all constants of the block.
        layout: layout of the weights and their table.
        weights_offset, table_offset, pad_offset: in bytes, NOWHERE for none.
    """

    constants: bytes
    layout: WeightLayout = WeightLayout.PLAIN
    weights_offset: int = NOWHERE
    table_offset: int = NOWHERE
    pad_offset: int = NOWHERE

    def _section(self, offset: int, size: int) -> bytes:
        if offset < 0 or size < 0 or offset + size > len(self.constants):
            raise BlockError(f"A section of {size} bytes at {offset} lies outside the fused block's constants.")
        return self.constants[offset : offset + size]

    def weights(self, size: int) -> Int8Array:
        """Return ``size`` weights. Like the two methods below, raises BlockError if they lie outside the constants."""
        return np.frombuffer(self._section(self.weights_offset, size), np.int8)

    def table_bytes(self, size: int) -> bytes:
        return self._section(self.table_offset, size)

    def table(self, count: int) -> Int32Array:
        """Return ``count`` numbers of 32 bits."""
        return np.frombuffer(self.table_bytes(4 * count), "<i4").astype(np.int32)

    def pad_value(self) -> int | None:
        """Return the value of pixels outside the input, or None."""
        return (
            None
            if self.pad_offset == NOWHERE
            else int.from_bytes(self._section(self.pad_offset, 1), "little", signed=True)
        )


@dataclass(frozen=True)
class StageCheck:
    """A stage to check.

    Attributes:
        stage: the stage.
        sources: the tensors that it reads.
        output: the tensor that it writes.
    """

    stage: Stage
    sources: Sequence[BlockTensor]
    output: BlockTensor

    def require(self, holds: bool, problem: str) -> None:
        """Raise BlockError unless ``holds``; ``problem`` continues the sentence "The stage …"."""
        if not holds:
            raise BlockError(f"The {self.stage.kind.name} stage that computes {self.output.name} {problem}.")

    def same_shape(self, source: BlockTensor, *, channels: bool = True) -> None:
        """Require that the source has the output's rows and columns, and optionally its channels."""
        same = (source.height, source.width) == (self.output.height, self.output.width)
        same = same and (not channels or source.channels == self.output.channels)
        self.require(same, f"reads {source.name}, which has another shape")

    def broadcast(self, thin: bool = False) -> None:
        """Require that sources have the output's shape, or that one of two is a single pixel used with all of it.

        With ``thin``, sources may have a single channel used with all of the output's.
        """
        wide = [source for source in self.sources if source.pixels > 1] or self.sources
        for source in wide:
            self.same_shape(source, channels=False)
        for source in self.sources:
            fits = source.channels == self.output.channels or (thin and source.channels == 1)
            self.require(fits, f"reads {source.name}, which has another shape")

    def same_channels(self) -> None:
        self.require(self.sources[0].channels == self.output.channels, "changes the number of channels")

    def one_pixel(self) -> None:
        self.require(self.output.pixels == 1, "writes more than one pixel")

    def requantization(self) -> None:
        """Require multipliers and shifts, if the stage has them, that the kernels can apply."""
        table = self.stage.requantization
        if table is not None:
            self.require(bool(np.all(table.multiplier > -(2**31))), "has a multiplier of -2^31")
            self.require(bool(np.all((table.shift >= -31) & (table.shift <= 30))), "shifts by more than -31...30")


def int32_bytes(values: npt.ArrayLike) -> bytes:
    """Return little-endian int32; larger values wrap, as sums do on the device."""
    return np.asarray(values, np.int64).astype(np.uint32).astype("<u4").tobytes()


def _no_reference(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    raise BlockError(f"A {stage.kind.name} stage computes nothing.")


# ---- Work ----


@dataclass(frozen=True)
class Work:
    """Counts of the work of a stage's runs in a family's kernels.

    Attributes:
        counts: names of the counts; ``cost/instructions`` has the cost of each.
        of: function from the stage, the tensors, its runs and the family to the number of each count.
    """

    counts: tuple[str, ...]
    of: Callable[[Stage, Tensors, Runs, Kernels], dict[str, int]]


def counted(*counts: str) -> Callable[[Callable[[Stage, Tensors, Runs, Kernels], dict[str, int]]], Work]:
    """Decorate a function of a stage, the tensors, runs and family that returns these counts."""
    return lambda of: Work(counts, of)


def by_pixel(*counts: str) -> Callable[[Callable[[Stage, Tensors], tuple[int, ...]]], Work]:
    """Decorate a function that returns each count per output pixel."""

    def work(each: Callable[[Stage, Tensors], tuple[int, ...]]) -> Work:
        def of(stage: Stage, tensors: Tensors, runs: Runs, kernels: Kernels) -> dict[str, int]:
            pixels = pixels_of(runs)
            return {name: pixels * times for name, times in zip(counts, each(stage, tensors), strict=True)}

        return Work(counts, of)

    return work


def each_value(times: Mapping[str, int]) -> Work:
    """Return work with a fixed number of each count per output value."""
    return by_pixel(*times)(lambda stage, tensors: tuple(n * tensors[stage.output].channels for n in times.values()))


@by_pixel("other values", "other outputs")
def values_moved(stage: Stage, tensors: Tensors) -> tuple[int, ...]:
    """Return the values read per output pixel and the values written; shared reads count for each pixel."""
    read = prod(stage.kernel_size) * sum(tensors[source].channels for source in stage.inputs)
    return read, tensors[stage.output].channels


def pixels_of(runs: Runs) -> int:
    """Return the output pixels of all runs."""
    return sum(length * times for length, times in runs.items())


# ---- Tables ----


@dataclass(frozen=True)
class Numbers:
    """A field of a stage's parameters, stored as numbers in its table; ``bytes`` are stored unchanged.

    Attributes:
        name: name of the field.
        count: function from the stage's output to the number of values; None for a single number.
        dtype: numpy type of each value.
    """

    name: str
    count: Callable[[BlockTensor], int] | None = None
    dtype: str = "<i4"


@dataclass(frozen=True)
class Layout:
    """Layout of a kind's parameters in its table, used for encoding and decoding.

    Attributes:
        type: class of the parameters.
        fields: in the order of the table.
    """

    type: type[Any]
    fields: tuple[Numbers, ...]

    @classmethod
    def of(cls, type_: Any, *more: Numbers) -> Layout:
        """Return a layout of a dataclass's int and float fields, as int32 and float32, followed by more fields."""
        dtypes = {"int": "<i4", "float": "<f4"}
        plain = ((each.name, dtypes.get(str(each.type))) for each in fields(type_))
        return cls(type_, (*(Numbers(name, None, dtype) for name, dtype in plain if dtype), *more))

    def encode(self, stage: Stage, tensors: Tensors) -> Tables:
        """Return the table of a stage."""
        parameters = parameters_of(stage, self.type)
        stored = ((getattr(parameters, field.name), field.dtype) for field in self.fields)
        return Tables(table=b"".join(v if isinstance(v, bytes) else _wrapped(v, dtype) for v, dtype in stored))

    def decode(self, stage: Stage, tensors: Tensors, stored: StoredTables) -> Stage:
        """Return the stage with its parameters. Raises BlockError if the table lies outside the constants."""
        output, values = tensors[stage.output], {}
        sizes = [(1 if f.count is None else f.count(output)) * np.dtype(f.dtype).itemsize for f in self.fields]
        data = stored.table_bytes(sum(sizes))
        for each, size in zip(self.fields, sizes, strict=True):
            part, data = data[:size], data[size:]
            numbers = tuple(np.frombuffer(part, each.dtype).tolist()) if each.dtype != AS_BYTES else part
            values[each.name] = numbers[0] if each.count is None else numbers
        return replace(stage, parameters=self.type(**values))


AS_BYTES = "V1"
"""Type of a field that contains bytes."""


def _wrapped(values: npt.ArrayLike, dtype: str) -> bytes:
    return int32_bytes(values) if dtype == "<i4" else np.asarray(values).astype(dtype).tobytes()


def encode_entries(bias: npt.ArrayLike, table: Requantization) -> bytes:
    """Return bias, multiplier and shift of each entry as int32."""
    biases = np.broadcast_to(np.asarray(bias, np.int64), table.multiplier.shape)
    return int32_bytes(np.stack([biases, table.multiplier, table.shift], axis=1))


def decode_entries(stored: StoredTables, count: int) -> tuple[Int32Array, Requantization]:
    """Return biases, and multipliers and shifts. Raises BlockError if they lie outside the constants."""
    bias, multiplier, shift = stored.table(3 * count).reshape(-1, 3).T.copy()
    return bias, Requantization(multiplier, shift)


@dataclass(frozen=True)
class Coding:
    """Encoding and decoding of a kind's constants where they have no ``Layout``; by default there are none.

    Attributes:
        encode: function that returns a stage's constants.
        decode: function from a stage with geometry and clamp to the complete stage; raises BlockError.
    """

    encode: Callable[[Stage, Tensors], Tables] = lambda stage, tensors: Tables()
    decode: Callable[[Stage, Tensors, StoredTables], Stage] = lambda stage, tensors, stored: stage


@dataclass(frozen=True)
class Kind:
    """Definition of a stage kind, except its kernel in C.

    Attributes:
        number: its number in the options format.
        inputs: least and largest number of tensors that it reads.
        window: input pixels that an output pixel needs.
        reads_real, writes_real: whether its inputs, its output are float32.
        moves: whether it moves elements of any type, so that its output has its input's type.
        by_value: whether every output value depends only on the values at the same place and channel, everywhere in the
            same way. Its kernels may write it over one of these, as with ``writes_over``.
        writes_over: function from the stage and its input to whether its kernels may write an output pixel over the
            input pixel at the same place, besides kinds by value.
        whole: number of the input that every output pixel needs all of; None without one.
        cuts: whether its padding may be negative: windows may skip rows and columns at the edges of the input.
        sum_bytes: function from its first input to the bytes per output channel of the sums that it keeps while it
            visits all pixels of that input; 0 if it writes pixel by pixel.
        sums_in_order: whether these sums depend on the order of the pixels, so that tiles must be whole rows.
        memory_bytes: function from its output to the bytes of its memory between pixels and inferences; 0 for none. It
            computes all pixels of its output once, in order, and reads the memory as its last input.
        outside: function from the stage and its input to the value of pixels outside that input.
        check: function that raises BlockError if the stage contradicts its tensors or lacks a parameter.
        reference: function that computes the stage on whole tensors, before the clamp, as TFLM's reference kernels do.
        constants: their encoding and decoding.
        macs: multiply-accumulates per output pixel, taps on padding included.
        work: counts of its runs in a family's kernels.
        lowerings: by name of a TFLite operator, the function that lowers it to this or another kind, or to a renaming.
    """

    number: StageKind
    inputs: tuple[int, int] = (1, 1)
    window: Window = Window.PIXEL
    reads_real: bool = False
    writes_real: bool = False
    moves: bool = False
    by_value: bool = False
    writes_over: Callable[[Stage, BlockTensor], bool] = lambda stage, source: False
    whole: int | None = None
    cuts: bool = False
    sum_bytes: Callable[[BlockTensor], int] = lambda source: 0
    sums_in_order: bool = False
    memory_bytes: Callable[[BlockTensor], int] = lambda output: 0
    outside: Callable[[Stage, BlockTensor], int] = lambda stage, source: 0 if source.is_real else source.zero_point
    check: Callable[[StageCheck], None] = lambda check: None
    reference: Callable[[Stage, Sequence[Operand], BlockTensor], Values] = _no_reference
    constants: Layout | Coding = Coding()
    macs: Callable[[Stage, Tensors], int] = lambda stage, tensors: 0
    work: Work = values_moved
    lowerings: Mapping[str, Callable[[OperatorView], Lowered]] = field(default_factory=dict)

    def accumulates(self, source: BlockTensor) -> bool:
        """Return whether it sums its whole first input before it writes its one pixel."""
        return self.sum_bytes(source) > 0

    def may_overwrite(self, stage: Stage, source: BlockTensor, output: BlockTensor) -> bool:
        """Return whether each output pixel may replace the pixel of an input at the same place."""
        one, other = ((each.height, each.width, each.channels, each.element_type) for each in (source, output))
        return one == other and (self.by_value or self.writes_over(stage, source))

    def needs_all(self, number: int, source: BlockTensor, output: BlockTensor) -> bool:
        """Return whether every output pixel needs all of an input: a matrix, or a single pixel beside a larger input.

        Args:
            number: position of the input.
            source, output: the input, and the output.
        """
        if self.whole is not None:
            return number == self.whole
        broadcasts = (self.by_value and self.inputs[0] > 1) or self.memory_bytes(output) > 0
        return broadcasts and source.pixels == 1 < output.pixels


def always(stage: Stage, source: BlockTensor) -> bool:
    """Return that kernels read each value of a pixel before they write the one at its place."""
    return True


def required(value: T | None, stage: Stage, role: str) -> T:
    """Return a parameter that the stage must have.

    Raises:
        BlockError: it is missing.
    """
    if value is None:
        raise BlockError(f"A {stage.kind.name} stage has no {role}.")
    return value


def parameters_of(stage: Stage, type_: type[T]) -> T:
    """Return the stage's own parameters.

    Raises:
        BlockError: it has none, or those of another kind.
    """
    return required(stage.parameters if isinstance(stage.parameters, type_) else None, stage, type_.__name__)
