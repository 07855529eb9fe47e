"""The order of a phase's messages.

Every device handles its messages in the plan's order, so its sends wait for earlier receives. Where workers exchange
parts, receiver after receiver, each waits for nearly all before it. In two halves no device waits within a half: first
all messages to higher numbers, the highest sender's first, then all to lower ones, the lowest sender's first; or the
other way round, which is better if the low ones finish later. Messages to the coordinator come before, those it
forwards behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tflite_fuse.split.cut.plan import Phase, Plan, Transfer
from tflite_fuse.split.cut.regions import intersect
from tflite_fuse.split.devices import COORDINATOR

Seconds = Callable[[Plan], float]
"""Plan → its seconds on simulated devices."""


def soonest(plan: Plan, seconds: Seconds, by_phase: bool) -> Plan:
    """Return the plan with its messages in the quickest order.

    Args:
        plan: with messages in any valid order.
        seconds: the cost to minimise.
        by_phase: whether each phase may have an order of its own, found phase by phase.
    """
    orders = list(zip(*(_orders(phase) for phase in plan.phases), strict=True))
    best = min((replace(plan, phases=phases) for phases in orders), key=seconds)
    least = seconds(best)
    for number, choices in enumerate(zip(*orders, strict=True)) if by_phase else ():
        for phase in choices:
            if phase != best.phases[number]:
                other = replace(best, phases=(*best.phases[:number], phase, *best.phases[number + 1 :]))
                if (cost := seconds(other)) < least:
                    best, least = other, cost
    return best


def _orders(phase: Phase) -> Iterator[Phase]:
    """Yield the phase in each order; unchanged if an order would forward values before they arrive."""
    moves = phase.transfers
    after = _waits(moves)
    yield phase
    for upwards in (True, False):
        numbers = sorted(range(len(moves)), key=lambda number: _place(moves[number], upwards))
        places = {number: place for place, number in enumerate(numbers)}
        sound = all(places[first] < places[second] for first, second in after)
        yield replace(phase, transfers=tuple(moves[number] for number in numbers)) if sound else phase


def _place(each: Transfer, upwards: bool) -> tuple[int, ...]:
    """Return the sort key of a transfer."""
    side = 0 if each.target == COORDINATOR else 2 if each.source == COORDINATOR else 1
    if each.source < each.target:
        return side, not upwards, -each.source, each.target
    return side, upwards, each.source, -each.target


def _waits(moved: Sequence[Transfer]) -> list[tuple[int, int]]:
    """Return pairs of transfers of which the second forwards values of the first."""
    brought: dict[tuple[int, int], list[int]] = {}
    pairs: list[tuple[int, int]] = []
    for number, each in enumerate(moved):
        sooner = brought.get((each.source, each.value), ())
        pairs += [(other, number) for other in sooner if intersect(moved[other].region, each.region)]
        brought.setdefault((each.target, each.value), []).append(number)
    return pairs
