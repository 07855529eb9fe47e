"""Programs that libFuzzer drives, in C or in Python: how they are told when to end, and what they end with."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

_DONE = re.compile(r"Done (\d+) runs")
_MEGABYTES = 1024


def run(name: str, command: Sequence[str], seeds: Path, first: int, seconds: int) -> tuple[int, str]:
    """Executions done, and what ended them if that was not the time: a file of the working directory tells more.

    Args:
        name: of the fuzzer.
        command: the program with options of its own.
        seeds: folder of inputs to begin with; it stays as it is.
        first: seed of the mutations.
        seconds: to go on for.
    """
    with tempfile.TemporaryDirectory(prefix="tflite-fuse-fuzz-") as folder:
        found = Path(folder) / "found"
        found.mkdir()
        limits = [f"-seed={first % 2**31 + 1}", f"-max_total_time={seconds}", f"-rss_limit_mb={_MEGABYTES}"]
        done = subprocess.run(
            [*command, *limits, str(found), str(seeds)],
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        ran = _DONE.search(done.stderr)
        if done.returncode == 0 and ran:
            return int(ran[1]), ""
        kept = Path.cwd() / f"fuzz-{name}-{first}.txt"
        artefacts = sorted(
            each for each in Path(folder).iterdir() if each.name.startswith(("crash-", "timeout-", "oom-"))
        )
        data = artefacts[0].read_bytes().hex() if artefacts else "none"
        kept.write_text(done.stderr[-20_000:] + f"\ninput: {data}\n")
        return 0, f"see {kept.name}"
