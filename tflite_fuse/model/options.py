"""Options tables of built-in operators: stored losslessly, read and made by field name.

Most tables contain only inline scalars, so their bytes can be copied without knowledge of their fields. Those with
references to vectors or strings are listed in ``_REFERENCES``. Numbers and field orders are facts of the TensorFlow
Lite schema.
"""

from __future__ import annotations

import struct

import flatbuffers

from tflite_fuse.errors import ModelError
from tflite_fuse.model.schema import Operator, OptionsTable
from tflite_fuse.model.wire import Kind, Reader

Value = int | float | bool | tuple[int, ...]

_LAST_KNOWN = {Kind.OPTIONS: 126, Kind.OPTIONS_2: 23}

_REFERENCES: dict[Kind, dict[int, dict[int, int]]] = {
    # {union member: {slot: bytes per element}}
    Kind.OPTIONS: {
        3: {1: 4, 2: 4},  # ConcatEmbeddings
        17: {0: 4},  # Reshape
        30: {0: 4},  # Squeeze
        111: {0: 1, 1: 1},  # VarHandle
        115: {0: 4},  # Bucketize
    },
    Kind.OPTIONS_2: {
        2: {0: 8},  # StablehloBroadcastInDim
        3: {0: 8, 1: 8, 2: 8},  # StablehloSlice
        4: {0: 8, 1: 8, 2: 8, 3: 8, 4: 1, 7: 8, 10: 8, 13: 8, 16: 4},  # StablehloConvolution
        5: {0: 1, 2: 1, 4: 4, 5: 1},  # StablehloCustomCall
        6: {0: 8},  # StablehloReduce
        7: {1: 8, 2: 8, 3: 8},  # StablehloScatter
        9: {0: 8},  # StablehloDynamicSlice
        10: {0: 8, 1: 8, 2: 8},  # StablehloPad
        12: {0: 8, 1: 8, 2: 8, 3: 8, 4: 4},  # StablehloDotGeneral
        13: {0: 8, 1: 8, 2: 8, 3: 8, 4: 8},  # StablehloReduceWindow
        16: {0: 8, 1: 8, 2: 8, 4: 8},  # StablehloGather
        17: {0: 8},  # StablehloTranspose
        21: {0: 1, 2: 1},  # StableHLOComposite
        23: {0: 4},  # StablehloCase
    },
}

_STRINGS = {(111, 0), (111, 1)}

