"""What the scripts' commands have in common."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from functools import wraps
from pathlib import Path

from tests.device.targets import TARGETS, Target
from tflite_fuse.errors import TfliteFuseError, UsageError

Main = Callable[[Sequence[str] | None], int]


def in_one_sentence(main: Main) -> Callable[..., int]:
    """Return a main function that prints what fails in one sentence, and returns 2 then."""

    @wraps(main)
    def called(arguments: Sequence[str] | None = None) -> int:
        try:
            return main(arguments)
        except (TfliteFuseError, OSError, ValueError, KeyError) as error:
            print(f"{Path(main.__code__.co_filename).stem}: {error}", file=sys.stderr)
            return 2

    return called


def chosen_targets(names: Sequence[str], known: Collection[str] = TARGETS) -> list[Target]:
    """Return the targets of some names, all that are known for none.

    Raises:
        UsageError: one is unknown, or this machine has no tools for it.
    """
    for name in names:
        if name not in known:
            raise UsageError(f"{name} is no target here: choose from {', '.join(known)}")
    targets = [TARGETS[name] for name in names or known]
    for target in targets:
        if target.missing():
            raise UsageError(f"{target.name} needs {', '.join(target.missing())}: install them or choose with --target")
    return targets
