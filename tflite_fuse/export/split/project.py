"""A PlatformIO project of a split: an environment for every device, the library, and a README.

The programs are C++ on the Arduino API.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

from tflite_fuse.errors import UsageError
from tflite_fuse.export import library
from tflite_fuse.export.folder import Files, require_usable, write_folder
from tflite_fuse.export.split.boards import Place, Way, places_of
from tflite_fuse.export.split.keys import Lock, about_keys, key_files, lock_of
from tflite_fuse.export.text import byte_array, comment, fill
from tflite_fuse.split.cluster.folder import Deployment, read_deployment
from tflite_fuse.split.cut.sums import has_sums
from tflite_fuse.split.devices import COORDINATOR
from tflite_fuse.split.fragments.encode import decode

_NETWORKS = {
    Way.ETHERNET: (
        "#include <QNEthernet.h>\n",
        "EthernetServer",
        "EthernetClient",
        "using namespace qindesign::network;\n\n",
    ),
    Way.WIFI: ("#include <WiFi.h>\n", "WiFiServer", "WiFiClient", ""),
    Way.SERIAL: ("", "", "", ""),
}

_BEGIN = {
    (Way.ETHERNET, True): "  Ethernet.begin(IPAddress($host), IPAddress(NETWORK_MASK), IPAddress(NETWORK_GATEWAY));\n",
    (Way.ETHERNET, False): "  Ethernet.begin();\n",
    (Way.WIFI, True): "  WiFi.config(IPAddress($host), IPAddress(NETWORK_GATEWAY), IPAddress(NETWORK_MASK));\n",
    (Way.WIFI, False): "",
}


def fragment_files(where: str, title: str, fragment: bytes, buffer_bytes: int) -> dict[str, str]:
    """Return ``fragment.h`` and ``fragment.c`` below ``where``."""
    header = fill("split/fragment.h", title=comment(title), bytes=len(fragment), buffer=max(1, buffer_bytes))
    array = byte_array("const unsigned char fragment[FRAGMENT_BYTES] IN_FLASH", fragment)
    return {f"{where}fragment.h": header, f"{where}fragment.c": fill("split/fragment.c") + array}


def worker_program(place: Place, title: str, peers: int, coordinator_is_board: bool, lock: Lock, sums: bool) -> str:
    """Return ``main.cpp`` of a worker with so many peers; ``sums``: it has layers that are cut by input channels."""
    _, server, client, _ = _NETWORKS[place.way]
    sessions = peers + 1
    if place.way is Way.SERIAL:
        line = "Serial1" if coordinator_is_board else "Serial"
        transport = (
            f"// Joined to the coordinator by {line}.\nstatic tflite_fuse_line<48> line({line}{lock.of_line});\n"
        )
        begin = "  Serial1.begin(LINE_SPEED);\n" if line == "Serial1" else ""
    else:
        transport = (
            f"typedef tflite_fuse_network<{server}, {client}, {sessions} + TFLITE_FUSE_GUESTS + 1> Network;\n\n"
            f"{_hooks(place.way, lock)}"
            f"static {server} server({place.port});\nstatic Network network(&server, hooks);\n"
        )
        begin = "  Join();\n  server.begin();\n"
    quiet = place.way is Way.SERIAL and not coordinator_is_board
    return fill(
        "split/worker.cpp",
        name=comment(place.name),
        **_common(place, title, place.way, lock, transport, begin),
        way=place.way.value,
        sessions=sessions,
        sums="  tflite_fuse_worker_bring_sums();\n" if sums else "",
        which="line" if place.way is Way.SERIAL else "network",
        others=" and other workers" if peers else "",
        serve="  (void)tflite_fuse_node_serve(&node, 1000);\n" if quiet else fill("split/serve.cpp"),
    )


def _common(place: Place, title: str, way: Way, lock: Lock, transport: str, begin: str) -> dict[str, str]:
    """Return the values of both programs' templates."""
    include, _, _, using = _NETWORKS[way]
    return {
        "title": comment(title),
        "board": place.board.title,
        "include": include,
        "using": using,
        "key": lock.includes,
        "lock": lock.memory,
        "locked": lock.open,
        "transport": lock.random + transport,
        "join": _join(way, place.host if place.is_numeric else ""),
        "begin": lock.begin + begin,
    }


def _hooks(way: Way, lock: Lock) -> str:
    return fill(f"split/hooks_{way.name.lower()}.cpp", random=lock.hook)


