"""Operators that no block holds: the coordinator runs each in TFLM as a model of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tflite_fuse.errors import PlanError
from tflite_fuse.ir.block import Int8Array
from tflite_fuse.ir.program import program_of
from tflite_fuse.memory.tflm.offline_plan import remove_plan
from tflite_fuse.model.edit import prune, replace_main
from tflite_fuse.model.file import serialize_model
from tflite_fuse.model.schema import Model
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.inputs import input_specs
from tflite_fuse.split.cut.network import Network


class WholeOperators:
    """Models of one operator each, by its number in the prepared model."""

    def __init__(self, models: Mapping[int, Model]) -> None:
        self.models = models

    def sizes(self, number: int) -> tuple[list[int], list[int]]:
        """Return the bytes of each input and of each output. Raises PlanError if there is no such operator."""
        model = self._model(number)
        sizes = program_of(model).sizes
        ends = (model.main.inputs or (), model.main.outputs or ())
        return [sizes[tensor] for tensor in ends[0]], [sizes[tensor] for tensor in ends[1]]

    def run(self, number: int, inputs: Sequence[Int8Array]) -> list[Int8Array]:
        """Return the outputs' bytes, flat, from the inputs' bytes.

        Raises:
            ModelError: TFLM does not run the operator.
            PlanError: there is no such operator.
            RuntimeUnavailableError: TFLM is not installed.
        """
        model = self._model(number)
        typed = [
            np.frombuffer(array.tobytes(), spec.dtype).reshape(spec.shape)
            for array, spec in zip(inputs, input_specs(model), strict=True)
        ]
        outputs = tflm.run(serialize_model(model), [typed]).outputs[0]
        return [np.frombuffer(np.ascontiguousarray(array).tobytes(), np.int8) for array in outputs]

    def _model(self, number: int) -> Model:
        if number not in self.models:
            raise PlanError(f"the plan runs operator {number} at the coordinator, which does not have it")
        return self.models[number]


def operators_of(network: Network) -> WholeOperators:
    """Return the operators of a network that no block holds."""
    models = {node.operator: _alone(network, index) for index, node in enumerate(network.nodes) if node.stage is None}
    return WholeOperators(models)


def _alone(network: Network, index: int) -> Model:
    """Return a model of one operator."""
    model, node = remove_plan(network.prepared), network.nodes[index]
    graph = replace(
        model.main,
        operators=(model.main.operators[node.operator],),
        inputs=tuple(network.tensors[value] for value in node.inputs),
        outputs=tuple(network.tensors[value] for value in node.outputs),
    )
    return prune(replace_main(replace(model, signature_defs=None), graph))
