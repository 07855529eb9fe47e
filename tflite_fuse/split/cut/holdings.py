"""Which device holds what, and what has to travel so that another holds it, too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tflite_fuse.split.cut.plan import Transfer
from tflite_fuse.split.cut.regions import NOTHING, Region, intersect, subtract, union
from tflite_fuse.split.devices import COORDINATOR, Cluster

Held = Mapping[int, Region]
"""Of one value: what each device holds of it; devices that hold nothing may be missing."""


def transfers(cluster: Cluster, value: int, held: Held, needed: Mapping[int, Region]) -> tuple[Transfer, ...]:
    """What to send, in this order, so that every device holds what it needs.

    Each missing part comes from a device that holds it and is joined directly, from the one that has sent least so far.
    What only others hold goes through the coordinator, once for all who need it.

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
            raise ValueError(f"nobody holds {missing} of value {value}")
    return tuple(found)


def _sources(target: int, held: Held, sent: Mapping[int, int]) -> Iterable[int]:
    """Devices that may have something: the coordinator first, as it needs no device between."""
    others = [device for device in held if device != target and held[device]]
    return sorted(others, key=lambda each: (each != COORDINATOR, sent.get(each, 0), each))


def with_transfers(held: Held, moved: Iterable[Transfer]) -> dict[int, Region]:
    """Who holds what after some transfers of a value."""
    after = dict(held)
    for transfer in moved:
        after[transfer.target] = union(after.get(transfer.target, NOTHING), transfer.region)
    return after
