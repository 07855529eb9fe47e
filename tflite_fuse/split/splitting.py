"""Splits a model over a cluster: plan, resources, predicted time, and comparison with the whole model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from tflite_fuse.errors import LimitError, UsageError
from tflite_fuse.model.schema import Model
from tflite_fuse.split.cut.network import Network, network_of
from tflite_fuse.split.cut.plan import Plan
from tflite_fuse.split.devices import Cluster
from tflite_fuse.split.needs import Accountant, Needs
from tflite_fuse.split.search.auto import OBJECTIVES, Outcome, Search, has_flash_limit
from tflite_fuse.split.search.measuring import Excess, Measure, fits, timeline_of
from tflite_fuse.split.search.message_order import soonest
from tflite_fuse.split.search.paper import published
from tflite_fuse.split.search.walk import one_worker
from tflite_fuse.split.simulate import Course
from tflite_fuse.split.verify import Verified, verify_plan
from tflite_fuse.tuning import TUNING, Tuning

STRATEGIES = ("auto", "paper", "even", "frequency")

_ROUNDS = 12
"""Most searches until a plan fits the workers' memory: time for plans where estimates are wrong."""

_SPARED = 10
"""Divisor of each worker's memory that one more search leaves unused, for faster plans."""

_PLENTY = 1 << 40
"""Bytes of a practically unlimited memory."""


@dataclass(frozen=True)
class SplitOptions:
    """Options of a split.

    Attributes:
        strategy: one of STRATEGIES.
        objective: one of OBJECTIVES, for ``auto``.
        max_ram, max_flash: limit in bytes for each worker, instead of the file's.
        verify: inputs to compare on; 0 for none.
        seed: of generated inputs.
        tuning: rules of thumb of the search.
    """

    strategy: str = "auto"
    objective: str = "time"
    max_ram: int | None = None
    max_flash: int | None = None
    verify: int = 0
    seed: int = 0
    tuning: Tuning = TUNING


@dataclass(frozen=True)
class Split:
    """A split model.

    Attributes:
        network, cluster, plan: as planned; the network is the plan's, with layers cut as its ``sums`` say.
        accountant: of that network, with the blocks of the plan's tasks.
        needs: of each worker.
        timeline: of one inference on simulated devices.
        one_seconds: of the fastest worker alone with unlimited memory, with transfers of input and output.
        verified: None if nothing was run.
        notes: sentences for the user.
    """

    network: Network
    cluster: Cluster
    plan: Plan
    accountant: Accountant
    needs: tuple[Needs, ...]
    timeline: Course
    one_seconds: float
    verified: Verified | None
    notes: tuple[str, ...]


def split_model(
    model: Model, cluster: Cluster, options: SplitOptions, progress: Callable[[int, int], None] | None = None
) -> Split:
    """Split a model over a cluster.

    Raises:
        UsageError: an unknown strategy.
        ModelError: the model cannot be split.
        LimitError: it does not fit; the message names worker, layer and missing bytes.
        PlanError: the plan contradicts itself (a defect of this package).
        RuntimeUnavailableError: verification was requested and TFLM or a C compiler is missing.
    """
    require_known(options)
    cluster = _limited(cluster, options)
    network = network_of(model)
    accountant = Accountant(network)
    if options.strategy == "auto":
        search = Search(network, cluster, accountant, options.objective, tuning=options.tuning)
        plan, needs, claims = _searched(search)
    else:
        plan, needs = published(network, cluster, accountant, options.strategy)
        claims = ()
    _check_fit(cluster, needs)
    alone = seconds_alone(network, cluster, accountant)
    accountant = accountant.over(plan.sums)
    network = accountant.network
    verified = None
    if options.verify:
        verified = verify_plan(network, plan, accountant, inputs=options.verify, seed=options.seed, progress=progress)
    timeline = timeline_of(plan, cluster, accountant, spans=True)
    notes = (*network.notes, plan.strategy, *claims, *_device_notes(cluster, plan, needs))
    return Split(network, cluster, plan, accountant, needs, timeline, alone, verified, notes)


