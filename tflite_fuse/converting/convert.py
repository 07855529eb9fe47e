"""Conversion of models of other frameworks to .tflite: the converter, its process, and its failures in words."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from tflite_fuse.errors import ModelError, RuntimeUnavailableError, UsageError, how_to_install
from tflite_fuse.model.file import load_model, serialize_model
from tflite_fuse.model.schema import Model, SignatureDef, TensorMap
from tflite_fuse.passes.declared import checked
from tflite_fuse.runtime.archives import Array, read_arrays


@dataclass(frozen=True)
class Converter:
    """A package that makes .tflite files.

    Attributes:
        extra: of ``setup.cfg``, which installs it.
        package: its name, as messages say it.
        module: of this folder, which runs it.
        least_moved: inputs of at least so many dimensions get their channels last.
        operator: a pattern of its messages that finds the operator it fails at.
    """

    extra: str
    package: str
    module: str
    least_moved: int
    operator: str


CONVERTERS = {
    ".onnx": Converter("onnx", "onnx2tf", "by_onnx2tf", 3, r"onnx_op_name: (\S+)|onnx2tf\.ops\.(\w+)'"),
    ".pt2": Converter("torch", "litert-torch", "by_litert_torch", 4, r"Lowering not found: ([\w.]+)"),
}
"""By the suffix of the files that they read; ``torch.export.save`` writes .pt2."""

_QUANTIZER = "ai-edge-quantizer"
_RAISED = re.compile(r"^(?!WARNING|INFO)(?:[A-Za-z_][\w.]*: \S.*|[\w.]*(?:Error|Exception))$", re.MULTILINE)
_COLOUR = re.compile(r"\x1b\[[\d;]*m")


@dataclass(frozen=True)
class Converted:
    """A model as a .tflite file.

    Attributes:
        model: its bytes.
        steps: a sentence for each step of the conversion.
    """

    model: bytes
    steps: tuple[str, ...]


@checked
def convert(source: str | os.PathLike[str], calibrate: str | os.PathLike[str] | None = None) -> Converted:
    """Make a .tflite of an ONNX file or a PyTorch exported program, with channels last.

    The converters are packages of others, run with the rights of this process: convert models of people you trust.

    Args:
        source: an .onnx file, or a .pt2 file with example inputs.
        calibrate: an .npz of float samples, an array (samples, ...) per input, as the source model takes them or with
            channels last: the model is quantized to int8 in full; None leaves it float32.

    Raises:
        UsageError: no converter reads such a file, or the samples are not of the inputs' shapes.
        RuntimeUnavailableError: the converter is not installed.
        ModelError: the converter fails, with the operator where it says one.
    """
    path = Path(source)
    converter = CONVERTERS.get(path.suffix.lower())
    if converter is None:
        raise UsageError(f"{path}: {' and '.join(CONVERTERS)} files are converted, others are not")
    if not path.is_file():
        raise UsageError(f"{path} cannot be read (no such file)")
    _require(path, converter, converter.package)
    samples = None if calibrate is None else read_arrays(Path(calibrate))
    if samples is not None:
        _require(path, converter, _QUANTIZER)
    with TemporaryDirectory(prefix="tflite-fuse-") as folder:
        result = Path(folder, "float.tflite")
        shapes = [f"{name}={','.join(map(str, array.shape[1:]))}" for name, array in (samples or {}).items()]
        _run(path, converter.package, converter.module, folder, converter.operator, path.resolve(), result, *shapes)
        model = _signed(load_model(result.read_bytes(), str(path)))
        if not model.main.operators:
            raise ModelError(f"{path} holds no operators")
        result.write_bytes(serialize_model(model))
        steps = [f"converted by {_versioned(converter.package)}"]
        if samples is not None:
            fed = _fitting(model, samples, converter.least_moved, Path(calibrate or ""))
            np.savez(Path(folder, "samples.npz"), *fed.values())
            source_file, result, signature = result, Path(folder, "int8.tflite"), (model.signature_defs or ())[0]
            where = source_file, result, Path(folder, "samples.npz"), signature.signature_key or ""
            _run(path, _QUANTIZER, "by_quantizer", folder, "", *where, *fed)
            count = min(map(len, fed.values()))
            steps.append(f"quantized to int8 by {_versioned(_QUANTIZER)}, calibrated on {count:,} samples")
        data = result.read_bytes()
    steps += (f"input {name} is {' x '.join(map(str, shape))}" for name, shape in _inputs(model).items())
    return Converted(data, tuple(steps))


def _require(path: Path, converter: Converter, package: str) -> None:
    """Raise RuntimeUnavailableError where a package is not installed."""
    if find_spec(package.replace("-", "_")) is None:
        how = how_to_install(converter.extra)
        raise RuntimeUnavailableError(f"{path} needs the converter {package}, extra {converter.extra}: {how}")


def _versioned(package: str) -> str:
    from importlib import metadata  # slow to import, and no rewrite needs it

    try:
        return f"{package} {metadata.version(package)}"
    except metadata.PackageNotFoundError:
        return package


def _run(path: Path, package: str, module: str, folder: str, operator: str, *arguments: object) -> None:
    """Run one of the modules beside this file in a process that works in a folder.

    Raises:
        ModelError: it fails.
    """
    script = Path(__file__).with_name(f"{module}.py")
    # onnx2tf calls onnxsim by name, which lies beside this Python where its environment is not activated, too.
    commands = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    quiet = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONWARNINGS": "ignore", "PATH": commands}
    done = subprocess.run(
        [sys.executable, str(script), *map(str, arguments)],
        cwd=folder,
        env=quiet,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
    )
    if done.returncode == 0:
        return
    output = _COLOUR.sub("", done.stdout + done.stderr)
    matches = list(re.finditer(operator, output)) if operator else []
    where = f" the operator {next(filter(None, matches[-1].groups()))}" if matches else ""
    raised = _RAISED.findall(output)
    reason = raised[-1] if raised else f"it ended with {done.returncode}"
    raise ModelError(f"{path}: {package} cannot convert{where or ' it'} ({reason})")


def _signed(model: Model) -> Model:
    """Return a model with a signature: onnx2tf writes none where names do not suit TensorFlow."""
    if model.signature_defs:
        return model
    main = model.main
    inputs, outputs = (
        tuple(TensorMap(main.tensors[at].name, at) for at in ends) for ends in (main.inputs, main.outputs)
    )
    return replace(model, signature_defs=(SignatureDef(inputs, outputs, "serving_default"),))


def _inputs(model: Model) -> Mapping[str, tuple[int, ...]]:
    """Return shapes by the names of the model's signature."""
    signatures = model.signature_defs or ()
    inputs = signatures[0].inputs if signatures else None
    return {each.name or "": model.main.tensors[each.tensor_index].dims for each in inputs or ()}


