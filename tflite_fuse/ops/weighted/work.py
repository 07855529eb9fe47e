"""Work counts of kernels with weights, by lengths of runs and families of cores.

Multiply-accumulates include padding of packed weights and computed pixels without a reader. ``groups`` are pixels
computed together, ``values`` are those rearranged for the inner loops, ``taps`` the pieces in which they are copied.
"""

from __future__ import annotations

from collections import Counter
from math import ceil, prod

from tflite_fuse.ir.block import BlockTensor, Stage, StageKind, WeightForm
from tflite_fuse.ir.limits import DEPTHWISE_PIXELS, MAX_LISTED_TAPS, MAX_PATCH_VALUES
from tflite_fuse.ops.entry import Kernels, Runs, Tensors, pixels_of
from tflite_fuse.ops.packing import can_pack, packs_as_conv
from tflite_fuse.units import round_up

PLAIN_COUNTS = ("plain macs", "plain outputs", "plain taps")
CONV_COUNTS = (
    *(f"conv {what}" for what in ("macs", "outputs", "single macs", "single outputs", "part outputs")),
    *(f"conv {what}" for what in ("four macs", "four outputs")),
    *(f"conv {what}" for what in ("groups", "values", "taps")),
    *(f"int16 {what}" for what in ("macs", "outputs", "single macs", "single outputs", "part outputs")),
    *(f"paired {what}" for what in ("macs", "single macs", "four macs")),
    "slow outputs",
)
DEPTHWISE_COUNTS = (
    *(f"depthwise {what}" for what in ("macs", "apart macs", "outputs", "pair outputs", "single outputs", "groups")),
    *CONV_COUNTS,
)

WINDOW_BYTES, MOST_PIXELS, LANES = 640, 8, 16
"""Convolution with Helium: bytes of copied windows, most pixels computed together, values of a vector."""

_WORDS = {Kernels.DSP: 2, Kernels.PLAIN: 1, Kernels.ROOMY: 1}
"""Words for a quad of one pixel's values; two pixels need four."""

_ROOM = {Kernels.DSP: 288, Kernels.PLAIN: MAX_PATCH_VALUES, Kernels.ROOMY: 288}
"""Words of windows that are widened whole."""

_PART = {Kernels.DSP: (128, 64), Kernels.PLAIN: (128, 64), Kernels.ROOMY: (160, 128)}
"""Words and sums of one part of a larger window."""

_BY_FOUR = (Kernels.DSP, Kernels.ROOMY)
"""Families that compute four pixels together, by two channels."""

_OWN_KERNEL = 3
"""Width of the window for which small remainders of pixels have kernels of their own."""


def weighted_work(stage: Stage, tensors: Tensors, runs: Runs, kernels: Kernels, macs: int) -> dict[str, int]:
    """Return the counts of any convolution, or of a fully connected layer of one pixel.

    Args:
        macs: multiply-accumulates of a pixel.
    """
    source, output = tensors[stage.inputs[0]], tensors[stage.output]
    if not can_pack(stage, source):
        return _plain(stage, output, runs, kernels, macs)
    as_conv, is_helium = packs_as_conv(stage.kind, source), kernels is Kernels.HELIUM
    if as_conv and stage.weight_form is not WeightForm.EIGHT and kernels is not Kernels.DSP:
        return _int16_alone(stage, source, output, runs)
    if is_helium:
        return (_helium_conv if as_conv else _helium_depthwise)(stage, source, output, runs)
    counts = _conv(stage, source, output, runs, kernels) if as_conv else _depthwise(stage, output, runs, kernels)
    if as_conv and stage.weight_form is WeightForm.SIXTEEN:
        counts = _in_int16(counts)
    if as_conv and stage.weight_form is WeightForm.PAIRED:
        counts = Counter({name.replace("conv", "paired") if "macs" in name else name: n for name, n in counts.items()})
    if (stage.activation_min, stage.activation_max) != (-128, 127):
        counts["slow outputs"] = pixels_of(runs) * output.channels
    return counts


