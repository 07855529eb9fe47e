"""Stages that another stage can do as well: then a block computes neither their pixels nor keeps them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tflite_fuse.fusion.block.kinds.elementwise.lookup import VALUES, answers_of, lookup_parameters
from tflite_fuse.fusion.block.kinds.table import KINDS
from tflite_fuse.fusion.block.operators.operands import Activation
from tflite_fuse.fusion.block.operators.view import Fit, Lowered
from tflite_fuse.fusion.block.stages import BlockTensor, Stage, StageKind


def absorb(absorbed: Lowered, reader: Lowered) -> Lowered | None:
    """The reader of a stage's output, reading that stage's input instead and doing its work, too.

    None unless the stage is a PAD and the reader a convolution, or the stage is a LOOKUP and the reader a function of
    the same value alone.
    """
    if absorbed.stage is None or reader.stage is None:
        return None
    if absorbed.stage.kind is StageKind.PAD and reader.folds_padding:
        return _absorb_padding(absorbed, absorbed.stage, reader, reader.stage)
    if absorbed.stage.kind is StageKind.LOOKUP and KINDS[reader.stage.kind].by_value:
        return _absorb_lookup(absorbed, absorbed.stage, reader, reader.stage)
    return None


def _absorb_padding(padded: Lowered, pad: Stage, reader: Lowered, stage: Stage) -> Lowered | None:
    """The convolution with more padding of its own.

    None if the pad value is not zero in both quantizations, or a window would see nothing but padding.
    """
    source = padded.inputs[0]
    if not pad.pad_value == source.zero_point == padded.output.zero_point:
        return None
    top, left = (a + b for a, b in zip(pad.padding, stage.padding, strict=True))
    # A window that saw nothing but padding would leave the executor without a pixel to ask for.
    sides = zip((top, left), stage.extent, stage.stride, reader.output_shape[:2], source.shape[:2], strict=True)
    if any(pad >= extent or (out - 1) * step - pad >= size for pad, extent, step, out, size in sides):
        return None
    stage = replace(stage, inputs=(source.index,), padding=(top, left))
    return replace(reader, stage=stage, inputs=(source,), fit=Fit.EXACT)


def _absorb_lookup(looked_up: Lowered, lookup: Stage, reader: Lowered, stage: Stage) -> Lowered | None:
    """One table for both: LOGISTIC and the MUL of its result with its input become SiLU.

    None if the reader reads something else as well.
    """
    source = looked_up.inputs[0]
    known = {looked_up.output.index: answers_of(lookup), source.index: VALUES}
    if any(part.index not in known for part in reader.inputs):
        return None
    operands = [(_one_row(part), known[part.index].reshape(1, 1, -1)) for part in reader.inputs]
    answers = KINDS[stage.kind].reference(stage, operands, _one_row(reader.output)).ravel()
    parameters = lookup_parameters(np.clip(answers, stage.activation_min, stage.activation_max))
    composed = Stage(StageKind.LOOKUP, (source.index,), stage.output, stage.operator, parameters=parameters)
    return replace(reader, stage=composed, inputs=(source,))


def _one_row(activation: Activation) -> BlockTensor:
    """A tensor of one pixel that holds every value once."""
    return BlockTensor(activation.name, 1, 1, len(VALUES), activation.zero_point)
