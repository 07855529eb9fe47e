"""Signatures that name the inputs and outputs of a model in place of inner tensors.

    input ── QUANTIZE ── x     a signature names x     =     it names the input

TensorFlow's converter with uint8 or int8 inputs and outputs adds a QUANTIZE at each end, and versions of 2020 to
2022 leave the signature at the tensor inside. No block could hold such a tensor, often the largest one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.schema import Model, TensorMap
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
        signatures = tuple(
            replace(each, inputs=_moved(each.inputs, first), outputs=_moved(each.outputs, last))
            if each.subgraph_index == 0
            else each
            for each in model.signature_defs or ()
        )
        if signatures == (model.signature_defs or ()):
            return PassResult(model, False)
        return PassResult(replace(model, signature_defs=signatures), True, (note("changed", "signatures"),))


def _moved(entries: tuple[TensorMap, ...] | None, ends: dict[int, int]) -> tuple[TensorMap, ...] | None:
    return entries and tuple(replace(e, tensor_index=ends.get(e.tensor_index, e.tensor_index)) for e in entries)
