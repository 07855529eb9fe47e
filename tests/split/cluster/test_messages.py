"""Messages in streams, sound and damaged: the parsers in Python and in C agree."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.split.cluster.c_parser import CParser, c_encode
from tflite_fuse.split.cluster.link.messages import HEADER_BYTES, Fault, Frame, Kind, Message, Parser, encode

MESSAGES = st.builds(
    Message,
    st.sampled_from(Kind),
    st.integers(0, 2**64 - 1),
    st.integers(-1, 2**15 - 1),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
    st.one_of(st.binary(max_size=64), st.just(bytes(range(200)) * 7)),
)


def parsed(stream: bytes, cuts: list[int]) -> list[Frame | Fault]:
    parser, found, start = Parser(), list[Frame | Fault](), 0
    for end in [*sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]:
        parser.feed(stream[start:end])
        start = end
        while (one := parser.next()) is not None:
            found.append(one)
    return found


def parsed_in_c(stream: bytes, cuts: list[int]) -> list[Frame | Fault]:
    parser, found, start = CParser(), list[Frame | Fault](), 0
    for end in [*sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]:
        found += parser.feed(stream[start:end])
        start = end
    return found


@settings(max_examples=60)
@given(st.lists(MESSAGES, max_size=4), st.lists(st.integers(0, 10_000), max_size=5))
def test_messages_are_read_however_the_stream_is_cut(messages: list[Message], cuts: list[int]) -> None:
    stream = b"".join(encode(message, number) for number, message in enumerate(messages))
    expected = [Frame(message, number) for number, message in enumerate(messages)]
    assert parsed(stream, cuts) == parsed_in_c(stream, cuts) == expected
    assert [c_encode(message, number) for number, message in enumerate(messages)] == [
        encode(message, number) for number, message in enumerate(messages)
    ]


def damaged(rng: Random, longest: int = 1400) -> bytes:
    """A few messages with something wrong here and there."""
    parts = []
    for number in range(rng.randrange(1, 6)):
        payload = rng.randbytes(min(longest, rng.choice([0, 4, 31, 200, 1400])))
        kind = Kind(rng.randrange(1, 9))
        part = bytearray(encode(Message(kind, rng.getrandbits(64), rng.randrange(-1, 9), 1, number, payload), number))
        for _ in range(rng.choice([0, 0, 1, 3])):
            part[rng.randrange(len(part))] ^= 1 << rng.randrange(8)
        if rng.random() < 0.3:
            del part[rng.randrange(len(part)) :][: rng.randrange(1, 50)]
        if rng.random() < 0.3:
            part[rng.randrange(len(part)) : 0] = rng.choice([rng.randbytes(20), b"\x5e\xf7" * 9, b"\x5e\xf7\x01\x06"])
        parts.append(bytes(part))
    return b"".join(parts)


@pytest.mark.parametrize("seed", range(8))
def test_both_parsers_find_the_same_in_damaged_streams(seed: int) -> None:
    rng = Random(seed)
    kinds = set[object]()
    for _ in range(60):
        stream, cuts = damaged(rng), [rng.getrandbits(16) for _ in range(rng.randrange(4))]
        found = parsed(stream, cuts)
        assert found == parsed_in_c(stream, cuts)
        kinds.update(type(each) for each in found)
    assert kinds == {Frame, Fault}


def test_a_message_behind_garbage_is_found() -> None:
    message = Message(Kind.DATA, 7, 2, 1, 0, b"values")
    for garbage in (b"\0" * 1000, b"\x5e\xf7", b"\x5e\xf7\x01\x06\xff\xff", b"\x5e"):
        for found in (parsed(garbage + encode(message, 3), []), parsed_in_c(garbage + encode(message, 3), [])):
            assert found[-1] == Frame(message, 3) and all(isinstance(each, Fault) for each in found[:-1])


def test_every_damaged_bit_of_a_message_is_noticed() -> None:
    sound = encode(Message(Kind.DATA, 7, 2, 1, 0, bytes(range(40))), 3)
    assert len(sound) == HEADER_BYTES + 40
    for bit in range(8 * len(sound)):
        changed = bytearray(sound)
        changed[bit // 8] ^= 1 << bit % 8
        assert not any(isinstance(each, Frame) for each in parsed(bytes(changed), []))
