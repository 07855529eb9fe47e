"""A PlatformIO project of a split: an environment for every device, the library, and a README."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tflite_fuse.errors import UsageError
from tflite_fuse.export import library
from tflite_fuse.export.folder import Files, require_usable, write_folder
from tflite_fuse.export.split.boards import Place, Way, places_of
from tflite_fuse.export.split.keys import Lock, about_keys, key_files, lock_of
from tflite_fuse.export.split.programs import coordinator_program, fragment_files, worker_program
from tflite_fuse.export.text import comment, fill
from tflite_fuse.split.cluster.folder import Deployment, read_deployment
from tflite_fuse.split.devices import COORDINATOR
from tflite_fuse.split.fragments.encode import decode

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
    summing = deployment.summing
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
                place.number in summing,
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
