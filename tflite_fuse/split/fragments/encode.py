"""Encodes a plan as one fragment per device, the bytes in its flash (``schemas/fragment.fbs``)."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tflite_fuse.errors import LimitError
from tflite_fuse.split.cut.network import Network
from tflite_fuse.split.cut.plan import Plan, Task
from tflite_fuse.split.devices import COORDINATOR
from tflite_fuse.split.fragments.blocks import Part
from tflite_fuse.split.fragments.buffer import DeviceBuffer
from tflite_fuse.split.fragments.program import (
    Copy,
    DeviceProgram,
    Message,
    Operator,
    Run,
    View,
    device_program,
    parts_of,
)
from tflite_fuse.split.fragments.structs import (
    FRAGMENT_ALIGNMENT,
    FRAGMENT_VERSION,
    LAYOUTS,
    MAGIC,
    MAX_WORKERS,
    FragmentBlock,
    FragmentEnd,
    FragmentHeader,
    FragmentStep,
    FragmentView,
    StepKind,
)

CHECKSUM_AT = 12
"""Offset of the checksum in a fragment; the plan's number follows it."""


@dataclass(frozen=True)
class Fragments:
    """The fragments of a plan.

    Attributes:
        plan: its number, in all of them.
        workers: of each worker, in order.
        coordinator: the coordinator's, in the same format.
    """

    plan: int
    workers: tuple[bytes, ...]
    coordinator: bytes


def encode_plan(network: Network, plan: Plan, parts: Callable[[Task], Sequence[Part]]) -> Fragments:
    """Return the fragments of a plan.

    Args:
        network, plan: as split.
        parts: the blocks of a task (``Accountant.parts``).

    Raises:
        BlockError: a piece cannot be a block.
        LimitError: more workers than fragments can number.
        PlanError: a device cannot execute its part of the plan.
    """
    if plan.workers > MAX_WORKERS:
        raise LimitError(f"a plan has at most {MAX_WORKERS} workers, not {plan.workers}")
    devices = (*range(plan.workers), COORDINATOR)
    buffers = (DeviceBuffer(network, plan, device, parts) for device in devices)
    written = [encode(device_program(buffer)) for buffer in buffers]
    number = int.from_bytes(hashlib.sha256(b"".join(written)).digest()[:8], "little")
    sealed = [_sealed(data, number) for data in written]
    return Fragments(number, tuple(sealed[:-1]), sealed[-1])


def encode(program: DeviceProgram) -> bytearray:
    """Return a device's program as bytes, without the plan's number and without a checksum."""
    return _Writer(program).data


def fragment_bytes(program: DeviceProgram) -> int:
    """Return the size in bytes that ``encode`` would write."""
    messages = [step for step in program.steps if isinstance(step, Message)]
    copies = sum(isinstance(step, Copy) for step in program.steps)
    computed = [step for step in program.steps if isinstance(step, Run | Operator)]
    parts = parts_of(program)
    sections = (
        LAYOUTS[FragmentHeader].size,
        LAYOUTS[FragmentStep].size * len(program.steps),
        LAYOUTS[FragmentView].size * (sum(len(each.views) for each in messages) + 2 * copies),
        4 * sum(len(each.inputs) + len(each.outputs) for each in computed),
        LAYOUTS[FragmentBlock].size * len(parts),
        LAYOUTS[FragmentEnd].size * (len(program.inputs) + len(program.outputs)),
    )
    stored = sum(part.flash_bytes for part in parts)
    return stored + sum(-(-size // FRAGMENT_ALIGNMENT) * FRAGMENT_ALIGNMENT for size in sections)


def _sealed(data: bytearray, number: int) -> bytes:
    data[CHECKSUM_AT + 4 : CHECKSUM_AT + 12] = number.to_bytes(8, "little")
    data[CHECKSUM_AT : CHECKSUM_AT + 4] = bytes(4)
    data[CHECKSUM_AT : CHECKSUM_AT + 4] = zlib.crc32(data).to_bytes(4, "little")
    return bytes(data)


class _Writer:
    def __init__(self, program: DeviceProgram) -> None:
        self.steps: list[FragmentStep] = []
        self.views: list[FragmentView] = []
        self.operands: list[int] = []
        self.blocks: list[FragmentBlock] = []
        self.numbers: dict[int, int] = {}
        self.data = bytearray(LAYOUTS[FragmentHeader].size)
        for step in program.steps:
            self.steps.append(self._step(step))
        ends = [FragmentEnd(*end) for end in (*program.inputs, *program.outputs)]
        words = b"".join(operand.to_bytes(4, "little") for operand in self.operands)
        packed = (_packed(self.steps), _packed(self.views), words, _packed(self.blocks), _packed(ends))
        steps, views, operands, blocks, places = map(self._append, packed)
        header = FragmentHeader(
            magic=MAGIC,
            version=FRAGMENT_VERSION,
            bytes=len(self.data),
            device=program.device,
            workers=program.workers,
            buffer_bytes=program.buffer_bytes,
            steps=steps,
            step_count=len(self.steps),
            views=views,
            view_count=len(self.views),
            operands=operands,
            operand_count=len(self.operands),
            blocks=blocks,
            block_count=len(self.blocks),
            ends=places,
            input_count=len(program.inputs),
            output_count=len(program.outputs),
        )
        self.data[: LAYOUTS[FragmentHeader].size] = LAYOUTS[FragmentHeader].pack(*header)

    def _append(self, section: bytes) -> int:
        self.data += bytes(-len(self.data) % FRAGMENT_ALIGNMENT)
        at = len(self.data)
        self.data += section + bytes(-len(section) % FRAGMENT_ALIGNMENT)
        return at

    def _step(self, step: Message | Copy | Run | Operator) -> FragmentStep:
        if isinstance(step, Message):
            kind = StepKind.SEND if step.sends else StepKind.RECEIVE
            first = self._views(step.views)
            return FragmentStep(kind, step.peer, first, len(step.views), step.number, step.nbytes)
        if isinstance(step, Copy):
            return FragmentStep(StepKind.COPY, 0, self._views((step.source, step.target)), 2, 0, step.source.nbytes)
        first = len(self.operands)
        self.operands += (*step.inputs, *step.outputs)
        count = len(self.operands) - first
        if isinstance(step, Operator):
            return FragmentStep(StepKind.OPERATOR, 0, first, count, step.number)
        return FragmentStep(StepKind.BLOCK, 0, first, count, self._block(step.part), 0, step.scratch)

    def _views(self, views: Sequence[View]) -> int:
        first = len(self.views)
        for view in views:
            extent = view.rows, view.columns, view.run
            self.views.append(FragmentView(view.offset, *extent, view.row_stride, view.column_stride))
        return first

    def _block(self, part: Part) -> int:
        """Return the number of a block. Blocks of the same computation on other operands are stored once."""
        key = id(part.plan)
        if key not in self.numbers:
            self.numbers[key] = len(self.blocks)
            encoded = part.plan.encoded
            options, constants = self._append(encoded.options), self._append(encoded.constants)
            found = FragmentBlock(options, len(encoded.options), constants, len(encoded.constants))
            self.blocks.append(found)
        return self.numbers[key]


def _packed(entries: Sequence[tuple[int, ...]]) -> bytes:
    return b"".join(LAYOUTS[type(entry)].pack(*entry) for entry in entries)
