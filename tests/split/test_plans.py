"""Plans of the published scheme: bit-exact, complete, and refused when a part is missing or doubled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from scripts.zoo import ModelBuilder
from scripts.zoo.networks import efficient_network
from tests.split.execute import PlanRun
from tests.split.networks import branching_model, cluster, network
from tflite_fuse import rewrite
from tflite_fuse.errors import ModelError, PlanError
from tflite_fuse.model import load_model, serialize_model
from tflite_fuse.model.edit import replace_main
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.inputs import generate_inputs
from tflite_fuse.split.cut.network import network_of
from tflite_fuse.split.cut.plan import Phase, Plan, by_ratings, evenly_loaded
from tflite_fuse.split.fragments.machine import operators_of
from tflite_fuse.split.needs import Accountant
from tflite_fuse.split.search.paper import paper_plan
from tflite_fuse.split.search.walk import one_worker
from tflite_fuse.split.splitting import SplitOptions, split_model
from tflite_fuse.split.verify import check_plan, verify_plan

needs_tflm = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")


@needs_tflm
@pytest.mark.parametrize("ratings", [(1.0,), (1.0, 1.0, 1.0), (3.0, 0.5, 2.0, 0.01), (1.0,) * 8])
def test_every_share_of_every_layer_computes_the_bytes_of_tflm(ratings: tuple[float, ...]) -> None:
    plan = paper_plan(network(), ratings, "")
    found = verify_plan(network(), plan, Accountant(network()), inputs=3)
    assert found.bit_exact and found.inputs == 3, found.first_difference


@needs_tflm
def test_a_map_times_one_pixel_is_cut_and_the_pixel_goes_to_all() -> None:
    net = network_of(efficient_network(16, ((1, 4, 1, 1, 3), (2, 6, 1, 2, 3)), stem=4))
    found = verify_plan(net, paper_plan(net, (1.0, 2.0, 1.0), ""), Accountant(net), inputs=2)
    assert found.bit_exact, found.first_difference


@needs_tflm
def test_a_model_of_which_no_worker_can_run_anything_runs_at_the_coordinator() -> None:
    builder = ModelBuilder(1)
    model = builder.build([builder.log_softmax(builder.input((1, 9)))])
    for objective in ("time", "ram", "traffic", "throughput"):
        split = split_model(model, cluster(), SplitOptions("auto", objective, verify=1))
        assert split.verified is not None and split.verified.bit_exact and split.timeline.period == 0.0
        assert any("runs at the coordinator" in note for note in split.notes)


def test_a_model_that_is_fused_already_is_refused_in_a_sentence() -> None:
    with pytest.raises(ModelError, match="split the model that it was rewritten from"):
        network_of(load_model(rewrite(serialize_model(branching_model()), verify=False).model))


def test_a_model_that_remembers_is_refused_in_a_sentence() -> None:
    builder = ModelBuilder(1)
    x = builder.conv(builder.input((1, 8, 8, 3)), 8, 3, 2, "SAME", "RELU6")
    variable = builder.variable((1, 4, 4, 8))
    y = builder.add(builder.read_variable(variable), x)
    builder.assign_variable(variable, y)
    with pytest.raises(ModelError, match="keeps state between inferences"):
        network_of(builder.build([builder.conv(y, 4)]))


@pytest.mark.parametrize("ends", ["inputs", "outputs"])
def test_a_model_that_lists_an_end_twice_is_refused_in_a_sentence(ends: str) -> None:
    main = branching_model().main
    twice = replace(main, **{ends: getattr(main, ends) * 2})
    with pytest.raises(ModelError, match=f"among its {ends} more than once: it cannot be split"):
        network_of(replace_main(branching_model(), twice))


def test_a_constant_among_the_inputs_is_refused_in_a_sentence() -> None:
    main = branching_model().main
    constant = (main.operators[0].inputs or ())[1]
    with pytest.raises(ModelError, match="is a constant: it cannot be split"):
        network_of(replace_main(branching_model(), replace(main, inputs=(*main.inputs, constant))))


@needs_tflm
def test_one_worker_computes_the_bytes_of_tflm() -> None:
    plan = one_worker(network(), cluster((60.0,) * 3), 1)
    assert verify_plan(network(), plan, Accountant(network()), inputs=2).bit_exact
    needs = Accountant(network()).of_plan(plan, cluster())
    assert needs[1].instructions > 0 and not needs[0].by_phase


@needs_tflm
def test_a_wrong_byte_is_found_and_named() -> None:
    net = network()
    stage = net.nodes[0].stage
    assert stage is not None and stage.bias is not None
    wrong = replace(net.nodes[0], stage=replace(stage, bias=stage.bias + 4000))
    other = replace(net, nodes=(wrong, *net.nodes[1:]))
    found = verify_plan(other, paper_plan(other, (1.0, 2.0), ""), Accountant(other), inputs=2)
    assert not found.bit_exact and "differs at" in str(found.first_difference)


@needs_tflm
def test_a_device_without_its_input_fails() -> None:
    plan = without_transfer(paper_plan(network(), (1.0, 1.0), ""))
    model = branching_model()
    arrays = generate_inputs(model, 1)[0]
    assert tflm.run(serialize_model(model), [arrays]).outputs
    with pytest.raises(PlanError, match="is read by a device"):
        PlanRun(network(), plan).outputs([np.asarray(a) for a in arrays])


@needs_tflm
@pytest.mark.parametrize("shares", [(1.0,), (1.0, 2.0, 1.0)])
def test_tasks_compute_the_bytes_of_tflm_in_numpy_too(shares: tuple[float, ...]) -> None:
    """By the numpy reference of each kind, which has no code in common with the device library."""
    model = branching_model()
    arrays = generate_inputs(model, 1)[0]
    expected = tflm.run(serialize_model(model), [arrays]).outputs[0]
    net = network_of(model)
    whole = operators_of(net)
    run = PlanRun(net, paper_plan(net, shares, ""), lambda node, given: whole.run(net.nodes[node].operator, given))
    outputs = run.outputs([np.asarray(a) for a in arrays])
    assert [each.tobytes() for each in outputs] == [np.ascontiguousarray(each).tobytes() for each in expected]


def without_transfer(plan: Plan) -> Plan:
    first = plan.phases[2]
    return with_phase(plan, 2, replace(first, transfers=first.transfers[1:]))


def with_phase(plan: Plan, number: int, phase: Phase) -> Plan:
    return replace(plan, phases=(*plan.phases[:number], phase, *plan.phases[number + 1 :]))


def twice_computed(plan: Plan) -> Plan:
    phase = plan.phases[2]
    moved = replace(phase.tasks[1], owned=phase.tasks[0].owned, steps=phase.tasks[0].steps)
    everything = {task.worker: task for task in (*phase.tasks, moved)}
    both = tuple(each for each in phase.transfers for each in (each, replace(each, target=1 - each.target)))
    return with_phase(plan, 2, replace(phase, transfers=both, tasks=tuple(everything.values())))


def left_out(plan: Plan) -> Plan:
    last = plan.phases[-1]
    return with_phase(plan, len(plan.phases) - 1, replace(last, returned=(), tasks=()))


def claimed(plan: Plan) -> Plan:
    phase = plan.phases[0]
    step = phase.tasks[0].steps[0]
    less = replace(phase.tasks[0], steps=(replace(step, region=(replace(step.region[0], rows=(0, 1)),)),))
    return with_phase(plan, 0, replace(phase, tasks=(less, *phase.tasks[1:])))


def two_tasks(plan: Plan) -> Plan:
    phase = plan.phases[0]
    return with_phase(plan, 0, replace(phase, tasks=(phase.tasks[0], *phase.tasks)))


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (without_transfer, "lacks parts of"),
        (twice_computed, "have two producers"),
        (left_out, "never reach the coordinator"),
        (claimed, "it does not compute"),
        (two_tasks, "has two tasks"),
    ],
)
def test_a_broken_plan_is_refused(broken: Callable[[Plan], Plan], message: str) -> None:
    plan = paper_plan(network(), (1.0, 1.0), "")
    check_plan(network(), plan)
    with pytest.raises(PlanError, match=message):
        check_plan(network(), broken(plan))


def test_shares_by_ratings_cover_everything_in_order() -> None:
    assert by_ratings(10, (1.0, 1.0, 1.0)) == ((0, 3), (3, 6), (6, 10))
    assert by_ratings(7, (0.0, 1.0)) == ((0, 0), (0, 7))


@pytest.mark.parametrize("seed", range(20))
def test_no_other_shares_are_done_earlier(seed: int) -> None:
    rng = np.random.default_rng(seed)
    speeds = tuple(rng.uniform(0.5, 4, 3).tolist())
    total = int(rng.integers(1, 12))
    ranges = evenly_loaded(total, speeds)
    assert ranges[0][0] == 0 and ranges[-1][1] == total

    def done(counts: tuple[int, int, int]) -> float:
        return max(count / speed for count, speed in zip(counts, speeds, strict=True))

    every = [(a, b, total - a - b) for a in range(total + 1) for b in range(total + 1 - a)]
    ours = tuple(high - low for low, high in ranges)
    assert done((ours[0], ours[1], ours[2])) == pytest.approx(min(map(done, every)))
