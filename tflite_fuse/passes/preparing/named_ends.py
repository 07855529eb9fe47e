"""Signatures that name the inputs and outputs of a model in place of inner tensors.

    input ── QUANTIZE ── x     a signature names x     =     it names the input

TensorFlow's converter with uint8 or int8 inputs and outputs adds a QUANTIZE at each end, and versions of 2020 to
2022 leave the signature at the tensor inside. No block could hold such a tensor, often the largest one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tflite_fuse.model.edit import renumber_signatures
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.schema import Model
from tflite_fuse.notes import note
from tflite_fuse.passes.base import PassResult


@dataclass(frozen=True)
class NamedEnds:
    """Make signatures of the first subgraph name the inputs and outputs that a QUANTIZE or DEQUANTIZE is at."""

    name: ClassVar[str] = "named-ends"

    def run(self, model: Model) -> PassResult:
        """Rewrite the signatures of a model."""
        graph = model.main
        converting = [op for op in graph.operators if operator_name(model, op) in ("DEQUANTIZE", "QUANTIZE")]
        pairs = [(op.inputs[0], op.outputs[0]) for op in converting if op.inputs and op.outputs]
        first = {inner: end for end, inner in pairs if end in graph.inputs and inner not in graph.inputs}
        last = {inner: end for inner, end in pairs if end in graph.outputs and inner not in graph.outputs}
        named = renumber_signatures(model, first, last)
        if named.signature_defs == model.signature_defs:
            return PassResult(model, False)
        return PassResult(named, True, (note("changed", "signatures"),))
