#!/usr/bin/env python3
"""Train and convert the sample model of the package: train_sample.py [OUT.tflite] [--epochs N].

Needs TensorFlow (``pip install -e '.[zoo]'``) and about eleven minutes of processor time; no other script does. The
network classifies the images of scripts/shapes.py. It contains a case for each pass, at high resolution where
it matters: an inverted residual block with a skip connection, a cell whose branches come in an order that needs much
memory, explicit padding that no convolution in the file can express, and a pooled classifier.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

try:
    import tensorflow as tf
except ImportError:
    print("train_sample.py: TensorFlow is missing; run pip install -e '.[zoo]'", file=sys.stderr)
    sys.exit(2)

import numpy as np

from scripts import shapes
from tflite_fuse.data import SAMPLE_MODEL

layers = tf.keras.layers
Tensor = Any

TRAINING_SEED, CALIBRATION_SEED = 1, 1_000_003
STEM, POOLED, WIDE, NARROW = 8, 48, 18, 8
"""Channels of the stem, of the cell's pooled branch, and of its other branches where they widen and where they end."""
CALIBRATION_PICTURES, EVALUATION_PICTURES = 200, 600


def convolution(
    x: Tensor, filters: int, kernel: int = 1, stride: int = 1, activate: bool = True, name: str | None = None
) -> Tensor:
    """Add convolution, batch normalisation and, unless it ends a bottleneck, ReLU6."""
    x = layers.Conv2D(filters, kernel, stride, "same", use_bias=False, name=name)(x)
    x = layers.BatchNormalization()(x)
    return layers.ReLU(6.0)(x) if activate else x


def depthwise(x: Tensor, kernel: int = 3, stride: int = 1, padding: str = "same", name: str | None = None) -> Tensor:
    """Add depthwise convolution, batch normalisation, ReLU6."""
    x = layers.DepthwiseConv2D(kernel, stride, padding, use_bias=False, name=name)(x)
    return layers.ReLU(6.0)(layers.BatchNormalization()(x))


def inverted_residual(x: Tensor, filters: int, expanded: int, stride: int = 1) -> Tensor:
    """Add expand, depthwise, project (MobileNetV2, section 3.3); stride 2 pads all four sides, as in PyTorch."""
    y = convolution(x, expanded)
    if stride == 1:
        y = depthwise(y)
    else:
        y = depthwise(layers.ZeroPadding2D(1)(y), 3, stride, "valid")
    y = convolution(y, filters, activate=False)
    return layers.Add()([x, y]) if stride == 1 and x.shape[-1] == filters else y


def cell(x: Tensor, filters: int) -> Tensor:
    """Add a pooled branch with many channels and two that widen before they halve the image, joined and squeezed.

    The converter orders branches by the names of their layers. Here the pooled branch comes first, and what it computes
    waits, large, until the others are done.
    """
    pooled = layers.AveragePooling2D(2, name="cell_a_pool")(x)
    pooled = convolution(pooled, POOLED, name="cell_a_widen")
    fine, coarse = (
        convolution(
            depthwise(convolution(x, WIDE, name=f"cell_{branch}_widen"), kernel, 2, name=f"cell_{branch}_halve"),
            NARROW,
            name=f"cell_{branch}_narrow",
        )
        for branch, kernel in (("b", 3), ("c", 5))
    )
    return convolution(layers.Concatenate()([pooled, fine, coarse]), filters, activate=False)


def network() -> Any:
    """Return the Keras model: 128 x 128 x 3 to probabilities of the classes."""
    inputs = layers.Input((shapes.SIZE, shapes.SIZE, 3), name="picture")
    x = convolution(inputs, STEM, 3, 2)
    x = inverted_residual(x, STEM, 12)
    x = cell(x, 24)
    x = inverted_residual(x, 24, 48)
    x = inverted_residual(x, 32, 48, stride=2)
    x = inverted_residual(x, 32, 128)
    x = inverted_residual(x, 48, 128, stride=2)
    x = inverted_residual(x, 48, 144)
    x = inverted_residual(x, 48, 144)
    x = convolution(x, 96)
    x = layers.GlobalAveragePooling2D()(x)
    x = layers.Dense(len(shapes.CLASSES), activation="softmax", name="class")(x)
    return tf.keras.Model(inputs, x, name="shapes")


