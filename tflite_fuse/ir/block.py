"""A fused block as data: tensors, stages, and the configuration in which it runs.

Each inner tensor is a ring (FIFO) of pixels in raster order of the current tile; a pixel is its channels.
``schedule.py`` computes the capacity of each ring, ``encode.py`` writes options and constants of the custom operator,
``arduino/src`` runs it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tflite_fuse.ir.enums import ElementType as ElementType
from tflite_fuse.ir.enums import StageKind as StageKind
from tflite_fuse.ir.enums import Storage as Storage

Int8Array = npt.NDArray[np.int8]
Int32Array = npt.NDArray[np.int32]


class WeightForm(str, Enum):
    """Storage of convolution weights: one byte each, two channels in 16 bits, or 16 bits each.

    The last two take fewer instructions on cores with the DSP extension. Bytes are used where kernels support
    neither, or weights do not fit.
    """

    EIGHT = "8bit"
    PAIRED = "paired"
    SIXTEEN = "16bit"


@dataclass(frozen=True)
class BlockTensor:
    """One tensor of a block, NHWC with N = 1.

    Attributes:
        name: the model's name for it.
        height, width, channels: extent in pixels and elements per pixel.
        zero_point: zero point of the int8 values inside the block, −128…127.
        storage: memory of the tensor.
        element_type: FLOAT32 for inputs of QUANTIZE and outputs of DEQUANTIZE; otherwise the type that the application
            uses, INT8 inside the block; see the schema.
    """

    name: str
    height: int
    width: int
    channels: int
    zero_point: int
    storage: Storage = Storage.SCRATCH
    element_type: ElementType = ElementType.INT8

    @property
    def pixels(self) -> int:
        return self.height * self.width

    @property
    def is_real(self) -> bool:
        """Return whether its elements are float32."""
        return self.element_type is ElementType.FLOAT32

    @cached_property
    def pixel_bytes(self) -> int:
        """Bytes of one pixel."""
        return self.channels * (4 if self.is_real else 1)

    @property
    def nbytes(self) -> int:
        return self.height * self.width * self.pixel_bytes


@dataclass(frozen=True)
class Requantization:
    """Parameters from int32 accumulator to int8: ``clamp(multiply(acc, multiplier, shift) + zero_point_out)``.

    ``multiply`` is TFLM's ``MultiplyByQuantizedMultiplier`` (rounds twice). ``multiplier`` and ``shift`` have one entry
    per output channel (per-tensor quantization repeats it). shift > 0 is a left shift, −31…30.
    """

    multiplier: Int32Array
    shift: Int32Array


@dataclass(frozen=True)
class Stage:
    """One step of a block: reads pixels of its inputs, writes pixels of its output.

    Attributes:
        kind: operation.
        inputs: tensor indices, as many as its kind takes; none before the stage has a place in a block.
        output: tensor index; -1 before the stage has a place in a block.
        operator: index of the model's operator from which it was made (for reports).
        kernel_size, stride, dilation: (height, width); (1, 1) where they do not apply.
        padding: (top, left); bottom and right follow from the output's extent. Taps outside the input contribute
            nothing (CONV, DEPTHWISE, pools) or ``pad_value`` (PAD).
        spread: (height, width); for kinds that enlarge images: distance in rows and columns of the input's pixels under
            the window, with nothing between; stride, padding and kernel count in the same units.
        depth_multiplier: DEPTHWISE only: output channel c reads input channel c // depth_multiplier.
        activation_min, activation_max: output clamp, −128…127.
        weight_form: storage of weights where kernels support several; the result is the same.
        weights: CONV [Cout, kh, kw, Cin]; DEPTHWISE [kh, kw, Cout]; FULLY_CONNECTED [Cout, H*W*Cin]; else None.
        bias: int32 [Cout] or None.
        requantization: CONV, DEPTHWISE, FULLY_CONNECTED; GLOBAL_AVERAGE from MEAN (one entry).
        pad_value: PAD only: the int8 value outside the input.
        parameters: parameters of its kind, of a type defined by the kind's entry; else None.
        waits_for: tensor that the stage does not read, −1 for none: before a run, its pixels up to the run's end are
            computed. It has the output's rows and columns, and an earlier stage writes it.
        overwrites: tensor that the stage alone reads, −1 for none: each output pixel replaces the pixel at the same
            place, so both tensors share one ring.
    """

    kind: StageKind
    inputs: tuple[int, ...] = ()
    output: int = -1
    operator: int = -1
    kernel_size: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    spread: tuple[int, int] = (1, 1)
    depth_multiplier: int = 1
    activation_min: int = -128
    activation_max: int = 127
    weight_form: WeightForm = WeightForm.EIGHT
    weights: Int8Array | None = None
    bias: Int32Array | None = None
    requantization: Requantization | None = None
    pad_value: int = 0
    parameters: object | None = None
    waits_for: int = -1
    overwrites: int = -1

    @property
    def extent(self) -> tuple[int, int]:
        """Return the rows and columns under one output pixel's window, in units of the spread input."""
        return ((self.kernel_size[0] - 1) * self.dilation[0] + 1, (self.kernel_size[1] - 1) * self.dilation[1] + 1)


