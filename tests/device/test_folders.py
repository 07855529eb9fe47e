"""Exported folders of plain C compute the runtime's bytes on every emulated core, and refuse what is damaged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tflite_fuse
from scripts.zoo import networks
from tests.device.folders import run_folder
from tests.device.memories import run_in_two_memories
from tests.device.program import fusable_core
from tests.device.targets import HERE, TARGETS, Target, call, lines_of
from tests.device.test_emulated import targets
from tflite_fuse.export import export_model
from tflite_fuse.memory.regions import memories_of
from tflite_fuse.model import load_model, serialize_model
from tflite_fuse.model.outside import outside_inputs
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.inputs import generate_inputs

pytestmark = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")


@targets
def test_a_folder_runs_and_errors_are_errors(target: Target, tmp_path: Path) -> None:
    check("resident", target, tmp_path)


@pytest.mark.skipif(bool(TARGETS["cortex-m7"].missing()), reason="tools for the Cortex-M7 are not installed")
@pytest.mark.parametrize("mode", ["streamed", "external"])
def test_inputs_outside_the_arena_are_read(mode: str, tmp_path: Path) -> None:
    check(mode, TARGETS["cortex-m7"], tmp_path)


@pytest.mark.skipif(bool(TARGETS["cortex-m7"].missing()), reason="tools for the Cortex-M7 are not installed")
def test_the_arena_lies_in_another_memory_than_the_rest(tmp_path: Path) -> None:
    """The linker script has two memories, of which the one holds the arena and no byte more."""
    target, folder = TARGETS["cortex-m7"], tmp_path / "model"
    core = fusable_core(networks.inverted_residual_network(size=16, blocks=2))
    written = export_model(tflite_fuse.rewrite(serialize_model(core), verify=False).model, folder, "c")
    memory = f"MEMORY {{\n  FAST (rw) : ORIGIN = 0x60000000, LENGTH = {written.arena_bytes}"
    script = (HERE / "cortex_m.ld").read_text().replace("MEMORY {", memory)
    (folder / "two.ld").write_text(script.replace("SECTIONS {", "SECTIONS {\n  .fast (NOLOAD) : { *(.fast) } > FAST"))
    own = [str(HERE / name) for name in ("print.c", *target.sources)]
    section = '-DMODEL_ARENA_SECTION=__attribute__((section(".fast")))'
    flags = [*f"-std=gnu11 -O2 {target.flags} -I. -I{HERE}".split(), section]
    link = target.link.format(here=HERE).replace(f"{HERE}/cortex_m.ld", "two.ld").split()
    sources = [path.name for path in sorted(folder.glob("*.c"))]
    call([f"{target.prefix}gcc", *flags, *own, *sources, *link, "-o", "run.elf"], folder)
    said = lines_of(target, folder / "run.elf")
    assert said[0][:2] == ["arena:", str(written.arena_bytes)] and said[1][0] == "output"
    listing = call([f"{target.prefix}nm", "run.elf"], folder)
    assert "60000000 " in next(line for line in listing.splitlines() if line.endswith(" arena"))


@pytest.mark.skipif(bool(TARGETS["cortex-m7"].missing()), reason="tools for the Cortex-M7 are not installed")
@pytest.mark.parametrize("size", [5200, 3200])
def test_tensors_between_blocks_lie_in_a_slow_memory(size: int, tmp_path: Path) -> None:
    """Two memories as large as declared suffice, and instructions read and write what the report says, to the byte."""
    core = fusable_core(networks.inverted_residual_network(size=48, blocks=3))
    regions = [{"name": "sram", "size": size}, {"name": "psram", "size": "64kB"}]
    result = tflite_fuse.rewrite(serialize_model(core), memory=memories_of({"region": regions}), verify=False)
    written, told = export_model(result.model, tmp_path / "model", "c"), result.report.memories
    assert told is not None and written.arena_bytes <= told.fast_bytes <= size and told.written_bytes > 0
    ((values,),) = samples = generate_inputs(core, 5)[-1:]
    found = run_in_two_memories(tmp_path / "model", values.tobytes())
    ((expected,),) = tflm.run(serialize_model(core), samples).outputs
    assert found.intact and found.outputs == [expected.tobytes()]
    assert found.slow == (told.read_bytes, told.written_bytes)


def check(mode: str, target: Target, tmp_path: Path) -> None:
    """Outputs are the runtime's; no arena below the declared is taken, and no changed bit of options and constants."""
    core = fusable_core(networks.inverted_residual_network(size=16, blocks=2))
    rewritten = tflite_fuse.rewrite(serialize_model(core), input_mode=mode, verify=False).model
    export_model(rewritten, tmp_path / "model", "c")
    samples = generate_inputs(core, 4)
    found = run_folder(target, tmp_path / "model", samples, outside_inputs(load_model(rewritten)), changes=1000)
    expected = tflm.run(serialize_model(core), samples).outputs
    assert found.outputs == [[np.asarray(output).tobytes() for output in outputs] for outputs in expected]
    assert found.small[0] == found.small[1] > 1000
    assert found.changed == (1000, 1000)