def _join(way: Way, host: str) -> str:
    if way is Way.SERIAL:
        return ""
    begin = Template(_BEGIN[way, bool(host)]).substitute(host=host.replace(".", ", "))
    return fill(f"split/join_{way.name.lower()}.cpp", begin=begin)


def coordinator_program(
    place: Place,
    title: str,
    workers: Sequence[Place],
    dials: Sequence[tuple[int, int]],
    all_names: Sequence[str],
    lock: Lock,
) -> str:
    """Return ``main.cpp`` of the coordinator."""
    lines = [each for each in workers if each.way is Way.SERIAL]
    networked = [each for each in workers if each.way is not Way.SERIAL]
    way = place.way if networked else Way.SERIAL
    _, server, client, _ = _NETWORKS[way]
    parts = [
        f"static tflite_fuse_line<48> line_{each.number}({each.line}{lock.of_line});  // {comment(each.name)}\n"
        for each in lines
    ]
    transports = [f"line_{each.number}.transport()" for each in lines]
    begin = [f"  {each.line}.begin(LINE_SPEED);\n" for each in lines]
    if networked:
        parts.append(
            f"typedef tflite_fuse_network<{server}, {client}, {len(networked)}> Network;\n\n{_hooks(way, lock)}"
            "static Network network(nullptr, hooks);\n"
        )
        transports.append("network.transport()")
        begin.append("  Join();\n")
    contacts = [_contact(each, lines) for each in workers]
    pairs = ", ".join(f"{{{a}, {b}}}" for a, b in dials)
    return fill(
        "split/coordinator.cpp",
        **_common(place, title, way, lock, "".join(parts), "".join(begin)),
        ways=", ".join(transports),
        contacts="".join(contacts),
        names=", ".join(f'"{comment(name)}"' for name in all_names),
        dials=f"static const tflite_fuse_dial dials[] = {{{pairs}}};\n" if dials else "",
        workers=len(workers),
        way_count=len(transports),
        dial_list=f"dials, {len(dials)}" if dials else "nullptr, 0",
    )


def _contact(place: Place, lines: Sequence[Place]) -> str:
    if place.way is Way.SERIAL:
        address, listens = f"{lines.index(place)}/{place.line}", "nullptr"
    else:
        address, listens = f"{len(lines)}/{place.host}:{place.port}", f'"{place.host}:{place.port}"'
    return f'    {{{place.number}, "{address}", {listens}}},  // {comment(place.name)}\n'


EXPORT_SCHEMA = "tflite-fuse/export-split/1"
FORMATS = ("platformio",)


@dataclass(frozen=True)
class SplitExport:
    """The result of an export of a split.

    Attributes:
        files: paths of all files, sorted.
        places: the devices with programs.
        notes: one sentence each.
    """

    files: tuple[Path, ...]
    places: tuple[Place, ...]
    notes: tuple[str, ...]

    def to_json(self, format: str, directory: Path) -> dict[str, Any]:
        """Return the object that ``export --json`` prints."""
        devices = [{"name": each.name, "env": each.env, "board": each.board.board} for each in self.places]
        return {
            "schema": EXPORT_SCHEMA,
            "format": format,
            "directory": str(directory),
            "files": [str(path) for path in self.files],
            "devices": devices,
            "notes": list(self.notes),
        }


def export_split(
    source: str | os.PathLike[str],
    directory: str | os.PathLike[str],
    format: str,
    *,
    force: bool = False,
    key: bytes | None = None,
) -> SplitExport:
    """Write a project with a program for every device of a split.

    Args:
        source: the folder that ``split -o`` wrote.
        directory: the project's folder; made with its parents if it does not exist. Complete afterwards, or unchanged.
        format: ``platformio``.
        force: write into a directory that is not empty. Other files in it stay.
        key: the key of all devices; None for none.

    Raises:
        UsageError: another format; a folder that cannot be used or is none of a split; a device that
            cannot execute its part.
        RuntimeUnavailableError: this installation lacks the library's sources.
    """
    target = Path(directory)
    if format not in FORMATS:
        raise UsageError(f"a split is exported for {', '.join(FORMATS)}, not {format!r}")
    require_usable(target, force=force)
    deployment = read_deployment(Path(source))
    places = places_of(deployment)
    locks = _locks(deployment, places, key is not None)
    files = {**_devices(deployment, places, locks), **key_files(key), **library.for_workers("lib/tflite_fuse/")}
    files["platformio.ini"] = _ini(places, locks)
    files["include/network.h"] = fill("split/network.h")
    files["README.md"] = _readme(places, key)
    return SplitExport(write_folder(target, files, force=force), places, tuple(_notes(deployment, places)))