@dataclass(frozen=True)
class Block:
    """Stages in topological order and their tensors.

    ``inputs`` and ``outputs`` list the tensors with storage INPUT and OUTPUT in the order of the custom operator's
    operands (EXTERNAL tensors are no operands). Every tensor except INPUT and EXTERNAL ones is written by exactly one
    stage.
    """

    tensors: tuple[BlockTensor, ...]
    stages: tuple[Stage, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    @property
    def keeps_state(self) -> bool:
        """Return whether the block keeps a state between inferences."""
        return any(tensor.storage is Storage.PERSISTENT for tensor in self.tensors)

    @property
    def sourced(self) -> tuple[int, ...]:
        """Return the outputs of SOURCE stages, whose pixels a callback delivers."""
        return tuple(stage.output for stage in self.stages if stage.kind is StageKind.SOURCE)


@dataclass(frozen=True)
class BlockConfig:
    """Configuration of a block's execution.

    Attributes:
        tile_height, tile_width: rows and columns of the tiles in which the block's last spatial tensor (the *driven*
            one) is computed. Rings start empty in every tile and the halo is computed again. (full, full) recomputes
            nothing; (full, w) are strips of w columns; other sizes are patches with full recompute.
        chunk: output pixels that a stage computes per step, ≥ 1.
        longest_runs: the same for each stage that runs tile by tile; 0 selects ``chunk``, as for the stage that writes
            the driven tensor. ``chunk`` holds for all if it is empty.
        ahead: stages that compute full runs of a row even if fewer pixels are requested.
    """

    tile_height: int
    tile_width: int
    chunk: int = 4
    longest_runs: tuple[int, ...] = ()
    ahead: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        """Drop zeros at the end of ``longest_runs``, so equal executions have equal configurations."""
        runs = list(self.longest_runs)
        while runs and not runs[-1]:
            runs.pop()
        object.__setattr__(self, "longest_runs", tuple(runs))

    def longest_run(self, stage: int) -> int:
        """Return the largest number of output pixels that a stage computes per step."""
        return (self.longest_runs[stage] if stage < len(self.longest_runs) else 0) or self.chunk


@dataclass(frozen=True)
class BlockChoice:
    """One fused block.

    Attributes:
        operators: indices of the model's operators that it replaces, ascending.
        config: tiles and chunk.
        scratch_bytes: bytes of its rings, accumulators and workspace.
        work: in the graph's unit.
        extra_work: ``work`` minus that of its operators: recomputed work minus skipped work without a reader.
        scheme: kind of configuration: ``line-buffers`` (no recompute), ``strips`` or ``tiles``.
    """

    operators: tuple[int, ...]
    config: BlockConfig
    scratch_bytes: int
    work: int
    extra_work: int
    scheme: str
