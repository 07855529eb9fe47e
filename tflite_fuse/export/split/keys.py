"""Parts of a program whose board serves only devices with the key: the key, HMAC-SHA256, and random bytes."""

from __future__ import annotations

from dataclasses import dataclass

from tflite_fuse.errors import UsageError
from tflite_fuse.export.folder import Files
from tflite_fuse.export.split.boards import Place, Way
from tflite_fuse.export.text import byte_array, fill
from tflite_fuse.split.cluster.link.messages import LEAST_BYTES

KEY_FILE = "include/key.h"

_INCLUDES = '#include "key.h"\n#include "tflite_fuse_key.h"\n'

_MBEDTLS_MAC = "tflite_fuse_mbedtls_mac"


@dataclass(frozen=True)
class Source:
    """A platform's random bytes and HMAC-SHA256.

    Attributes:
        includes: of the program.
        random: template of a function ``Random``.
        begin: code in ``setup``.
        mac: the function; ``Mac`` is in the program.
        libraries: PlatformIO's names.
    """

    includes: str
    random: str
    begin: str = ""
    mac: str = "Mac"
    libraries: tuple[str, ...] = ("rweather/Crypto",)


_SOURCES = {
    "teensy": Source("#include <Entropy.h>\n#include <SHA256.h>\n", "key/teensy.cpp", "  Entropy.Initialize();\n"),
    "nordicnrf52": Source("#include <SHA256.h>\n#include <nrf.h>\n", "key/nordic.cpp"),
    "espressif32": Source('#include "link/tflite_fuse_mbedtls.h"\n', "key/esp.cpp", "", _MBEDTLS_MAC, ()),
}


@dataclass(frozen=True)
class Lock:
    """The parts of a program; all empty without a key."""

    includes: str = ""
    random: str = ""
    memory: str = ""
    begin: str = ""
    open: str = ""
    libraries: tuple[str, ...] = ()

    @property
    def hook(self) -> str:
        """Return the function for random bytes."""
        return "Random" if self.random else "nullptr"

    @property
    def of_line(self) -> str:
        """Return the argument of a serial line behind its stream."""
        return ", Random" if self.random else ""


def lock_of(place: Place, has_key: bool, sessions: str, node: str = "&node", *, in_network: bool | None = None) -> Lock:
    """Return the parts of a device's program.

    Args:
        place: of the device.
        has_key: whether there is a key.
        sessions: the number of its sessions, in C.
        node: its node, in C.
        in_network: whether it joins one; its ``way``, if None.

    Raises:
        UsageError: the board has no random bytes good enough for a key.
    """
    if not has_key:
        return Lock()
    source = _SOURCES.get(place.board.platform)
    joins = place.way is not Way.SERIAL if in_network is None else in_network
    if source is None or (place.board.way is Way.WIFI and not joins):
        radio = " while its radio is off" if source else ""
        raise UsageError(
            f"{place.name!r} is {place.board.title}, which has no random bytes{radio} that a key may rely on: "
            "leave out the key, or take another board"
        )
    mac = fill("key/mac.cpp") if source.mac == "Mac" else ""
    memory = mac + fill("key/secrets.cpp", sessions=sessions)
    opened = fill("key/open.cpp", node=node, mac=source.mac)
    return Lock(source.includes + _INCLUDES, fill(source.random), memory, source.begin, opened, source.libraries)


def key_files(key: bytes | None) -> Files:
    """Return the key for the compiler, and a file that keeps it out of repositories."""
    if key is None:
        return {}
    assert len(key) >= LEAST_BYTES
    return {
        KEY_FILE: fill("key/key.h", key=byte_array("static const uint8_t KEY[]", key)),
        ".gitignore": f"{KEY_FILE}\n.pio/\n",
    }


def about_keys(key: bytes | None, coordinator_is_board: bool) -> str:
    """Return a paragraph of the README."""
    if key is None:
        return fill("key/without_key.md")
    run = "" if coordinator_is_board else " Give it to `cluster run` by `--key-file KEY`."
    return fill("key/with_key.md", file=KEY_FILE, run=run)
