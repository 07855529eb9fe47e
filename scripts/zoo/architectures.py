"""Layer lists in JSON as int8 models.

    {"input": [h, w, c],
     "layers": [{"op": "conv" | "dw" | "pw" | "add" | "avgpool" | "maxpool" | "fc" | "softmax",
                 "kernel": k or [kh, kw], "stride": s or [sh, sw],
                 "pad": "SAME" | "VALID" | [top, bottom, left, right], "cin": n, "cout": n,
                 "activation": "none" | "relu" | "relu6", "residual_from": layer index or null,
                 "in": [h, w, c], "out": [h, w, c]}, ...]}

Every layer reads the one before it (the first reads the input); ``add`` also reads the output of layer
``residual_from`` (−1 = the input). "cin", "in" and "out" are optional and checked where present.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scripts.zoo.arguments import Padding, Size
from scripts.zoo.builder import ModelBuilder
from scripts.zoo.recording import Ref
from tflite_fuse.errors import ModelError, TfliteFuseError, UsageError
from tflite_fuse.model.schema import Model

Layer = Mapping[str, Any]


def load_architecture(path: str | Path) -> dict[str, Any]:
    """Return the layer list of a file.

    Raises:
        UsageError: the file cannot be read.
        ModelError: it is not JSON, or has no input and layers.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from error
    try:
        architecture = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ModelError(f"{path}: not valid JSON ({error})") from error
    if not isinstance(architecture, dict) or not isinstance(architecture.get("layers"), list):
        raise ModelError(f'{path}: an architecture is an object with "input": [h, w, c] and a list "layers"')
    return architecture


def build_architecture_file(path: str | Path, seed: int = 0) -> Model:
    """Return the int8 model of the layer list in a file. Errors are those of the two steps and name the file."""
    architecture = load_architecture(path)
    try:
        return build_architecture(architecture, seed)
    except TfliteFuseError as error:
        raise ModelError(f"{path}: {error}") from error


def build_architecture(architecture: Mapping[str, Any], seed: int = 0) -> Model:
    """Return the int8 model of a layer list with random weights.

    Raises:
        ModelError: naming the layer whose operator is unknown or whose shapes or numbers do not fit.
    """
    builder = ModelBuilder(seed)
    layers = architecture["layers"]
    if not layers:
        raise ModelError("an architecture needs at least one layer")
    x = builder.input((1, *_sizes(architecture.get("input"), 'the architecture\'s "input"')), name="input")
    outputs: list[Ref] = [x]
    for index, layer in enumerate(layers):
        try:
            outputs.append(_add_layer(builder, layer, outputs))
        except TfliteFuseError as error:
            raise ModelError(f"layer {index}{_kind(layer)}: {error}") from error
    return builder.build(description=str(architecture.get("name", "")))


def _kind(layer: Any) -> str:
    return f" ({layer['op']})" if isinstance(layer, dict) and isinstance(layer.get("op"), str) else ""


def _add_layer(builder: ModelBuilder, layer: Layer, outputs: list[Ref]) -> Ref:
    if not isinstance(layer, dict):
        raise ModelError("a layer is an object")
    x = outputs[-1]
    _check_shape(layer, "in", x)
    if "cin" in layer and layer["cin"] != x.shape[-1]:
        raise ModelError(f'"cin" is {layer["cin"]}, but the layer before gives {x.shape[-1]} channels')
    y = _operator(builder, layer, x, outputs)
    _check_shape(layer, "out", y)
    return y


def _operator(builder: ModelBuilder, layer: Layer, x: Ref, outputs: list[Ref]) -> Ref:
    kind, activation = layer.get("op"), str(layer.get("activation") or "none").upper()
    if kind in ("conv", "pw"):
        kernel = _size(layer, "kernel", 1)
        return builder.conv(x, _count(layer, "cout"), kernel, _size(layer, "stride", 1), _padding(layer), activation)
    if kind == "dw":
        multiplier, rest = divmod(_count(layer, "cout", x.shape[-1]), x.shape[-1])
        if rest:
            raise ModelError(f'"cout" is not a multiple of the {x.shape[-1]} channels of the layer before')
        kernel, stride = _size(layer, "kernel", 3), _size(layer, "stride", 1)
        return builder.depthwise(x, kernel, stride, _padding(layer), activation, multiplier=multiplier)
    if kind == "add":
        return builder.add(x, _residual(layer, outputs), activation)
    if kind in ("avgpool", "maxpool"):
        pool = builder.average_pool if kind == "avgpool" else builder.max_pool
        kernel = _size(layer, "kernel", None)
        return pool(x, kernel, _size(layer, "stride", kernel), _padding(layer, "VALID"), activation)
    if kind == "fc":
        return builder.fully_connected(_flat(builder, x), _count(layer, "cout"), activation)
    if kind == "softmax":
        return builder.softmax(_flat(builder, x))
    raise ModelError(f'unknown "op" {kind!r}; known are conv, pw, dw, add, avgpool, maxpool, fc, softmax')


def _flat(builder: ModelBuilder, x: Ref) -> Ref:
    """Reshape what follows pooling to (1, n) before classifiers, as converters do."""
    if len(x.shape) == 2:
        return x
    count = x.shape[1] * x.shape[2] * x.shape[3]
    return builder.reshape(x, (1, count))


def _residual(layer: Layer, outputs: list[Ref]) -> Ref:
    index = layer.get("residual_from")
    if not isinstance(index, int) or isinstance(index, bool) or not -1 <= index < len(outputs) - 1:
        raise ModelError(f'"residual_from" must name an earlier layer (or −1 for the input), not {index!r}')
    return outputs[index + 1]


def _check_shape(layer: Layer, key: str, ref: Ref) -> None:
    if key not in layer:
        return
    declared = _sizes(layer[key], f'"{key}"')
    size = ref.shape[1:] if len(ref.shape) == 4 else (1, 1, ref.shape[1])
    if declared != size:
        raise ModelError(f'"{key}" says {list(declared)}, the graph gives {list(size)}')


def _sizes(value: Any, what: str) -> tuple[int, ...]:
    if not isinstance(value, list) or len(value) != 3 or not all(_is_count(size) for size in value):
        raise ModelError(f"{what} must be three positive numbers [h, w, c], not {value!r}")
    return tuple(value)


def _is_count(value: Any, least: int = 1) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= 1 << 20


def _count(layer: Layer, key: str, default: int | None = None) -> int:
    value = layer.get(key, default)
    if not _is_count(value):
        raise ModelError(f'"{key}" must be a positive number, not {value!r}')
    return int(value)


def _size(layer: Layer, key: str, default: Size | None) -> Size:
    value = layer.get(key, default)
    if _is_count(value):
        return int(value)
    if isinstance(value, (list, tuple)) and len(value) == 2 and all(_is_count(size) for size in value):
        return value[0], value[1]
    raise ModelError(f'"{key}" must be one or two positive numbers, not {value!r}')


def _padding(layer: Layer, default: str = "SAME") -> Padding:
    value = layer.get("pad", default)
    if value in ("SAME", "VALID"):
        return str(value)
    if isinstance(value, int) and _is_count(value, 0):
        return value, value, value, value
    if isinstance(value, list) and len(value) == 4 and all(_is_count(size, 0) for size in value):
        return value[0], value[1], value[2], value[3]
    raise ModelError(f'"pad" must be SAME, VALID or [top, bottom, left, right], not {value!r}')
