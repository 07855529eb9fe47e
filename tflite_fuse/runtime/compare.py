"""Do two models compute the same bytes? Run both in the real TFLM and look at every element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tflite_fuse.errors import UsageError, VerificationError
from tflite_fuse.fusion.encoding.in_model import KnownBlocks
from tflite_fuse.model import Model, load_model
from tflite_fuse.model.affine import affine_parameters, dequantize, quantize
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.outside import with_inputs_inside
from tflite_fuse.model.schema import Tensor
from tflite_fuse.model.types import TensorType, type_name
from tflite_fuse.proof.certificate import Certificate
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.processes.patience import inference_seconds
from tflite_fuse.runtime.processes.worker import Array, Worker
from tflite_fuse.runtime.streams import Feed, make_feed

# Custom operators keep what state they like, so a model with one is run as a stream too, except for ours.
_STATEFUL = frozenset({"VAR_HANDLE", "CALL_ONCE", "SVDF", "UNIDIRECTIONAL_SEQUENCE_LSTM"})
_STATELESS_CUSTOM = frozenset({"CUSTOM:TFLITE_FUSE", "CUSTOM:TFLite_Detection_PostProcess"})


_TOO_FEW_TO_VARY = 4
"""Inputs: fewer are asked for by who knows that they say little."""
_VARYING = 0.5
"""Part of the output elements that should vary."""


@dataclass(frozen=True)
class Difference:
    """The first element in which two models differ.

    Attributes:
        input_index: which of the inputs.
        output_name: the output tensor's name in the first model.
        element: index in that tensor.
        value_a, value_b: what the two models computed.
        differing: number of elements of that tensor that differ for that input.
        streamed: whether state was carried over from the input before.
    """

    input_index: int
    output_name: str
    element: tuple[int, ...]
    value_a: float
    value_b: float
    differing: int
    streamed: bool = False

    def __str__(self) -> str:
        """One sentence for the user."""
        place = ", ".join(str(index) for index in self.element)
        return (
            f"output {self.output_name} differs at [{place}]: {self.value_a:g} and {self.value_b:g} "
            f"({self.differing} elements differ) for input {self.input_index}"
            + (", with the state left by the inputs before" if self.streamed else "")
        )


@dataclass(frozen=True)
class Comparison:
    """Result of comparing two models; ``first_difference`` is None exactly if they are bit-exact.

    ``inputs`` is the number of inputs both models were run on (up to the first difference); 0 where they could not be
    run, for the reason ``not_run``. Of the ``elements`` of all outputs ``varied`` took more than one value over these
    inputs; one that never does says nothing about what was computed on the way to it. ``certificate`` is there where
    the second model is a rewrite of the first: what was proven without running them.
    """

    bit_exact: bool
    inputs: int
    first_difference: Difference | None
    runtime: str
    version: str
    certificate: Certificate | None = None
    not_run: str | None = None
    varied: int = 0
    elements: int = 0

    @property
    def warning(self) -> str | None:
        """Says so where the outputs hardly vary, as those of a saturated model: equal bytes then mean little."""
        if self.inputs < _TOO_FEW_TO_VARY or self.varied >= _VARYING * self.elements:
            return None
        return (
            f"only {self.varied:,} of {self.elements:,} output values varied over {self.inputs} inputs: that they are "
            "equal says little; inputs of your own (verify --data) may say more"
        )

    @property
    def fault(self) -> str | None:
        """What is wrong, in words: in what was computed, in what the second model asks for; None if nothing is."""
        faults = [] if self.first_difference is None else [str(self.first_difference)]
        if self.certificate is not None and not self.certificate.proven:
            faults.append(self.certificate.sentence())
        return "; ".join(faults) or None


class Runtime(Protocol):
    """A runtime models are compared in: one of the modules beside this one."""

    RUNTIME_NAME: str

    def runtime_version(self) -> str | None:
        """Version of what is installed."""

    def session(self, model_bytes: bytes, name: str) -> AbstractContextManager[Worker]:
        """A worker with the model loaded."""


def compare(
    a: bytes,
    b: bytes,
    inputs: Sequence[Sequence[Array]],
    *,
    names: tuple[str, str] = ("the first model", "the second model"),
    models: tuple[Model, Model] | None = None,
    known: KnownBlocks | None = None,
    progress: Callable[[int, int], None] | None = None,
    runtime: Runtime = tflm,
) -> Comparison:
    """Run two models on the same inputs, each in its own process, and compare all output bytes.

    A model whose inputs lie outside the arena is given them there: an external one as memory, a streamed one by a
    source that hands out each pixel once. Every input starts from fresh state. Models with state (variable tensors,
    resources) are run once more over the whole sequence without a reset in between.

    One model may take or give float32 where the other has int8 of known scale and zero point: its input is what
    QUANTIZE makes of the floats, its output is compared after DEQUANTIZE.

    Args:
        a, b: two .tflite files with the same input and output shapes and types.
        inputs: one list per inference, with one array per input of the first model, inside the arena or not.
        names: what messages call the two models.
        models: the two as loaded, where somebody has them.
        known: their blocks as far as they need not be decoded.
        progress: called with (inferences done, inferences in all).
        runtime: what runs them.

    Raises:
        ModelError: a model cannot be loaded or run, with the runtime's reason.
        VerificationError: the models' inputs or outputs differ in number, shape or type.
        UsageError: there are no inputs, or they do not fit.
        RuntimeUnavailableError: the runtime is not installed.
    """
    if not inputs:
        raise UsageError("at least 1 input is needed to compare models")
    models = (load_model(a), load_model(b)) if models is None else models
    _check_signatures(models, names)
    borders = _Borders(models)
    passes = (False, True) if any(_is_stateful(model) for model in models) else (False,)
    output_names = [_tensor_name(models[0], index) for index in models[0].main.outputs]
    patience = [inference_seconds(model, known) for model in models]
    total = len(passes) * len(inputs)
    done = 0
    difference: Difference | None = None
    seen = _Seen()
    with ExitStack() as stack, ThreadPoolExecutor(2) as pool:
        workers = list(pool.map(lambda m, name: stack.enter_context(runtime.session(m, name)), (a, b), names))
        for streamed in passes:
            for index, arrays in enumerate(inputs):
                reset = not streamed or index == 0
                given = (arrays, borders.inputs_of_second(arrays))
                feeds = [make_feed(model, each, name) for model, each, name in zip(models, given, names, strict=True)]
                outputs = borders.comparable(_run_both(pool, workers, feeds, reset, patience))
                seen.note(outputs[0])
                difference = _first_difference(outputs, output_names, index, streamed)
                done += 1
                if progress is not None:
                    progress(done, total)
                if difference is not None:
                    break
            if difference is not None:
                break
    return Comparison(
        difference is None,
        min(done, len(inputs)),
        difference,
        runtime.RUNTIME_NAME,
        runtime.runtime_version() or "unknown",
        varied=seen.varied,
        elements=seen.elements,
    )


class _Seen:
    """Which elements of the outputs took more than one value."""

    def __init__(self) -> None:
        self._first: list[Array] = []
        self._varied: list[Array] = []

    def note(self, outputs: Sequence[Array]) -> None:
        """The outputs for one more input."""
        values = [_bits(output) for output in outputs]
        if not self._first:
            self._first, self._varied = values, [np.zeros(len(each), bool) for each in values]
        for varied, first, now in zip(self._varied, self._first, values, strict=True):
            varied |= (first != now).any(axis=-1)

    @property
    def varied(self) -> int:
        return sum(int(each.sum()) for each in self._varied)

    @property
    def elements(self) -> int:
        return sum(len(each) for each in self._varied)


class _Borders:
    """Where one model has float32 and the other int8: what each is given, and how their outputs are compared."""

    def __init__(self, models: tuple[Model, Model]) -> None:
        graphs = [with_inputs_inside(model).main for model in models]
        self._inputs = [[graph.tensors[index] for index in graph.inputs] for graph in graphs]
        self._outputs = [[graph.tensors[index] for index in graph.outputs] for graph in graphs]

    def inputs_of_second(self, arrays: Sequence[Array]) -> Sequence[Array]:
        """The second model's inputs, given the first one's."""
        if len(arrays) != len(self._inputs[0]):
            return arrays  # what is wrong with them is said where they are sorted
        return [_as_other(*each) for each in zip(arrays, *self._inputs, strict=True)]

    def comparable(self, outputs: list[list[Array]]) -> list[list[Array]]:
        """Both models' outputs, of equal types."""
        pairs = [(0, 1), (1, 0)]
        return [
            [
                _as_other(array, here, there) if there.type == TensorType.FLOAT32 else array
                for array, here, there in zip(outputs[a], self._outputs[a], self._outputs[b], strict=True)
            ]
            for a, b in pairs
        ]


