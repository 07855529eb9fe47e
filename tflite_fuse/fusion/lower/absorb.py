"""Padding that the convolution behind it can do itself: then a block neither computes nor keeps the padded image."""

from __future__ import annotations

from dataclasses import replace

from tflite_fuse.fusion.block.operators.view import Fit, Lowered
from tflite_fuse.fusion.block.stages import Stage, StageKind


def absorb(absorbed: Lowered, reader: Lowered) -> Lowered | None:
    """The reader of a stage's output, reading that stage's input instead and doing its work, too.

    None unless the stage is a PAD and the reader a convolution.
    """
    if absorbed.stage is None or reader.stage is None:
        return None
    if absorbed.stage.kind is StageKind.PAD and reader.folds_padding:
        return _absorb_padding(absorbed, absorbed.stage, reader, reader.stage)
    return None


def _absorb_padding(padded: Lowered, pad: Stage, reader: Lowered, stage: Stage) -> Lowered | None:
    """The convolution with more padding of its own.

    None if the pad value is not zero in both quantizations, or a window would see nothing but padding.
    """
    source = padded.inputs[0]
    if not pad.pad_value == source.zero_point == padded.output.zero_point:
        return None
    if not _sees_what_is_left(padded, pad, reader, stage):
        return None
    top, left = (a + b for a, b in zip(pad.padding, stage.padding, strict=True))
    # A window that saw nothing but padding would leave the executor without a pixel to ask for.
    sides = zip((top, left), stage.extent, stage.stride, reader.output_shape[:2], source.shape[:2], strict=True)
    if any(pad >= extent or (out - 1) * step - pad >= size for pad, extent, step, out, size in sides):
        return None
    stage = replace(stage, inputs=(source.index,), padding=(top, left))
    return replace(reader, stage=stage, inputs=(source,), fit=Fit.EXACT)


def _sees_what_is_left(padded: Lowered, pad: Stage, reader: Lowered, stage: Stage) -> bool:
    """Whether no window leaves an image along an axis that was cut: behind the cut there are zeros, in front values.

    A convolution of single pixels that starts at the first one is read without regard to rows: it cuts nothing.
    """
    cuts = False
    for axis in (0, 1):
        left, before = padded.output_shape[axis], padded.inputs[0].shape[axis]
        if pad.padding[axis] >= 0 and left >= before + pad.padding[axis]:
            continue
        cuts = True
        end = (reader.output_shape[axis] - 1) * stage.stride[axis] + stage.extent[axis] - stage.padding[axis]
        if stage.padding[axis] > 0 or end > left:
            return False
    moved = any(a + b for a, b in zip(pad.padding, stage.padding, strict=True))
    return not cuts or moved or (stage.kernel_size, stage.stride) != ((1, 1), (1, 1))
