"""A PAD for each of its readers, where all of them are convolutions that can do its work.

    PAD → two convolutions   =   a PAD and a convolution, twice

Converters keep one PAD where several convolutions of a detector's heads read the same padded map. Unless one block
holds all of them, that PAD would have to be written as a whole, which is larger than what it pads. With one each, every
block pads as it reads, and the map is kept as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from tflite_fuse.fusion.lower.absorb import absorb
from tflite_fuse.fusion.lower.operators import Lowerings, lower_model
from tflite_fuse.memory.tflm.offline_plan import has_plan, remove_plan
from tflite_fuse.model.edit import add_tensor, replace_operators
from tflite_fuse.model.operators import operator_label, operator_name
from tflite_fuse.model.schema import Model, Operator
from tflite_fuse.passes.base import PassResult

_PADDING = ("PAD", "PADV2")


@dataclass(frozen=True)
class OwnPads:
    """Give every convolution behind a shared PAD one of its own."""

    name: ClassVar[str] = "own-pads"

    def run(self, model: Model) -> PassResult:
        """Rewrite a model. An offline memory plan is dropped where something changed: operators are added."""
        shared = _shared(model)
        if not shared:
            return PassResult(model, False)
        notes = [
            f"{operator_label(model, pad)} is done by each of the {len(readers)} convolutions that read it"
            for pad, readers in shared.items()
        ]
        own = {reader: pad for pad, readers in shared.items() for reader in readers}
        rewritten = remove_plan(model) if has_plan(model) else model
        operators: list[Operator] = []
        for index, operator in enumerate(model.main.operators):
            if index in own:
                pad = model.main.operators[own[index]]
                padded = (pad.outputs or (-1,))[0]
                rewritten, copy = add_tensor(rewritten, model.main.tensors[padded])
                operators.append(replace(pad, outputs=(copy,)))
                inputs = tuple(copy if read == padded else read for read in operator.inputs or ())
                operators.append(replace(operator, inputs=inputs))
            elif index not in shared:
                operators.append(operator)
        return PassResult(replace_operators(rewritten, operators), True, tuple(notes))


def _shared(model: Model) -> dict[int, tuple[int, ...]]:
    """PADs with several readers, all of them convolutions that can do the padding themselves."""
    operators = model.main.operators
    pads = [index for index, operator in enumerate(operators) if operator_name(model, operator) in _PADDING]
    found = {
        pad: tuple(i for i, operator in enumerate(operators) if _output(operators[pad]) in (operator.inputs or ()))
        for pad in pads
        if _output(operators[pad]) not in model.main.outputs
    }
    found = {pad: readers for pad, readers in found.items() if len(readers) > 1}
    lowerings: Lowerings = lower_model(model) if found else ()
    return {pad: readers for pad, readers in found.items() if _all_can(lowerings, pad, readers)}


def _output(operator: Operator) -> int:
    return (operator.outputs or (-1,))[0]


def _all_can(lowerings: Lowerings, pad: int, readers: tuple[int, ...]) -> bool:
    padding = lowerings[pad]
    if isinstance(padding, str):
        return False
    convolutions = [lowered for reader in readers if not isinstance(lowered := lowerings[reader], str)]
    return len(convolutions) == len(readers) and all(absorb(padding, each) is not None for each in convolutions)
