"""Layer lists become models of the declared shapes and MACs that run; bad ones are refused in one sentence."""

from __future__ import annotations

import json
import subprocess
import sys
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scripts.zoo.architectures import build_architecture, build_architecture_file, load_architecture
from tflite_fuse.errors import ModelError, UsageError
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.model.operators import operator_name
from tflite_fuse.runtime import tflm

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "build_model.py"

SMALL: dict[str, Any] = {
    "name": "small",
    "input": [16, 16, 3],
    "layers": [
        {"op": "conv", "kernel": 3, "stride": 2, "pad": [1, 1, 1, 1], "cout": 8, "activation": "relu6"},
        {"op": "dw", "kernel": 3, "pad": "SAME", "activation": "relu6"},
        {"op": "pw", "kernel": 1, "pad": [0, 0, 0, 0], "cin": 8, "cout": 8, "activation": None},
        {"op": "add", "residual_from": 0, "in": [8, 8, 8], "out": [8, 8, 8]},
        {"op": "dw", "kernel": [3, 5], "stride": [2, 1], "cout": 16},
        {"op": "maxpool", "kernel": 2, "pad": "VALID"},
        {"op": "avgpool", "kernel": [2, 4]},
        {"op": "fc", "cout": 5, "out": [1, 1, 5]},
        {"op": "softmax"},
    ],
}


def macs(model: Model) -> int:
    """Multiplications of weights: the textbook count over output values."""
    total = 0
    for operator in model.main.operators:
        name = operator_name(model, operator)
        if name not in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"):
            continue
        assert operator.inputs and operator.outputs
        weights = model.main.tensors[operator.inputs[1]].dims
        outputs = prod(model.main.tensors[operator.outputs[0]].dims)
        total += outputs * (weights[1] * weights[2] if name == "DEPTHWISE_CONV_2D" else prod(weights[1:]))
    return total


def spread_in_tflm(model: Model) -> np.ndarray:
    shape = model.main.tensors[model.main.inputs[0]].dims
    rng = np.random.default_rng(0)
    images = [[rng.integers(-128, 128, shape).astype(np.int8)] for _ in range(2)]
    return np.stack([arrays[0] for arrays in tflm.run(serialize_model(model), images).outputs])


def test_small_list_becomes_the_expected_operators() -> None:
    model = build_architecture(SMALL)
    assert [operator_name(model, operator) for operator in model.main.operators] == [
        "PAD",
        "CONV_2D",
        "DEPTHWISE_CONV_2D",
        "CONV_2D",
        "ADD",
        "DEPTHWISE_CONV_2D",
        "MAX_POOL_2D",
        "AVERAGE_POOL_2D",
        "RESHAPE",
        "FULLY_CONNECTED",
        "SOFTMAX",
    ]
    assert macs(model) == 64 * 27 * 8 + 64 * 9 * 8 + 64 * 8 * 8 + 32 * 15 * 16 + 16 * 5
    assert model.main.tensors[model.main.outputs[0]].dims == (1, 5)


def test_residual_from_the_input() -> None:
    layers = [{"op": "conv", "cout": 3, "kernel": 3}, {"op": "add", "residual_from": -1}]
    model = build_architecture({"input": [4, 4, 3], "layers": layers})
    assert set(model.main.operators[1].inputs or ()) == {model.main.inputs[0], *(model.main.operators[0].outputs or ())}


@pytest.mark.skipif(not tflm.available(), reason="needs the tflite-micro wheel")
def test_shared_architecture_runs_with_its_macs_and_uses_the_range(shared_arch: Path) -> None:
    declared = json.loads(shared_arch.read_text())
    model = build_architecture_file(shared_arch)
    assert macs(model) == declared["macs_total"]
    outputs = spread_in_tflm(model)
    assert list(outputs.shape[2:])[-1] == declared["layers"][-1]["out"][-1]
    assert outputs.std() > 10.0
    assert np.mean((outputs == 127) | (outputs == -128)) < 0.05
    assert np.unique(outputs).size >= min(100, outputs[0].size)


def broken(layer: int, **changes: Any) -> dict[str, Any]:
    layers = [dict(entry) for entry in SMALL["layers"]]
    layers[layer].update(changes)
    return {**SMALL, "layers": layers}


@pytest.mark.parametrize(
    ("architecture", "says"),
    [
        (broken(0, op="transformer"), "layer 0 (transformer): unknown \"op\" 'transformer'"),
        (broken(0, op=["conv"]), "layer 0: unknown"),
        (broken(0, cout="8"), '"cout"'),
        (broken(0, cout=-8), '"cout"'),
        (broken(0, cout=True), '"cout"'),
        (broken(0, cout=1 << 20), "too large"),
        (broken(0, kernel=0), '"kernel"'),
        (broken(0, kernel=99, pad="VALID"), "does not fit"),
        (broken(0, stride=[1, 1, 1]), '"stride"'),
        (broken(0, pad=[1, 1]), '"pad"'),
        (broken(0, pad="FULL"), '"pad"'),
        (broken(0, activation="gelu"), "GELU"),
        (broken(1, cout=9), '"cout"'),
        (broken(2, cin=7), '"cin" is 7'),
        (broken(3, residual_from=7), '"residual_from"'),
        (broken(3, residual_from=None), '"residual_from"'),
        (broken(3, residual_from=-1), "cannot be combined"),
        (broken(3, out=[8, 8, 9]), '"out" says [8, 8, 9], the graph gives [8, 8, 8]'),
        ({**SMALL, "input": [16, 16]}, '"input"'),
        ({**SMALL, "input": [1 << 20, 1 << 20, 3]}, "too large"),
        ({**SMALL, "layers": []}, "at least one layer"),
        ({**SMALL, "layers": ["conv"]}, "layer 0: a layer is an object"),
        ({"layers": SMALL["layers"]}, '"input"'),
    ],
)
def test_inconsistent_list_is_named(architecture: dict[str, Any], says: str) -> None:
    with pytest.raises(ModelError) as caught:
        build_architecture(architecture)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"layers": 3}', "[" * 100_000])
def test_file_that_is_no_architecture(tmp_path: Path, text: str) -> None:
    path = tmp_path / "arch.json"
    path.write_text(text)
    with pytest.raises(ModelError, match=r"arch\.json"):
        load_architecture(path)


def test_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        load_architecture(tmp_path / "absent.json")
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="cannot be read"):
        load_architecture(tmp_path / "bytes.json")


def build_model(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False)


def test_script_writes_the_model(tmp_path: Path) -> None:
    (tmp_path / "arch.json").write_text(json.dumps(SMALL))
    done = build_model(tmp_path / "arch.json", tmp_path / "out.tflite", "--seed", "5")
    assert done.returncode == 0, done.stderr
    assert load_model(tmp_path / "out.tflite") == build_architecture(SMALL, seed=5)


def test_script_answers_bad_input_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "arch.json").write_text(json.dumps(broken(0, op="nonsense")))
    absent = build_model(tmp_path / "absent.json", tmp_path / "out.tflite")
    unknown = build_model(tmp_path / "arch.json", tmp_path / "out.tflite")
    for done, place in ((absent, "absent.json"), (unknown, "arch.json: layer 0 (nonsense)")):
        assert done.returncode == 2
        assert place in done.stderr
        assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out.tflite").exists()
    assert build_model(tmp_path / "arch.json", tmp_path / "out.tflite", "--seed", "-1").returncode == 2
