"""Runs the coordinator's fragment in Python, step by step: the twin of the C worker.

    machine.begin(inputs)
    while (event := machine.next()).kind is not EventKind.FINISHED: …

The caller moves the messages, as with ``tflite_fuse_worker.h``. It runs no blocks: the coordinator has none. Operators
that no block holds run in TFLM, each as a model of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tflite_fuse.errors import PlanError
from tflite_fuse.ir.block import Int8Array
from tflite_fuse.ir.program import program_of
from tflite_fuse.memory.tflm.offline_plan import remove_plan
from tflite_fuse.model.edit import prune, replace_main
from tflite_fuse.model.file import serialize_model
from tflite_fuse.model.schema import Model
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.inputs import input_specs
from tflite_fuse.runtime.library.worker import Event, EventKind
from tflite_fuse.split.cut.network import Network
from tflite_fuse.split.fragments.encode import Fragment
from tflite_fuse.split.fragments.structs import FragmentStep, FragmentView, StepKind
from tflite_fuse.split.protocol import PAYLOAD_BYTES


class WholeOperators:
    """Models of one operator each, by its number in the prepared model."""

    def __init__(self, models: Mapping[int, Model]) -> None:
        self.models = models

    def sizes(self, number: int) -> tuple[list[int], list[int]]:
        """Return the bytes of each input and of each output. Raises PlanError if there is no such operator."""
        model = self._model(number)
        sizes = program_of(model).sizes
        ends = (model.main.inputs or (), model.main.outputs or ())
        return [sizes[tensor] for tensor in ends[0]], [sizes[tensor] for tensor in ends[1]]

    def run(self, number: int, inputs: Sequence[Int8Array]) -> list[Int8Array]:
        """Return the outputs' bytes, flat, from the inputs' bytes.

        Raises:
            ModelError: TFLM does not run the operator.
            PlanError: there is no such operator.
            RuntimeUnavailableError: TFLM is not installed.
        """
        model = self._model(number)
        typed = [
            np.frombuffer(array.tobytes(), spec.dtype).reshape(spec.shape)
            for array, spec in zip(inputs, input_specs(model), strict=True)
        ]
        outputs = tflm.run(serialize_model(model), [typed]).outputs[0]
        return [np.frombuffer(np.ascontiguousarray(array).tobytes(), np.int8) for array in outputs]

    def _model(self, number: int) -> Model:
        if number not in self.models:
            raise PlanError(f"the plan runs operator {number} at the coordinator, which does not have it")
        return self.models[number]


def operators_of(network: Network) -> WholeOperators:
    """Return the operators of a network that no block holds."""
    models = {node.operator: _alone(network, index) for index, node in enumerate(network.nodes) if node.stage is None}
    return WholeOperators(models)


def _alone(network: Network, index: int) -> Model:
    """Return a model of one operator."""
    model, node = remove_plan(network.prepared), network.nodes[index]
    graph = replace(
        model.main,
        operators=(model.main.operators[node.operator],),
        inputs=tuple(network.tensors[value] for value in node.inputs),
        outputs=tuple(network.tensors[value] for value in node.outputs),
    )
    return prune(replace_main(replace(model, signature_defs=None), graph))


class Machine:
    """One device's state between two messages.

    Args:
        fragment: decoded, and so checked.
        operators: runs operators that no block holds.
    """

    def __init__(self, fragment: Fragment, operators: WholeOperators) -> None:
        self.fragment, self._operators = fragment, operators
        self.buffer: npt.NDArray[np.int8] = np.zeros(fragment.header.buffer_bytes, np.int8)
        self._step = self._done = 0

    def begin(self, inputs: Sequence[Int8Array] = ()) -> None:
        """Begin the next inference with the inputs' bytes, flat. Raises PlanError if number or sizes differ."""
        sizes = [end.bytes for end in self.fragment.inputs]
        if [len(each) for each in inputs] != sizes:
            raise PlanError(f"the model has inputs of {sizes} B, and {[len(each) for each in inputs]} B were given")
        for end, array in zip(self.fragment.inputs, inputs, strict=True):
            self.buffer[end.offset : end.offset + end.bytes] = array
        self._step = self._done = 0

    def outputs(self) -> list[Int8Array]:
        """Return the outputs' bytes after the inference."""
        return [self.buffer[end.offset : end.offset + end.bytes].copy() for end in self.fragment.outputs]

    def next(self) -> Event:
        """Return the next event."""
        if self._step == len(self.fragment.steps):
            return Event(EventKind.FINISHED, step=self._step)
        step = self._current
        if step.kind not in (StepKind.SEND, StepKind.RECEIVE):
            return Event(EventKind.COMPUTE, step=self._step)
        kind = EventKind.SEND if step.kind == StepKind.SEND else EventKind.RECEIVE
        nbytes = min(PAYLOAD_BYTES, step.bytes - self._done)
        return Event(kind, step.peer, nbytes, step.number + self._done // PAYLOAD_BYTES, self._step)

    def payload(self) -> bytes:
        """Return the payload of the message to send."""
        event = self._expect(EventKind.SEND)
        return self.buffer[self._message_places()[self._done : self._done + event.nbytes]].tobytes()

    def sent(self) -> None:
        """Report that the message was sent."""
        self._pass(self._expect(EventKind.SEND).nbytes)

    def received(self, payload: bytes) -> None:
        """Hand over the received message. Raises PlanError if its size differs."""
        event = self._expect(EventKind.RECEIVE)
        if len(payload) != event.nbytes:
            raise PlanError(f"a message has {len(payload)} B instead of {event.nbytes} B")
        places = self._message_places()[self._done : self._done + event.nbytes]
        self.buffer[places] = np.frombuffer(payload, np.int8)
        self._pass(event.nbytes)

    def compute(self) -> None:
        """Perform copies, run at most one operator, and perform the copies behind it.

        Raises:
            PlanError: there is no such operator, or the step is a block.
        """
        self._expect(EventKind.COMPUTE)
        self._copy_on()
        if self._step < len(self.fragment.steps) and self.next().kind is EventKind.COMPUTE:
            self._run_operator(self._current)
            self._step += 1
            self._copy_on()

    def _run_operator(self, step: FragmentStep) -> None:
        if step.kind != StepKind.OPERATOR:
            raise PlanError(f"step {self._step} is nothing a coordinator can run")
        read, written = self._operators.sizes(step.number)
        starts = self.fragment.operands[step.first : step.first + step.amount]
        if len(starts) != len(read) + len(written):
            raise PlanError(f"step {self._step} has other operands than operator {step.number}")
        places = [slice(at, at + size) for at, size in zip(starts, (*read, *written), strict=True)]
        if any(place.stop > len(self.buffer) for place in places):
            raise PlanError(f"an operand of operator {step.number} lies outside the buffer")
        outputs = self._operators.run(step.number, [self.buffer[place].copy() for place in places[: len(read)]])
        for place, array in zip(places[len(read) :], outputs, strict=True):
            self.buffer[place] = array

    # ---- Steps ----

    @property
    def _current(self) -> FragmentStep:
        return self.fragment.steps[self._step]

    def _expect(self, kind: EventKind) -> Event:
        event = self.next()
        if event.kind is not kind:
            raise PlanError(f"{event.kind.name} comes next, not {kind.name}")
        return event

    def _pass(self, nbytes: int) -> None:
        self._done += nbytes
        if self._done == self._current.bytes:
            self._step, self._done = self._step + 1, 0

    def _copy_on(self) -> None:
        """Perform the copies up to the next event."""
        while self._step < len(self.fragment.steps) and self._current.kind == StepKind.COPY:
            first = self._current.first
            source, target = (_places(view) for view in self.fragment.views[first : first + 2])
            self.buffer[target] = self.buffer[source]
            self._step += 1

    def _message_places(self) -> npt.NDArray[np.int64]:
        step = self._current
        return np.concatenate([_places(view) for view in self.fragment.views[step.first : step.first + step.amount]])


def _places(view: FragmentView) -> npt.NDArray[np.int64]:
    """Return the offsets of a view's bytes, in order."""
    rows = view.offset + view.row_stride * np.arange(view.rows, dtype=np.int64)
    columns = view.column_stride * np.arange(view.columns, dtype=np.int64)
    return (rows[:, None, None] + columns[None, :, None] + np.arange(view.run, dtype=np.int64)).ravel()
