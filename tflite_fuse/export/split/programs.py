"""The programs of a split's devices, as C++ on the Arduino API."""

from __future__ import annotations

from collections.abc import Sequence
from string import Template

from tflite_fuse.export.split.boards import Place, Way
from tflite_fuse.export.split.keys import Lock
from tflite_fuse.export.text import byte_array, comment, fill

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
