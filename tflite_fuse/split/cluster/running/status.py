"""Requests the state of workers without disturbing them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tflite_fuse.split.cluster.link.connection import Connection, LinkError, in_time
from tflite_fuse.split.cluster.link.messages import Wish
from tflite_fuse.split.cluster.link.streams import connect
from tflite_fuse.split.cluster.running.coordinator import Contact
from tflite_fuse.split.devices import COORDINATOR


@dataclass(frozen=True)
class Answer:
    """The state of one worker.

    Attributes:
        name, address: from ``workers.toml`` or the command line.
        inferences: done since its start; None if unknown.
        fault: a clause, None if there is none.
    """

    name: str
    address: str
    inferences: int | None
    fault: str | None

    def to_json(self) -> dict[str, Any]:
        """Return the object that ``--json`` prints."""
        return asdict(self)


async def ask_all(plan: int, workers: Mapping[int, Contact], timeout: float, key: bytes | None = None) -> list[Answer]:
    """Return the states of all workers, in order, requested at the same time."""
    return list(await asyncio.gather(*(_ask(plan, device, each, timeout, key) for device, each in workers.items())))


async def _ask(plan: int, device: int, contact: Contact, timeout: float, key: bytes | None) -> Answer:
    try:
        stream = await in_time(connect(contact.address), timeout)
    except OSError as error:
        return Answer(contact.name, contact.address, None, f"cannot be reached ({error.strerror or error})")
    except LinkError as broken:
        return Answer(contact.name, contact.address, None, broken.sentence)
    connection = Connection(stream, plan, COORDINATOR, device, key)
    try:
        answer = await in_time(connection.open(Wish.STATUS), timeout)
        return Answer(contact.name, contact.address, answer.item, None)
    except LinkError as broken:
        return Answer(contact.name, contact.address, None, broken.sentence)
    finally:
        connection.close()
