#!/usr/bin/env python3
"""Print the bytes of the package and its dependencies on this disk, with and without compiled bytecode.

pip compiles on installation by default; other installers do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import metadata


def installed(name: str, seen: set[str]) -> Iterator[str]:
    """Yield a distribution and its requirements, without extras."""
    key = re.sub(r"[-_.]+", "-", name).lower()
    if key in seen:
        return
    seen.add(key)
    try:
        requires = metadata.requires(key) or []
    except metadata.PackageNotFoundError:  # for another system or Python
        return
    yield key
    for each in requires:
        if "extra ==" not in each:
            yield from installed(re.match(r"[\w.-]+", each)[0], seen)  # type: ignore[index]


def weights(name: str) -> tuple[int, int]:
    """Return the bytes of a distribution's sources and libraries, and of its bytecode."""
    plain = compiled = 0
    for file in metadata.files(name) or ():
        path = file.locate()
        if path.is_file():
            if file.suffix == ".pyc":
                compiled += path.stat().st_size
            else:
                plain += path.stat().st_size
    return plain, compiled


def main() -> None:
    """Print one line per distribution, the heaviest first, and the sum."""
    rows = sorted(((*weights(name), name) for name in installed("tflite-fuse", set())), reverse=True)
    for plain, compiled, name in rows:
        if plain + compiled >= 100_000:
            print(f"{name:20} {plain / 1e6:6.1f} MB, bytecode {compiled / 1e6:5.1f} MB")
    plain, compiled = (sum(each[column] for each in rows) for column in (0, 1))
    print(f"{'in all':20} {plain / 1e6:6.1f} MB, bytecode {compiled / 1e6:5.1f} MB")


if __name__ == "__main__":
    main()
