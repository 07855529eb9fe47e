"""Sizes and kinds of messages between devices, for planning and running."""

from __future__ import annotations

from enum import IntEnum

PAYLOAD_BYTES = 1400
"""Largest payload of one message: a frame fits an Ethernet packet."""

HEADER_BYTES = 32
"""Bytes of a message's header: version, plan, inference, number, length, checksum."""

TAG_BYTES = 16
"""Bytes of a message's signature if there is a key."""


class Kind(IntEnum):
    """The kind of a message, with the meaning of ``item`` where it has one."""

    HELLO = 1
    """Opens a connection; item: a ``Wish``, payload: the sender's nonce."""
    WELCOME = 2
    """Reply to HELLO; item: inferences done so far, payload: the answerer's nonce."""
    PEERS = 3
    """From the coordinator: the address of another worker; item: its device, payload: the address."""
    READY = 4
    """From the coordinator; the worker returns it when it has as many connections to others as item says."""
    START = 5
    """From the coordinator: an inference begins; item: 0, or ``QUIET``; payload: u32 limit in milliseconds."""
    DATA = 6
    """Values; item: number of the message from its sender to its receiver in this inference."""
    STEP = 7
    """From a worker: it has computed a step; item: the step of its fragment, payload: u32 microseconds."""
    ERROR = 8
    """The sender ends the connection; item: a ``Fault``, payload: a sentence."""
