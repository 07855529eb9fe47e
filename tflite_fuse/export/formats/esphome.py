"""A model of microWakeWord for ESPHome: the file, its manifest, and the library where the model has fused blocks.

The manifest's ``tensor_arena_size`` holds for TensorFlow Lite Micro of 2024 and of 2026 with ESP-NN, on every core.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tflite_fuse.errors import UsageError
from tflite_fuse.export import library
from tflite_fuse.export.arena import Declared, declared_arenas
from tflite_fuse.export.folder import Files
from tflite_fuse.export.text import comment, fill
from tflite_fuse.export.tflm import TflmModel
from tflite_fuse.ir.program import FUSED_OPERATOR
from tflite_fuse.memory.tflm.kernel_sets import GENERATIONS
from tflite_fuse.memory.tflm.runtimes import runtime_for
from tflite_fuse.model.schema import Model, Tensor
from tflite_fuse.model.types import TensorType

FEATURES = 40
"""Values of a time step that ESPHome computes from sound."""


def require_wake_word(model: Model) -> None:
    """Raise UsageError for a model whose input and output are not those of microWakeWord."""
    ends = [[model.main.tensors[tensor] for tensor in edge] for edge in (model.main.inputs, model.main.outputs)]
    inputs, outputs = ends
    fits = len(inputs) == len(outputs) == 1 and _is_step(inputs[0]) and outputs[0].type == TensorType.UINT8
    if not fits or outputs[0].dims != (1, 1):
        raise UsageError(
            f"ESPHome takes models of microWakeWord alone: one input int8 [1, steps, {FEATURES}], one output uint8 "
            "[1, 1]"
        )


def _is_step(tensor: Tensor) -> bool:
    return tensor.type == TensorType.INT8 and len(tensor.dims) == 3 and tensor.dims[::2] == (1, FEATURES)


def largest_arena(model: Model) -> Declared:
    """Return the largest arena of all cores and releases of TensorFlow Lite Micro with ESP-NN.

    Raises:
        PlanError: the model's offline plan is damaged.
        ModelError: a dynamic shape.
    """
    runtimes = (runtime_for("esphome", "esp-nn", generation) for generation in GENERATIONS)
    return max((each for runtime in runtimes for each in declared_arenas(model, runtime)), key=lambda each: each.nbytes)


def files(model: TflmModel, directory: Path, source: Path | None) -> Files:
    """Return the folder's files.

    Args:
        model: of microWakeWord.
        directory: the folder.
        source: path of the model's file; a manifest of the same name beside it is kept but for two entries.

    Raises:
        UsageError: that manifest cannot be read.
        RuntimeUnavailableError: this installation lacks the library.
    """
    name = directory.resolve().name if source is None else source.stem
    usual = json.loads(fill("esphome/manifest.json"))  # of version 2
    manifest = _manifest(source) or {"wake_word": name.replace("_", " "), **usual}
    micro = {**manifest["micro"], "tensor_arena_size": model.arenas[-1].nbytes}
    text = json.dumps({**manifest, "model": f"{name}.tflite", "micro": micro}, indent=2, ensure_ascii=False)
    fused = FUSED_OPERATOR in model.operators
    return {
        f"{name}.tflite": model.data,
        f"{name}.json": f"{text}\n",
        **(library.package("components/tflite_fuse/") if fused else {}),
    }


def _manifest(source: Path | None) -> dict[str, Any] | None:
    path = None if source is None else source.with_suffix(".json")
    if path is None or not path.is_file():
        return None
    try:
        manifest = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{path}: the model's manifest cannot be read ({error})") from error
    if not isinstance(manifest, dict) or not isinstance(manifest.get("micro"), dict):
        raise UsageError(f"{path}: is no manifest of microWakeWord, which is an object with an object `micro`")
    return manifest


def readme(title: str, name: str, arena_bytes: int, fused: bool) -> str:
    """Return the text of ``README.md``.

    Args:
        title: of the model.
        name: of the manifest, without its suffix.
        arena_bytes: of the manifest.
        fused: whether the model has fused blocks.

    Raises:
        RuntimeUnavailableError: this installation lacks the library.
    """
    about = "\n" + fill("esphome/fused.md") if fused else ""
    arena, version = f"{arena_bytes:,}", library.version()
    return fill("esphome/README.md", title=comment(title), version=version, name=name, arena=arena, fused=about)
