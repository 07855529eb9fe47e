"""An exported folder on a core with two memories of the sizes it declares, each between guards."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests import PATIENCE
from tests.device.program import binary
from tests.device.targets import HERE, TARGETS, call

GUARD, SWITCH = 64, 16
"""Bytes of a guard, and before those of the fast memory of the variable that starts and stops the plugin's counts."""
FAST, SLOW = 0x60000000, 0x60800000
"""Where the two begin, in memory of the board that nothing else uses."""

_SECTIONS = """\
SECTIONS {
  .switch (NOLOAD) : { start_or_stop = .; . += 16; } > FAST
  .fast (NOLOAD) : { fast_start = .; . += 64; *(.fast) . = ALIGN(16); fast_end = .; . += 64; } > FAST
  .slow (NOLOAD) : { slow_start = .; . += 64; *(.slow) . = ALIGN(16); slow_end = .; . += 64; } > SLOW
"""


@dataclass(frozen=True)
class Run:
    """What one inference told.

    Attributes:
        outputs: bytes of each output.
        intact: whether nothing was written beside the two memories.
        fast, slow: bytes of each memory that instructions read and wrote from the start of the inference to its end.
    """

    outputs: list[bytes]
    intact: bool
    fast: tuple[int, int]
    slow: tuple[int, int]


def run_in_two_memories(folder: Path, values: bytes, timeout: float = PATIENCE) -> Run:
    """Compile a folder of plain C for the Cortex-M7, arena and second memory in memories of their own, and run it.

    Args:
        folder: as exported; its main program runs one inference.
        values: of the one input.
        timeout: seconds that the emulator may take.
    """
    target, sizes = TARGETS["cortex-m7"], _declared(folder)
    memories = "".join(
        f"\n  {name} (rw) : ORIGIN = {origin:#x}, LENGTH = {nbytes + 2 * GUARD}"
        for name, origin, nbytes in (("FAST", FAST, sizes["ARENA"] + SWITCH), ("SLOW", SLOW, sizes["MEMORY"]))
    )
    script = (HERE / "cortex_m.ld").read_text().replace("MEMORY {", f"MEMORY {{{memories}")
    (folder / "two.ld").write_text(script.replace("SECTIONS {\n", _SECTIONS))
    (folder / "main.c").write_text(_with_values((folder / "main.c").read_text(), binary(folder, "values", values)))
    own = [str(HERE / name) for name in ("two_memories.c", "print.c", *target.sources)]
    sections = [f'-DMODEL_{what}_SECTION=__attribute__((section(".{place}")))' for what, place in _PLACES]
    flags = [*f"-std=gnu11 -O2 {target.flags} -I. -I{HERE}".split(), *sections]
    link = [
        *target.link.format(here=HERE).replace(f"{HERE}/cortex_m.ld", "two.ld").split(),
        "-Wl,--wrap=tflite_fuse_run",
    ]
    sources = [path.name for path in sorted(folder.glob("*.c"))]
    call([f"{target.prefix}gcc", *flags, *own, *sources, *link, "-Wl,--wrap=tflite_fuse_run", "-o", "run.elf"], folder)
    call(["gcc", "-shared", "-fPIC", "-O2", str(HERE / "traffic.c"), "-o", "traffic.so"], folder)
    regions = [f"{at + GUARD}-{at + GUARD + sizes[name]}" for at, name in ((FAST + SWITCH, "ARENA"), (SLOW, "MEMORY"))]
    counted = f"{folder}/traffic.so,switch={FAST},region={regions[0]},region={regions[1]}"
    said = call([*target.emulator.split()[:-1], "-plugin", counted, "-kernel", "run.elf"], folder, timeout)
    (guards,), traffic = re.findall(r"guards (\d)", said), re.findall(r"traffic (\d+) (\d+)", said)
    fast, slow = ((int(read), int(written)) for read, written in traffic)
    return Run([bytes.fromhex(each) for each in re.findall(r"output (\w*)\n", said)], guards == "1", fast, slow)


def _with_values(main: str, values: str) -> str:
    """Return an exported main program as a function that reads given values and writes all bytes of each output."""
    main = re.sub(r"memset\((.*), 0, (\w+)\);.*Your data goes here. \*/", r"memcpy(\1, values, \2);", main)
    shown = r"for \(int i = 0;.*\n.*\n.*memcpy\(&value, (.*) \+ sizeof.*\n.*printf\(\"output (\d+).*\n  \}"
    main = re.sub(shown, r"write_bytes(\1, MODEL_OUTPUT_\2_BYTES);", main).replace("main(", "run_model(", 1)
    return f'#include <stdint.h>\n#include "report.h"\n{values}\n{main}'


_PLACES = (("ARENA", "fast"), ("MEMORY", "slow"))


def _declared(folder: Path) -> dict[str, int]:
    found = re.findall(r"#define MODEL_(ARENA|MEMORY)_BYTES (\d+)", (folder / "model.h").read_text())
    return {name: int(size) for name, size in found}