def _devices(deployment: Deployment, places: Sequence[Place], locks: Mapping[int, Lock]) -> Files:
    title = "a split model"
    workers = [each for each in places if each.number != COORDINATOR]
    names = [worker.name for worker in deployment.cluster.workers]
    files: dict[str, str | bytes] = {}
    for place in places:
        where, lock = f"src/{place.env}/", locks[place.number]
        is_worker = place.number != COORDINATOR
        fragment = deployment.fragments.workers[place.number] if is_worker else deployment.fragments.coordinator
        files |= fragment_files(where, place.name, fragment, decode(fragment).header.buffer_bytes)
        files[f"{where}main.cpp"] = (
            worker_program(
                place,
                title,
                len(deployment.peers(place.number)),
                len(places) > len(workers),
                lock,
                has_sums(deployment.network, deployment.plan.tasks_of(place.number).values()),
            )
            if is_worker
            else coordinator_program(place, title, workers, deployment.dials, names, lock)
        )
    return files


def _locks(deployment: Deployment, places: Sequence[Place], has_key: bool) -> dict[int, Lock]:
    """Return the lock of every device with a program."""
    networked = any(each.way is not Way.SERIAL for each in places if each.number != COORDINATOR)
    return {
        each.number: lock_of(each, has_key, "WORKERS", "&coordinator.node", in_network=networked)
        if each.number == COORDINATOR
        else lock_of(each, has_key, str(len(deployment.peers(each.number)) + 1))
        for each in places
    }


def _ini(places: Sequence[Place], locks: Mapping[int, Lock]) -> str:
    text = fill("split/platformio.ini", count=len(places), envs=", ".join(each.env for each in places))
    for each in places:
        text += fill(
            "split/environment.ini",
            name=comment(each.name),
            board=each.board.title,
            way=each.way.value,
            env=each.env,
            platform=each.board.platform,
            id=each.board.board,
        )
        of_network = each.board.libraries if each.way is not Way.SERIAL else ()
        if libraries := (*of_network, *locks[each.number].libraries):
            text += "lib_deps =\n" + "".join(f"    {name}\n" for name in libraries)
    return text


def _readme(places: Sequence[Place], key: bytes | None) -> str:
    workers = [each for each in places if each.number != COORDINATOR]
    coordinator = next((each for each in places if each.number == COORDINATOR), None)
    envs = ", ".join(f"`{each.env}`" for each in workers[1:])
    return fill(
        "split/README.md",
        crossed=" Cross the wires (TX to RX), and join the grounds." if any(each.line for each in workers) else "",
        wires="".join(f"   - {comment(each.name)}: {_where(each)}\n" for each in workers),
        first=workers[0].env,
        others=f", then {envs}" if envs else "",
        run=fill("split/run_board.md", env=coordinator.env) if coordinator else fill("split/run_computer.md"),
        key=about_keys(key, coordinator is not None),
    )


def _where(place: Place) -> str:
    """Return where a worker is, for people."""
    if place.line:
        return f"{place.board.title}, its Serial1 joined to {place.line} of the coordinator"
    if place.way is Way.SERIAL:
        return f"{place.board.title}, by USB to the computer"
    return f"{place.board.title}, {place.way.value}, {place.host}:{place.port}"


def _notes(deployment: Deployment, places: Sequence[Place]) -> list[str]:
    notes = []
    workers = enumerate(deployment.cluster.workers)
    idle = [worker.name for number, worker in workers if number not in deployment.taking_part]
    if idle:
        notes.append(f"the plan has nothing to do for {', '.join(idle)}: no program is made")
    guessed = [
        each
        for each in places
        if each.number != COORDINATOR and each.host and not deployment.cluster.workers[each.number].address
    ]
    if guessed:
        chosen = ", ".join(f"{each.name} {each.host}:{each.port}" for each in guessed)
        notes.append(f"workers.toml gives no address, so these were chosen: {chosen}")
    if all(each.number != COORDINATOR for each in places):
        notes.append("the coordinator is tflite-fuse cluster run on a computer")
    return notes