def train(model: Any, epochs: int, per_epoch: int, batch: int = 32) -> None:
    """Train with Adam and a cosine schedule; every epoch draws new pictures."""
    steps = epochs * per_epoch // batch
    rate = tf.keras.optimizers.schedules.CosineDecay(4e-3, steps)
    model.compile(tf.keras.optimizers.Adam(rate), "sparse_categorical_crossentropy", metrics=["accuracy"])
    for epoch in range(epochs):
        images, labels = shapes.pictures(per_epoch, TRAINING_SEED + epoch)
        model.fit(images / np.float32(255.0), labels, batch, epochs=1, verbose=2)


def convert(model: Any) -> bytes:
    """Convert to int8, inside and at both ends, with the standard converter."""
    images, _ = shapes.pictures(CALIBRATION_PICTURES, CALIBRATION_SEED)
    # The whole range of a pixel appears, so that the input's scale is 1/255 and its zero point −128.
    images[0, 0, 0], images[0, 0, 1] = 0, 255

    def representative() -> Iterator[list[Any]]:
        for image in images:
            yield [image[None] / np.float32(255.0)]

    fixed = tf.keras.Model(*_with_batch_of_one(model))
    converter = tf.lite.TFLiteConverter.from_keras_model(fixed)
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = representative
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    converter.inference_input_type = converter.inference_output_type = tf.int8
    return bytes(converter.convert())


def _with_batch_of_one(model: Any) -> tuple[Tensor, Tensor]:
    inputs = layers.Input((shapes.SIZE, shapes.SIZE, 3), batch_size=1, name="picture")
    return inputs, model(inputs, training=False)


def accuracy(model: bytes, images: np.ndarray, labels: np.ndarray) -> float:
    """Return the share of pictures that the int8 model classifies correctly in TensorFlow Lite."""
    interpreter = tf.lite.Interpreter(model_content=model)
    interpreter.allocate_tensors()
    source, target = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    if source["quantization"][1] != -128 or abs(source["quantization"][0] * 255.0 - 1.0) > 1e-3:
        raise SystemExit(f"the converter chose another input scale: {source['quantization']}")
    hits = 0
    for image, label in zip(shapes.quantized(images), labels, strict=True):
        interpreter.set_tensor(source["index"], image[None])
        interpreter.invoke()
        hits += int(interpreter.get_tensor(target["index"]).argmax() == label)
    return hits / len(labels)


def main() -> None:
    """Train, convert, measure and write."""
    parser = argparse.ArgumentParser(description="Train and convert the sample model that ships with the package.")
    parser.add_argument("output", nargs="?", type=Path, default=SAMPLE_MODEL, metavar="OUT.tflite")
    parser.add_argument("--epochs", type=int, default=7)
    parser.add_argument("--pictures", type=int, default=4000, help="drawn for each epoch")
    options = parser.parse_args()

    tf.keras.utils.set_random_seed(0)
    model = network()
    train(model, options.epochs, options.pictures)
    images, labels = shapes.pictures(EVALUATION_PICTURES, shapes.EVALUATION_SEED)
    _, floating = model.evaluate(images / np.float32(255.0), labels, verbose=0)
    data = convert(model)
    print(f"float32: {floating:.1%} of {len(labels)} held-out pictures")
    print(f"int8:    {accuracy(data, images, labels):.1%} of {len(labels)} held-out pictures, {len(data)} bytes")
    options.output.write_bytes(data)
    print(f"wrote {options.output}")


if __name__ == "__main__":
    main()
