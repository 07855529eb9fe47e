"""Node data for Model Explorer: files that it accepts, and an extension that it loads and runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tflite_fuse
from tests.export.exported import network
from tests.test_cli import run
from tflite_fuse.explorer.node_data import INSIDE, node_data


def test_every_operator_has_its_figures_under_the_name_of_its_output(tmp_path: Path) -> None:
    model = tmp_path / "model.tflite"
    model.write_bytes(network("softmax"))
    done = run("inspect", model, "--node-data", tmp_path / "data")
    assert done.returncode == 0, done.stderr
    found = {path.stem: json.loads(path.read_text()) for path in (tmp_path / "data").glob("*.json")}
    inspection = tflite_fuse.inspect(model)
    assert found == node_data(inspection) and set(found) == {"live_bytes", "macs", "blocks"}
    for row in inspection.operators:
        assert found["live_bytes"]["results"][row.output] == {"value": row.working_set_bytes}
        assert found["macs"]["results"][row.output] == {"value": row.macs}
        assert found["blocks"]["results"][row.output] == {"value": row.blocked or INSIDE}


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    model, taken = tmp_path / "model.tflite", tmp_path / "taken"
    model.write_bytes(network("none"))
    taken.write_text("")
    done = run("inspect", model, "--node-data", taken / "data")
    assert done.returncode == 2 and "no folder can be made there" in done.stderr


@pytest.fixture
def extensions() -> Any:
    manager = pytest.importorskip("model_explorer.extension_manager")
    found = manager.ExtensionManager(["tflite_fuse.explorer"])
    found.load_extensions()
    return found


def ask(extensions: Any, model: Path) -> dict[str, Any]:
    command = {"cmdId": "run", "extensionId": "tflite_fuse", "modelPath": str(model), "graphId": "", "configValues": {}}
    answer: dict[str, Any] = extensions.run_cmd(command)
    return answer


def test_the_extension_has_the_same_figures_under_the_nodes_of_model_explorer(extensions: Any, tmp_path: Path) -> None:
    model = tmp_path / "model.tflite"
    model.write_bytes(network("softmax"))
    expected = node_data(tflite_fuse.inspect(model))
    found = ask(extensions, model)["result"]
    assert [each["name"] for each in found] == [each["name"] for each in expected.values()]
    for column, data in zip(found, expected.values(), strict=True):
        assert {name: each["value"] for name, each in column["results"].items()} == {
            name: each["value"] for name, each in data["results"].items()
        }
    command = {"cmdId": "convert", "extensionId": "builtin_tflite_flatbuffer", "modelPath": str(model), "settings": {}}
    graphs = json.dumps(extensions.run_cmd(command))
    assert all(json.dumps(name) in graphs for name in expected["macs"]["results"])


def test_the_extension_names_the_defect_of_a_model(extensions: Any, tmp_path: Path) -> None:
    model = tmp_path / "model.tflite"
    model.write_bytes(b"no model")
    answer = ask(extensions, model)
    assert answer["result"] is None and "model.tflite" in answer["error"]
