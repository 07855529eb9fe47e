"""Contents of variables and rings after each step, as further outputs of copies of the models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tflite_fuse.emit.in_model import blocks_in, operands_of
from tflite_fuse.ir.block import StageKind
from tflite_fuse.model import Model
from tflite_fuse.model.edit import replace_main
from tflite_fuse.model.file import serialize_model
from tflite_fuse.model.operators import operator_name
from tflite_fuse.ops.kinds.state import MARK_BYTES, history_pixels, state_offsets


@dataclass(frozen=True)
class Ring:
    """Where a state lies among a model's outputs.

    Attributes:
        output: number of the output that holds the block's state.
        offset: of the ring's mark in it.
        slots, slot_bytes: of the ring.
        history: slots that hold earlier steps between two calls.
        follows: whether the last step becomes one of them only at the beginning of the next.
    """

    output: int
    offset: int
    slots: int
    slot_bytes: int
    history: int
    follows: bool

    def in_time_order(self, outputs: Sequence[bytes]) -> bytes:
        """The earlier steps, oldest first."""
        state = outputs[self.output][self.offset :]
        oldest = int.from_bytes(state[:MARK_BYTES], "little") - 1
        if self.follows:
            oldest = (oldest if oldest < self.slots else 0) + self.slots - self.history
        slots = [state[MARK_BYTES + n * self.slot_bytes :][: self.slot_bytes] for n in range(self.slots)]
        return b"".join(slots[(oldest + n) % self.slots] for n in range(self.history))


def with_variables(model: Model) -> tuple[bytes, list[int]]:
    """A copy that also gives out what is assigned to its variables, and which outputs these are."""
    operators = model.main.operators
    assigned = [(op.inputs or ())[1] for op in operators if operator_name(model, op) == "ASSIGN_VARIABLE"]
    return _giving_out(model, assigned)


def with_rings(model: Model) -> tuple[bytes, list[Ring]]:
    """A copy of a fused model that also gives out the states of its blocks, and where the rings lie in them."""
    found, variables = [], list[int]()
    for index, plan in blocks_in(model).items():
        tensors, offsets = plan.block.tensors, state_offsets(plan.block.tensors)[0]
        operands = operands_of(model.main, model.main.operators[index])
        for stage in plan.block.stages:
            if stage.kind is StageKind.STATE:
                variables += operands.state
                output = tensors[stage.output]
                history = history_pixels(stage, output)
                found.append((offsets[stage.output], output.pixels, output.channels, history, bool(operands.last)))
    data, numbers = _giving_out(model, variables)
    return data, [Ring(number, *numbers_) for number, numbers_ in zip(numbers, found, strict=True)]


def _giving_out(model: Model, tensors: Sequence[int]) -> tuple[bytes, list[int]]:
    outputs = list(model.main.outputs)
    outputs += [tensor for tensor in dict.fromkeys(tensors) if tensor not in outputs]
    copy = replace(replace_main(model, replace(model.main, outputs=tuple(outputs))), signature_defs=None)
    return serialize_model(copy), [outputs.index(tensor) for tensor in tensors]
