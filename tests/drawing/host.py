"""A block run once by the C library compiled for this machine."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy.typing as npt

from tflite_fuse.ir.block import Int8Array
from tflite_fuse.runtime.library.host import HostLibrary, host_library, load_library
from tflite_fuse.runtime.streams import PixelSource


@functools.cache
def _library() -> HostLibrary:
    return load_library(host_library())


def run_block(
    options: bytes,
    constants: bytes,
    inputs: Sequence[npt.ArrayLike] = (),
    externals: Sequence[npt.ArrayLike] = (),
    sources: Sequence[PixelSource] = (),
) -> list[Int8Array]:
    """Each output, flat. The arguments are those of ``HostLibrary.run``."""
    return _library().run(options, constants, inputs, externals, sources)
