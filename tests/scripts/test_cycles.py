"""Timing models: instructions read right, blocks priced as published, whole programs counted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from scripts.cycles import main, pairs_as_markdown
from scripts.readme import part
from scripts.timing.blocks import MARK
from scripts.timing.chips import CHIPS
from scripts.timing.cores import CortexM4, CortexM7, Scalar
from scripts.timing.counting import intervals, read, symbol
from scripts.timing.disassembly import Instruction, Kind, arm, riscv
from scripts.timing.model import NO_WAITS, cycles
from tests.device.targets import HERE, TARGETS, call

PAGE = Path(__file__).resolve().parents[2] / "docs" / "time.md"


def code(*lines: str, at: int = 0) -> list[Instruction]:
    """Instructions of 32 bits one behind the other."""
    parsed = [arm(*line.partition(" ")[::2]) for line in lines]
    return [replace(each, address=at + 4 * index, size=4) for index, each in enumerate(parsed)]


def test_operands_of_arm_are_read_and_written() -> None:
    smlad = arm("smlad", "r3, r0, r9, r3")
    assert (smlad.kind, smlad.writes, smlad.accumulators) == (Kind.MULTIPLY, {"r3"}, {"r3"})
    load = arm("ldr.w", "r2, [r8], #4")
    assert (load.kind, load.words, load.writes, load.addresses) == (Kind.LOAD, 1, {"r2", "r8"}, {"r8"})
    several = arm("ldmia.w", "r0!, {r4-r6, sl}")
    assert (several.words, several.writes) == (4, {"r0", "r4", "r5", "r6", "r10"})
    store = arm("strd", "r0, r1, [sp, #8]")
    assert (store.kind, store.writes, store.reads) == (Kind.STORE, set(), {"r0", "r1", "r13"})
    back = arm("pop", "{r4, pc}")
    assert back.kind is Kind.BRANCH and back.indirect and not back.conditional
    assert arm("bne.n", "48").conditional and not arm("bic.w", "r1, r2, r3").conditional
    assert arm("vmladava.s16", "r0, q0, q1").kind is Kind.VECTOR_MULTIPLY


def test_operands_of_riscv_are_read_and_written() -> None:
    assert riscv("lb", "a5,3(a4)").writes == {"a5"} and riscv("lb", "a5,3(a4)").addresses == {"a4"}
    assert riscv("beqz", "a5,80000010").conditional and riscv("sw", "a0,0(sp)").writes == set()


def test_a_cortex_m4_takes_the_cycles_of_its_manual() -> None:
    core = CortexM4()
    assert core.cycles([], code("add r0, r1, r2")) == 1
    assert core.cycles([], code("ldr r0, [r1]", "ldr r2, [r3]", "ldr r4, [r5]")) == 4
    assert core.cycles([], code("ldr r0, [r1]", "ldr r2, [r0]")) == 4  # the address comes from the first
    assert core.cycles([], code("ldmia r0!, {r1, r2, r3, r4}")) == 5
    jump = code("bne 100")
    assert core.cycles(jump, code("nop", at=100)) > core.cycles(jump, code("nop", at=4))


def test_a_cortex_m7_issues_pairs_and_waits_for_loads() -> None:
    core = CortexM7()
    independent = code(*("add r0, r1, r2", "mul r3, r4, r5") * 4)
    dependent = code(*("add r0, r0, r2",) * 8)
    assert core.cycles(dependent, dependent) == 8 and core.cycles(independent, independent) == 4
    apart = code("ldr r0, [r1]", "add r5, r6, r7", "add r8, r6, r7", "add r2, r0, r0")
    together = code("ldr r0, [r1]", "add r2, r0, r0", "add r5, r6, r7", "add r8, r6, r7")
    assert core.cycles([], apart) <= core.cycles([], together)


def test_a_scalar_core_waits_behind_loads_and_branches() -> None:
    load, use = riscv("lw", "a0,0(a1)"), riscv("addi", "a2,a0,1")
    assert Scalar().cycles([], [load, use]) == 3


def test_the_file_of_the_plugin_is_read() -> None:
    (found,) = read("interval\nmisses 1 2 3 4\nran 40 2 48 3 10\nran 48 3 48 3 5\n")
    assert found.instructions == 45 and found.misses.ram == 3


@pytest.mark.parametrize("name", CHIPS)
def test_every_core_counts_a_loop_exactly(name: str, tmp_path: Path) -> None:
    target = TARGETS[name]
    if missing := target.missing():
        pytest.skip(f"{', '.join(missing)} not installed")
    body = "for (volatile int i = 0; i < COUNT; ++i) {} device_instructions();"
    (tmp_path / "loop.c").write_text(
        f'#include "device.h"\nint main(void) {{ device_instructions(); {body} return 0; }}\n'
    )
    counts = []
    for count in (100, 200):
        elf = f"loop{count}.elf"
        sources = ["loop.c", *(str(HERE / each) for each in target.sources)]
        flags = f"-std=gnu11 -O2 -DCOUNT={count} {target.flags} -I{HERE}".split()
        call([f"{target.prefix}gcc", *flags, *sources, *target.link.format(here=HERE).split(), "-o", elf], tmp_path)
        found, _ = intervals(target.emulator.split(), tmp_path / elf, symbol(tmp_path / elf, target.prefix, MARK))
        counts.append(found[1].instructions)
    assert (counts[1] - counts[0]) % 100 == 0 and 300 <= counts[1] - counts[0] <= 900


def test_an_interval_of_nothing_takes_nothing() -> None:
    (found,) = read("interval\nmisses 0 0 0 0\n")
    assert cycles(found, {}, CortexM4(), NO_WAITS).total == 0


def test_targets_without_a_timing_model_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--target", "z80"]) == 2 and "z80 is no target here" in capsys.readouterr().err
    assert main(["--elf", "x.elf"]) == 2
    if not TARGETS["cortex-m4"].missing():
        assert "one --target" in capsys.readouterr().err


def test_the_page_contains_the_pairs() -> None:
    assert part("pairs", PAGE) == pairs_as_markdown(), "run scripts/cycles --pairs --write"


def test_a_model_takes_cycles(capsys: pytest.CaptureFixture[str]) -> None:
    if missing := TARGETS["cortex-m4"].missing():
        pytest.skip(f"{', '.join(missing)} not installed")
    assert main(["--target", "cortex-m4", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["instructions"] < row["cycles"] < 4 * row["instructions"]