def require_known(options: SplitOptions) -> None:
    """Raise UsageError for an unknown strategy or objective."""
    if options.strategy not in STRATEGIES:
        raise UsageError(f"{options.strategy!r} is no strategy; choose from {', '.join(STRATEGIES)}")
    if options.objective not in OBJECTIVES:
        raise UsageError(f"{options.objective!r} is no objective; choose from {', '.join(OBJECTIVES)}")


def seconds_alone(network: Network, cluster: Cluster, accountant: Accountant) -> float:
    """Return the seconds of the fastest worker with unlimited memory, including input and output."""
    roomy = cluster.with_memory(lambda worker: (None, None))
    seconds = {
        worker: timeline_of(one_worker(network, cluster, worker), cluster, accountant).seconds
        for worker in _kinds(cluster)
    }
    fastest = min(seconds, key=seconds.__getitem__)
    plans = Search(network, roomy, accountant, "time", [fastest]).run().plans
    return min(seconds[fastest], *(timeline_of(plan, cluster, accountant).seconds for plan in plans))


def _limited(cluster: Cluster, options: SplitOptions) -> Cluster:
    return cluster.with_memory(
        lambda worker: (
            worker.ram if options.max_ram is None else options.max_ram,
            worker.flash if options.max_flash is None else options.max_flash,
        )
    )


def _searched(search: Search) -> tuple[Plan, tuple[Needs, ...], tuple[str, ...]]:
    """Return the search's best plan by its actual needs and time, and notes on the search.

    The search estimates memory; if its plans need more, it is repeated with lower limits.
    """
    cluster, objective, tuning = search.cluster, search.objective, search.tuning
    measure = Measure(cluster, search.accountant, objective, tuning)
    limited = has_flash_limit(cluster) and len(cluster.workers) <= tuning.split_many
    fitting: list[tuple[Plan, Outcome]] = []
    plans = _competing_plans(search, measure)
    allowed, excess = cluster, Excess(cluster)
    for number in range(_ROUNDS):
        if fitting and number >= tuning.split_few:
            break
        try:
            outcome = search.within(allowed).run()
        except LimitError:
            if not number:
                raise
            break
        own = measure.ordered(outcome.plans)
        ranked = sorted([*own, *plans], key=measure.value)
        fitted = measure.best_that_fits(ranked)
        if fitted is not None:
            fitting.append((fitted, outcome))
        if fitted is ranked[0] and not limited:
            break
        best, stored = min(zip(own, outcome.stored, strict=True), key=lambda each: measure.value(each[0]))
        before, allowed = allowed, excess.less(measure.needs(best), stored)
        if allowed == before:
            break
    if not fitting:
        least = measure.best_that_fits(_of_least_ram(search)) or ranked[0]
        return least, measure.needs(least), ()
    best, outcome = min(fitting, key=lambda each: measure.value(each[0]))
    if len(cluster.workers) <= tuning.split_many:
        better = soonest(best, measure.seconds, by_phase=True)
        best = min((each for each in (best, better) if fits(cluster, measure.needs(each))), key=measure.value)
    return best, measure.needs(best), (_claim(objective, measure.value(best)[0], outcome, len(ranked)),)


def _competing_plans(search: Search, measure: Measure) -> list[Plan]:
    """Return plans that every round competes with: on one worker, and for less memory.

    For the objective RAM also those of other objectives, because any of them may need less.
    """
    plans = measure.ordered([*_alone(search.network, search.cluster), *_sparing(search)])
    if search.objective != "ram":
        return plans
    return [measure.thriftier(plan) for plan in (*plans, *_rivals(search))]


