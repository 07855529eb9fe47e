"""A fused block as plain data: tensors, stages, and the configuration it runs in.

A block is a small dataflow machine. Each inner tensor is a FIFO of pixels (a pixel = its channels) in raster order of
the tile being computed; ``schedule.py`` says how many pixels each FIFO holds, ``encode.py`` how all this becomes the
custom operator's options and constants, ``arduino/src`` runs it.
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
    """How weights of convolutions are stored, by what users call it: a byte each, those of two channels in 16 bits, or
    16 bits each. Cores with the DSP extension take fewer instructions for the last two; where kernels know neither, or
    weights do not fit, it is bytes.
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
        zero_point: of the int8 values the block computes with, −128…127.
        storage: where it lives.
        element_type: FLOAT32 of what QUANTIZE reads and DEQUANTIZE writes; else what the application sees of it, INT8
            inside; see the schema.
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
        """Whether its elements are float32."""
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
    """From int32 accumulator to int8: ``clamp(multiply(acc, multiplier, shift) + zero_point_out)``.

    ``multiply`` is TFLM's ``MultiplyByQuantizedMultiplier`` (rounds twice). ``multiplier`` and ``shift`` have one entry
    per output channel (per-tensor quantization repeats it). shift > 0 is a left shift, −31…30.
    """

    multiplier: Int32Array
    shift: Int32Array


@dataclass(frozen=True)
class Stage:
    """One step of a block: reads pixels of its inputs, writes pixels of its output.

    Attributes:
        kind: what it computes.
        inputs: tensor indices, as many as its kind takes.
        output: tensor index.
        operator: index of the model's operator it came from (for reports).
        kernel_size, stride, dilation: (height, width); (1, 1) where they do not apply.
        padding: (top, left); bottom and right follow from the output's extent. Taps outside the input contribute
            nothing (CONV, DEPTHWISE, pools) or ``pad_value`` (PAD).
        spread: (height, width); of kinds that make images larger: the input's pixels lie so many rows and columns apart
            under the window, with nothing between, and stride, padding and kernel count in those.
        depth_multiplier: DEPTHWISE only: output channel c reads input channel c // depth_multiplier.
        activation_min, activation_max: output clamp, −128…127.
        weight_form: how weights are stored where kernels can take any; what is computed is the same.
        weights: CONV [Cout, kh, kw, Cin]; DEPTHWISE [kh, kw, Cout]; FULLY_CONNECTED [Cout, H*W*Cin]; else None.
        bias: int32 [Cout] or None.
        requantization: CONV, DEPTHWISE, FULLY_CONNECTED; GLOBAL_AVERAGE from MEAN (one entry).
        pad_value: PAD only: the int8 value outside the input.
        parameters: what its kind alone needs, of a type its entry defines; else None.
    """

    kind: StageKind
    inputs: tuple[int, ...]
    output: int
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

    @property
    def extent(self) -> tuple[int, int]:
        """Rows and columns that one output pixel's window spans (dilation counted, the input spread out)."""
        return (
            (self.kernel_size[0] - 1) * self.dilation[0] + 1,
            (self.kernel_size[1] - 1) * self.dilation[1] + 1,
        )


@dataclass(frozen=True)
class Block:
    """Stages in topological order and their tensors.

    ``inputs`` and ``outputs`` list the tensors with storage INPUT and OUTPUT in the order of the custom operator's
    operands (EXTERNAL tensors are no operands). Every tensor but INPUT and EXTERNAL ones is written by exactly one
    stage.
    """

    tensors: tuple[BlockTensor, ...]
    stages: tuple[Stage, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    @property
    def keeps_state(self) -> bool:
        """Whether it remembers something from run to run."""
        return any(tensor.storage is Storage.PERSISTENT for tensor in self.tensors)

    @property
    def sourced(self) -> tuple[int, ...]:
        """The tensors whose pixels a callback brings: what SOURCE stages write."""
        return tuple(stage.output for stage in self.stages if stage.kind is StageKind.SOURCE)


@dataclass(frozen=True)
class BlockConfig:
    """How a block is run.

    Attributes:
        tile_height, tile_width: the block's last spatial tensor (the *driven* one) is computed in tiles of this many
            rows and columns; FIFOs start empty in every tile and the halo is computed again. (full, full) is zero
            recompute; (full, w) are strips of w columns; anything else is patches with full recompute.
        chunk: output pixels a stage computes per step, ≥ 1.
        longest_runs: of each stage that runs tile by tile the same, 0 where ``chunk`` holds, as for what writes the
            driven tensor; without any it holds for all.
        ahead: stages that compute as many pixels of a row as they may, asked for or not.
    """

    tile_height: int
    tile_width: int
    chunk: int = 4
    longest_runs: tuple[int, ...] = ()
    ahead: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        """What stages at the end have no entry for is 0, so that one way to run a block is one configuration."""
        runs = list(self.longest_runs)
        while runs and not runs[-1]:
            runs.pop()
        object.__setattr__(self, "longest_runs", tuple(runs))

    def longest_run(self, stage: int) -> int:
        """Output pixels a stage computes per step at most."""
        return (self.longest_runs[stage] if stage < len(self.longest_runs) else 0) or self.chunk


@dataclass(frozen=True)
class BlockChoice:
    """One fused block.

    Attributes:
        operators: indices of the model's operators it replaces, ascending.
        config: tiles and chunk it runs in.
        scratch_bytes: its FIFOs, accumulators and workspace.
        work: in the graph's unit.
        extra_work: ``work`` less that of its operators: what it recomputes less what it skips as it has no reader.
        scheme: what the configuration amounts to: ``line-buffers`` (no recompute), ``strips`` or ``tiles``.
    """

    operators: tuple[int, ...]
    config: BlockConfig
    scratch_bytes: int
    work: int
    extra_work: int
    scheme: str
