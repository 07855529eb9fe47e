"""Runs two models in TensorFlow Lite Micro and compares every output element."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from typing import Protocol

import numpy as np

from tflite_fuse.errors import ModelError, UsageError, VerificationError
from tflite_fuse.ir.program import FUSED_OPERATOR
from tflite_fuse.memory.budget import report_progress
from tflite_fuse.model import Model, load_model
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.outside import with_inputs_inside
from tflite_fuse.model.schema import Tensor
from tflite_fuse.model.types import (
    TensorType,
    affine_parameters,
    dequantize,
    is_other_sign,
    quantize,
    type_name,
    with_other_sign,
)
from tflite_fuse.ops.lowering.operands import tensor_name
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.comparing.comparison import Comparison, Seen, first_difference
from tflite_fuse.runtime.comparing.watched import Watched, exposed
from tflite_fuse.runtime.processes.worker import Array, Worker, inference_seconds
from tflite_fuse.runtime.streams import Feed, make_feed

# Foreign custom operators may keep a state, so a model with one also runs as a stream.
_STATEFUL = frozenset({"VAR_HANDLE", "CALL_ONCE", "SVDF", "UNIDIRECTIONAL_SEQUENCE_LSTM"})
_STATELESS_CUSTOM = frozenset({FUSED_OPERATOR, "CUSTOM:TFLite_Detection_PostProcess"})


class Runtime(Protocol):
    """A runtime that runs models: one of the modules beside this one."""

    RUNTIME_NAME: str

    def runtime_version(self) -> str | None:
        """Return the installed version."""

    def session(self, model_bytes: bytes, name: str) -> AbstractContextManager[Worker]:
        """Return a context with a worker that has loaded the model."""


def compare(
    a: bytes,
    b: bytes,
    inputs: Sequence[Sequence[Array]],
    *,
    names: tuple[str, str] = ("the first model", "the second model"),
    models: tuple[Model, Model] | None = None,
    runtime: Runtime = tflm,
    watch: Watched | None = None,
) -> Comparison:
    """Run two models on the same inputs, each in its own process, and compare all output bytes.

    A model whose inputs lie outside the arena reads them there: an external one from memory, a streamed one from a
    source that returns each pixel once. Every input starts from fresh state. Models with state (variable tensors,
    resources) run once more over the whole sequence without a reset in between, then over half of it after a reset.

    One model may have float32 inputs or outputs where the other has int8 of known scale and zero point: the int8 input
    is the QUANTIZE of the floats, the int8 output is compared after DEQUANTIZE.

    Args:
        a, b: two .tflite files with the same input and output shapes and types.
        inputs: one list per inference, with one array per input of the first model, inside the arena or not.
        names: of the two models in messages.
        models: the two as loaded, if available.
        runtime: the runtime.
        watch: if the second was made from the first, tensors at and in its blocks that are compared, too, in copies of
            both models that have them as outputs.

    Raises:
        ModelError: a model cannot be loaded or run, with the runtime's reason.
        VerificationError: the models' inputs or outputs differ in number, shape or type.
        UsageError: there are no inputs, or they do not fit.
        RuntimeUnavailableError: the runtime is not installed.
    """
    if not inputs:
        raise UsageError("at least 1 input is needed to compare models")
    models = (load_model(a), load_model(b)) if models is None else models
    check_signatures(models, names)
    if watch is not None and watch.first:
        copies = exposed(models[0], watch.first), b, exposed(watch.opened, watch.second)
        inside = [tensor_name(models[0], tensor) for tensor in watch.first]
        try:
            return _Comparing(models, copies, names, runtime, inside).run(inputs)
        except ModelError:  # a copy may need too much memory: then only outputs are compared
            pass
    return _Comparing(models, (a, b), names, runtime).run(inputs)


class _Comparing:
    """Two models, and optional copies with more outputs, each in a process of its own."""

    def __init__(
        self,
        models: tuple[Model, Model],
        files: Sequence[bytes],
        names: tuple[str, str],
        runtime: Runtime,
        inside: Sequence[str] = (),
    ) -> None:
        """Store the models and prepare the copies.

        Args:
            models: the two.
            files: theirs; or a copy of the first with more outputs, the second, and such a copy of it.
            names: of the two models in messages.
            runtime: the runtime.
            inside: names of the copies' additional outputs.
        """
        second = models[1]
        self._models, self._files, self._runtime = (*models, second)[: len(files)], files, runtime
        self._names = (*names, names[1])[: len(files)]
        self._patience = [inference_seconds(model) for model in self._models]
        self._ends = Ends(models)
        self._outputs = [tensor_name(models[0], index) for index in models[0].main.outputs]
        self._inside = list(inside)

    def run(self, inputs: Sequence[Sequence[Array]]) -> Comparison:
        """Run and compare as ``compare`` describes."""
        stateful = any(keeps_state(model) for model in self._models)
        steps = [(False, index, True) for index in range(len(inputs))]
        if stateful:  # once more as a stream, then half of it after a reset
            lengths = (len(inputs), -(-len(inputs) // 2))
            steps += [(True, index, index == 0) for length in lengths for index in range(length)]
        seen, difference, done = Seen(), None, 0
        with ExitStack() as stack, ThreadPoolExecutor(len(self._files)) as pool:
            workers = list(
                pool.map(lambda m, n: stack.enter_context(self._runtime.session(m, n)), self._files, self._names)
            )
            for done, (streamed, index, reset) in enumerate(steps, 1):
                results = self._results(pool, workers, inputs[index], reset)
                seen.note(results[0][: len(self._outputs)])
                outputs = len(self._outputs)
                difference = first_difference(results, self._outputs + self._inside, index, streamed, outputs)
                report_progress("inputs compared", done, len(steps))
                if difference is not None:
                    break
        return Comparison(
            difference is None,
            min(done, len(inputs)),
            difference,
            self._runtime.RUNTIME_NAME,
            self._runtime.runtime_version() or "unknown",
            varied=seen.varied,
            elements=seen.elements,
            inside=len(self._inside),
        )

    def _results(
        self, pool: ThreadPoolExecutor, workers: Sequence[Worker], arrays: Sequence[Array], reset: bool
    ) -> list[list[Array]]:
        """Return the outputs, then the copies' additional ones, of both models in equal types."""
        second = self._ends.inputs_of_second(arrays)
        inputs = (arrays, second, second)[: len(workers)]
        feeds = [make_feed(model, x, name) for model, x, name in zip(self._models, inputs, self._names, strict=True)]

        def infer(worker: Worker, feed: Feed, seconds: float) -> list[Array]:
            return worker.infer(feed.inputs, feed.outside, reset=reset, timeout=seconds)

        results = list(pool.map(infer, workers, feeds, self._patience))
        outputs = len(self._outputs)
        ends = self._ends.comparable([each[:outputs] for each in results[:2]])
        return [
            ends[0] + [x.ravel() for x in results[0][outputs:]],
            ends[1] + [x.ravel() for x in results[-1][outputs:]],
        ]


