"""Matches the operators of the rewritten model, in order: unchanged operators and fused blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

from tflite_fuse.check.block.options import DamagedError, Options, checksum, read_options
from tflite_fuse.check.block.replay import ScheduleProof, state_size
from tflite_fuse.check.block.trace import schedule_alone, trace_block
from tflite_fuse.check.correspondence import Correspondence, reads_alike, same_fields
from tflite_fuse.check.original.values import RENAMING, Step
from tflite_fuse.check.streaming.states import droppable, dropped_graphs, uninitialized
from tflite_fuse.ir.enums import ElementType, StageKind, Storage
from tflite_fuse.ir.program import FUSED_OPERATOR, Overlap, has_effects
from tflite_fuse.model.operators import operator_label, operator_name
from tflite_fuse.model.outside import outside_inputs
from tflite_fuse.model.schema import Operator, Tensor
from tflite_fuse.model.types import TensorType

_ELEMENTS: dict[int, ElementType] = {
    TensorType.INT8: ElementType.INT8,
    TensorType.UINT8: ElementType.UINT8,
    TensorType.FLOAT32: ElementType.FLOAT32,
}


def match_operators(matching: Correspondence) -> None:
    """Match every operator of the rewritten model with the original's and collect findings in ``matching``."""
    walk = _Walk(matching)
    for index, operator in enumerate(matching.after.main.operators):
        walk.visit(operator_label(matching.after, index), operator)
    walk.finish()


class _Walk:
    """Walk through the operators of the rewritten model.

    Those with side effects must come in the original's order, each once; all others may come anywhere.
    """

    def __init__(self, matching: Correspondence) -> None:
        self.matching = matching
        operators = matching.before.main.operators
        steps = zip(matching.original.steps, operators, strict=False)
        self._used: set[int] = set()
        numbered = enumerate(steps)
        self._effects = [index for index, (_, op) in numbered if has_effects(matching.before, matching.before.main, op)]
        self._dropped: set[int] = set()
        self._droppable = droppable(matching.states)

    def visit(self, label: str, operator: Operator) -> None:
        """Match one operator: unchanged, a fused block, or a reshape of known bytes."""
        matching = self.matching
        name = operator_name(matching.after, operator)
        if self._is_as_it_was(operator):
            matching.plain += 1
            if name == FUSED_OPERATOR:
                _Block(matching, label, operator).keep()
            matching.check_tensors(label, operator.outputs or ())
        elif name == FUSED_OPERATOR:
            _Block(matching, label, operator).check()
        elif name in RENAMING and self._keeps_bytes(operator):
            matching.plain += 1
            matching.values[operator.output] = matching.values[(operator.inputs or (-1,))[0]]
            matching.check_tensors(label, operator.outputs or ())
        else:
            matching.report(label, "no operator of the original does the same with the same operands")

    def _keeps_bytes(self, operator: Operator) -> bool:
        """Return whether a renaming operator reads known bytes of a tensor that is no variable, and keeps the type."""
        tensors, reads, writes = self.matching.after.main.tensors, operator.inputs or (-1,), operator.outputs or ()
        if len(writes) != 1 or reads[0] not in self.matching.values:
            return False
        source = tensors[reads[0]]
        return source.type == tensors[writes[0]].type and not source.is_variable

    def finish(self) -> None:
        """Report operators with side effects that are missing, except those of states that blocks may keep."""
        matching, missing = self.matching, self._dropped.union(self._effects)
        matching.dissolved, wrong = dropped_graphs(matching.original, matching.states, missing)
        matching.uninitialized = uninitialized(matching.states, missing)
        if wrong:
            matching.report("operators", f"{', '.join(wrong)}, which have effects, are missing or in another order")

    def _is_as_it_was(self, operator: Operator) -> bool:
        matching, after = self.matching, self.matching.after
        code = after.operator_codes[operator.opcode_index]
        effects = has_effects(after, after.main, operator)
        for step in self._next_effects() if effects else self._alike(operator):
            same_code = (code.code, code.custom_code, code.version) == (
                step.code.code,
                step.code.custom_code,
                step.code.version,
            )
            if same_code and self._bind(operator, step):
                self._used.add(id(step))
                if effects:
                    passed = [matching.original.steps[index] for index in self._effects].index(step)
                    self._dropped.update(self._effects[:passed])
                    del self._effects[: passed + 1]
                return True
        return False

    def _next_effects(self) -> Iterator[Step]:
        """Return the next operator with side effects, and those that follow droppable ones."""
        for index in self._effects:
            yield self.matching.original.steps[index]
            if index not in self._droppable:
                return

    def _alike(self, operator: Operator) -> Sequence[Step]:
        """Return the original's operators that read the same values: those not matched yet first, then those of equal
        names."""
        matching, values = self.matching, self.matching.values
        read = [values[t] for t in operator.inputs or () if t in values]
        steps = matching.original.readers(read[0]) if read else matching.original.steps
        names = [matching.after.main.tensors[t].name for t in operator.outputs or ()]

        def rank(step: Step) -> tuple[bool, bool]:
            theirs = [matching.original.tensors[t].name for t in step.outputs]
            return id(step) in self._used, theirs != names

        return sorted(steps, key=rank)

    def _bind(self, operator: Operator, step: Step) -> bool:
        """Match an operator with a step of the original; on success its outputs are known to hold the step's."""
        own, theirs = _operands(operator), _operands(step.operator)
        counts = [[len(group) for group in operands] for operands in (own, theirs)]
        if _without_operands(operator) != _without_operands(step.operator) or counts[0] != counts[1]:
            return False
        fresh: dict[int, int] = {}
        read = enumerate(zip((*own[0], *own[2]), (*theirs[0], *theirs[2]), strict=True))
        one_row = 0 if step.name == "FULLY_CONNECTED" else -1  # the shape of its input does not matter
        if not all(self._same_operand(a, b, fresh, shaped=place != one_row) for place, (a, b) in read):
            return False
        tensors, originals = self.matching.after.main.tensors, self.matching.original.tensors
        if not all(same_fields(tensors[a], originals[b]) for a, b in zip(own[1], theirs[1], strict=True)):
            return False
        self.matching.values.update(fresh)
        self.matching.values.update(zip(own[1], theirs[1], strict=True))
        return True

    def _same_operand(self, operand: int, theirs: int, fresh: dict[int, int], *, shaped: bool) -> bool:
        matching = self.matching
        if operand < 0 or theirs < 0:
            return operand == theirs
        tensor, other = matching.after.main.tensors[operand], matching.original.tensors[theirs]
        if operand in matching.values:
            return matching.same(operand, theirs) and reads_alike(tensor, other, shaped=shaped)
        content = matching.after.buffers[tensor.buffer].data or b""
        if content != matching.original.content(theirs) or not same_fields(tensor, other):
            return False
        if not content:
            # A variable, or a tensor without a writer in both models. It is identified by name; one variable never
            # matches two.
            matched = (*matching.values.values(), *(their for own, their in fresh.items() if own != operand))
            fresh[operand] = theirs
            is_same = tensor.name == other.name and not (tensor.is_variable and theirs in matched)
            return is_same and theirs not in matching.original.in_file
        return True


