"""The stage that each operator of the original requires, in the runtime's integers, from the model file alone.

Each function returns the only stage that computes the operator's bytes, or None if there is none, or if the runtime
would refuse the constants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod

from tflite_fuse.check.original import floats, larger, layers, operators
from tflite_fuse.check.original.functions import answers_behind
from tflite_fuse.check.original.meaning import Meaning
from tflite_fuse.check.original.reals import border_table, is_real, pair_table
from tflite_fuse.check.original.values import Original, Step
from tflite_fuse.check.streaming import recurrent
from tflite_fuse.check.streaming.states import mix_meaning, state_meaning
from tflite_fuse.ir.enums import StageKind


def meaning_of(original: Original, step: Step) -> Meaning | None:
    """Return the stage that a step requires; None if there is none or the runtime would refuse the operator."""
    if step.name == "ARG_MAX":  # of int8 or float32, to int32
        return RULES[step.name](original, step)
    if layers.in_floats(original, step):
        return floats.RULES[step.name](original, step) if step.name in floats.RULES else None
    if is_real(original, step):
        return _between_types(original, step)
    find = RULES.get(step.name)
    if find is None or len(step.outputs) != 1 or not original.computes_in_int8(step):
        return None
    places = (2,) if step.name == "TRANSPOSE_CONV" else range(min(2, len(step.inputs)))
    read = [step.operand(place) for place in places]
    if min(read, default=-1) < 0 or all(original.activation(tensor) is None for tensor in read):
        return None
    if original.activation(step.outputs[0]) is None:
        return None
    return find(original, step)


def meanings_in_file(original: Original) -> list[Meaning | None]:
    """Return the stage of each operator of the file, in order."""
    return [meaning_of(original, step) for step in original.steps[: len(original.model.main.operators)]]


def _between_types(original: Original, step: Step) -> Meaning | None:
    """Return the stage of a QUANTIZE of float32, or of a DEQUANTIZE or CAST of int8."""
    table = border_table(original, step) if len(step.inputs) == len(step.outputs) == 1 else None
    if table is None:
        return None
    image, output = original.rows(step.inputs[0]), original.rows(step.outputs[0])
    if image is None or image != output:
        return None
    kind = StageKind.QUANTIZE if step.name == "QUANTIZE" else StageKind.DEQUANTIZE
    return Meaning(step, kind, step.inputs, step.outputs[0], (image,), output, table=table)


def real_pairs(original: Original) -> Iterator[Meaning]:
    """Return every operation on two float32 functions of one int8 value each, with the QUANTIZE behind it."""
    for step in original.steps:
        pair = pair_table(original, step) if step.name == "QUANTIZE" and is_real(original, step) else None
        if pair is None:
            continue
        starts, table = pair
        output = original.rows(step.outputs[0])
        if output is not None and all(prod(original.tensors[t].dims) == prod(output) for t in starts):
            yield Meaning(step, StageKind.REAL_PAIR, starts, step.outputs[0], (output, output), output, table=table)


def lookups(original: Original, value: int) -> Iterator[Meaning]:
    """Return all results that depend on one value alone as tables: LOGISTIC, HARD_SWISH, also SiLU of two operators."""
    for step, start, answers in answers_behind(original, value):
        # A RESHAPE on the way may change the image; the source, read byte by byte, then has the result's image.
        output = original.rows(step.outputs[0])
        if output is not None:
            yield Meaning(step, StageKind.LOOKUP, (start,), step.outputs[0], (output,), output, answers=answers)


RULES: dict[str, Callable[[Original, Step], Meaning | None]] = {
    **layers.RULES,
    **larger.RULES,
    "ADD": operators.sum_of(1),
    "ARG_MAX": operators.first_largest,
    "MAXIMUM": operators.extreme(StageKind.MAXIMUM),
    "MEAN": operators.mean,
    "MINIMUM": operators.extreme(StageKind.MINIMUM),
    "MIX": mix_meaning,
    "MUL": operators.multiply,
    "PRELU": operators.prelu,
    "QUANTIZE": operators.quantize,
    "REDUCE_MAX": operators.largest,
    "RELU": operators.relu,
    "RELU6": operators.relu6,
    "RESIZE_BILINEAR": larger.resize_bilinear,
    "SOFTMAX": operators.softmax,
    "SQUARED_DIFFERENCE": operators.squared_difference,
    "STATE": state_meaning,
    "SUB": operators.sum_of(-1),
    recurrent.LSTM: recurrent.lstm,
}
"""Operators on int8 that are a stage; functions of one value are also tables, by ``functions.RULES``."""
