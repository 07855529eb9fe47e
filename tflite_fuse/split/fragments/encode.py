"""Encodes a plan as one fragment per device, the bytes in its flash (``schemas/fragment.fbs``), and decodes fragments.

The coordinator in Python runs decoded ones.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tflite_fuse.errors import LimitError, PlanError
from tflite_fuse.split.cut.network import Network
from tflite_fuse.split.cut.plan import Plan, Task
from tflite_fuse.split.devices import COORDINATOR
from tflite_fuse.split.fragments.blocks import Part
from tflite_fuse.split.fragments.buffer import DeviceBuffer
from tflite_fuse.split.fragments.program import DeviceProgram, view_bytes
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
    written = [encode(DeviceProgram(buffer)) for buffer in buffers]
    number = int.from_bytes(hashlib.sha256(b"".join(written)).digest()[:8], "little")
    sealed = [_sealed(data, number) for data in written]
    return Fragments(number, tuple(sealed[:-1]), sealed[-1])


def encode(program: DeviceProgram) -> bytearray:
    """Return a device's program as bytes, without the plan's number and without a checksum."""
    data = bytearray(LAYOUTS[FragmentHeader].size)

    def append(section: bytes) -> int:
        data.extend(bytes(-len(data) % FRAGMENT_ALIGNMENT))
        at = len(data)
        data.extend(section + bytes(-len(section) % FRAGMENT_ALIGNMENT))
        return at

    blocks = list[FragmentBlock]()
    for encoded in (plan.encoded for plan in program.blocks):
        options, constants = append(encoded.options), append(encoded.constants)
        blocks.append(FragmentBlock(options, len(encoded.options), constants, len(encoded.constants)))
    words = b"".join(operand.to_bytes(4, "little") for operand in program.operands)
    ends = _packed((*program.inputs, *program.outputs))
    header = FragmentHeader(
        magic=MAGIC,
        version=FRAGMENT_VERSION,
        device=program.device,
        workers=program.workers,
        buffer_bytes=program.buffer_bytes,
        steps=append(_packed(program.steps)),
        step_count=len(program.steps),
        views=append(_packed(program.views)),
        view_count=len(program.views),
        operands=append(words),
        operand_count=len(program.operands),
        blocks=append(_packed(blocks)),
        block_count=len(blocks),
        ends=append(ends),
        input_count=len(program.inputs),
        output_count=len(program.outputs),
        bytes=len(data),
    )
    data[: LAYOUTS[FragmentHeader].size] = LAYOUTS[FragmentHeader].pack(*header)
    return data


def _sealed(data: bytearray, number: int) -> bytes:
    data[CHECKSUM_AT + 4 : CHECKSUM_AT + 12] = number.to_bytes(8, "little")
    data[CHECKSUM_AT : CHECKSUM_AT + 4] = bytes(4)
    data[CHECKSUM_AT : CHECKSUM_AT + 4] = zlib.crc32(data).to_bytes(4, "little")
    return bytes(data)


def _packed(entries: Sequence[tuple[int, ...]]) -> bytes:
    return b"".join(LAYOUTS[type(entry)].pack(*entry) for entry in entries)


Entry = TypeVar("Entry", bound=tuple[int, ...])


@dataclass(frozen=True)
class Fragment:
    """A fragment whose numbers lie inside it and its buffer.

    Attributes:
        header: the device and the sizes.
        steps, views, operands, blocks: its sections.
        inputs, outputs: of the model, at the coordinator.
    """

    header: FragmentHeader
    steps: tuple[FragmentStep, ...]
    views: tuple[FragmentView, ...]
    operands: tuple[int, ...]
    blocks: tuple[FragmentBlock, ...]
    inputs: tuple[FragmentEnd, ...]
    outputs: tuple[FragmentEnd, ...]

    @property
    def plan(self) -> int:
        """Return the plan's number."""
        return self.header.plan_high << 32 | self.header.plan_low


def decode(data: bytes) -> Fragment:
    """Return a decoded fragment.

    Raises:
        PlanError: it is no fragment, of another version, damaged, or a number in it is out of range.
    """
    layout = LAYOUTS[FragmentHeader]
    header = FragmentHeader(*layout.unpack_from(data)) if len(data) >= layout.size else FragmentHeader()
    if header.magic != MAGIC:
        raise PlanError("this is no fragment of a split")
    if header.version != FRAGMENT_VERSION:
        raise PlanError(f"the fragment has version {header.version}, and this is for {FRAGMENT_VERSION}: split again")
    if header.bytes != len(data):
        raise PlanError(f"the fragment has {len(data):,} B instead of {header.bytes:,} B: it is incomplete")
    if zlib.crc32(data[:CHECKSUM_AT] + bytes(4) + data[CHECKSUM_AT + 4 :]) != header.checksum:
        raise PlanError("the fragment is damaged: its checksum is wrong")
    ends = _section(data, FragmentEnd, header.ends, header.input_count + header.output_count)
    words = _bytes(data, header.operands, 4 * header.operand_count)
    operands = tuple(int.from_bytes(words[at : at + 4], "little") for at in range(0, len(words), 4))
    fragment = Fragment(
        header,
        _section(data, FragmentStep, header.steps, header.step_count),
        _section(data, FragmentView, header.views, header.view_count),
        operands,
        _section(data, FragmentBlock, header.blocks, header.block_count),
        ends[: header.input_count],
        ends[header.input_count :],
    )
    for problem in _problems(fragment):
        raise PlanError(f"the fragment is damaged: {problem}")
    return fragment


def _bytes(data: bytes, offset: int, size: int) -> bytes:
    if offset + size > len(data):
        raise PlanError("the fragment is damaged: a section lies outside of it")
    return data[offset : offset + size]


def _section(data: bytes, kind: type[Entry], offset: int, count: int) -> tuple[Entry, ...]:
    layout = LAYOUTS[kind]
    section = _bytes(data, offset, layout.size * count)
    return tuple(kind(*values) for values in layout.iter_unpack(section))


def _problems(fragment: Fragment) -> Iterator[str]:
    """Yield wrong views, ends and messages. The device library checks the blocks."""
    limit = fragment.header.buffer_bytes
    for view in fragment.views:
        last = (view.rows - 1) * view.row_stride + (view.columns - 1) * view.column_stride
        if min(view.rows, view.columns, view.run) < 1 or view.offset + last + view.run > limit:
            yield "a view lies outside the buffer"
    for end in (*fragment.inputs, *fragment.outputs):
        if end.offset + end.bytes > limit:
            yield "an input or output lies outside the buffer"
    for number, step in enumerate(fragment.steps):
        if step.kind not in list(StepKind):
            yield f"step {number} is of no kind"
        elif step.kind in (StepKind.SEND, StepKind.RECEIVE, StepKind.COPY):
            yield from _wrong_views(fragment, number, step)
        elif step.first + step.amount > len(fragment.operands):
            yield f"step {number} names operands that are not there"


def _wrong_views(fragment: Fragment, number: int, step: FragmentStep) -> Iterator[str]:
    views: Sequence[FragmentView] = fragment.views[step.first : step.first + step.amount]
    sizes = list(map(view_bytes, views))
    copies = step.kind == StepKind.COPY
    if len(views) != step.amount or not views or (copies and step.amount != 2):
        yield f"step {number} names views that are not there"
    elif step.bytes != (sizes[0] if copies else sum(sizes)) or (copies and sizes[0] != sizes[1]):
        yield f"step {number} has other bytes than its views"
    elif not copies and not -1 <= step.peer < fragment.header.workers:
        yield f"step {number} names a device that is not there"
