"""The search: bit-exact, never worse than the plans it contains, within the memory, with a valid bound."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import inf
from random import Random

import pytest

from scripts.zoo import ModelBuilder
from tests.split.every_way import every_way
from tests.split.networks import branching_model, cluster, network
from tests.split.test_sums import big_end
from tflite_fuse.errors import LimitError
from tflite_fuse.model.schema import Model
from tflite_fuse.runtime import tflm
from tflite_fuse.split.cluster.folder import Deployment
from tflite_fuse.split.cluster.simulation import simulated
from tflite_fuse.split.cut.network import network_of
from tflite_fuse.split.cut.plan import MOST_THRIFT
from tflite_fuse.split.devices import Cluster, Link
from tflite_fuse.split.fragments.encode import encode_plan
from tflite_fuse.split.needs import LIBRARY_BYTES, WORKER_BYTES, Accountant
from tflite_fuse.split.search.auto import Search
from tflite_fuse.split.search.beam import BoundsAhead, bounds_of
from tflite_fuse.split.search.edges import Edge, EdgeMaker, Mode, cuts
from tflite_fuse.split.search.estimates import Estimates
from tflite_fuse.split.search.labels import Label
from tflite_fuse.split.splitting import Split, SplitOptions, split_model
from tflite_fuse.split.verify import check_plan, verify_plan

needs_tflm = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")


def residual_model() -> Model:
    """Inverted residuals and a classifier with most of the weights."""
    builder = ModelBuilder(3)
    x = builder.conv(builder.input((1, 24, 20, 3)), 8, 3, 2, "SAME", "RELU6")
    for stride, filters in ((1, 8), (2, 16), (1, 16)):
        wide = builder.conv(x, 6 * x.shape[3], 1, 1, "SAME", "RELU6")
        y = builder.conv(builder.depthwise(wide, 3, stride, "SAME", "RELU6"), filters)
        x = builder.add(y, x) if y.shape == x.shape else y
    x = builder.mean(builder.conv(x, 96, 1, 1, "SAME", "RELU6"))
    return builder.build([builder.fully_connected(x, 200)])


def found(model: Model, devices: Cluster, objective: str = "time", verify: int = 0) -> Split:
    return split_model(model, devices, SplitOptions("auto", objective, verify=verify))


@needs_tflm
@pytest.mark.parametrize("objective", ["time", "traffic", "ram", "throughput"])
@pytest.mark.parametrize("direct", [True, False])
def test_the_best_split_computes_the_bytes_of_tflm(objective: str, direct: bool) -> None:
    for model in (residual_model(), branching_model()):
        split = found(model, cluster((600.0, 150.0, 450.0), direct), objective, verify=2)
        assert split.verified is not None and split.verified.bit_exact, split.verified


@needs_tflm
@pytest.mark.parametrize("mode", [Mode.ROWS, Mode.CHANNELS, Mode.SUMS])
def test_every_edge_of_every_mode_is_sound_and_exact(mode: Mode) -> None:
    """Forced: each piece between neighbouring cuts under the mode where it can be, else on one worker."""
    for model in (residual_model(), branching_model()):
        net, devices = network_of(model), cluster((600.0, 300.0, 500.0))
        search = Search(net, devices, Accountant(net), "time")
        places = cuts(net)

        def edges(first: int, last: int, length: int, maker: EdgeMaker = search.maker) -> list[object]:
            forced = maker.edge(first, last, mode, (0, 1, 2)) if length <= 2 else None
            alone = maker.edge(first, last, Mode.ONE, (1,)) if length == 1 else None
            return [each for each in (forced or alone,) if each is not None]

        search._edges = edges  # type: ignore[method-assign,assignment]
        plan = search.run().plans[0]
        assert mode.value in plan.strategy and len(places) > 3
        accountant = Accountant(net).over(plan.sums)
        assert bool(plan.sums) == (mode is Mode.SUMS)
        check_plan(accountant.network, plan)
        assert verify_plan(accountant.network, plan, accountant, inputs=2).bit_exact


def test_more_workers_are_never_slower_than_fewer() -> None:
    model = residual_model()
    seconds = [found(model, cluster((60.0,) * count)).timeline.seconds for count in (1, 2, 4, 5)]
    assert seconds == sorted(seconds, reverse=True) and seconds[2] < 0.9 * seconds[0]


def test_work_of_the_coordinator_is_below_no_bound() -> None:
    builder = ModelBuilder(0)
    x = builder.input((1, 4, 4, 3))
    network = network_of(builder.build([builder.log_softmax(x)]))
    assert bounds_of(network).moved == 0 and bounds_of(network).seconds(cluster(), Estimates(network)) == 0
    beside = builder.build([builder.log_softmax(x), builder.conv(builder.log_softmax(x), 2)])
    for objective in ("time", "traffic"):
        split = found(beside, cluster(), objective)
        bounds = bounds_of(split.network)
        assert (bounds.moved, bounds.sent) == (4 * 4 * 2, 0) and split.plan.moved >= bounds.moved


def test_slow_links_leave_the_work_to_one() -> None:
    split = found(residual_model(), cluster(link=Link(kilobytes_per_second=5.0, delay_ms_per_message=50.0)))
    assert sum(bool(needs.by_phase) for needs in split.needs) == 1
    assert any("nothing to do for" in note for note in split.notes)
    assert split.timeline.seconds == pytest.approx(split.one_seconds, rel=0.1)


@needs_tflm
@pytest.mark.parametrize("objective", ["time", "traffic"])
def test_a_model_no_worker_can_store_is_spread_within_their_flash(objective: str) -> None:
    model = residual_model()
    total = sum(Estimates(network_of(model)).weight_bytes)
    room = LIBRARY_BYTES + total // 2
    devices = cluster()
    devices = replace(devices, workers=tuple(replace(worker, flash=room) for worker in devices.workers))
    split = found(model, devices, objective, verify=1)
    assert all(needs.flash_bytes <= room for needs in split.needs if needs.by_phase)
    assert split.verified is not None and split.verified.bit_exact


@pytest.mark.parametrize(("objective", "speeds"), [("time", (60.0, 30.0, 45.0, 60.0)), ("traffic", (600.0,) * 3)])
def test_more_flash_never_makes_a_plan_worse(objective: str, speeds: tuple[float, ...]) -> None:
    """MobileNetV2 took 181.8 ms within 1.5 MB and 107.3 within 1.35, as all ways the beam kept ran into a corner."""
    total = sum(Estimates(network_of(residual_model())).weight_bytes)
    values = []
    for part in (0.6, 0.65, 0.75, 0.9, 1.3):
        options = SplitOptions("auto", objective, max_flash=LIBRARY_BYTES + round(total * part * 3 / len(speeds)))
        split = split_model(residual_model(), cluster(speeds), options)
        assert all(needs.flash_bytes <= (options.max_flash or 0) for needs in split.needs if needs.by_phase)
        values.append(split.timeline.seconds if objective == "time" else split.plan.moved)
    assert values == sorted(values, reverse=True) and values[-1] < values[0]


def test_more_ram_never_moves_more_bytes() -> None:
    """Within 10,050 and 9,748 B nothing was found, while a tenth less sufficed: the search was left too little RAM."""
    moved = []
    for limits in ((9497, 9225), (10050, 9748), (10603, 10271)):
        devices = cluster((52.0, 54.0))
        pairs = zip(devices.workers, limits, strict=True)
        devices = replace(devices, workers=tuple(replace(worker, ram=limit) for worker, limit in pairs))
        split = found(residual_model(), devices, "traffic")
        used = [needs.ram_bytes if needs.by_phase else 0 for needs in split.needs]
        assert all(each <= limit for each, limit in zip(used, limits, strict=True))
        moved.append(split.plan.moved)
    assert moved == sorted(moved, reverse=True)


@pytest.mark.parametrize("number", range(12))
def test_more_memory_is_never_worse_for_any_workers_and_links(number: int) -> None:
    """Speeds, rates, delays and memory are up to 20 % off; the plan with less memory is one with more, too."""
    rng = Random(number)

    def about(value: float) -> float:
        return value * rng.uniform(0.8, 1.2)

    count, weights = rng.choice([2, 3, 4]), sum(Estimates(network_of(big_end())).weight_bytes)
    drawn = [
        replace(worker, mhz=about(worker.mhz), link=Link(about(12_500.0), about(0.2)))
        for worker in cluster((rng.choice([60.0, 600.0]),) * count).workers
    ]
    devices = replace(cluster((600.0,) * count, rng.random() < 0.5), workers=tuple(drawn))
    objective, kind = ("time", "traffic")[number % 2], ("flash", "ram")[number // 2 % 2]
    own, least = {"flash": (LIBRARY_BYTES, about(0.7) * weights), "ram": (WORKER_BYTES, about(4500.0))}[kind]
    shares, values = [about(1.0) for _ in drawn], []
    for more in (0.9, 1.0, 1.2):
        limits = [own + round(least * share * more) for share in shares]
        pairs = zip(drawn, limits, strict=True)
        workers = tuple(replace(worker, **{kind: limit}) for worker, limit in pairs)
        try:
            split = found(big_end(), replace(devices, workers=workers), objective)
        except LimitError:
            values.append(inf)
            continue
        for needs, limit in zip(split.needs, limits, strict=True):
            assert not needs.by_phase or (needs.flash_bytes if kind == "flash" else needs.ram_bytes) <= limit
        values.append(split.timeline.seconds if objective == "time" else float(split.plan.moved))
    # A beam may miss a plan that is hardly better.
    assert all(more <= 1.005 * less for less, more in pairwise(values)) and values[-1] < inf


@pytest.mark.parametrize("room", [None, 0.5, 0.7])
def test_the_bound_of_the_rest_never_exceeds_its_cost(room: float | None) -> None:
    """Of every way through a small network: at each of its cuts, within the flash of all workers together."""
    net = network_of(big_end())
    flash = None if room is None else LIBRARY_BYTES + round(sum(Estimates(net).weight_bytes) * room)
    devices = cluster((600.0, 300.0, 600.0))
    devices = replace(devices, workers=tuple(replace(worker, flash=flash) for worker in devices.workers))
    search = Search(net, devices, Accountant(net), "time")
    ways = every_way(search, 5000)
    assert ways is not None
    edges: dict[int, list[Edge]] = {}
    for last in range(1, len(search.places)):
        for edge in (edge for first in range(last) for edge in search._between(first, last)):
            edges.setdefault(edge.first, []).append(edge)
    ahead = BoundsAhead(search.transfer_costs, edges, search.places, devices.workers, search.measured)
    limits = sum(flash - LIBRARY_BYTES for _ in devices.workers) if flash is not None else None
    tight = 0
    for way in ways:
        stored = limits is None or sum(way.flash) <= limits
        here: Label | None = way
        while here is not None:
            place = 0 if here.edge is None else here.edge.last
            least = float(ahead.least([here], place, lambda label: label.seconds)[0, 0])
            assert not stored or least <= way.seconds * (1 + 1e-9)
            tight += least > 0.9 * way.seconds
            here = here.before
    assert tight > len(ways)


def test_too_little_flash_is_reported_with_the_missing_bytes() -> None:
    devices = cluster()
    devices = replace(devices, workers=tuple(replace(worker, flash=LIBRARY_BYTES + 999) for worker in devices.workers))
    with pytest.raises(LimitError, match="B are missing"):
        found(residual_model(), devices)


@pytest.mark.parametrize("objective", ["time", "traffic"])
def test_no_split_goes_below_the_bound(objective: str) -> None:
    net = network_of(residual_model())
    for count in (1, 3):
        devices = cluster((600.0,) * count)
        result = Search(net, devices, Accountant(net), objective).run()
        split = found(residual_model(), devices, objective)
        value = split.timeline.seconds if objective == "time" else split.plan.moved
        assert result.bound is not None and value >= result.bound


def test_with_the_goal_throughput_inferences_overlap() -> None:
    """Over slow links a pipeline: one worker after the other, each with its share of the work."""
    link = Link(kilobytes_per_second=2000.0, delay_ms_per_message=1.0)
    splits = {each: found(residual_model(), cluster((60.0,) * 3, link=link), each) for each in ("throughput", "time")}
    period = {each: split.timeline.period for each, split in splits.items()}
    assert period["throughput"] <= period["time"]
    assert period["throughput"] < 0.7 * splits["throughput"].timeline.seconds
    net, plan, devices = splits["throughput"].network, splits["throughput"].plan, splits["throughput"].cluster
    course = simulated(Deployment(net, plan, devices, encode_plan(net, plan, Accountant(net).parts)), 16)
    assert course.spacing == pytest.approx(period["throughput"], rel=0.1)


@needs_tflm
def test_thrifty_blocks_need_less_and_compute_the_same_bytes() -> None:
    net, devices = network_of(residual_model()), cluster()
    accountant = Accountant(net)
    quick = Search(net, devices, accountant, "time").run().plans[0]
    needed = [max(accountant.ram_of(quick, worker) for worker in range(3))]
    for thrift in range(1, MOST_THRIFT + 1):
        phases = tuple(
            replace(phase, tasks=tuple(replace(task, thrift=thrift) for task in phase.tasks)) for phase in quick.phases
        )
        plan = replace(quick, phases=phases)
        assert verify_plan(net, plan, accountant, inputs=2).bit_exact
        needed.append(max(accountant.ram_of(plan, worker) for worker in range(3)))
    assert needed[-1] < needed[0]


def test_workers_need_less_with_the_goal_ram_than_with_time() -> None:
    pair = cluster((600.0, 600.0))
    splits = {objective: found(residual_model(), pair, objective) for objective in ("ram", "time")}
    most = {objective: max(needs.ram_bytes for needs in split.needs) for objective, split in splits.items()}
    assert most["ram"] < most["time"]


def test_with_the_goal_ram_more_workers_need_no_more_than_one() -> None:
    """Four needed 5,976 B each and one alone 5,640 B, because only the likeliest plans were made thrifty."""
    b = ModelBuilder(1, calibration=2)
    x = b.conv(b.input((1, 16, 16, 1)), 24, 3, 2, "SAME", "RELU")
    for _ in range(2):
        x = b.conv(b.depthwise(x, 3, 1, "SAME", "RELU"), 24, activation="RELU")
    model = b.build([b.fully_connected(b.mean(x), 4)])
    one, four = (found(model, cluster((600.0,) * count), "ram") for count in (1, 4))
    assert max(needs.ram_bytes for needs in four.needs) <= max(needs.ram_bytes for needs in one.needs)


def test_cuts_are_where_one_value_is_alive() -> None:
    net = network()
    places = cuts(net)
    assert places[0] == 0 and places[-1] == len(net.nodes)
    adds = [index for index, node in enumerate(net.nodes) if node.name.startswith("ADD")]
    assert adds and all(index not in places and index + 1 in places for index in adds)


@needs_tflm
@pytest.mark.parametrize("objective", ["time", "traffic", "throughput"])
def test_a_model_output_with_readers_is_not_lost(objective: str) -> None:
    """Found by random networks: behind the first output, what both branches read was taken to be at the coordinator."""
    builder = ModelBuilder(7)
    x = builder.conv(builder.input((1, 12, 12, 3)), 8, 3, 2, "SAME", "RELU6")
    early = builder.conv(x, 4, 3, 1, "SAME", "NONE")
    late = builder.conv(builder.depthwise(x, 3, 1, "SAME", "RELU6"), 5)
    split = found(builder.build([early, late]), cluster((600.0, 500.0), direct=False), objective, verify=2)
    assert split.verified is not None and split.verified.bit_exact


@needs_tflm
def test_a_value_read_by_two_blocks_of_a_task_lies_in_memory() -> None:
    """Residuals cut the task behind their inputs; what the side branch wrote before is read by the last block."""
    builder = ModelBuilder(5)
    x = builder.conv(builder.input((1, 16, 12, 3)), 8, 3, 2, "SAME", "RELU6")
    side = builder.conv(x, 6, 3, 1, "SAME", "RELU6")
    y = builder.add(builder.conv(x, 8, 3, 1, "SAME", "RELU6"), x)
    y = builder.add(builder.conv(y, 8, 3, 1, "SAME", "NONE"), y)
    model = builder.build([builder.concat([builder.conv(side, 4, 3, 1, "SAME"), builder.conv(y, 4, 3, 1, "SAME")])])
    net, devices = network_of(model), cluster((600.0, 600.0))
    edge = EdgeMaker(net, devices, Estimates(net)).edge(0, len(net.nodes), Mode.ROWS, (0, 1))
    assert edge is not None
    for objective in ("time", "traffic"):
        split = found(model, devices, objective, verify=2)
        assert split.verified is not None and split.verified.bit_exact
    search = Search(net, devices, Accountant(net), "time")
    search._edges = lambda first, last, length: [edge] if (first, last) == (0, len(net.nodes)) else []  # type: ignore
    assert verify_plan(net, search.run().plans[0], Accountant(net), inputs=2).bit_exact


def test_a_wide_end_is_shared_by_workers_that_hold_the_rest_in_turn() -> None:
    """The best ways to a cut fill one worker after another, and then the classifier fits none of them."""
    net = network_of(residual_model())
    sizes = Estimates(net).weight_bytes
    room = LIBRARY_BYTES + round(sum(sizes) / 4 * 1.45)
    devices = cluster((600.0,) * 4)
    devices = replace(devices, workers=tuple(replace(worker, flash=room) for worker in devices.workers))
    assert max(sizes) > room - LIBRARY_BYTES
    split = found(residual_model(), devices, "traffic")
    assert all(needs.flash_bytes <= room for needs in split.needs if needs.by_phase)


def test_an_input_that_is_an_output_too_is_bounded_by_its_read_part() -> None:
    builder = ModelBuilder(0)
    x = builder.input((1, 8, 8, 3))
    model = builder.build([builder.conv(x, 2, 1, 2, "SAME", "NONE"), x])
    bounds = bounds_of(network_of(model))
    assert (bounds.sent, bounds.moved) == (4 * 4 * 3, 4 * 4 * 3 + 4 * 4 * 2)
    for objective in ("time", "traffic"):
        assert found(model, cluster(), objective).plan.moved >= bounds.moved