def keeps_state(model: Model) -> bool:
    """Return whether a model's results may depend on earlier inferences."""
    if any(tensor.is_variable for graph in model.subgraphs for tensor in graph.tensors):
        return True
    kinds = {operator_name(model, operator) for graph in model.subgraphs for operator in graph.operators}
    custom = {kind for kind in kinds if kind.startswith("CUSTOM:")} - _STATELESS_CUSTOM
    return bool(kinds & _STATEFUL or custom)


# ---- Inputs and outputs that are float32 or uint8 in one model and int8 in the other ----


def check_signatures(models: tuple[Model, Model], names: tuple[str, str]) -> None:
    """Check that the inputs and outputs of two models can be compared.

    Raises:
        VerificationError: they differ in number, shape or type.
    """
    whole = [with_inputs_inside(model).main for model in models]
    for what, indices_a, indices_b in (
        ("inputs", whole[0].inputs, whole[1].inputs),
        ("outputs", whole[0].outputs, whole[1].outputs),
    ):
        of_a = [whole[0].tensors[index] for index in indices_a]
        of_b = [whole[1].tensors[index] for index in indices_b]
        if len(of_a) != len(of_b):
            raise VerificationError(f"{names[0]} has {len(of_a)} {what} but {names[1]} has {len(of_b)}")
        for index, (tensor_a, tensor_b) in enumerate(zip(of_a, of_b, strict=True)):
            if not _same_meaning(tensor_a, tensor_b):
                raise VerificationError(
                    f"{what[:-1]} {index} is {_signature(tensor_a)} in {names[0]} "
                    f"but {_signature(tensor_b)} in {names[1]}"
                )


def _signature(tensor: Tensor) -> str:
    return f"{tensor.name} ({type_name(tensor.type)} {list(tensor.dims)})"


class Ends:
    """Conversion of inputs and outputs where one model has float32 or uint8 and the other int8."""

    def __init__(self, models: tuple[Model, Model]) -> None:
        graphs = [with_inputs_inside(model).main for model in models]
        self._inputs = [[graph.tensors[index] for index in graph.inputs] for graph in graphs]
        self._outputs = [[graph.tensors[index] for index in graph.outputs] for graph in graphs]

    def inputs_of_second(self, arrays: Sequence[Array]) -> Sequence[Array]:
        """Return the second model's inputs, given the first one's."""
        if len(arrays) != len(self._inputs[0]):
            return arrays  # make_feed reports the error
        return [_as_other(*each) for each in zip(arrays, *self._inputs, strict=True)]

    def comparable(self, outputs: list[list[Array]]) -> list[list[Array]]:
        """Return both models' outputs in equal types."""
        return [
            [
                _as_other(array, here, there) if there.type in (TensorType.FLOAT32, TensorType.UINT8) else array
                for array, here, there in zip(outputs[a], self._outputs[a], self._outputs[b], strict=True)
            ]
            for a, b in ((0, 1), (1, 0))
        ]


def _as_other(array: Array, here: Tensor, there: Tensor) -> Array:
    """Return an array of one model's tensor in the other model's type."""
    if here.type == there.type:
        return array
    if _differ_in_sign(here, there):
        return with_other_sign(array) if np.asarray(array).dtype in (np.int8, np.uint8) else array
    if here.type == TensorType.FLOAT32 and (parameters := affine_parameters(there)) is not None:
        return quantize(array, *parameters) if np.asarray(array).dtype == np.float32 else array
    if (parameters := affine_parameters(here)) is not None:
        return dequantize(array, *parameters) if np.asarray(array).dtype == np.int8 else array
    return array


def _differ_in_sign(a: Tensor, b: Tensor) -> bool:
    return is_other_sign(a, b) or is_other_sign(b, a)


def _same_meaning(a: Tensor, b: Tensor) -> bool:
    """Return whether two tensors are of one type, or int8 that represents the float32 or uint8 of the other."""
    if a.dims != b.dims:
        return False
    if a.type == b.type or _differ_in_sign(a, b):
        return True
    return any(x.type == TensorType.FLOAT32 and affine_parameters(y) is not None for x, y in ((a, b), (b, a)))
