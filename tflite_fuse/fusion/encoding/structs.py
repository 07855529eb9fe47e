"""The options of a fused block as Python sees them: the structs of ``schemas/fused_block.fbs``, field by field.

The schema says what each field means; names and order here, there and in ``tflite_fuse_format.h`` of the C library are
the same.
"""

from __future__ import annotations

from typing import NamedTuple

VERSION = 1
IDENTIFIER = b"TFFB"
NONE = -1
"""Offsets and indices that point nowhere."""

ALIGNMENT = 16
"""Every section of the constants starts at a multiple of this many bytes."""


class Header(NamedTuple):
    """``BlockHeader``."""

    tile_height: int
    tile_width: int
    chunk: int
    driven: int
    spatial_stages: int
    scratch_bytes: int


class TensorDesc(NamedTuple):
    """``TensorDesc``."""

    height: int
    width: int
    channels: int
    zero_point: int
    storage: int
    operand: int
    producer: int
    capacity: int
    offset: int


class StageDesc(NamedTuple):
    """``StageDesc``."""

    kind: int
    output: int
    first_input: int
    input_count: int
    kernel_height: int
    kernel_width: int
    stride_height: int
    stride_width: int
    dilation_height: int
    dilation_width: int
    pad_top: int
    pad_left: int
    depth_multiplier: int
    activation_min: int
    activation_max: int
    weight_layout: int
    weights_offset: int
    table_offset: int
    pad_offset: int
    accumulator_offset: int


class Options(NamedTuple):
    """``FusedBlock`` without its version."""

    header: Header
    tensors: tuple[TensorDesc, ...]
    stages: tuple[StageDesc, ...]
    stage_inputs: tuple[int, ...]
