"""Rewritten models with one number of a fused block changed, which validation must detect."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from tflite_fuse.check import Certificate, validate
from tflite_fuse.emit.options import sealed as sealed_options
from tflite_fuse.errors import BlockError, TfliteFuseError
from tflite_fuse.model.edit import replace_main, replace_operators
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.schema import Model


@dataclass(frozen=True)
class Mutant:
    """A damaged model: what was done to it, where."""

    model: Model
    what: str
    place: str


def mutants(model: Model, randomness: random.Random, count: int, *, sealed: bool = True) -> Iterator[Mutant]:
    """Draws changes to options and constants of a model's blocks, each of which changes a byte; none is left out.

    ``sealed``: with a checksum that fits, as if a wrong encoder had written them; else as damage leaves them.
    """
    blocks = [
        index
        for index, operator in enumerate(model.main.operators)
        if operator_name(model, operator) == "CUSTOM:TFLITE_FUSE"
    ]
    drawn = 0
    while drawn < count:
        what = randomness.choice(sorted(_CHANGES))
        index = randomness.choice(blocks)
        operator = model.main.operators[index]
        in_options = what.startswith("option")
        buffer = model.main.tensors[(operator.inputs or ())[-1]].buffer
        data = bytearray((operator.custom_options if in_options else model.buffers[buffer].data) or b"")
        before = bytes(data)
        at = _CHANGES[what](data, randomness)
        mutant = _with(model, index, buffer, bytes(data), in_options)
        if sealed:
            mutant = seal(mutant, index)
        if bytes(data) == before or mutant == model:
            continue
        drawn += 1
        yield Mutant(mutant, what, f"operator {index}, byte {at}")


def seal(model: Model, index: int) -> Model:
    """The model with the checksum of one block made to fit, where that can be found."""
    operator = model.main.operators[index]
    constants = model.buffers[model.main.tensors[(operator.inputs or ())[-1]].buffer].data or b""
    operators = list(model.main.operators)
    with suppress(BlockError):
        operators[index] = replace(operator, custom_options=sealed_options(operator.custom_options or b"", constants))
    return replace_operators(model, operators)


def _with(model: Model, index: int, buffer: int, data: bytes, in_options: bool) -> Model:
    if not in_options:
        buffers = list(model.buffers)
        buffers[buffer] = replace(buffers[buffer], data=data)
        return replace(model, buffers=tuple(buffers))
    operators = list(model.main.operators)
    operators[index] = replace(operators[index], custom_options=data)
    return replace_operators(model, operators)


def _byte(data: bytearray, randomness: random.Random) -> int:
    at = randomness.randrange(len(data))
    data[at] = randomness.randrange(256)
    return at


def _bit(data: bytearray, randomness: random.Random) -> int:
    at = randomness.randrange(len(data))
    data[at] ^= 1 << randomness.randrange(8)
    return at


def _step(data: bytearray, randomness: random.Random) -> int:
    at = randomness.randrange(len(data))
    data[at] = (data[at] + randomness.choice((1, 255))) % 256
    return at


def _number(data: bytearray, randomness: random.Random) -> int:
    """A number becomes one near it, a usual one, another of the same block, or any."""
    at = 4 * randomness.randrange(len(data) // 4)
    old, other = (struct.unpack_from("<i", data, place)[0] for place in (at, 4 * randomness.randrange(len(data) // 4)))
    near = (old + 1, old - 1, old + 4, old + 16, 2 * old)
    new = randomness.choice((*near, 0, 1, -1, 2, 7, other, randomness.randrange(-(2**31), 2**31)))
    struct.pack_into("<i", data, at, (new + 2**31) % 2**32 - 2**31)
    return at


def _near_number(data: bytearray, randomness: random.Random) -> int:
    at = 4 * randomness.randrange(len(data) // 4)
    new = struct.unpack_from("<i", data, at)[0] + randomness.choice((1, -1))
    struct.pack_into("<i", data, at, (new + 2**31) % 2**32 - 2**31)
    return at


_CHANGES: dict[str, Callable[[bytearray, random.Random], int]] = {
    "option byte": _byte,
    "option number": _number,
    "option number by one": _near_number,
    "constant byte": _byte,
    "constant bit": _bit,
    "constant byte by one": _step,
    "constant number": _number,
}


def outcome(original: Model, whole: Certificate, mutant: Mutant) -> str:
    """``caught``: not proven, or refused by the reader. ``told``: proven, but the certificate is another one.

    A block may run in tiles or runs of another size and compute the same: such a mutant is another sound schedule of
    the same rings, no wrong model; and options of version 1 are read as those of version 2. The certificate names
    version, tiles and runs, by which whoever chose others finds out.
    """
    try:
        found = validate(original, mutant.model)
    except TfliteFuseError:
        return "caught"
    if not found.proven:
        return "caught"
    return "missed" if runs(found) == runs(whole) else "told"


def runs(certificate: Certificate) -> list[tuple[int, ...]]:
    """How the blocks run, and in which version they were written."""
    return [(b.version, b.tile_height, b.tile_width, b.chunk, b.longest_runs, b.ahead) for b in certificate.blocks]


def renamed(model: Model, **changes: object) -> Model:
    """A model with fields of its first subgraph changed."""
    return replace_main(model, replace(model.main, **changes))  # type: ignore[arg-type]