def _kinds(cluster: Cluster) -> list[int]:
    """Return the first worker of each kind."""
    kinds: dict[object, int] = {}
    for index, each in enumerate(cluster.workers):
        kinds.setdefault((each.target, each.mhz, each.link), index)
    return list(kinds.values())


def _alone(network: Network, cluster: Cluster) -> list[Plan]:
    """Return plans with everything on one worker, for one of each kind: the result is never slower."""
    plans = [(index, one_worker(network, cluster, index)) for index in _kinds(cluster)]
    return [replace(plan, strategy=f"whole on {cluster.workers[index].name}") for index, plan in plans]


def _rivals(search: Search) -> Iterator[Plan]:
    """Yield the plans found for all objectives but RAM; several for throughput, which divides work most evenly."""
    for objective in OBJECTIVES:
        if objective != "ram":
            with suppress(LimitError):
                yield _searched(search.anew(objective))[0]
    yield from _found_by(search.anew("throughput"), search.cluster, "ram")


def _sparing(search: Search) -> tuple[Plan, ...]:
    """Return plans for less memory, which may be better than those that the beam found with all of it.

    Where flash is unlimited, this search limits it above the need: more kinds of paths are kept then.
    """
    cluster = search.cluster
    if len(cluster.workers) > search.tuning.split_many or (search.objective == "ram" and not has_flash_limit(cluster)):
        return ()

    def less(most: int | None, otherwise: int | None) -> int | None:
        return otherwise if most is None else most - most // _SPARED

    limits = cluster.with_memory(lambda each: (less(each.ram, None), less(each.flash, _PLENTY)))
    return _found_by(search, limits, search.objective)


def _of_least_ram(search: Search) -> tuple[Plan, ...]:
    """Return plans found for the objective RAM without limits: they may fit where no other does."""
    if search.objective == "ram" or all(worker.ram is None for worker in search.cluster.workers):
        return ()
    roomy = search.cluster.with_memory(lambda worker: (None, worker.flash))
    return _found_by(search.anew("ram", roomy), roomy, "ram")


def _found_by(search: Search, cluster: Cluster, objective: str) -> tuple[Plan, ...]:
    """Return the plans of a search, for RAM the first few; none if nothing fits."""
    try:
        plans = search.within(cluster).run().plans
    except LimitError:
        return ()
    return plans if objective != "ram" else plans[: search.tuning.split_few]


def _claim(objective: str, value: float, outcome: Outcome, plans: int) -> str:
    paths = "all paths that no other is expected to dominate" if outcome.complete else "the paths that a beam kept"
    searched = (
        "searched: blocks by rows, by output or input channels, or whole, between cuts of the model; the best of "
        f"{plans} plans on simulated devices, from {paths}"
    )
    if outcome.bound is None:
        return f"{searched}; no bound is computed for {objective}"
    unit = "B" if objective == "traffic" else "s"
    gap = value / outcome.bound - 1 if outcome.bound else 0.0
    return f"{searched}; {value:,.4g} {unit}, {gap:.0%} above the lower bound of {outcome.bound:,.4g} {unit}"


def _check_fit(cluster: Cluster, needs: Sequence[Needs]) -> None:
    for worker, each in zip(cluster.workers, needs, strict=True):
        if not each.by_phase:
            continue
        for needed, has, what, advice in (
            (each.ram_bytes, worker.ram, f"RAM for {each.largest}", "workers, or choose another strategy"),
            (each.flash_bytes, worker.flash, "flash", "workers or flash"),
        ):
            if has is not None and needed > has:
                raise LimitError(
                    f"{worker.name} needs {needed:,} B of {what} and has {has:,} B: {needed - has:,} B are missing; "
                    f"add {advice}"
                )


def _device_notes(cluster: Cluster, plan: Plan, needs: Sequence[Needs]) -> tuple[str, ...]:
    idle = [worker.name for worker, each in zip(cluster.workers, needs, strict=True) if not each.by_phase]
    return (f"nothing to do for {', '.join(idle)}",) if idle else ()