def _plain(stage: Stage, output: BlockTensor, runs: Runs, kernels: Kernels, macs: int) -> dict[str, int]:
    """Return the counts of plain weights; with Helium depthwise convolutions compute eights of channels together."""
    by_eight = kernels is Kernels.HELIUM and stage.kind is StageKind.DEPTHWISE and stage.depth_multiplier == 1
    vectors = output.channels // 8 if by_eight else 0
    left, taps, pixels = output.channels - 8 * vectors, prod(stage.kernel_size), pixels_of(runs)
    counts = {
        "plain macs": pixels * macs * left // output.channels,
        "plain outputs": pixels * left,
        "plain taps": pixels * taps if left else 0,
    }
    if vectors:
        counts["depthwise apart macs"] = pixels * 8 * vectors * taps
        counts["depthwise outputs"] = pixels * 8 * vectors
        counts["depthwise groups"] = sum(runs.values()) * vectors
    return counts


# ---- DSP instructions and plain C ----


def _conv(stage: Stage, source: BlockTensor, output: BlockTensor, runs: Runs, kernels: Kernels) -> Counter[str]:
    """Return the counts of pairs of pixels and a single remainder, after groups of four if windows are small."""
    counts, most = Counter[str](), _most_pixels(stage, source, kernels)
    groups = {most: 0, 2: 0, 1: 0}
    for length, times in runs.items():
        left = length % most if most > 2 else length
        groups[most] += (length - left) // most * times
        groups[2] += left // 2 * times
        groups[1] += left % 2 * times
    for pixels, number in groups.items():
        for name, count in _conv_groups(stage, source, output, pixels, kernels).items() if number else ():
            if count:
                counts[name] += number * count
    return counts


def _most_pixels(stage: Stage, source: BlockTensor, kernels: Kernels) -> int:
    """Return the most pixels that are computed together."""
    return 4 if kernels in _BY_FOUR and _values(stage, source) <= _ROOM[kernels] // 2 else 2


def _values(stage: Stage, source: BlockTensor) -> int:
    """Return the values of a window, padding included."""
    rows, columns = _window(stage)
    return rows * round_up(columns * source.channels, 4)


_WAYS = {1: "conv single", 2: "conv", 4: "conv four"}


