#!/usr/bin/env python3
"""Print the oldest version of every library that setup.cfg allows, as constraints for pip."""

from __future__ import annotations

import configparser
import re
from collections.abc import Iterator
from pathlib import Path

SETUP = Path(__file__).resolve().parents[1] / "setup.cfg"


def requirements() -> Iterator[str]:
    """Return every line that names a library: what the package needs always, then its extras."""
    setup = configparser.ConfigParser()
    setup.read(SETUP)
    for text in (setup["options"]["install_requires"], *setup["options.extras_require"].values()):
        yield from text.strip().splitlines()


def lowest(requirement: str) -> str:
    """Return ``numpy>=1.24`` as ``numpy==1.24``; a pin stays as it is. Raises ValueError without a bound."""
    name, bound = re.fullmatch(r"\s*([\w.-]+)\s*(.*)", requirement).groups()  # type: ignore[union-attr]
    if not bound.startswith((">=", "==")):
        raise ValueError(f"setup.cfg: {name} needs a lowest version")
    return f"{name}=={bound[2:]}"


if __name__ == "__main__":
    print(*dict.fromkeys(map(lowest, requirements())), sep="\n")
