"""Models that are not int8: the offered code that quantizes them."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest

import tflite_fuse
from scripts.zoo import ModelBuilder
from tflite_fuse.errors import UsageError
from tflite_fuse.export.ports import require_arithmetic
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.model.edit import add_operator_code, replace_operators, replace_tensor
from tflite_fuse.model.schema import Operator
from tflite_fuse.model.types import TensorType
from tflite_fuse.report.int8_code import CODE
from tflite_fuse.report.sentences import details, headline, inspection_headline
from tflite_fuse.rewriting.quantized import conversion_offer, missing_operators

FAQ = Path(__file__).resolve().parents[2] / "docs" / "faq.md"


def network() -> Model:
    b = ModelBuilder(seed=0)
    return b.build([b.fully_connected(b.mean(b.conv(b.input((1, 8, 8, 3)), 8, 3)), 4)])


def of_type(model: Model, data: TensorType, weights: TensorType) -> Model:
    """The model with other element types, its buffers as they were."""
    constants = {index for index, buffer in enumerate(model.buffers) if buffer.data}
    tensors = tuple(
        replace(tensor, type=weights if tensor.buffer in constants else data) for tensor in model.main.tensors
    )
    return replace(model, subgraphs=(replace(model.main, tensors=tensors),))


def test_the_next_step_of_a_float32_model_is_quantization() -> None:
    offer = conversion_offer(of_type(network(), TensorType.FLOAT32, TensorType.FLOAT32))
    assert [note.details["kind"] for note in offer] == ["float32"]
    found = tflite_fuse.inspect(serialize_model(network()), name="in.tflite")
    assert not conversion_offer(network()) and "quantize" not in inspection_headline(found, None, "", "")[4]
    step = inspection_headline(replace(found, records=offer), None, "", "")[4]
    assert step.startswith("next: quantize the float32 model to int8")
    assert step.endswith("; as it is: tflite-fuse rewrite in.tflite small.tflite")
    report = replace(tflite_fuse.rewrite(serialize_model(network()), verify=False).report, records=offer)
    report = replace(report, advice=("with --input streamed: 1,072 B",))
    assert headline(report, "out.tflite", "")[4] == (
        f"{step.partition('; as it is: ')[0]}; as it is: tflite-fuse export out.tflite project --format arduino; "
        "less RAM: with --input streamed: 1,072 B"
    )
    printed = [line.removeprefix("    ") for line in details(report) if line.startswith("    ") or not line]
    assert "\n".join(printed) + "\n" == CODE


@pytest.mark.parametrize(("data", "kind"), [(TensorType.FLOAT32, "hybrid"), (TensorType.UINT8, "uint8")])
def test_a_model_that_the_runtime_refuses_has_no_step_as_it_is(data: TensorType, kind: str) -> None:
    """The project would not start."""
    weights = TensorType.UINT8 if data == TensorType.UINT8 else TensorType.INT8
    offer = conversion_offer(of_type(network(), data, weights))
    found = tflite_fuse.inspect(serialize_model(network()), name="in.tflite")
    step = inspection_headline(replace(found, records=offer), None, "", "")[4]
    assert step == (
        f"next: quantize the {kind} model to int8 (--verbose prints the lines of Python that do it); TensorFlow Lite "
        f"Micro runs no {kind} one"
    )


def test_one_operator_that_the_runtime_refuses_suffices() -> None:
    floats = of_type(network(), TensorType.FLOAT32, TensorType.FLOAT32)
    weights = floats.main.operators[0].inputs[1]  # type: ignore[index]
    hybrid = replace_tensor(floats, weights, replace(floats.main.tensors[weights], type=TensorType.INT8))
    assert [note.details["kind"] for note in conversion_offer(hybrid)] == ["hybrid"]
    assert [note.details["kind"] for note in conversion_offer(hybrid, floats)] == ["float32"]  # a block holds it
    model, code = add_operator_code(floats, builtin="QUANTIZE")
    output = len(model.main.tensors)
    byte = replace(model.main.tensors[model.main.outputs[0]], type=TensorType.UINT8, name="byte")
    model = replace(model, subgraphs=(replace(model.main, tensors=(*model.main.tensors, byte)),))
    model = replace_operators(model, [*model.main.operators, Operator(code, model.main.outputs, (output,))])
    assert [note.details["kind"] for note in conversion_offer(model)] == ["uint8"]
    with pytest.raises(UsageError, match=r"^QUANTIZE_\d+ computes in uint8, which TensorFlow Lite Micro refuses"):
        require_arithmetic(model)


def test_recurrent_layers_in_loops_are_converted_anew() -> None:
    model, code = add_operator_code(network(), custom="FlexTensorListReserve")
    first, *others = model.main.operators
    offer = conversion_offer(replace_operators(model, [replace(first, opcode_index=code), *others]))
    assert [note.reason for note in offer] == ["fixed batch"]
    found = tflite_fuse.inspect(serialize_model(network()), name="in.tflite")
    step = inspection_headline(replace(found, records=offer), None, "", "")[4]
    assert step.startswith("next: convert the model anew with a batch of 1") and "as it is" not in step


@pytest.mark.parametrize("has_variables", [True, False])
def test_wrappers_of_pruning_are_stripped_first(has_variables: bool) -> None:
    """Stripped models may keep the names, but none of the variables."""
    model, code = add_operator_code(of_type(network(), TensorType.FLOAT32, TensorType.FLOAT32), builtin="VAR_HANDLE")
    weights = model.main.operators[0].inputs[1]  # type: ignore[index]
    named = replace(model.main.tensors[weights], name="sequential/prune_low_magnitude_dense/MatMul")
    model = replace_tensor(model, weights, named)
    if has_variables:
        handle = Operator(code, (), (0,))
        model = replace_operators(model, [*model.main.operators, handle])
    offer = conversion_offer(model)
    assert [note.reason for note in offer] == ["pruning stripped" if has_variables else "full int8"]
    found = tflite_fuse.inspect(serialize_model(network()), name="in.tflite")
    step = inspection_headline(replace(found, records=offer), None, "", "")[4]
    assert ("strip_pruning" in step) == has_variables


def test_the_next_step_names_operators_that_the_runtime_or_every_export_lacks() -> None:
    """Applications register custom operators of their own."""
    b = ModelBuilder(seed=0)
    data = serialize_model(b.build([b.conv(b.log_softmax(b.conv(b.input((1, 8, 8, 3)), 8, 3)), 4, 1)]))
    report = tflite_fuse.rewrite(data, verify=False).report
    assert "lacks" not in headline(report, "out.tflite", "")[4]
    model = load_model(data)
    for code, name, step in (
        ("builtin", "DENSIFY", "convert the model anew without DENSIFY, which TensorFlow Lite Micro lacks"),
        (
            "custom",
            "my op",
            "a program of yours that registers my op, as no export does (--verbose lists what was done and why)",
        ),
        ("custom", "FlexErf", "convert the model anew without FlexErf, which TensorFlow Lite Micro lacks"),
        ("custom", "SignalRfft", None),
    ):
        changed, index = add_operator_code(model, **{code: name})
        first, *others = changed.main.operators
        offers = missing_operators(replace_operators(changed, [replace(first, opcode_index=index), *others]))
        assert [each.details["names"] for each in offers] == [name] * (step is not None)
        if step is not None:
            assert headline(replace(report, records=offers), "out.tflite", "")[4] == f"next: {step}"


def test_the_code_is_that_of_the_page_and_can_be_read() -> None:
    assert f"```py\n{CODE}```" in FAQ.read_text()
    names = {node.attr for node in ast.walk(ast.parse(CODE)) if isinstance(node, ast.Attribute)}
    assert {"representative_dataset", "TFLITE_BUILTINS_INT8", "inference_input_type", "inference_output_type"} <= names
