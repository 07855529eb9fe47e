"""In which order the messages of a phase are sent.

Every device goes through its messages in the plan's order, so what it sends waits for what it is to receive before.
Where workers exchange what they have, receiver after receiver, each waits for nearly all before it. In two halves
nobody waits within a half: first all messages to higher numbers, the highest sender's first, then all to lower ones,
the lowest sender's first; or the other way about, which is better where the low ones are done later. What goes to the
coordinator comes before, what it hands on comes behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tflite_fuse.split.cluster.devices import COORDINATOR
from tflite_fuse.split.cut.plan import Phase, Plan, Transfer
from tflite_fuse.split.cut.regions import intersect

Seconds = Callable[[Plan], float]
"""How long a plan takes on simulated devices."""


def soonest(plan: Plan, seconds: Seconds, by_phase: bool) -> Plan:
    """The plan with its messages in the order in which it takes least.

    Args:
        plan: with messages in any order that works.
        seconds: what to make small.
        by_phase: whether each phase may have an order of its own, found phase by phase.
    """
    orders = list(zip(*(_orders(phase) for phase in plan.phases), strict=True))
    best = min((replace(plan, phases=phases) for phases in orders), key=seconds)
    least = seconds(best)
    for number, choices in enumerate(zip(*orders, strict=True)) if by_phase else ():
        for phase in choices:
            if phase != best.phases[number]:
                other = replace(best, phases=(*best.phases[:number], phase, *best.phases[number + 1 :]))
                if (found := seconds(other)) < least:
                    best, least = other, found
    return best


def _orders(phase: Phase) -> Iterator[Phase]:
    """The phase in each order, or as it is where what is handed on would be sent too early."""
    given = phase.transfers
    after = _waits(given)
    yield phase
    for upwards in (True, False):
        numbers = sorted(range(len(given)), key=lambda number: _place(given[number], upwards))
        places = {number: place for place, number in enumerate(numbers)}
        sound = all(places[first] < places[second] for first, second in after)
        yield replace(phase, transfers=tuple(given[number] for number in numbers)) if sound else phase


def _place(each: Transfer, upwards: bool) -> tuple[int, ...]:
    """What transfers are sorted by."""
    side = 0 if each.target == COORDINATOR else 2 if each.source == COORDINATOR else 1
    if each.source < each.target:
        return side, not upwards, -each.source, each.target
    return side, upwards, each.source, -each.target


def _waits(moved: Sequence[Transfer]) -> list[tuple[int, int]]:
    """Pairs of which the second hands on what the first brings."""
    brought: dict[tuple[int, int], list[int]] = {}
    found: list[tuple[int, int]] = []
    for number, each in enumerate(moved):
        sooner = brought.get((each.source, each.value), ())
        found += [(other, number) for other in sooner if intersect(moved[other].region, each.region)]
        brought.setdefault((each.target, each.value), []).append(number)
    return found
