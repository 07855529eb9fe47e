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
from tflite_fuse.split.fragments.program import DeviceProgram, device_program
from tflite_fuse.split.fragments.structs import (
    FRAGMENT_ALIGNMENT,
    FRAGMENT_VERSION,
    LAYOUTS,
    MAGIC,
    MAX_WORKERS,
    FragmentBlock,
    FragmentHeader,
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
    data = bytearray(LAYOUTS[FragmentHeader].size)

    def append(section: bytes) -> int:
        data.extend(bytes(-len(data) % FRAGMENT_ALIGNMENT))
        at = len(data)
        data.extend(section + bytes(-len(section) % FRAGMENT_ALIGNMENT))
        return at

    blocks = list[FragmentBlock]()
    for encoded in (part.plan.encoded for part in program.parts):
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
