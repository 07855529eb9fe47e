"""An exported folder on a core with two memories of the sizes it declares, each between guards."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.device.program import binary
from tests.device.targets import HERE, TARGETS, call

GUARD = 64
FAST, SLOW = 0x60000000, 0x60800000
"""Where the two begin, in memory of the board that nothing else uses."""

_SECTIONS = """\
SECTIONS {
  .fast (NOLOAD) : { fast_start = .; . += 64; *(.fast) . = ALIGN(16); fast_end = .; . += 64; } > FAST
  .slow (NOLOAD) : { slow_start = .; . += 64; *(.slow) . = ALIGN(16); slow_end = .; . += 64; } > SLOW
"""


@dataclass(frozen=True)
class Run:
    """What one inference told.

    Attributes:
        outputs: what the main program prints of the outputs.
        intact: whether nothing was written beside the two memories.
        read, written: bytes of the slow memory that instructions read and wrote, those of the main program among them.
    """

    outputs: list[int]
    intact: bool
    read: int
    written: int


def run_in_two_memories(folder: Path, values: bytes, where: str) -> Run:
    """Compile a folder of plain C for the Cortex-M7, arena and second memory in memories of their own, and run it.

    Args:
        folder: as exported; its main program runs one inference.
        values: of the one input.
        where: C for the address of the input.
    """
    target, sizes = TARGETS["cortex-m7"], _declared(folder)
    memories = "".join(
        f"\n  {name} (rw) : ORIGIN = {origin:#x}, LENGTH = {nbytes + 2 * GUARD}"
        for name, origin, nbytes in (("FAST", FAST, sizes["ARENA"]), ("SLOW", SLOW, sizes["MEMORY"]))
    )
    script = (HERE / "cortex_m.ld").read_text().replace("MEMORY {", f"MEMORY {{{memories}")
    (folder / "two.ld").write_text(script.replace("SECTIONS {\n", _SECTIONS))
    main, given = (folder / "main.c").read_text(), f"  memcpy({where}, values, {len(values)});\n"
    main = re.sub(r"  memset\(.*Your data goes here. \*/\n", lambda _: given, main).replace("main(", "run_model(", 1)
    (folder / "main.c").write_text(f"#include <stdint.h>\n{binary(folder, 'values', values)}\n{main}")
    own = [str(HERE / name) for name in ("two_memories.c", "print.c", *target.sources)]
    sections = [f'-DMODEL_{what}_SECTION=__attribute__((section(".{place}")))' for what, place in _PLACES]
    flags = [*f"-std=gnu11 -O2 {target.flags} -I. -I{HERE}".split(), *sections]
    link = target.link.format(here=HERE).replace(f"{HERE}/cortex_m.ld", "two.ld").split()
    sources = [path.name for path in sorted(folder.glob("*.c"))]
    call([f"{target.prefix}gcc", *flags, *own, *sources, *link, "-o", "run.elf"], folder)
    call(["gcc", "-shared", "-fPIC", "-O2", str(HERE / "traffic.c"), "-o", "traffic.so"], folder)
    counted = f"{folder}/traffic.so,first={SLOW + GUARD},end={SLOW + GUARD + sizes['MEMORY']}"
    command = [*target.emulator.split()[:-1], "-plugin", counted, "-kernel", "run.elf"]
    said = call(command, folder)
    outputs = [int(found) for found in re.findall(r"output 0\[\d+\] = (-?\d+)", said)]
    (guards,), (traffic,) = re.findall(r"guards (\d)", said), re.findall(r"traffic (\d+) (\d+)", said)
    return Run(outputs, guards == "1", int(traffic[0]), int(traffic[1]))


_PLACES = (("ARENA", "fast"), ("MEMORY", "slow"))


def _declared(folder: Path) -> dict[str, int]:
    found = re.findall(r"#define MODEL_(ARENA|MEMORY)_BYTES (\d+)", (folder / "model.h").read_text())
    return {name: int(size) for name, size in found}
