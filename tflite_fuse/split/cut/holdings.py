"""Which device holds which part of a value, and the transfers that give another device a part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tflite_fuse.split.cut.plan import Transfer
from tflite_fuse.split.cut.regions import NOTHING, Region, intersect, subtract, union
from tflite_fuse.split.devices import COORDINATOR, Cluster

Held = Mapping[int, Region]
"""Device → the region of one value that it holds; devices without any may be missing."""


def transfers(cluster: Cluster, value: int, held: Held, needed: Mapping[int, Region]) -> tuple[Transfer, ...]:
    """Return the transfers, in order, after which every device holds what it needs of a value.

    Each missing part comes from a directly joined device that holds it, the one that has sent least so far. Parts that
    only others hold go through the coordinator, once for all devices that need them.

    Raises:
        ValueError: no device holds a part.
    """
    sent: dict[int, int] = {}
    known = dict(held)
    found: list[Transfer] = []

    def send(source: int, target: int, region: Region) -> None:
        found.append(Transfer(value, source, target, region))
        sent[source] = sent.get(source, 0) + found[-1].nbytes

    for target, wanted in needed.items():
        missing = subtract(wanted, held.get(target, NOTHING))
        for source in _sources(target, known, sent):
            part = intersect(missing, known[source])
            if part and not cluster.is_direct(source, target):
                send(source, COORDINATOR, part)
                known[COORDINATOR] = union(known.get(COORDINATOR, NOTHING), part)
            elif part:
                send(source, target, part)
                missing = subtract(missing, part)
        if missing and (part := intersect(missing, known.get(COORDINATOR, NOTHING))):
            send(COORDINATOR, target, part)
            missing = subtract(missing, part)
        if missing:
            raise ValueError(f"no device holds {missing} of value {value}")
    return tuple(found)


def _sources(target: int, held: Held, sent: Mapping[int, int]) -> Iterable[int]:
    """Return the devices that may hold a part: the coordinator first, because it needs no other device between."""
    others = [device for device in held if device != target and held[device]]
    return sorted(others, key=lambda each: (each != COORDINATOR, sent.get(each, 0), each))


def with_transfers(held: Held, moved: Iterable[Transfer]) -> dict[int, Region]:
    """Return device → region after some transfers of a value."""
    after = dict(held)
    for transfer in moved:
        after[transfer.target] = union(after.get(transfer.target, NOTHING), transfer.region)
    return after