def _fitting(model: Model, samples: Mapping[str, Array], least_moved: int, path: Path) -> dict[str, Array]:
    """Return samples as the model takes them, one after the other, by the names of its signature.

    Args:
        model: as converted, of float32.
        samples: arrays by name; the name of a single one for a single input is free.
        least_moved: fewest dimensions of an array that is channels first if both layouts fit.
        path: of the samples, for messages.

    Raises:
        UsageError: the samples are not those of the inputs.
    """
    inputs = _inputs(model)
    if len(inputs) == len(samples) == 1:
        samples = dict(zip(inputs, samples.values(), strict=True))
    if samples.keys() != inputs.keys():
        listed = ", ".join(samples) or "no array"
        raise UsageError(f"{path}: holds {listed}, and the model's inputs are {', '.join(inputs)}")
    return {name: _fitting_one(f"{path}: {name}", samples[name], shape, least_moved) for name, shape in inputs.items()}


def _fitting_one(what: str, array: Array, shape: tuple[int, ...], least_moved: int) -> Array:
    if array.dtype.kind not in "fiub" or not array.size:
        raise UsageError(f"{what} holds no numbers")
    if not np.isfinite(array).all():
        raise UsageError(f"{what} holds NaN or infinity, which calibration cannot use")
    if array.ndim == len(shape):
        layouts = [np.moveaxis(array, 1, -1) if array.ndim > 2 else array, array]
        for layout in layouts if array.ndim >= least_moved else layouts[::-1]:
            if layout.shape[1:] == shape[1:]:
                return np.asarray(layout[:, np.newaxis], np.float32)
    last = " x ".join(map(str, shape[1:]))
    first = " x ".join(map(str, (shape[-1], *shape[1:-1])))
    either = f"{first} or {last}" if len(shape) >= least_moved and first != last else last
    shape_text = " x ".join(map(str, array.shape))
    raise UsageError(f"{what} is {shape_text}, and calibration requires (samples, ...) with samples of {either}")
