"""Benchmarks in plain C compare, measure and print; on this machine and on an emulated core."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tflite_fuse
from scripts.zoo import ModelBuilder
from tests.device.targets import HERE, TARGETS, Target, call, lines_of
from tests.export.exported import network, run
from tests.float_models import with_float_borders
from tests.uint8_models import with_uint8_borders
from tflite_fuse.cost.instructions import Target as Core
from tflite_fuse.errors import UsageError
from tflite_fuse.export import export_model
from tflite_fuse.export.benchmark import OnBoard
from tflite_fuse.model import Model, load_model, serialize_model

NANO = OnBoard("nano33ble", 64, Core.CORTEX_M4)

EMULATED = """\
#define BENCHMARK_BOARD "nano33ble"
#define BENCHMARK_CLOCK_HZ 64000000
#define BENCHMARK_TICKS_PER_SECOND 64000000
#include "device.h"
static inline void benchmark_start(void) {}
static inline uint32_t benchmark_ticks(void) { return (uint32_t)device_instructions(); }
static inline void benchmark_print(const char* text) { device_write(text); }
"""


def written(folder: Path, board: OnBoard = NANO, original: bytes | None = None) -> Path:
    original = network() if original is None else original
    export_model(tflite_fuse.rewrite(original, verify=False).model, folder, "c", benchmark=original, board=board)
    return folder


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")


@needs_gcc
def test_prints_a_line_for_the_unfused_and_the_rewritten_model(tmp_path: Path) -> None:
    folder = written(tmp_path / "model")
    run(["sh", "-c", "gcc -std=c11 -O2 -Wall -Wextra -Werror *.c -o run"], cwd=folder)
    unfused, rewritten = lines(run([folder / "run"]))
    assert (unfused["run"], rewritten["run"]) == ("unfused", "rewritten")
    assert unfused["arena_bytes"] > rewritten["arena_bytes"] == declared(folder)
    assert rewritten["predicted_instructions"] > 0 == unfused["predicted_instructions"]
    assert [block["name"] for block in unfused["blocks"]][:2] == ["CONV", "DEPTHWISE"]
    assert (rewritten["board"], rewritten["clock_hz"], rewritten["runs"]) == ("nano33ble", 64_000_000, 30)


@needs_gcc
def test_the_name_of_a_board_is_one_string_in_c_and_in_the_lines(tmp_path: Path) -> None:
    folder = written(tmp_path / "model", board=OnBoard('mine "5" \\ é', 64))
    run(["sh", "-c", "gcc -std=c11 -O2 *.c -o run"], cwd=folder)
    assert {each["board"] for each in lines(run([folder / "run"]))} == {'mine "5" \\ é'}


@needs_gcc
@pytest.mark.parametrize("borders", [with_uint8_borders, with_float_borders])
def test_a_model_whose_blocks_convert_its_ends_is_compared_on_these(
    borders: Callable[[Model], Model], tmp_path: Path
) -> None:
    folder = written(tmp_path / "model", original=serialize_model(borders(load_model(network()))))
    run(["sh", "-c", "gcc -std=c11 -O2 -ffp-contract=off *.c -o run -lm"], cwd=folder)
    unfused, rewritten = lines(run([folder / "run"]))
    assert "microseconds" in rewritten and len(rewritten["blocks"]) < len(unfused["blocks"])


def declared(folder: Path) -> int:
    return int(re.findall(r"#define MODEL_ARENA_BYTES (\d+)", (folder / "model.h").read_text())[0])


@needs_gcc
def test_outputs_that_differ_end_with_the_first_difference_and_no_time(tmp_path: Path) -> None:
    """The rewritten model gets other inputs here, which stands for a defect."""
    folder = written(tmp_path / "model")
    main = (folder / "main.c").read_text()
    given = "    fill(c, set);\n"
    other = "    if (!is_first) memset(arena + c->inputs[0].offset, 99, 180);\n"
    broken = main.replace(given, f"{given}{other}")
    assert broken != main
    (folder / "main.c").write_text(broken)
    found = lines(run(["sh", "-c", "gcc -std=c11 *.c -o run && (./run || true)"], cwd=folder))
    assert len(found) == 1 and "microseconds" not in found[0]
    assert re.fullmatch(r"output 0, byte \d+, of input set \d is -?\d+, and -?\d+ in the original", found[0]["error"])


@needs_gcc
def test_a_clock_that_stands_still_gives_no_time(tmp_path: Path) -> None:
    folder = written(tmp_path / "model")
    board = (folder / "board.h").read_text()
    (folder / "board.h").write_text(board.replace("(uint32_t)clock()", "0"))
    (found,) = lines(run(["sh", "-c", "gcc -std=c11 *.c -o run && (./run || true)"], cwd=folder))
    assert "the clock does not move" in found["error"] and "microseconds" not in found


@pytest.mark.parametrize("target", [TARGETS["cortex-m4"], TARGETS["cortex-m7"]], ids=lambda target: target.name)
def test_runs_on_an_emulated_core(target: Target, tmp_path: Path) -> None:
    """A core without a clock to read: instructions stand for cycles."""
    if target.missing():
        pytest.skip(f"{', '.join(target.missing())} not installed")
    folder = written(tmp_path / "model")
    board = (folder / "board.h").read_text()
    core = board[board.index("/* The core's name") : board.rindex("#endif")]
    (folder / "board.h").write_text(f"{EMULATED}\n{core}")
    own = [str(HERE / name) for name in target.sources]
    flags = f"-std=gnu11 -O2 -Wall -Wextra -Werror {target.flags} -I. -I{HERE}".split()
    sources = [path.name for path in sorted(folder.glob("*.c"))]
    link = [*target.link.format(here=HERE).split(), "-o", "run.elf"]
    call([f"{target.prefix}gcc", *flags, *own, *sources, *link], folder)
    unfused, rewritten = (json.loads(" ".join(words)) for words in lines_of(target, folder / "run.elf"))
    assert unfused["core"] == rewritten["core"] == target.name
    assert rewritten["microseconds"] > 0 and unfused["microseconds"] > 0
    instructions = rewritten["microseconds"] * 64
    assert instructions == pytest.approx(rewritten["predicted_instructions"], rel=0.25)


@needs_gcc
def test_a_model_whose_original_has_an_operator_that_becomes_no_block_runs_alone(tmp_path: Path) -> None:
    """A SPLIT in the original, whose parts are GATHERs in the rewritten one."""
    b = ModelBuilder(seed=4)
    first, _, third, _ = b.split(b.conv(b.input((1, 6, 6, 3)), 8, 3), 4)
    original = serialize_model(b.build([b.add(b.conv(first, 4, 1), b.conv(third, 4, 1))]))
    rewritten = tflite_fuse.rewrite(original, verify=False).model
    result = export_model(rewritten, tmp_path / "model", "c", benchmark=original, board=NANO)
    why = "the original does not run in plain C: SPLIT_1 is no fused block and becomes none by itself"
    assert result.notes[0] == f"the benchmark runs MODEL alone, because {why}"
    assert why in (tmp_path / "model" / "README.md").read_text()
    run(["sh", "-c", "gcc -std=c11 -O2 -Wall -Wextra -Werror *.c -o run"], cwd=tmp_path / "model")
    (line,) = lines(run([tmp_path / "model" / "run"]))
    assert line["run"] == "rewritten" and line["blocks"] and line["arena_bytes"] == declared(tmp_path / "model")


def test_another_model_is_refused(tmp_path: Path) -> None:
    b = ModelBuilder(seed=3)
    other = serialize_model(b.build([b.conv(b.input((1, 5, 5, 3)), 4, 1)]))
    rewritten = tflite_fuse.rewrite(network(), verify=False).model
    with pytest.raises(UsageError, match="give --benchmark the file that MODEL was rewritten from"):
        export_model(rewritten, tmp_path / "model", "c", benchmark=other)
    with pytest.raises(UsageError, match="has fused blocks itself"):
        export_model(rewritten, tmp_path / "model", "c", benchmark=rewritten)
    streamed = tflite_fuse.rewrite(network(), verify=False, input_mode="streamed").model
    with pytest.raises(UsageError, match="rewrite it without --input"):
        export_model(streamed, tmp_path / "model", "c", benchmark=network())
    assert not (tmp_path / "model").exists()
