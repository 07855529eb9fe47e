"""Description of a fused block for viewers of models: a FlexBuffer map behind the structs of its options.

Viewers such as Netron read the options of a custom operator as a FlexBuffer, whose root is at the end of the bytes;
readers of blocks begin at the start. Neither reads the other's part. The map has no effect on execution; the proof
regenerates it from the structs and compares. Example::

    {"stages": ["CONV 3x3/2 48x48x8", ...], "ring bytes": [1152, ...], "scratch bytes": 9312, "tile": "1x48"}

A stage is described by its kind, window and stride if any, and its output; a ring by its bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from tflite_fuse.ir.enums import ElementType, StageKind, Storage
from tflite_fuse.ir.structs import BlockHeader, StageDesc, TensorDesc

_UINT, _STRING, _VECTOR_INT, _MAP, _VECTOR, _VECTOR_KEY = 2, 5, 11, 9, 10, 14
"""FlexBuffer types."""


def description(header: BlockHeader, tensors: Sequence[TensorDesc], stages: Sequence[StageDesc]) -> bytes:
    """Return the FlexBuffer of a block, the same bytes for the same structs.

    Raises:
        LookupError, ValueError, OverflowError: a stage has a kind or an output that does not exist, or a number is
            negative or beyond 32 bits.
    """
    outputs = [tensors[_index(stage.output)] for stage in stages]
    words = [
        f"{StageKind(stage.kind).name}{_window(stage)} {output.height}x{output.width}x{output.channels}"
        for stage, output in zip(stages, outputs, strict=True)
    ]
    rings = [_ring_bytes(output) for output in outputs]
    tile = f"{header.tile_height}x{header.tile_width}"
    try:
        return _Writer(2).map(words, rings, header.scratch_bytes, tile)
    except struct.error:  # a number or an offset that needs more than 16 bits
        pass
    try:
        return _Writer(4).map(words, rings, header.scratch_bytes, tile)
    except struct.error as error:
        raise OverflowError("a number of the block has more than 32 bits") from error


def _index(number: int) -> int:
    if number < 0:
        raise LookupError(number)
    return number


def _window(stage: StageDesc) -> str:
    if max(stage.kernel_height, stage.kernel_width) <= 1:
        return ""
    stride = f"/{stage.stride_height}" if stage.stride_height > 1 else ""
    return f" {stage.kernel_height}x{stage.kernel_width}{stride}"


def _ring_bytes(tensor: TensorDesc) -> int:
    """Return the bytes of a tensor's ring in the block; 0 if it is stored whole outside."""
    if tensor.storage not in (Storage.SCRATCH, Storage.PERSISTENT):
        return 0
    return tensor.capacity * tensor.channels * (4 if tensor.element_type == ElementType.FLOAT32 else 1)


class _Writer:
    """Writer of a FlexBuffer in which all lengths, offsets and numbers have the same width of 2 or 4 bytes."""

    def __init__(self, width: int) -> None:
        self._width, self._layout = width, {2: "<H", 4: "<I"}[width]
        self._data = bytearray()

    def map(self, stages: Sequence[str], rings: Sequence[int], scratch: int, tile: str) -> bytes:
        """Return the bytes. Raises struct.error if a number does not fit the width."""
        keys = [self._key(name) for name in ("ring bytes", "scratch bytes", "stages", "tile")]  # sorted, as maps are
        once = {text: self._string(text) for text in dict.fromkeys(stages)}
        texts = [once[text] for text in stages]
        kept = self._vector([*rings])
        listed = self._vector([], texts)
        self._data += bytes([self._packed(_STRING)] * len(texts))
        written = self._string(tile)
        self._number(len(keys))
        names = self._offsets(keys)
        self._pad()
        self._offset(names)
        self._number(self._width)
        self._number(len(keys))
        start = len(self._data)
        self._offset(kept)
        self._number(scratch)
        self._offset(listed)
        self._offset(written)
        self._data += bytes(map(self._packed, (_VECTOR_INT, _UINT, _VECTOR, _STRING)))
        self._pad()
        self._offset(start)
        self._data += bytes([self._packed(_MAP), self._width])
        return bytes(self._data)

    def _packed(self, kind: int) -> int:
        return kind << 2 | (self._width // 2)

    def _key(self, text: str) -> int:
        start = len(self._data)
        self._data += text.encode() + b"\0"
        return start

    def _string(self, text: str) -> int:
        self._pad()
        self._number(len(text.encode()))
        return self._key(text)

    def _vector(self, numbers: Sequence[int], places: Sequence[int] = ()) -> int:
        self._pad()
        self._number(len(numbers) + len(places))
        start = len(self._data)
        for number in numbers:
            self._number(number)
        return self._offsets(places) if places else start

    def _offsets(self, places: Sequence[int]) -> int:
        start = len(self._data)
        for place in places:
            self._offset(place)
        return start

    def _offset(self, place: int) -> None:
        self._number(len(self._data) - place)

    def _number(self, number: int) -> None:
        self._data += struct.pack(self._layout, number)

    def _pad(self) -> None:
        self._data += bytes(-len(self._data) % self._width)
