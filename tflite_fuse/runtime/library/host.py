"""Runs fused blocks in the C library compiled for this machine: the second witness.

    outputs = load_library(host_library()).run(encoded.options, encoded.constants, [image])

Every operand has memory of its exact size from the C allocator, so a build with sanitizers reports each access outside
of it. Scratch and outputs are filled with junk before each run.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tflite_fuse.emit.options import read_options
from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import Int8Array, StageKind
from tflite_fuse.runtime.library.compiler import build_library
from tflite_fuse.runtime.library.sources import library_directory, library_sources
from tflite_fuse.runtime.processes.child import Read
from tflite_fuse.runtime.streams import PixelSource, pixel_bytes

_INPUT, _OUTPUT, _EXTERNAL, _SOURCE = 1, 2, 3, 4
_JUNK = 0xA5
_DTYPES: dict[int, np.dtype[Any]] = {1: np.dtype(np.int8), 2: np.dtype(np.uint8), 3: np.dtype(np.float32)}
"""numpy type by ``tflite_fuse_type``, which is one more than an ``ElementType``."""
_REAL = 3


class _Block(ctypes.Structure):
    """``tflite_fuse_block``."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("header", "tensors", "stages", "stage_inputs", "constants", "rows")),
        ("reserved_words", ctypes.c_uint16),
        ("tensor_count", ctypes.c_uint8),
        ("stage_count", ctypes.c_uint8),
    )


class _Source(ctypes.Structure):
    """``tflite_fuse_source``."""

    _fields_ = (
        ("read", Read),
        ("user", ctypes.c_void_p),
        *((name, ctypes.c_int32) for name in ("height", "width", "channels", "type")),
    )


class _Io(ctypes.Structure):
    """``tflite_fuse_io``."""

    _fields_ = tuple(
        (name, ctypes.c_void_p) for name in ("inputs", "outputs", "externals", "sources", "scratch", "state")
    )


@dataclass(frozen=True)
class HostLibrary:
    """The compiled C library, as ``load_library`` returns it."""

    functions: Any

    def message(self, status: int) -> str:
        """Return the meaning of a status, one clause."""
        return str(self.functions.tflite_fuse_message(status).decode())

    def prepare(self, options: bytes, constants: bytes) -> int:
        """Return the status of ``tflite_fuse_prepare``: 0 if the block is sound."""
        with _Memory() as memory:
            return self._prepare(_Block(), memory, options, constants)

    def _prepare(self, block: _Block, memory: _Memory, options: bytes, constants: bytes) -> int:
        where = memory.copy(options), len(options), memory.copy(constants), len(constants)
        return int(self.functions.tflite_fuse_prepare(ctypes.byref(block), *where))

    def run(
        self,
        options: bytes,
        constants: bytes,
        inputs: Sequence[npt.ArrayLike] = (),
        externals: Sequence[npt.ArrayLike] = (),
        sources: Sequence[PixelSource] = (),
        overlap: int | None = None,
        scratch_below: int | None = None,
    ) -> list[Int8Array]:
        """Run a block once and return each output, flat.

        Args:
            options, constants: as encoded.
            inputs: values of each input of the block, int8, uint8 or float32, any shape.
            externals: of each EXTERNAL tensor.
            sources: one function for each SOURCE stage.
            overlap: bytes that the first output lies below the first input; the two may overlap.
            scratch_below: the same for the scratch memory; at most one of the two is given.

        Raises:
            BlockError: the library refuses the block, or operands do not fit it.
        """
        block = _Block()
        with _Memory() as memory:
            self._check(self._prepare(block, memory, options, constants))
            arrays = {_INPUT: inputs, _EXTERNAL: externals}
            self._require_fit(block, arrays, len(sources))
            operands = {kind: [memory.copy(_bytes(a)) for a in arrays[kind]] for kind in arrays}
            sizes = self._sizes(block, _OUTPUT)
            outputs = [memory.junk(size) for size in sizes]
            if overlap is not None:
                outputs[0], operands[_INPUT][0] = memory.overlaid(sizes[0], _bytes(inputs[0]), overlap)
            scratch_bytes = int(self.functions.tflite_fuse_scratch_bytes(ctypes.byref(block)))
            scratch = memory.junk(scratch_bytes)
            if scratch_below is not None:
                scratch, operands[_INPUT][0] = memory.overlaid(scratch_bytes, _bytes(inputs[0]), scratch_below)
            readers = _Readers(sources, options)
            io = _Io(
                memory.pointers(operands[_INPUT]),
                memory.pointers(outputs),
                memory.pointers(operands[_EXTERNAL]),
                readers.address,
                scratch,
                memory.copy(bytes(self.functions.tflite_fuse_state_bytes(ctypes.byref(block)))),
            )
            status = self.functions.tflite_fuse_invoke(ctypes.byref(block), ctypes.byref(io))
            if readers.error is not None:
                raise readers.error
            self._check(status)
            types = [self._type(block, _OUTPUT, number) for number in range(len(sizes))]
            return [
                np.frombuffer(ctypes.string_at(at, size), np.float32 if kind == _REAL else np.int8)
                for at, size, kind in zip(outputs, sizes, types, strict=True)
            ]

    def _require_fit(self, block: _Block, arrays: Mapping[int, Sequence[npt.ArrayLike]], sources: int) -> None:
        """Raise BlockError for arrays of other numbers, types or sizes than the operands of a block."""
        for kind, number in (*((kind, len(arrays[kind])) for kind in arrays), (_SOURCE, sources)):
            sizes = self._sizes(block, kind)
            if number != len(sizes):
                raise BlockError(f"The block reads {len(sizes)} operands of kind {kind}, {number} were given.")
            types = [_DTYPES.get(self._type(block, kind, n)) for n in range(number)]
            # None: another block's number; all blocks of a model share the numbers.
            dtypes = [np.asarray(array).dtype for array in arrays.get(kind, ())]
            if any(expected not in (None, got) for expected, got in zip(types, dtypes, strict=False)):
                raise BlockError(f"The block takes arrays of {types} as operands of kind {kind}.")
            if kind in arrays and [len(_bytes(a)) for a in arrays[kind]] != sizes:
                raise BlockError(f"The block's operands of kind {kind} have {sizes} bytes.")

    def _check(self, status: int) -> None:
        if status != 0:
            raise BlockError(f"The C library refuses the fused block: {self.message(status)}.")

    def _type(self, block: _Block, kind: int, number: int) -> int:
        return int(self.functions.tflite_fuse_operand_type(ctypes.byref(block), kind, number))

    def _sizes(self, block: _Block, kind: int) -> list[int]:
        count = self.functions.tflite_fuse_operand_count(ctypes.byref(block), kind)
        return [self.functions.tflite_fuse_operand_bytes(ctypes.byref(block), kind, n) for n in range(count)]