_DECLARED = {
    # name: (union member, fields in slot order: ``name:format``, ``=default`` where that is not zero, * for a vector)
    "Conv2DOptions": (
        1,
        "padding:b stride_w:i stride_h:i fused_activation_function:b dilation_w_factor:i=1 "
        "dilation_h_factor:i=1 quantized_bias_type:b",
    ),
    "DepthwiseConv2DOptions": (
        2,
        "padding:b stride_w:i stride_h:i depth_multiplier:i fused_activation_function:b "
        "dilation_w_factor:i=1 dilation_h_factor:i=1",
    ),
    "Pool2DOptions": (5, "padding:b stride_w:i stride_h:i filter_width:i filter_height:i fused_activation_function:b"),
    "FullyConnectedOptions": (
        8,
        "fused_activation_function:b weights_format:b keep_num_dims:? asymmetric_quantize_inputs:? "
        "quantized_bias_type:b",
    ),
    "SoftmaxOptions": (9, "beta:f"),
    "ConcatenationOptions": (10, "axis:i fused_activation_function:b"),
    "AddOptions": (11, "fused_activation_function:b pot_scale_int16:?=1"),
    "ResizeBilinearOptions": (15, "new_height:i new_width:i align_corners:? half_pixel_centers:?"),
    "ReshapeOptions": (17, "new_shape:*"),
    "MulOptions": (21, "fused_activation_function:b"),
    "SpaceToDepthOptions": (19, "block_size:i"),
    "PadOptions": (22, ""),
    "GatherOptions": (23, "axis:i batch_dims:i"),
    "TransposeOptions": (26, ""),
    "ReducerOptions": (27, "keep_dims:?"),
    "SubOptions": (28, "fused_activation_function:b pot_scale_int16:?=1"),
    "DivOptions": (29, "fused_activation_function:b"),
    "SqueezeOptions": (30, "squeeze_dims:*"),
    "StridedSliceOptions": (32, "begin_mask:i end_mask:i ellipsis_mask:i new_axis_mask:i shrink_axis_mask:i offset:?"),
    "SplitOptions": (35, "num_splits:i"),
    "SliceOptions": (48, ""),
    "TransposeConvOptions": (49, "padding:b stride_w:i stride_h:i fused_activation_function:b quantized_bias_type:b"),
    "SplitVOptions": (79, "num_splits:i"),
    "MirrorPadOptions": (77, "mode:b"),
    "UnpackOptions": (64, "num:i axis:i"),
    "UnidirectionalSequenceLSTMOptions": (
        71,
        "fused_activation_function:b cell_clip:f proj_clip:f time_major:? asymmetric_quantize_inputs:? "
        "diagonal_recurrent_tensors:?",
    ),
    "ResizeNearestNeighborOptions": (74, "align_corners:? half_pixel_centers:?"),
    "CastOptions": (37, "in_data_type:b out_data_type:b"),
    "ShapeOptions": (55, "out_type:b"),
    "PackOptions": (59, "values_count:i axis:i"),
    "LeakyReluOptions": (75, "alpha:f"),
    "IfOptions": (92, "then_subgraph_index:i else_subgraph_index:i"),
    "WhileOptions": (93, "cond_subgraph_index:i body_subgraph_index:i"),
    "DepthToSpaceOptions": (94, "block_size:i"),
    "BatchMatMulOptions": (101, "adj_x:? adj_y:? asymmetric_quantize_inputs:?"),
    "CallOnceOptions": (103, "init_subgraph_index:i"),
    "VarHandleOptions": (111, "container:* shared_name:*"),
    "GeluOptions": (116, "approximate:?"),
}

_ZEROS: dict[str, Value] = {"b": 0, "i": 0, "f": 0.0, "?": False, "*": ()}


def _fields(declared: str) -> tuple[tuple[str, str, Value], ...]:
    """Return (field, struct format or *, default) of each field."""
    parsed = []
    for entry in declared.split():
        name, _, form = entry.partition(":")
        default = struct.unpack(form[0], struct.pack(form[0], int(form[2:])))[0] if form[2:] else _ZEROS[form]
        parsed.append((name, form[0], default))
    return tuple(parsed)


_FIELDS = {name: (member, _fields(declared)) for name, (member, declared) in _DECLARED.items()}
_BY_MEMBER = dict(_FIELDS.values())


CHANGED = {
    "AVERAGE_POOL_2D": "Pool2DOptions",
    "CONCATENATION": "ConcatenationOptions",
    "CONV_2D": "Conv2DOptions",
    "DEPTHWISE_CONV_2D": "DepthwiseConv2DOptions",
    "MAX_POOL_2D": "Pool2DOptions",
    "STRIDED_SLICE": "StridedSliceOptions",
}
"""Operators some of whose options passes change and keep the others, and the table of each."""


def has_foreign_options(name: str, operator: Operator) -> bool:
    """Return whether an operator whose options passes change has those of another kind of operator."""
    table = operator.builtin_options
    return name in CHANGED and table is not None and table.type != _FIELDS[CHANGED[name]][0]


