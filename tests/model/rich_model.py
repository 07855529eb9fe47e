"""A model that uses every part of the file format, valid by its indices and meaningless by its content."""

from __future__ import annotations

from tflite_fuse.model import schema as s
from tflite_fuse.model.options import make_options


def rich_model() -> s.Model:
    sparsity = s.Sparsity(
        traversal_order=(0, 1),
        block_map=(),
        dim_metadata=(
            s.DimensionMetadata(format=0, dense_size=4),
            s.DimensionMetadata(1, 0, s.Uint8Vector(b"\x00\x02"), s.Uint16Vector((1, 3))),
            s.DimensionMetadata(1, 0, s.Int32Vector((0, 2)), None),
        ),
    )
    per_channel = s.Quantization((-1.0, -2.0), (1.0, 2.0), (0.5, 0.25), (0, 0), None, 3)
    tensors = (
        s.Tensor(
            (1, 4, 4, 2), 9, 0, "in", s.Quantization(scale=(0.125,), zero_point=(-3,)), shape_signature=(-1, 4, 4, 2)
        ),
        s.Tensor((2, 1, 1, 2), 9, 1, "weights", per_channel, sparsity=sparsity),
        s.Tensor((2, 1, 1, 2), 9, 1, "the same data"),
        s.Tensor((1, 4, 4, 2), 9, 0, "out", s.Quantization(details=s.CustomQuantization(b"abc"))),
        s.Tensor((), 2, 2, "scalar", has_rank=True),
        s.Tensor(None, 13, 0, None),
        s.Tensor((1, 8), 7, 0, "state", s.Quantization(details=s.BlockwiseQuantization(1, 2, 32)), is_variable=True),
        s.Tensor((1,), 14, 0, "variant", variant_tensors=(s.VariantSubType((1, 2), 9, True),)),
        s.Tensor((1, 4), 9, 0, "custom out", s.Quantization(details=s.MultiAxisQuantization(1, 2, 3, (0, 1)))),
    )
    operators = (
        s.Operator(0, (0, 1, -1), (3,), make_options("Conv2DOptions", padding=1, stride_w=1, stride_h=1)),
        s.Operator(1, (3,), (8,), custom_options=b"\x01\x02\x03", mutating_variable_inputs=(False,), intermediates=()),
        s.Operator(2, (), (5,), make_options("VarHandleOptions")),
        s.Operator(3, (8,), (7,), builtin_options_2=s.OptionsTable(10, ((3, b"\x05"),), ((0, 8, bytes(range(16))),))),
        s.Operator(4, (8,), (), make_options("ReshapeOptions", new_shape=(1, 2, 2)), debug_metadata_index=3),
    )
    codes = (
        s.OperatorCode(3, None, 2, 3),
        s.OperatorCode(32, "my_op", 1, 32),
        s.OperatorCode(127, None, 1, 142),
        s.OperatorCode(127, None, 1, 4000),
        s.OperatorCode(22, None, 1, 0),
    )
    main = s.SubGraph(tensors, (0,), (3, 8), operators, "main")
    second = s.SubGraph((s.Tensor((1,), 0, 0, "a"),), (0,), (0,), (), "bød\udcff", 7)
    return s.Model(
        version=3,
        operator_codes=codes,
        subgraphs=(main, second),
        description="every part",
        buffers=(s.Buffer(), s.Buffer(b"\x01\x02\x03\x04"), s.Buffer(b"\x07\0\0\0"), s.Buffer(b"meta"), s.Buffer(b"")),
        metadata_buffer=(3,),
        metadata=(s.Metadata("note", 3), s.Metadata("empty", 4)),
        signature_defs=(s.SignatureDef((s.TensorMap("x", 0),), (s.TensorMap("y", 3),), "serving", "old", 0),),
        external_buffer_groups=(s.ExternalBufferGroup("weights.bin"),),
        external_buffers=(s.ExternalBuffer(1, 0, 16, 4, "raw"),),
        trailing=b"PK\x03\x04 associated files",
    )
