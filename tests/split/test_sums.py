"""Layers cut by input channels: int32 sums of every part, each added once."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from scripts.zoo import ModelBuilder
from tests.arduino.fake_runtime import SANITIZERS, build, compiler, library_objects
from tests.split.networks import branching_model, cluster, network
from tflite_fuse.errors import PlanError
from tflite_fuse.export.split.boards import places_of
from tflite_fuse.export.split.keys import Lock
from tflite_fuse.export.split.project import worker_program
from tflite_fuse.model.file import serialize_model
from tflite_fuse.model.schema import Model
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.library.sources import library_directory
from tflite_fuse.split.cluster.folder import Deployment
from tflite_fuse.split.cut.network import Network, network_of
from tflite_fuse.split.cut.plan import Plan, Summed
from tflite_fuse.split.cut.plan_file import plan_document, read_document
from tflite_fuse.split.cut.sums import can_be_summed, extended, has_sums
from tflite_fuse.split.fragments.encode import encode_plan
from tflite_fuse.split.needs import LIBRARY_BYTES, SUMS_BYTES, Accountant
from tflite_fuse.split.search.paper import paper_plan
from tflite_fuse.split.search.walk import one_worker
from tflite_fuse.split.splitting import SplitOptions, split_model
from tflite_fuse.split.verify import check_plan, verify_plan

needs_tflm = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")


def big_end() -> Model:
    """Many values, of all of which a fully connected layer makes ten."""
    builder = ModelBuilder(4)
    x = builder.conv(builder.input((1, 16, 16, 3)), 16, 3, 2, "SAME", "RELU6")
    x = builder.conv(x, 512, 3, 2, "SAME", "RELU6")
    return builder.build([builder.fully_connected(x, 10)])


def all_summed(net: Network, parts: int) -> tuple[Summed, ...]:
    """Every layer that can be, in so many parts, the first of one channel."""
    found = []
    for index, node in enumerate(net.nodes):
        channels = net.shape(node.inputs[0])[2]
        if can_be_summed(node) and channels >= parts:
            bounds = [0, *range(1, parts), channels]
            found.append(Summed(index, tuple(pairwise(bounds))))
    return tuple(found)


@needs_tflm
@pytest.mark.parametrize("parts", [2, 3])
def test_layers_cut_by_their_input_channels_compute_the_bytes_of_tflm(parts: int) -> None:
    """Strides, padding, both kinds; additions cut by output channels, as the published scheme cuts everything."""
    for model in (branching_model(), big_end()):
        net = network_of(model)
        sums = all_summed(net, parts)
        accountant = Accountant(net).over(sums)
        larger = accountant.network
        assert len(sums) > 1 and len(larger.nodes) == len(net.nodes) + len(sums) * (2 * parts - 2)
        whole = replace(one_worker(larger, cluster((60.0,)), 0), sums=sums)
        assert verify_plan(larger, whole, accountant, inputs=2).bit_exact


@needs_tflm
@pytest.mark.parametrize("objective", ["time", "traffic"])
def test_sums_travel_where_they_are_fewer_bytes_than_their_terms(objective: str) -> None:
    devices = cluster()
    devices = replace(devices, workers=tuple(replace(worker, flash=200_000) for worker in devices.workers))
    split = split_model(big_end(), devices, SplitOptions("auto", objective, verify=2))
    assert "by input channels" in split.plan.strategy and len(split.plan.sums) == 1
    assert split.verified is not None and split.verified.bit_exact
    adding = {task.worker for phase in split.plan.phases for task in phase.tasks if phase.name.endswith(", sum")}
    assert len(adding) > 1 and all(split.needs[each].flash_bytes > LIBRARY_BYTES + SUMS_BYTES for each in adding)


def as_written(plan: Plan) -> Any:
    model = branching_model()
    net = extended(network(), plan.sums).network if plan.sums else network()
    return json.loads(json.dumps(plan_document(net, plan, ["a", "b", "c"], serialize_model(model))))


def summed_plan() -> Plan:
    sums = all_summed(network(), 2)
    return replace(one_worker(extended(network(), sums).network, cluster((60.0,) * 3), 0), sums=sums)


def test_a_plan_with_sums_is_read_as_it_was_written() -> None:
    plan, model = summed_plan(), serialize_model(branching_model())
    assert read_document(as_written(plan), network(), model) == plan
    plain = paper_plan(network(), (1.0, 1.0, 1.0), "")
    assert "sums" not in as_written(plain) and read_document(as_written(plain), network(), model) == plain


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"parts": [[0, 1], [2, 3]]}, "overlap or leave some out"),
        ({"parts": [[0, 2], [1, 3]]}, "overlap or leave some out"),
        ({"parts": [[0, 1], [1, 2]]}, "cannot be cut"),
        ({"parts": [[0, 3]]}, "cannot be cut"),
        ({"parts": [[0, 0], [0, 3]]}, "overlap or leave some out"),
        ({"parts": [[0, 1], [1, -3]]}, "damaged"),
        ({"node": 1}, "cut twice"),
        ({"node": 10_000}, "not in order|does not have"),
        ({"node": "one"}, "damaged"),
    ],
)
def test_sums_that_are_no_exact_set_of_parts_are_refused(change: dict[str, Any], problem: str) -> None:
    document = as_written(summed_plan())
    assert document["sums"][0] == {"node": 0, "parts": [[0, 1], [1, 3]]} and document["sums"][1]["node"] != 1
    document["sums"][0] |= change
    if change.get("node") == 1:
        document["sums"][0] = document["sums"][1]
    with pytest.raises(PlanError, match=problem):
        read_document(document, network(), serialize_model(branching_model()))


def test_a_part_that_is_added_twice_is_found_without_running_anything() -> None:
    plan = summed_plan()
    larger = extended(network(), plan.sums).network
    check_plan(larger, plan)
    nodes = list(larger.nodes)
    last = next(index for index, node in enumerate(nodes) if node.name.endswith(", sum"))
    first = nodes[last].inputs[0]
    stage = nodes[last].stage
    assert stage is not None
    nodes[last] = replace(nodes[last], inputs=(first, first), stage=replace(stage, inputs=(first, first)))
    with pytest.raises(PlanError, match="overlap or leave channels out"):
        check_plan(replace(larger, nodes=tuple(nodes)), plan)


OPENS = """
#include <stdio.h>
#include <tflite_fuse_worker.h>
static _Alignas(16) unsigned char fragment[1 << 20], buffer[1 << 20];
int main(int count, char** arguments) {
  FILE* file = fopen(arguments[count - 1], "rb");
  const size_t bytes = file == NULL ? 0 : fread(fragment, 1, sizeof(fragment), file);
  tflite_fuse_worker worker;
  BRING
  return (int)tflite_fuse_worker_open(&worker, fragment, bytes, buffer, sizeof(buffer));
}
"""


def test_programs_link_the_kernels_of_sums_from_an_archive_where_needed(tmp_path: Path) -> None:
    """Others refuse such a fragment, and do not have the kernels."""
    sums = all_summed(net := network_of(big_end()), 2)
    accountant = Accountant(net).over(sums)
    plan = replace(one_worker(accountant.network, cluster((60.0,)), 0), sums=sums)
    (tmp_path / "fragment").write_bytes(encode_plan(accountant.network, plan, accountant.parts).workers[0])
    build(["ar", "rcs", tmp_path / "library.a", *library_objects()])
    ended = {}
    for bring in ("", "tflite_fuse_worker_bring_sums();"):
        (tmp_path / "main.c").write_text(OPENS.replace("BRING", bring))
        out, include = tmp_path / "program", f"-I{library_directory()}"
        build([compiler("gcc"), *SANITIZERS, include, tmp_path / "main.c", tmp_path / "library.a", "-lm", "-o", out])
        ended[bring] = subprocess.run([out, tmp_path / "fragment"], check=False).returncode
        symbols = subprocess.run(["nm", out], capture_output=True, text=True, check=True).stdout
        assert ("tflite_fuse_kind_add_sums" in symbols.replace("w tflite_fuse_kind_add_sums", "")) == bool(bring)
    assert list(ended.values()) == [ended[""], 0] and ended[""] != 0


@needs_tflm
def test_an_exported_worker_includes_the_kernels_of_sums_if_it_has_such_layers(tmp_path: Path) -> None:
    devices = cluster()
    devices = replace(devices, workers=tuple(replace(worker, flash=200_000) for worker in devices.workers))
    split = split_model(big_end(), devices, SplitOptions("auto", "traffic"))
    fragments = encode_plan(split.network, split.plan, Accountant(split.network).parts)
    summing = {each for each in range(3) if has_sums(split.network, split.plan.tasks_of(each).values())}
    assert summing and summing < {0, 1, 2}
    for place in places_of(Deployment(split.network, split.plan, split.cluster, fragments)):
        program = worker_program(place, "", 0, True, Lock(), place.number in summing)
        assert ("tflite_fuse_worker_bring_sums();" in program) == (place.number in summing)
