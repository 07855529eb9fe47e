"""Reads arrays from an untrusted .npz or .npy file or pipe, without allocating more memory than it has bytes."""

from __future__ import annotations

import io
import zipfile
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from tflite_fuse.errors import UsageError

Array = npt.NDArray[Any]

_LARGEST_ARCHIVE = 1 << 30


def read_arrays(path: str | Path) -> dict[str, Array]:
    """Return the arrays by name; an .npy file's array is ``arr_0``.

    Raises:
        UsageError: the file cannot be read, or holds more than 1 GiB.
    """
    try:
        with Path(path).open("rb") as file:
            stream = file if file.seekable() else io.BytesIO(file.read(_LARGEST_ARCHIVE + 1))  # a pipe is read once
            size = stream.seek(0, io.SEEK_END)
            stream.seek(0)
            is_one = stream.read(len(npy.MAGIC_PREFIX)) == npy.MAGIC_PREFIX
            if size > _LARGEST_ARCHIVE and (is_one or stream is not file):
                raise _too_many(path)
            stream.seek(0)
            return {"arr_0": _read_npy(stream, "it", size)} if is_one else _archived(path, stream)
    except UsageError:
        raise
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror or error})") from error
    except Exception as error:  # damaged bytes can raise any exception in zipfile and numpy
        why = str(error) or type(error).__name__
        hint = "numpy.savez writes such a file, also of a single array"
        raise UsageError(f"{path} cannot be read as an .npz file ({why}); {hint}") from error


def _too_many(path: str | Path) -> UsageError:
    return UsageError(f"{path} holds more than {_LARGEST_ARCHIVE:,} bytes, too many to be run here")


def _archived(path: str | Path, stream: IO[bytes]) -> dict[str, Array]:
    """Return the arrays of an .npz file."""
    with zipfile.ZipFile(stream) as archive:
        entries = archive.infolist()
        if sum(entry.file_size for entry in entries) > _LARGEST_ARCHIVE:
            raise _too_many(path)
        arrays = {}
        for entry in entries:
            with archive.open(entry) as file:
                arrays[entry.filename.removesuffix(".npy")] = _read_npy(file, entry.filename, entry.file_size)
        return arrays


def _read_npy(stream: IO[bytes], name: str, size: int) -> Array:
    """Return one array, whose shape must fit so many bytes, so no header can allocate all memory."""
    version = npy.read_magic(stream)
    header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, _, dtype = header(stream)
    if dtype.hasobject or prod(shape) * dtype.itemsize > size:
        raise ValueError(f"{name} holds objects, or less than its shape says")
    stream.seek(0)
    return np.asarray(npy.read_array(stream, allow_pickle=False))