class _Memory:
    """Allocations of exact size, freed together."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None)
        self._libc.malloc.restype = ctypes.c_void_p
        self._libc.malloc.argtypes = [ctypes.c_size_t]
        self._libc.free.argtypes = [ctypes.c_void_p]
        self._allocations: list[int] = []

    def __enter__(self) -> _Memory:
        return self

    def __exit__(self, *_: object) -> None:
        for allocation in self._allocations:
            self._libc.free(allocation)

    def junk(self, size: int) -> int:
        allocation = int(self._libc.malloc(size))
        self._allocations.append(allocation)
        ctypes.memset(allocation, _JUNK, size)
        return allocation

    def copy(self, data: bytes) -> int:
        allocation = self.junk(len(data))
        ctypes.memmove(allocation, data, len(data))
        return allocation

    def overlaid(self, size: int, data: bytes, distance: int) -> tuple[int, int]:
        """Return the address of ``size`` bytes, and of a copy of ``data`` that begins ``distance`` bytes behind it."""
        low, high = max(0, -distance), max(0, distance)
        start = self.junk(max(low + size, high + len(data)))
        ctypes.memmove(start + high, data, len(data))
        return start + low, start + high

    def pointers(self, addresses: Sequence[int]) -> int:
        return self.copy(bytes((ctypes.c_void_p * len(addresses))(*addresses)))


class _Readers:
    """Sources as C functions. An exception in a source ends the run and is kept in ``error``."""

    def __init__(self, sources: Sequence[PixelSource], options: bytes) -> None:
        self.error: Exception | None = None
        structs = read_options(options)
        tensors = [structs.tensors[stage.output] for stage in structs.stages if stage.kind == StageKind.SOURCE]
        images = {desc.operand: (desc.height, desc.width, desc.channels, desc.element_type + 1) for desc in tensors}
        shapes = [images.get(number, (0, 0, 0, 1)) for number in range(len(sources))]
        readers = [self._reader(source, *shape[2:]) for source, shape in zip(sources, shapes, strict=True)]
        self._functions = [Read(reader) for reader in readers]
        described = (_Source(f, None, *shape) for f, shape in zip(self._functions, shapes, strict=True))
        self._table = (_Source * len(sources))(*described)

    @property
    def address(self) -> int:
        return ctypes.addressof(self._table)

    def _reader(self, source: PixelSource, channels: int, kind: int) -> Callable[[Any, int, int, int, int, int], int]:
        def read(_: Any, y: int, x: int, count: int, destination: int, capacity: int) -> int:
            try:
                pixels = pixel_bytes(source, y, x, count, channels, _DTYPES[kind])
                ctypes.memmove(destination, pixels, min(len(pixels), capacity))
            except Exception as error:
                self.error = error
                return 1
            return 0

        return read


def _bytes(array: npt.ArrayLike) -> bytes:
    values = np.asarray(array)
    if values.dtype not in _DTYPES.values():
        raise BlockError(f"The block takes int8, uint8 or float32 arrays, not {values.dtype}.")
    return values.tobytes()


@functools.cache
def load_library(path: Path) -> HostLibrary:
    """Return the library at ``path``, built by ``host_library``."""
    functions = ctypes.CDLL(str(path))
    functions.tflite_fuse_message.restype = ctypes.c_char_p
    functions.tflite_fuse_prepare.argtypes = [
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_void_p,
        ctypes.c_size_t,
    ]
    functions.tflite_fuse_operand_count.argtypes = [ctypes.c_void_p, ctypes.c_int]
    for function in (functions.tflite_fuse_operand_bytes, functions.tflite_fuse_operand_type):
        function.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int32]
    return HostLibrary(functions)


def host_library(*, sanitize: bool = False, flags: Sequence[str] = ()) -> Path:
    """Return the path of the compiled library, from the cache if it is there.

    Args:
        sanitize: with AddressSanitizer and UndefinedBehaviorSanitizer; only for processes started with
            ``compiler.sanitizer_environment``.
        flags: more compiler flags.

    Raises:
        RuntimeUnavailableError: no C compiler, or no C sources.
    """
    return build_library("tflite_fuse_host", library_sources(), [library_directory()], sanitize=sanitize, flags=flags)
