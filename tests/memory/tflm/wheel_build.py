"""Struct sizes of the 64-bit Linux build of the ``tflite-micro`` wheel, which measures what is predicted for it."""

from __future__ import annotations

from tflite_fuse.memory.tflm.struct_sizes import CUSTOM_OPERATORS, Build, Struct, operator_sizes

HOST = Build(
    pointer=8,
    allocator=(Struct(104, 8), Struct(72, 8), Struct(272, 8)),
    option_allocator=Struct(16, 8),
    subgraph=Struct(24, 8),
    tensor=Struct(24, 8),
    node=Struct(64, 8),
    edge_tensor=Struct(64, 8),
    quantization=Struct(24, 8),
    resources=(16, 40),
    scratch_request=16,
    allocation_info=32,
    operators=operator_sizes("options", "data_host", 8),
    custom=CUSTOM_OPERATORS,
)