def _operands(operator: Operator) -> tuple[tuple[int, ...], ...]:
    return operator.inputs or (), operator.outputs or (), operator.intermediates or ()


def _without_operands(operator: Operator) -> Operator:
    return replace(operator, opcode_index=0, inputs=None, outputs=None, intermediates=None)


_Typed = tuple[int, int, int, int]
"""Rows, columns, channels and type of elements."""


def _same_bytes(declared: _Typed | None, actual: _Typed, *, in_rows: bool) -> bool:
    """Return whether a block reads the bytes that the metadata names: a stream pixel by pixel, else in rows of any
    length."""
    if declared is None or in_rows:
        return declared == actual
    return (prod(declared[:3]), declared[3]) == (prod(actual[:3]), actual[3])


class _Block:
    """The operator of a fused block: first its operands are checked, then its contents."""

    def __init__(self, matching: Correspondence, label: str, operator: Operator) -> None:
        self.matching, self.label, self.operator = matching, label, operator
        self.inputs, self.outputs = operator.inputs or (), operator.outputs or ()

    def report(self, what: str, expected: object = None, actual: object = None) -> None:
        self.matching.report(self.label, what, expected, actual)

    def check(self) -> None:
        """Compare the block with the original's operators."""
        matching = self.matching
        if len(self.inputs) < 1 or len(self.outputs) < 2 or min(*self.inputs, *self.outputs) < 0:
            self.report(f"the operator has {len(self.inputs)} inputs and {len(self.outputs)} outputs")
            return
        try:
            options = read_options(self.operator.custom_options or b"")
        except DamagedError as error:
            self.report(str(error))
            return
        bare = replace(self.operator, custom_options=None, inputs=None, outputs=None)
        if bare != Operator(opcode_index=self.operator.opcode_index):
            self.report("the operator has fields that no block uses")
        constants = matching.after.buffers[matching.after.main.tensors[self.inputs[-1]].buffer].data or b""
        self._check_bytes(self.inputs[-1], len(constants), "constants")
        self._check_sum(options, constants)
        self._check_bytes(self.outputs[-1], options.header.scratch_bytes, "scratch")
        self._check_state(options)
        arena, leaving = self._whole(options)
        entering = self._from_outside(options)
        for t, tensor in arena.items():
            value = matching.values.get(tensor, self._constant(tensor))
            entering |= {} if value is None else {t: value}
        trace = trace_block(matching.original, self.label, options, constants, entering)
        matching.findings += trace.findings
        matching.notes += trace.notes
        matching.blocks.append(trace.proof(options))
        for t, tensor in leaving.items():
            if t in trace.values:
                matching.values[tensor] = trace.values[t]
                matching.check_tensors(self.label, [tensor])
        self._permit(trace.schedule, arena, leaving)

    def _constant(self, tensor: int) -> int | None:
        """Return the original's constant with the bytes of an operand that no operator writes; None without one."""
        after = self.matching.after
        if tensor in after.main.writers or tensor in after.main.inputs:
            return None
        stored = after.main.tensors[tensor]
        return self.matching.original.constant(stored, after.buffers[stored.buffer].data or b"")

    def _check_sum(self, options: Options, constants: bytes) -> None:
        if options.checksum is None:
            note = f"{self.label} has version {options.version} without a checksum: damage on the device goes unnoticed"
            self.matching.notes.append(note)
        elif options.checksum != checksum(options, constants):
            self.report("the checksum", checksum(options, constants), options.checksum)

    def keep(self) -> None:
        """Check a block that the original has, too: only how far its outputs may overlap its inputs, because the arena
        plan is new."""
        try:
            options = read_options(self.operator.custom_options or b"")
        except DamagedError as error:
            self.report(str(error))
            return
        arena, leaving = self._whole(options)
        schedule = schedule_alone(options)
        for problem in schedule.problems:
            self.report(problem)
        self._permit(schedule, arena, leaving)

    def _permit(self, schedule: ScheduleProof, arena: Mapping[int, int], leaving: Mapping[int, int]) -> None:
        for (i, o), distance in schedule.distances.items():
            if i in arena and o in leaving:
                self.matching.overlaps.append(Overlap(arena[i], leaving[o], distance))
        for i, distance in schedule.scratch.items():
            if i in arena:
                self.matching.overlaps.append(Overlap(arena[i], self.outputs[-1], distance))

    def _whole(self, options: Options) -> tuple[dict[int, int], dict[int, int]]:
        """Return the model's tensor of each of the block's input and output tensors; their operand numbers must count
        up."""
        mappings: list[dict[int, int]] = []
        kept = self._variables()
        own = 1 + min(kept, 2 if state_size(options) else 1)
        for place, operands in ((Storage.INPUT, self.inputs[:-own]), (Storage.OUTPUT, self.outputs[:-1])):
            tensors = [t for t, tensor in enumerate(options.tensors) if tensor.storage == place]
            if len(tensors) != len(operands):
                self.report(f"{place.name.lower()}s beside constants and scratch", len(tensors), len(operands))
            for number, t in enumerate(tensors):
                if options.tensors[t].operand != number:
                    self.report(f"operand number of tensor {t}", number, options.tensors[t].operand)
            mappings.append(dict(zip(tensors, operands, strict=False)))
            for t, operand in mappings[-1].items():
                desc, tensor = options.tensors[t], self.matching.after.main.tensors[operand]
                self.matching.placed.setdefault(operand, set()).add(desc.offset if desc.region else None)
                wide = place == Storage.OUTPUT and tensor.type == TensorType.INT32  # of an ARG_MAX: four bytes each
                if (ElementType.INT8 if wide else _ELEMENTS.get(tensor.type)) != desc.element_type:
                    self.report(f"type of tensor {tensor.name}", tensor.type, f"{desc.element_type} in the options")
                if prod(tensor.dims) * (4 if wide else 1) != desc.height * desc.width * desc.channels:
                    self.report(f"elements of tensor {tensor.name}", prod(tensor.dims), f"those of tensor {t}")
        return mappings[0], mappings[1]

    def _from_outside(self, options: Options) -> dict[int, int]:
        """Return the original's tensor of each external tensor and of each output of a SOURCE stage."""
        values: dict[int, int] = {}
        entries = {(e.mode.streams, e.number): e for e in outside_inputs(self.matching.after)}
        images = {key: (*entry.image, int(_ELEMENTS[entry.type])) for key, entry in entries.items()}
        for t, desc in enumerate(options.tensors):
            writer = options.stages[desc.producer] if 0 <= desc.producer < len(options.stages) else None
            sourced = writer is not None and writer.kind == StageKind.SOURCE
            if desc.storage == Storage.EXTERNAL or sourced:
                value = self.matching.outside.get((sourced, desc.operand))
                image = (desc.height, desc.width, desc.channels, desc.element_type)
                if value is None:
                    self.report(f"tensor {t} is input {desc.operand} outside the arena, which the metadata lacks")
                elif not _same_bytes(images.get((sourced, desc.operand)), image, in_rows=sourced):
                    self.report(f"image of tensor {t}", images.get((sourced, desc.operand)), image)
                else:
                    values[t] = value
            elif desc.storage == Storage.SCRATCH and desc.operand != 0:
                self.report(f"operand number of tensor {t}", 0, desc.operand)
        return values

    def _check_bytes(self, tensor: int, size: int, what: str) -> None:
        """Check that a block's constants or scratch are plain bytes that no other operator uses."""
        expected = Tensor(shape=(size,), type=TensorType.INT8)
        self._check_own(tensor, expected, f"its {what}, is not {size} plain bytes")

    def _variables(self) -> int:
        """Return the number of variables before the constants: the block's state, and before it that of the model's
        last block."""
        tensors, count = self.matching.after.main.tensors, 0
        while count + 1 < len(self.inputs) and tensors[self.inputs[-2 - count]].is_variable:
            count += 1
        return count

    def _check_state(self, options: Options) -> None:
        """Check the variable that holds the block's state.

        Other blocks also read the state of the model's last block, to see whether the last step succeeded: without it a
        block would continue after a step in which a later one failed. A last block without a state that may fail,
        because it reads from outside the arena, counts its steps.
        """
        after, size, kept = self.matching.after, state_size(options), self._variables()
        blocks = [op.inputs or () for op in after.main.operators if operator_name(after, op) == FUSED_OPERATOR]
        states = [i[-2] for i in blocks if len(i) > 1 and i[-2] >= 0 and after.main.tensors[i[-2]].is_variable]
        if not size and not kept:
            self._check_waited_for(options, bool(states))
        if len(self.inputs) < 2 or not (size or kept):
            return
        last, state = states[-1:], self.inputs[-2]
        size += 4 if len(states) > 1 or not size else 0
        expected = Tensor(shape=(size,), type=TensorType.UINT8, is_variable=True)
        following = sum(i[-3:-2] == (last[0],) for i in blocks) if last == [state] else 0
        self._check_own(state, expected, f"its state, is not {size} bytes that the runtime keeps", following)
        follows = kept > 1
        if follows != (last != [state]) or (follows and list(self.inputs[-3:-2]) != last):
            self.report("its step does not end with that of the model's last block with a state")

    def _check_waited_for(self, options: Options, is_stateful: bool) -> None:
        """Report a stateless block that reads from outside the arena behind all blocks with a state."""
        after = self.matching.after
        behind = after.main.operators[after.main.operators.index(self.operator) + 1 :]
        inputs = [op.inputs or () for op in behind if operator_name(after, op) == FUSED_OPERATOR]
        is_last = not any(len(i) > 1 and i[-2] >= 0 and after.main.tensors[i[-2]].is_variable for i in inputs)
        sources = any(stage.kind == StageKind.SOURCE for stage in options.stages)
        if is_stateful and is_last and (sources or any(t.storage == Storage.EXTERNAL for t in options.tensors)):
            self.report("it reads from outside the arena behind all blocks that keep a state, which do not wait for it")

    def _check_own(self, tensor: int, expected: Tensor, otherwise: str, other_users: int = 0) -> None:
        graph = self.matching.after.main
        actual = graph.tensors[tensor]
        if not same_fields(actual, expected):
            self.report(f"tensor {actual.name}, {otherwise}")
        users = sum((*(op.inputs or ()), *(op.outputs or ())).count(tensor) for op in graph.operators)
        if users != 1 + other_users or tensor in (*graph.inputs, *graph.outputs):
            self.report(f"tensor {actual.name}, {otherwise.split(',')[0]}, is used elsewhere")