def _as_other(array: Array, here: Tensor, there: Tensor) -> Array:
    """What an array of one model's tensor is in the other model's type."""
    if here.type == there.type:
        return array
    if here.type == TensorType.FLOAT32 and (parameters := affine_parameters(there)) is not None:
        return quantize(array, *parameters) if np.asarray(array).dtype == np.float32 else array
    if (parameters := affine_parameters(here)) is not None:
        return dequantize(array, *parameters) if np.asarray(array).dtype == np.int8 else array
    return array


def _same_meaning(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors can be compared: of one type, or one float32 and the other int8 that stands for floats."""
    if a.dims != b.dims:
        return False
    pairs = ((a, b), (b, a))
    return a.type == b.type or any(x.type == TensorType.FLOAT32 and affine_parameters(y) is not None for x, y in pairs)


def _run_both(
    pool: ThreadPoolExecutor, workers: Sequence[Worker], feeds: Sequence[Feed], reset: bool, patience: Sequence[float]
) -> list[list[Array]]:
    def infer(each: Worker, feed: Feed, seconds: float) -> list[Array]:
        return each.infer(feed.inputs, feed.outside, reset=reset, timeout=seconds)

    return list(pool.map(infer, workers, feeds, patience))


def _first_difference(
    outputs: Sequence[Sequence[Array]], names: Sequence[str], input_index: int, streamed: bool
) -> Difference | None:
    for name, a, b in zip(names, *outputs, strict=True):
        differing = np.flatnonzero((_bits(a) != _bits(b)).any(axis=-1))
        if differing.size:
            element = np.unravel_index(int(differing[0]), a.shape)
            return Difference(
                input_index,
                name,
                tuple(int(index) for index in element),
                float(a[element]),
                float(b[element]),
                int(differing.size),
                streamed,
            )
    return None


def _bits(array: Array) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """[elements, bytes per element]: floats are compared as bits, so that NaN equals itself and −0 is not 0."""
    return np.frombuffer(array.tobytes(), np.uint8).reshape(array.size, array.dtype.itemsize)


def _check_signatures(models: tuple[Model, Model], names: tuple[str, str]) -> None:
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


def _tensor_name(model: Model, index: int) -> str:
    return model.main.tensors[index].name or f"tensor {index}"


def _is_stateful(model: Model) -> bool:
    if any(tensor.is_variable for graph in model.subgraphs for tensor in graph.tensors):
        return True
    kinds = {operator_name(model, operator) for graph in model.subgraphs for operator in graph.operators}
    custom = {kind for kind in kinds if kind.startswith("CUSTOM:")} - _STATELESS_CUSTOM
    return bool(kinds & _STATEFUL or custom)
