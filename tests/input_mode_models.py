"""Small models whose inputs are worth moving out of the arena: one, several, skipped, reshaped, shared."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scripts.zoo import ModelBuilder
from scripts.zoo.float_twin import float_twin
from scripts.zoo.networks import branching_network, cell_network, inverted_residual_network, one_dimensional_network
from scripts.zoo.recording import Ref
from tflite_fuse.model import Model
from tflite_fuse.model.edit import Editor, replace_main
from tflite_fuse.model.options import make_options
from tflite_fuse.model.schema import Quantization, Tensor
from tflite_fuse.model.types import TensorType


def two_towers() -> Model:
    """Each image goes into a block of its own."""
    b = ModelBuilder(3)

    def tower(x: Ref) -> Ref:
        x = b.conv(b.conv(x, 8, 3, 2, activation="RELU6"), 8, 3, activation="RELU6")
        return b.mean(b.conv(x, 8, 3, 2, activation="RELU6"))

    x, y = b.input((1, 32, 32, 3)), b.input((1, 24, 24, 1))
    return b.build([b.log_softmax(b.fully_connected(b.concat([tower(x), tower(y)], 1), 4))])


def two_images() -> Model:
    """One block reads both."""
    b = ModelBuilder(3)
    x, y = b.input((1, 16, 16, 3)), b.input((1, 16, 16, 3))
    z = b.add(b.conv(x, 8, 3, activation="RELU6"), b.conv(y, 8, 3, activation="RELU6"))
    return b.build([b.fully_connected(b.mean(b.conv(z, 8, 3)), 4)])


def skipped_over() -> Model:
    """The image is added to what was computed from it."""
    b = ModelBuilder(3)
    x = b.input((1, 16, 16, 4))
    y = b.conv(b.depthwise(b.conv(x, 16, activation="RELU6"), 3, activation="RELU6"), 4)
    return b.build([b.fully_connected(b.mean(b.conv(b.add(x, y), 8, 3)), 4)])


def reshaped() -> Model:
    """The model's input is flat, its first convolution reads 49 rows of 10."""
    b = ModelBuilder(3)
    y = b.conv(b.reshape(b.input((1, 490)), (1, 49, 10, 1)), 8, (10, 4), 2, activation="RELU6")
    return b.build([b.fully_connected(b.mean(b.conv(y, 8, 3)), 4)])


def image_and_vector() -> Model:
    """The second input is read by an operator no block can hold."""
    b = ModelBuilder(3)
    x, y = b.input((1, 16, 16, 3)), b.input((1, 4))
    image = b.mean(b.conv(b.conv(x, 8, 3, 2, activation="RELU6"), 4, 3, activation="RELU6"))
    return b.build([b.add(b.log_softmax(b.fully_connected(image, 4)), b.log_softmax(y))])


def int16_input() -> Model:
    """A type of input that no block reads."""
    b = ModelBuilder(3)
    x = b.quantize(b.input((1, 16, 16, 3), type=TensorType.FLOAT32))
    model = b.build([b.dequantize(b.mean(b.conv(x, 8, 3)))])
    tensors, (entering,) = list(model.main.tensors), model.main.inputs
    quantization = Quantization(scale=(0.001,), zero_point=(0,))
    tensors[entering] = replace(tensors[entering], type=TensorType.INT16, quantization=quantization)
    return replace_main(model, replace(model.main, tensors=tuple(tensors)))


def float32_behind_a_cast(kind: TensorType, *, quantized: bool = False, spread: bool = False, parts: int = 1) -> Model:
    """A float32 network that reads bytes through a CAST.

    Args:
        kind: of the input.
        quantized: whether the input has a scale, which a CAST ignores.
        spread: whether 128 is added to the numbers, as if the bytes were uint8.
        parts: number of CASTs; a ROUND, which no block contains, reads each but the first.
    """
    b = ModelBuilder(3)
    x = b.input((1, 16, 16, 3))
    y = b.conv(b.conv(x, 8, 3, activation="RELU6"), 8, 5, activation="RELU6")
    twin = float_twin(b.build([b.fully_connected(b.mean(y), 4)]))
    editor, (real,) = Editor(twin), twin.main.inputs
    scale = Quantization(scale=(0.5,), zero_point=(3,)) if quantized else None
    image = editor.tensor(replace(twin.main.tensors[real], type=kind, quantization=scale, name="image"))
    options = make_options("CastOptions", in_data_type=int(kind), out_data_type=int(TensorType.FLOAT32))
    cast = editor.like(real, editor.dims(real), "cast") if spread else real
    editor.add("CAST", (image,), cast, options)
    if spread:
        number = editor.constant(Tensor((), TensorType.FLOAT32, 0, "128"), np.float32(128).tobytes())
        editor.add("ADD", (cast, number), real, make_options("AddOptions"))
    editor.operators += twin.main.operators
    outputs = list(twin.main.outputs)
    for part in range(1, parts):
        again = editor.add("CAST", (image,), editor.like(real, editor.dims(real), f"cast_{part}"), options)
        outputs.append(editor.add("ROUND", (again,), editor.like(real, editor.dims(real), f"round_{part}")))
    model = editor.finish()
    return replace_main(model, replace(model.main, inputs=(image,), outputs=tuple(outputs)))


MODELS = {
    "two towers": two_towers,
    "two images": two_images,
    "skipped over": skipped_over,
    "reshaped": reshaped,
    "image and vector": image_and_vector,
    "inverted residuals": lambda: inverted_residual_network(size=24, blocks=2),
    "one dimension": one_dimensional_network,
    "branches": branching_network,
    "cells": cell_network,
}