def _conv_groups(
    stage: Stage, source: BlockTensor, output: BlockTensor, pixels: int, kernels: Kernels
) -> dict[str, int]:
    """Return the counts of a group of one, two or four pixels; large windows are widened part by part."""
    rows, columns = _window(stage)
    values, channels = _values(stage, source), output.channels
    in_word = 4 // _WORDS[kernels] if pixels == 1 else 1
    room, (words, sums) = _ROOM[kernels] * in_word, _PART[kernels]
    again = 1 if values <= room else ceil(channels / (sums // min(pixels, 2)))
    by_tap = source.channels % 4 == 0 and (pixels == 4 or values > room or stage.dilation[1] != 1)
    pieces = rows * columns if by_tap else rows
    together = 2 if pixels == 4 or kernels is Kernels.DSP else 4
    return {
        f"{_WAYS[pixels]} macs": pixels * values * round_up(channels, together),
        f"{_WAYS[pixels]} outputs": pixels * channels,
        "conv groups": 1,
        "conv values": pixels * values * again,
        "conv taps": pieces * again * ceil(pixels / 2),
        "conv part outputs": 0 if values <= room else pixels * channels * ceil(values / (words * in_word)),
    }


def _in_int16(counts: Counter[str]) -> Counter[str]:
    """Return the counts with 16-bit weights, for which pairs and groups of four cost the same."""
    renamed = Counter[str]()
    for name, count in counts.items():
        own = name.replace("conv four", "int16").replace("conv", "int16")
        renamed[own if own in CONV_COUNTS else name] += count
    return renamed


def _int16_alone(stage: Stage, source: BlockTensor, output: BlockTensor, runs: Runs) -> Counter[str]:
    """Return the counts without DSP instructions: pixel by pixel, two channels at a time."""
    pixels, channels = pixels_of(runs), output.channels
    values, copied = _values(stage, source), source.channels % 4 != 0
    per_pixel = {"macs": values * round_up(channels, 2), "outputs": channels}
    counts = Counter({f"int16 {name}": pixels * count for name, count in per_pixel.items()})
    rows, columns = _window(stage)
    pieces = 1 if copied else rows * columns
    counts["conv values"], counts["conv taps"] = copied * pixels * values, pixels * pieces * ceil(channels / 2)
    return counts


def _window(stage: Stage) -> tuple[int, int]:
    return (1, 1) if stage.kind is StageKind.FULLY_CONNECTED else stage.kernel_size


def _depthwise(stage: Stage, output: BlockTensor, runs: Runs, kernels: Kernels) -> Counter[str]:
    """Return the counts; missing pixels of a group cost as much as present ones.

    With enough registers for kernels of one and two pixels, these cost about as much as one more pixel in a group,
    because they share fewer loads.
    """
    counts = Counter[str]()
    (_, width), (_, stride), channels = stage.kernel_size, stage.stride, output.channels
    for length, times in runs.items():
        left_over = length % DEPTHWISE_PIXELS
        few = width == _OWN_KERNEL and 0 < left_over <= 3 - stride
        has_own = kernels is Kernels.ROOMY and width > _OWN_KERNEL and left_over <= 2
        in_group = 0 if few or not left_over else left_over + 1 if has_own else DEPTHWISE_PIXELS
        computed = (length - left_over + in_group) * times
        counts["depthwise macs" if stride == 1 else "depthwise apart macs"] += computed * width**2 * channels
        counts["depthwise outputs"] += computed * channels
        counts["depthwise groups"] += ceil(length / DEPTHWISE_PIXELS) * times
        if few:
            counts[f"depthwise {'single' if left_over == 1 else 'pair'} outputs"] += left_over * times * channels
    return counts


# ---- Helium ----


def _helium_conv(stage: Stage, source: BlockTensor, output: BlockTensor, runs: Runs) -> Counter[str]:
    """Return the counts of groups of up to eight pixels, two by two, by four channels; windows are read in pieces.

    ``taps`` include vectors of rows that are copied at an edge; copies at a ring's end are not counted.
    """
    rows, columns = _window(stage)
    row = columns * source.channels
    is_copied = columns > 1 and row < LANES
    pieces, length = (1, rows * round_up(row, 4)) if is_copied else (rows, row)
    most = min(WINDOW_BYTES // length if is_copied else MAX_LISTED_TAPS // rows, MOST_PIXELS)
    pixels, groups = pixels_of(runs), sum(ceil(run / most) * times for run, times in runs.items())
    alone = sum((run // most * (most % 2) + run % most % 2) * times for run, times in runs.items())
    channels = round_up(output.channels, 4)
    edges = 0 if is_copied or columns == 1 else _edge_vectors(stage, source, output, runs, most)
    return Counter(
        {
            "conv macs": (pixels - alone) * channels * pieces * round_up(length, LANES),
            "conv outputs": (pixels - alone) * channels,
            "conv single macs": alone * channels * pieces * round_up(length, LANES),
            "conv single outputs": alone * channels,
            "conv part outputs": pixels * channels * pieces if length % LANES else 0,
            "conv values": pixels * channels * (pieces - 1),
            "conv taps": (pixels * rows if is_copied or columns == 1 else groups * rows) + edges,
            "conv groups": groups,
        }
    )


def _edge_vectors(stage: Stage, source: BlockTensor, output: BlockTensor, runs: Runs, most: int) -> int:
    """Return the vectors of rows copied because windows reach over the left or right edge: in two groups of a row."""
    vectors = 0.0
    for length, times in runs.items():
        together = min(length, most)
        in_row = ceil(output.width / together)
        columns = (together - 1) * stage.stride[1] + stage.kernel_size[1]
        per_group = stage.kernel_size[0] * (1 + ceil(columns * source.channels / LANES))
        vectors += times * ceil(length / most) * per_group * (min(2, in_row) / in_row if any(stage.padding) else 0)
    return round(vectors)


def _helium_depthwise(stage: Stage, source: BlockTensor, output: BlockTensor, runs: Runs) -> Counter[str]:
    """Return the counts by eight channels: of usual windows pairs of pixels one column apart, and single pixels.

    For other windows and fewer channels weights are gathered once per run (``pair outputs``), for pairs of pixels
    (``apart macs``).
    """
    taps, is_usual = prod(stage.kernel_size), stage.kernel_size[1] == _OWN_KERNEL
    vectors = output.channels // 8 if is_usual else 0
    apart = ceil(output.channels / 8) - vectors
    pairs = sum(length // 2 * times for length, times in runs.items()) if stage.stride[1] == 1 else 0
    alone, number = pixels_of(runs) - 2 * pairs, sum(runs.values())
    return Counter(
        {
            "depthwise macs": 2 * pairs * 8 * vectors * taps,
            "depthwise outputs": 2 * pairs * 8 * vectors,
            "depthwise single outputs": alone * 8 * vectors,
            "depthwise groups": (pairs + alone if vectors else 0) + number * apart,
            "depthwise apart macs": sum(ceil(run / 2) * times for run, times in runs.items()) * 16 * apart * taps,
            "depthwise pair outputs": number * apart * taps,
        }
    )
