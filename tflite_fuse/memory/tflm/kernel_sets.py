"""Kernel sets of a runtime, and the convolution parameters that determine their scratch.

The scratch of a convolution also depends on the core for which a set was compiled.
"""

from __future__ import annotations

from dataclasses import dataclass

from tflite_fuse.model.operators import SAME, get_options, same_padding
from tflite_fuse.model.schema import Operator, SubGraph
from tflite_fuse.model.types import TensorType

GENERATIONS = ("2024", "2026")
"""Versions of TensorFlow Lite Micro: the Arduino library of July 2024, and the sources of August 2026."""


@dataclass(frozen=True)
class Kernels:
    """The kernels of a runtime.

    Attributes:
        name: ``reference``, ``cmsis-nn`` or ``esp-nn``.
        generation: one of ``GENERATIONS``.
        core: ``dsp`` or ``helium`` (CMSIS-NN), ``generic``, ``esp32s3`` or ``esp32p4`` (ESP-NN), else empty. ``dsp``
            also covers all Arm cores without Helium and CMSIS-NN's plain C, which request no more.
    """

    name: str = "reference"
    generation: str = "2026"
    core: str = ""


REFERENCE = Kernels()


def variants(name: str, generation: str) -> tuple[Kernels, ...]:
    """Return one entry per core that a set distinguishes, the most common core first."""
    cores = {"cmsis-nn": ("dsp", "helium"), "esp-nn": ("generic", "esp32s3", "esp32p4")}.get(name, ("",))
    return tuple(Kernels(name, generation, core) for core in cores)


@dataclass(frozen=True)
class Convolution:
    """Parameters of an int8 or int16 convolution that determine its scratch; pairs are (height, width)."""

    batches: int
    source: tuple[int, int]
    channels: int
    output: tuple[int, int]
    outputs: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[int, int]
    multiplier: int
    wide: bool

    @property
    def taps(self) -> int:
        return self.kernel[0] * self.kernel[1]

    @property
    def dilated(self) -> bool:
        return self.dilation != (1, 1)


def convolution_of(graph: SubGraph, operator: Operator) -> Convolution | None:
    """Return the parameters of a CONV_2D or DEPTHWISE_CONV_2D; None if it is malformed or not int8 or int16."""
    data, weights, output = graph.read_by(operator, 0), graph.read_by(operator, 1), graph.written_by(operator)
    if data is None or weights is None or output is None:
        return None
    if data.type not in (TensorType.INT8, TensorType.INT16) or not len(data.dims) == len(weights.dims) == 4:
        return None
    options = get_options(operator)
    stride, dilation = (
        tuple(max(1, _number(options.get(name))) for name in names)
        for names in (("stride_h", "stride_w"), ("dilation_h_factor", "dilation_w_factor"))
    )
    kernel = weights.dims[1:3]
    same = options.get("padding") == SAME
    padded = zip(data.dims[1:3], kernel, stride, dilation, strict=True)
    padding = [
        same_padding(size, (taps - 1) * step + 1, stride)[1][0] if same else 0 for size, taps, stride, step in padded
    ]
    return Convolution(
        batches=data.dims[0],
        source=(data.dims[1], data.dims[2]),
        channels=data.dims[3],
        output=(output.dims[1], output.dims[2]) if len(output.dims) == 4 else (1, 1),
        outputs=output.dims[-1] if output.dims else 1,
        kernel=(kernel[0], kernel[1]),
        stride=(stride[0], stride[1]),
        dilation=(dilation[0], dilation[1]),
        padding=(padding[0], padding[1]),
        multiplier=_number(options.get("depth_multiplier")),
        wide=data.type == TensorType.INT16,
    )


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
