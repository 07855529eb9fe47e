"""What kernels with weights do in runs of given lengths, as the device library's kernels do it on each family of cores.

Multiply-accumulates are those that are computed, fillings of packed weights and pixels computed for nobody included.
``groups`` are pixels computed together, ``values`` what is brought into the form the inner loops read, ``taps`` the
pieces it is brought in.
"""

from __future__ import annotations

from collections import Counter
from math import ceil, prod

from tflite_fuse.fusion.block.entry import Kernels, Runs, Tensors, pixels_of
from tflite_fuse.fusion.block.limits import DEPTHWISE_PIXELS, MAX_LISTED_TAPS, MAX_PATCH_VALUES, STACK_POINTERS
from tflite_fuse.fusion.block.packing import can_pack, packs_as_conv
from tflite_fuse.fusion.block.stages import BlockTensor, Stage, StageKind

PLAIN_COUNTS = ("plain macs", "plain outputs", "plain taps")
CONV_COUNTS = (
    *(f"conv {what}" for what in ("macs", "outputs", "single macs", "single outputs", "part outputs")),
    *(f"conv {what}" for what in ("groups", "values", "taps", "quads")),
    "slow outputs",
)
DEPTHWISE_COUNTS = (
    *(f"depthwise {what}" for what in ("macs", "apart macs", "outputs", "pair outputs", "single outputs", "groups")),
    *CONV_COUNTS,
)

WINDOW_BYTES, MOST_PIXELS, LANES = 640, 8, 16
"""Of the convolution with Helium: bytes for copied windows, pixels computed together at most, values of a vector."""

_WORDS = {Kernels.DSP: 2, Kernels.PLAIN: 1}
"""Words a quad of one pixel's values takes; two pixels' take four."""

_OWN_KERNEL = 3
"""Width of the window for which few pixels left over have kernels of their own."""


def _up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def weighted_work(stage: Stage, tensors: Tensors, runs: Runs, kernels: Kernels, macs: int) -> dict[str, int]:
    """Of any convolution, or a fully connected layer of one pixel.

    Args:
        macs: multiply-accumulates of a pixel.
    """
    source, output = tensors[stage.inputs[0]], tensors[stage.output]
    if not can_pack(stage, source, STACK_POINTERS):
        outputs = pixels_of(runs) * output.channels
        taps = pixels_of(runs) * prod(stage.kernel_size)
        return {"plain macs": pixels_of(runs) * macs, "plain outputs": outputs, "plain taps": taps}
    as_conv, is_helium = packs_as_conv(stage.kind, source), kernels is Kernels.HELIUM
    if is_helium:
        return (_helium_conv if as_conv else _helium_depthwise)(stage, source, output, runs)
    found = _conv(stage, source, output, runs, kernels) if as_conv else _depthwise(stage, output, runs)
    if (stage.activation_min, stage.activation_max) != (-128, 127):
        found["slow outputs"] = pixels_of(runs) * output.channels
    return found


# ---- DSP instructions and plain C ----


def _conv(stage: Stage, source: BlockTensor, output: BlockTensor, runs: Runs, kernels: Kernels) -> Counter[str]:
    """Two pixels at a time, or the one that is left over."""
    found = Counter[str]()
    for length, times in runs.items():
        found += _conv_groups(stage, source, output, 2, length // 2 * times, kernels)
        found += _conv_groups(stage, source, output, 1, length % 2 * times, kernels)
    return found


def _conv_groups(
    stage: Stage, source: BlockTensor, output: BlockTensor, pixels: int, groups: int, kernels: Kernels
) -> Counter[str]:
    """So many groups of two pixels, or of one. Windows too large to be widened at once are so part by part."""
    rows, columns = _window(stage)
    values, channels = rows * _up(columns * source.channels, 4), output.channels
    room = MAX_PATCH_VALUES if pixels == 2 else MAX_PATCH_VALUES * 4 // _WORDS[kernels]
    again = 1 if values <= room else ceil(channels / (32 if pixels == 2 else 64))
    pieces = rows * columns if source.channels % 4 == 0 else rows
    way = "conv" if pixels == 2 else "conv single"
    found = {
        f"{way} macs": pixels * values * _up(channels, 2 if kernels is Kernels.DSP else 4),
        f"{way} outputs": pixels * channels,
        "conv groups": 1,
        "conv values": pixels * values * again,
        "conv taps": pieces * again,
        "conv part outputs": 0 if values <= room else pixels * channels * ceil(5 * values / (4 * room)),
    }
    return Counter({name: groups * count for name, count in found.items()})


def _window(stage: Stage) -> tuple[int, int]:
    return (1, 1) if stage.kind is StageKind.FULLY_CONNECTED else stage.kernel_size


def _depthwise(stage: Stage, output: BlockTensor, runs: Runs) -> Counter[str]:
    """Pixels that a group lacks take as long as those it has."""
    found = Counter[str]()
    (_, width), (_, stride), channels = stage.kernel_size, stage.stride, output.channels
    for length, times in runs.items():
        left_over = length % DEPTHWISE_PIXELS
        few = width == _OWN_KERNEL and 0 < left_over <= 3 - stride
        computed = (length // DEPTHWISE_PIXELS + (left_over > 0 and not few)) * DEPTHWISE_PIXELS * times
        found["depthwise macs" if stride == 1 else "depthwise apart macs"] += computed * width**2 * channels
        found["depthwise outputs"] += computed * channels
        found["depthwise groups"] += ceil(length / DEPTHWISE_PIXELS) * times
        if few:
            found[f"depthwise {'single' if left_over == 1 else 'pair'} outputs"] += left_over * times * channels
    return found


# ---- Helium ----


def _helium_conv(stage: Stage, source: BlockTensor, output: BlockTensor, runs: Runs) -> Counter[str]:
    """Groups of up to eight pixels by four channels; windows that fit are copied, taps of others lie where they are."""
    rows, columns = _window(stage)
    taps, values = rows * columns, rows * _up(columns * source.channels, 4)
    is_copied = taps > 1 and values <= WINDOW_BYTES
    most = min(WINDOW_BYTES // values if is_copied else MAX_LISTED_TAPS // taps, MOST_PIXELS)
    visits, length = (1, values) if is_copied else (taps, source.channels)
    pixels, groups = pixels_of(runs), sum(ceil(run / most) * times for run, times in runs.items())
    channels = _up(output.channels, 4)
    return Counter(
        {
            "conv macs": pixels * channels * visits * _up(length, LANES),
            "conv outputs": pixels * channels,
            "conv quads": groups * channels // 4 * visits,
            "conv taps": pixels * taps * (ceil(source.channels / LANES) if is_copied else 1),
            "conv groups": groups,
            "conv part outputs": pixels * channels * visits if visits > 1 else 0,
        }
    )


def _helium_depthwise(stage: Stage, source: BlockTensor, output: BlockTensor, runs: Runs) -> Counter[str]:
    """Two pixels by eight channels, whose weights are brought together once for up to eight pixels."""
    taps, vectors = prod(stage.kernel_size), ceil(output.channels / 8)
    pairs = sum(ceil(length / 2) * times for length, times in runs.items())
    return Counter(
        {
            "depthwise macs": 2 * pairs * 8 * vectors * taps,
            "depthwise outputs": pixels_of(runs) * _up(output.channels, 4),
            "depthwise groups": sum(ceil(length / MOST_PIXELS) * times for length, times in runs.items()) * vectors,
        }
    )