def get_options(operator: Operator) -> dict[str, Value]:
    """Return the built-in options of an operator by schema name, defaults filled in.

    Empty if the operator has none or no pass reads options of their kind.
    """
    table = operator.builtin_options
    if table is None or table.type not in _BY_MEMBER:
        return {}
    inline, vectors = dict(table.fields), {s: data for s, _, data in table.vectors}
    values: dict[str, Value] = {}
    for number, (name, form, default) in enumerate(_BY_MEMBER[table.type]):
        if form == "*":
            data = vectors.get(number, b"")
            values[name] = struct.unpack(f"<{len(data) // 4}i", data) if len(data) % 4 == 0 else tuple(data)
        elif number in inline:
            size = struct.calcsize("<" + form)
            if len(inline[number]) < size:
                raise ModelError(f"option {name} of an operator is stored in {len(inline[number])} bytes, not {size}")
            raw = inline[number][:size]
            values[name] = raw != b"\0" if form == "?" else struct.unpack("<" + form, raw)[0]
        else:
            values[name] = default
    return values


def make_options(name: str, **values: Value) -> OptionsTable:
    """Return an options table by schema name: ``make_options("Conv2DOptions", padding=0, stride_w=1, stride_h=1)``."""
    member, declared = _FIELDS[name]
    unknown = values.keys() - {field for field, _, _ in declared}
    if unknown:
        raise KeyError(f"{name} has no option {sorted(unknown)[0]}")
    fields: list[tuple[int, bytes]] = []
    vectors: list[tuple[int, int, bytes]] = []
    for number, (field, form, default) in enumerate(declared):
        value = values.get(field, default)
        if form == "*":
            if isinstance(value, tuple) and field in values:
                vectors.append((number, 4, struct.pack(f"<{len(value)}i", *value)))
        elif value != default:
            fields.append((number, struct.pack("<" + form, value)))
    return OptionsTable(member, tuple(fields), tuple(vectors))


def read_options(reader: Reader, member: int, position: int, kind: Kind) -> OptionsTable:
    """Read an options table of any known kind (``wire.OptionsReader``)."""
    if member > _LAST_KNOWN[kind]:
        raise ModelError(
            f"an operator's options are of kind {member}, newer than this version knows, and would be lost"
        )
    present, end = reader.vtable(position)
    references = _REFERENCES[kind].get(member, {})
    starts = sorted({*present.values(), end})
    fields: list[tuple[int, bytes]] = []
    vectors: list[tuple[int, int, bytes]] = []
    for number, start in sorted(present.items()):
        if number in references:
            first, count = reader.span(reader.target(start), references[number])
            vectors.append((number, references[number], reader.data[first : first + count * references[number]]))
        else:
            size = _inline_size(start, min(s for s in starts if s > start))
            fields.append((number, reader.data[start : start + size]))
    return OptionsTable(member, tuple(fields), tuple(vectors))


def _inline_size(start: int, following: int) -> int:
    """Return the bytes of an inline scalar: a power of two, aligned, before the next field (with padding)."""
    size = 8
    while size > 1 and (size > following - start or start % size):
        size //= 2
    return size


def write_options(builder: flatbuffers.Builder, table: OptionsTable) -> int:
    """Write an options table (``wire.OptionsWriter``), large fields first, which avoids padding at the end."""
    offsets: dict[int, int] = {}
    for number, element_size, data in table.vectors:
        if (table.type, number) in _STRINGS:
            offsets[number] = int(
                builder.CreateString(data.decode("utf-8", "surrogateescape"), "utf-8", "surrogateescape")
            )
            continue
        builder.StartVector(element_size, len(data) // element_size, max(4, element_size))
        builder.head -= len(data)
        builder.Bytes[builder.head : builder.head + len(data)] = data
        offsets[number] = int(builder.EndVector())
    numbers = [number for number, _ in table.fields] + list(offsets)
    builder.StartObject(max(numbers, default=-1) + 1)
    for number, raw in sorted(table.fields, key=lambda item: (-len(item[1]), item[0])):
        _place_inline(builder, number, raw)
    for number, offset in offsets.items():
        builder.PrependUOffsetTRelativeSlot(number, offset, 0)
    return int(builder.EndObject())


def _place_inline(builder: flatbuffers.Builder, number: int, raw: bytes) -> None:
    builder.Prep(len(raw), 0)
    builder.head -= len(raw)
    builder.Bytes[builder.head : builder.head + len(raw)] = raw
    builder.Slot(number)
