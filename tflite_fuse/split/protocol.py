"""What planning and running know of messages between devices: their sizes and kinds."""

from __future__ import annotations

from enum import IntEnum

PAYLOAD_BYTES = 1400
"""Largest payload of one message, so that a frame fits an Ethernet packet."""

HEADER_BYTES = 32
"""Of a message: version, plan, inference, number, length, checksum."""

TAG_BYTES = 16
"""Of the signature that a message has where there is a key."""


class Kind(IntEnum):
    """What a message says. ``item`` is named where it counts."""

    HELLO = 1
    """Opens a connection: what the sender wants (item, a ``Wish``), and its nonce."""
    WELCOME = 2
    """The answer; item: inferences done so far. The payload is the answerer's nonce."""
    PEERS = 3
    """From the coordinator: where a worker finds another one it sends to; item: the device, payload: its address."""
    READY = 4
    """From the coordinator, and back as soon as there are so many connections (item) to other workers."""
    START = 5
    """From the coordinator: an inference begins; item: 0, or ``QUIET``; payload: u32 milliseconds it may take."""
    DATA = 6
    """Values; item: number of the message among those from its sender to its receiver in one inference."""
    STEP = 7
    """From a worker: it has computed something; item: the step of its fragment, payload: u32 microseconds."""
    ERROR = 8
    """The sender gives up and closes; item: a ``Fault``, payload: a sentence."""
