"""Packets of a serial line among garbage, and a stream of them whose other end the test simulates."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tflite_fuse.split.cluster.link.serial_line import Packet, PacketKind, PacketParser, SerialStream, encode_packet
from tflite_fuse.split.cluster.link.streams import is_serial

PACKETS = st.builds(
    Packet, st.sampled_from(PacketKind), st.integers(0, 255), st.integers(0, 255), st.binary(max_size=252)
)
GARBAGE = st.one_of(st.binary(max_size=40), st.sampled_from([b"\xa2", b"\xa1\xff\xff", b"\xa5\0\0", b"\xa2\xfc\1\1"]))


def found(parser: PacketParser, data: bytes) -> list[Packet]:
    parser.feed(data)
    packets = list[Packet]()
    while True:
        while (packet := parser.next()) is not None:
            packets.append(packet)
        if not parser.is_waiting:
            return packets
        parser.skip()


@settings(max_examples=80)
@given(st.lists(st.tuples(GARBAGE, PACKETS), max_size=5), GARBAGE)
def test_every_packet_is_found_between_garbage(parts: list[tuple[bytes, Packet]], end: bytes) -> None:
    data = b"".join(garbage + encode_packet(packet) for garbage, packet in parts) + end
    assert found(PacketParser(), data) == [packet for _, packet in parts]


@pytest.mark.parametrize("seed", range(3))
def test_a_damaged_packet_is_none_and_the_next_is_found(seed: int) -> None:
    rng = Random(seed)
    sound = Packet(PacketKind.DATA, 3, 9, rng.randbytes(100))
    for _ in range(50):
        harmed = bytearray(encode_packet(Packet(PacketKind.DATA, 3, 8, rng.randbytes(40))))
        at = rng.randrange(len(harmed) - 1)
        harmed[at : at + 1] = rng.choice([b"", bytes([harmed[at] ^ 1 << rng.randrange(8)]), harmed[at : at + 1] * 2])
        assert found(PacketParser(), bytes(harmed) + encode_packet(sound)) == [sound]


class Board:
    """The other end: answers what ``takes`` says, after the first so many times of each packet."""

    def __init__(self, stream: SerialStream, deaf: int = 0, room: int = 16) -> None:
        self.stream, self.deaf, self.room = stream, deaf, room
        self.parser, self.heard, self.got = PacketParser(), list[Packet](), bytearray()

    def write(self, data: bytes) -> None:
        self.parser.feed(data)
        while (packet := self.parser.next()) is not None:
            self.heard.append(packet)
            if self.heard.count(packet) > self.deaf:
                self.answer(packet)

    def answer(self, packet: Packet) -> None:
        if packet.kind is PacketKind.DATA and self.heard.count(packet) == self.deaf + 1:
            self.got += packet.payload
        if packet.kind in (PacketKind.OPEN, PacketKind.DATA):
            payload = bytes([self.room]) if packet.kind is PacketKind.OPEN else b""
            self.say(Packet(PacketKind.TAKEN, packet.connection, packet.number, payload))

    def say(self, packet: Packet) -> None:
        asyncio.get_running_loop().call_soon(self.stream.feed, encode_packet(packet))

    def close(self) -> None:
        pass


def play(scene: Callable[[SerialStream, Board], object], deaf: int = 0) -> None:
    async def run() -> None:
        stream = SerialStream()
        board = Board(stream, deaf)
        stream.attach(board)
        await stream.dial()
        await scene(stream, board)  # type: ignore[misc]

    asyncio.run(run())


def test_rejected_bytes_are_sent_again_in_pieces_that_fit_the_board() -> None:
    async def scene(stream: SerialStream, board: Board) -> None:
        await stream.write(bytes(range(40)))
        assert board.got == bytes(range(40))
        sizes = [len(packet.payload) for packet in board.heard if packet.kind is PacketKind.DATA]
        assert sizes == [16, 16, 16, 16, 8, 8]

    play(scene, deaf=1)


def test_data_that_comes_twice_counts_once_and_is_answered_twice() -> None:
    async def scene(stream: SerialStream, board: Board) -> None:
        connection = board.heard[0].connection
        for number, payload in ((1, b"ab"), (1, b"ab"), (2, b"c"), (9, b"never"), (2, b"c")):
            board.say(Packet(PacketKind.DATA, connection, number, payload))
        board.say(Packet(PacketKind.DATA, connection ^ 1, 3, b"of somebody else"))
        await asyncio.sleep(0.01)
        assert await stream.read() == b"abc"
        assert [each.number for each in board.heard if each.kind is PacketKind.TAKEN] == [1, 1, 2, 2]
        board.say(Packet(PacketKind.CLOSE, connection))
        with pytest.raises(ConnectionResetError):
            await stream.read()
        with pytest.raises(ConnectionResetError):
            await stream.write(b"more")

    play(scene)


def test_addresses_of_serial_lines_are_recognised() -> None:
    lines = ("/dev/ttyACM0", "/dev/ttyUSB1@1000000", "COM3", "com12@9600", "socket://127.0.0.1:7000")
    assert all(is_serial(each) for each in lines)
    assert not any(is_serial(each) for each in ("127.0.0.1:7000", "COM:7000", "board:1", "", "[::1]:7000"))
