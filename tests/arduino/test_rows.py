"""Row kernels of an application: correct ones are used; wrong ones are refused in favour of the library's."""

from __future__ import annotations

import subprocess
from pathlib import Path
from random import Random

import pytest

from scripts.zoo import ModelBuilder
from tests.arduino.fake_runtime import SANITIZERS, build, compiler, library_objects
from tests.drawing.witness import plan
from tflite_fuse.emit.encode import encode
from tflite_fuse.export.text import byte_array
from tflite_fuse.ir.block import BlockConfig, StageKind
from tflite_fuse.ops.lowering.extract import extract
from tflite_fuse.runtime.library.sources import library_directory

PROGRAM = Path(__file__).with_name("row_kernels.c")


@pytest.fixture(scope="module")
def block(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two convolutions and a depthwise one in a block with plain weights."""
    folder = tmp_path_factory.mktemp("rows")
    b = ModelBuilder(2)
    x = b.conv(b.input((1, 11, 9, 3)), 5, 7)
    model = b.build([b.conv(b.depthwise(x, 9), 4, 9)])
    block = extract(model, range(3)).block
    encoded = encode(block, plan(block, BlockConfig(4, 5, 3)))
    arrays = (("options", encoded.options), ("constants", encoded.constants))
    text = [byte_array(f"static const _Alignas(16) unsigned char {name}[{len(data)}]", data) for name, data in arrays]
    (folder / "block.h").write_text("\n".join(text))
    return folder


def compiled(block: Path, source: Path) -> Path:
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", *SANITIZERS, f"-I{library_directory()}", f"-I{block}"]
    build([compiler("gcc"), *flags, source, *library_objects(), "-lm", "-o", block / source.stem])
    return block / source.stem


@pytest.fixture(scope="module")
def program(block: Path) -> Path:
    """Row kernels written for clarity."""
    return compiled(block, PROGRAM)


def outcome(program: Path, *arguments: str, lines: bool = False) -> list[str]:
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines() if lines else done.stdout.split()


def test_right_kernels_are_used_and_give_the_same_bytes(program: Path) -> None:
    status, calls, plain, used = outcome(program, "0", "0")
    assert status == "0" and int(calls) > 100
    assert plain == used


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", ["1", "2"])
def test_a_kernel_that_is_wrong_in_one_value_anywhere_is_refused(program: Path, kind: str, seed: int) -> None:
    """Of all values of a run through the block one is off by one: of the convolution's, or of the depthwise's."""
    status, calls, plain, used = outcome(program, kind, str(Random(seed).randrange(60)))
    assert status == "13"
    assert calls == "0", "it is called no more"
    assert plain == used


def test_each_kernel_can_be_called_by_itself(tmp_path: Path) -> None:
    """Copied, negated, the larger of two, and sums of products halved; clamped to -100...127 where a stage clamps."""
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", *SANITIZERS, f"-I{library_directory()}"]
    source = PROGRAM.with_name("one_kernel.c")
    build([compiler("gcc"), *flags, source, *library_objects(), "-lm", "-o", tmp_path / "program"])
    copied, negated, larger, conv, depthwise = outcome(tmp_path / "program", lines=True)
    assert copied == "-128 5 127 0 -7 64"
    assert negated == "127 -5 -127 0 7 -64"
    assert larger == "-1 6 127 100 -7 64"
    assert conv == "-100 10 2 0 -2 29"
    assert depthwise == "-100 15 -100 0 -9 -64"


def test_a_profile_sees_every_run_of_pixels_of_every_stage_and_changes_no_byte(block: Path) -> None:
    """The clock counts its readings, so each run of pixels takes one tick; the application's own kernels go on."""
    first, *stages = outcome(compiled(block, PROGRAM.with_name("profile.c")), lines=True)
    plain, profiled, over_rows, after, of_rows, calls, readings, others = first.split()
    assert plain == profiled == over_rows == after
    assert readings == others, "each of two profiles sees one run"
    kinds, ticks, second = zip(*(map(int, line.split()) for line in stages), strict=True)
    assert kinds == (StageKind.CONV, StageKind.DEPTHWISE, StageKind.CONV)
    assert 2 * sum(ticks) == int(readings) and ticks == second and min(ticks) > 10
    assert int(of_rows) == ticks[0] + ticks[2], "kernels of the application compute below the profile"
    assert int(calls) == 2 * int(of_rows), "and without it"
