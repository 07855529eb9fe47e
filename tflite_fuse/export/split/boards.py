"""The boards of a split's devices and the ways they are joined."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from ipaddress import AddressValueError, IPv4Address

from tflite_fuse.cost.instructions import Target
from tflite_fuse.errors import UsageError
from tflite_fuse.split.cluster.folder import Deployment
from tflite_fuse.split.cluster.link.streams import is_serial, parse_address
from tflite_fuse.split.devices import COORDINATOR, Device

COMPUTER = "computer"
"""The coordinator's board if it is ``tflite-fuse cluster run``."""

PORT = 7000
_FIRST_HOST = 10


class Way(Enum):
    """The way a board is joined."""

    ETHERNET = "Ethernet"
    WIFI = "Wi-Fi"
    SERIAL = "a serial line"


@dataclass(frozen=True)
class Board:
    """A board that PlatformIO supports.

    Attributes:
        title: for people.
        platform, board: PlatformIO's names.
        way: how it reaches a network; SERIAL if it does not.
        lines: its serial lines beside the one to the computer.
        libraries: needed for the network.
    """

    title: str
    platform: str
    board: str
    way: Way
    lines: tuple[str, ...]
    libraries: tuple[str, ...] = ()


BOARDS = {
    board.board: board
    for board in (
        Board(
            "a Teensy 4.1",
            "teensy",
            "teensy41",
            Way.ETHERNET,
            tuple(f"Serial{number}" for number in range(1, 9)),
            ("ssilverman/QNEthernet",),
        ),
        Board("an ESP32", "espressif32", "esp32dev", Way.WIFI, ("Serial1", "Serial2")),
        Board("an ESP32-C3", "espressif32", "esp32-c3-devkitm-1", Way.WIFI, ("Serial1",)),
        Board("an ESP32-S3", "espressif32", "esp32-s3-devkitc-1", Way.WIFI, ("Serial1", "Serial2")),
        Board("an Arduino Nano 33 BLE", "nordicnrf52", "nano33ble", Way.SERIAL, ("Serial1",)),
        Board("a Raspberry Pi Pico", "raspberrypi", "pico", Way.SERIAL, ("Serial1",)),
    )
}
_BY_TARGET = {
    Target.CORTEX_M7: "teensy41",
    Target.CORTEX_M4: "nano33ble",
    Target.ESP32C3: "esp32-c3-devkitm-1",
    Target.XTENSA: "esp32dev",
}
_USUAL = "esp32dev"


@dataclass(frozen=True)
class Place:
    """A device of a split on its board.

    Attributes:
        number, name: of the device.
        env: name of its environment in the project.
        board: its board.
        way: how it is joined to the coordinator.
        host, port: where it listens in a network.
        line: the coordinator's serial line to it.
    """

    number: int
    name: str
    env: str
    board: Board
    way: Way
    host: str = ""
    port: int = PORT
    line: str = ""

    @property
    def is_numeric(self) -> bool:
        """Return whether its host is an IP address that the board can take."""
        try:
            IPv4Address(self.host)
        except AddressValueError:
            return False
        return True


def places_of(deployment: Deployment) -> tuple[Place, ...]:
    """Return the workers that take part, then the coordinator unless it is a computer.

    Raises:
        UsageError: a board is not known, or cannot execute its part of the plan.
    """
    names = _envs([deployment.cluster.device(each).name for each in (*deployment.taking_part, COORDINATOR)])
    workers = [
        _worker(deployment.cluster.workers[number], number, env)
        for number, env in zip(deployment.taking_part, names, strict=False)
    ]
    _check_pairs(deployment, {each.number: each for each in workers})
    device = deployment.cluster.coordinator
    if device.board == COMPUTER:
        return tuple(workers)
    _check_operators(deployment)
    board = _board(device, "teensy41" if any(each.way is not Way.WIFI for each in workers) else _USUAL)
    host = _host_and_port(device)[0] if device.address else ""
    return (*_lined(workers, board), Place(COORDINATOR, device.name, names[-1], board, board.way, host))


def _worker(device: Device, number: int, env: str) -> Place:
    board = _board(device, _BY_TARGET.get(device.target, _USUAL))
    if is_serial(device.address) or (board.way is Way.SERIAL and not device.address):
        return Place(number, device.name, env, board, Way.SERIAL)
    if board.way is Way.SERIAL:
        raise UsageError(
            f"the address of {device.name!r} is {device.address!r}, and {board.title} has no network: give it a serial "
            'line as its address, like "/dev/ttyACM0", or another board'
        )
    if not device.address:
        return Place(number, device.name, env, board, board.way, f"192.168.1.{_FIRST_HOST + number % 200}")
    return Place(number, device.name, env, board, board.way, *_host_and_port(device))


def _host_and_port(device: Device) -> tuple[str, int]:
    host, port = parse_address(device.address, f"the address of {device.name!r}")
    if not re.fullmatch(r"[A-Za-z0-9.-]{1,50}", host):
        raise UsageError(f"the address of {device.name!r} is {device.address!r}, which no board can look up")
    return host, port


def _board(device: Device, usual: str) -> Board:
    name = device.board or usual
    if name not in BOARDS:
        raise UsageError(f"{device.name!r} is a board {name!r}, which is not known; those are {', '.join(BOARDS)}")
    return BOARDS[name]


def _check_pairs(deployment: Deployment, places: Mapping[int, Place]) -> None:
    for pair in deployment.dials:
        for number, other in (pair, pair[::-1]):
            if places[number].way is Way.SERIAL:
                raise UsageError(
                    f"{places[number].name!r} is joined by a serial line, and the plan has it talk to "
                    f"{places[other].name!r} directly: split again without a direct link between them"
                )


def _check_operators(deployment: Deployment) -> None:
    for node in deployment.network.nodes:
        if node.stage is None:
            raise UsageError(
                f"{node.name} runs at the coordinator, and only the one in Python can run it: write "
                f'board = "{COMPUTER}" below [coordinator] in workers.toml'
            )


def _lined(workers: Sequence[Place], coordinator: Board) -> list[Place]:
    """Assign a serial line of the coordinator to each worker on one; the others share a network with it."""
    free, places = list(coordinator.lines), []
    for each in workers:
        if each.way is not Way.SERIAL:
            if coordinator.way is Way.SERIAL:
                raise UsageError(f"the coordinator is {coordinator.title}, which has no network, and {each.name!r} has")
            places.append(each)
            continue
        if not free:
            raise UsageError(
                f"{coordinator.title} as the coordinator has {len(coordinator.lines)} serial lines, and more workers "
                "are joined by one"
            )
        places.append(Place(each.number, each.name, each.env, each.board, each.way, line=free.pop(0)))
    return places


def _envs(names: Sequence[str]) -> list[str]:
    """Return unique names that are valid for a section and a folder."""
    envs: list[str] = []
    for name in names:
        plain = re.sub(r"[^A-Za-z0-9_-]+", "_", name)[:40].strip("_") or "device"
        number, env = 2, plain
        while env.lower() in (each.lower() for each in envs):
            env, number = f"{plain}_{number}", number + 1
        envs.append(env)
    return envs
