"""Parts of a program whose board serves only devices with the key: the key, HMAC-SHA256, and random bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tflite_fuse.errors import UsageError
from tflite_fuse.export.folder import Files
from tflite_fuse.export.split.boards import Place, Way
from tflite_fuse.export.text import byte_array, fill
from tflite_fuse.split.cluster.link.messages import LEAST_BYTES

KEY_FILE = "include/key.h"

_KEY = """\
// The key of all devices of this split. It gives access to them: .gitignore keeps it out of repositories.
#ifndef KEY_H_
#define KEY_H_

#include <stdint.h>

"""

_INCLUDES = '#include "key.h"\n#include "tflite_fuse_key.h"\n'

_MBEDTLS_MAC = "tflite_fuse_mbedtls_mac"

_LOCK = """\
static uint8_t secrets[{sessions}][TFLITE_FUSE_SECRET_BYTES];
static tflite_fuse_key lock;
"""

_OPEN = """\
  while (tflite_fuse_key_open(&lock, {node}, {mac}, nullptr, KEY, sizeof(KEY), secrets) != TFLITE_FUSE_LINK_OK) {{
    Serial.println("no random bytes: with a key this board does not start");
    delay(5000);
  }}
"""


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
    "teensy": Source(
        "#include <Entropy.h>\n#include <SHA256.h>\n", "split/random_teensy.cpp", "  Entropy.Initialize();\n"
    ),
    "nordicnrf52": Source("#include <SHA256.h>\n#include <nrf.h>\n", "split/random_nordic.cpp"),
    "espressif32": Source('#include "link/tflite_fuse_mbedtls.h"\n', "split/random_esp.cpp", "", _MBEDTLS_MAC, ()),
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
    mac = fill("split/mac.cpp") if source.mac == "Mac" else ""
    memory = f"{mac}{_LOCK.format(sessions=sessions)}"
    opened = _OPEN.format(node=node, mac=source.mac)
    return Lock(source.includes + _INCLUDES, fill(source.random), memory, source.begin, opened, source.libraries)


def key_files(key: bytes | None) -> Files:
    """Return the key for the compiler, and a file that keeps it out of repositories."""
    if key is None:
        return {}
    assert len(key) >= LEAST_BYTES
    return {
        KEY_FILE: _KEY + byte_array("static const uint8_t KEY[]", key) + "\n#endif\n",
        ".gitignore": f"{KEY_FILE}\n.pio/\n",
    }


def said_of_keys(key: bytes | None, coordinator_is_board: bool) -> Sequence[str]:
    """Return lines of the README."""
    if key is None:
        return [
            "There is no authentication: keep the boards in a network of their own, or export with a key:",
            "`tflite-fuse export … --key-file KEY`.",
        ]
    run = "" if coordinator_is_board else " Give it to `cluster run` by `--key-file KEY`."
    return [
        f"All boards have the key in `{KEY_FILE}` and refuse devices without it; messages are signed, not",
        f"encrypted.{run}",
        "Keep that file and programs compiled with it secret: `.gitignore` names it, and a copy of a board's flash",
        "contains the key. For another one: `head -c 32 /dev/urandom > KEY`, export again with `--force`, flash all.",
    ]
