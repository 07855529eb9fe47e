"""The glue compiles against every generation of TensorFlow Lite Micro, and equals the shim of the wheel in each."""

from __future__ import annotations

import functools
import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tests.arduino.fake_runtime import (
    FLOAT32,
    GENERATIONS,
    GLUE,
    INT8,
    UINT8,
    WARNINGS,
    FakeTensor,
    Scenario,
    build,
    compiler,
    glue_flags,
    play,
)
from tests.drawing.random_blocks import random_block, random_operands
from tests.drawing.random_configs import random_config
from tests.drawing.witness import Operands, plan, reference
from tests.runtime.fused_models import with_version
from tflite_fuse.emit.encode import encode, outside_tensors
from tflite_fuse.ir.block import Block, StageKind, Storage
from tflite_fuse.runtime.library.sources import library_directory, shim_directory

NEWEST = max(GENERATIONS)


@pytest.mark.parametrize("standard", ["c++11", "c++14", "c++17"])
@pytest.mark.parametrize("generation", GENERATIONS)
def test_compiles_without_a_warning(generation: int, standard: str, tmp_path: Path) -> None:
    flags = [f"-std={standard}", *WARNINGS, *glue_flags(generation)]
    build([compiler("g++"), *flags, "-c", GLUE, "-o", tmp_path / "glue.o"])


def test_is_empty_where_there_is_no_runtime(tmp_path: Path) -> None:
    build([compiler("g++"), "-std=c++11", *WARNINGS, "-c", GLUE, f"-I{library_directory()}", "-o", tmp_path / "glue.o"])
    assert b"TFLITE_FUSE" not in (tmp_path / "glue.o").read_bytes()


def test_registration_has_the_type_of_the_resolver(tmp_path: Path) -> None:
    """A wrong guess would be a compile error; this test fails if there is no guess left to be wrong."""
    source = tmp_path / "types.cpp"
    source.write_text(
        '#include "tflite_fuse_tflm.h"\n#include <type_traits>\n'
        'static_assert(std::is_same<tflite::micro::fused::RegistrationPointer, EXPECTED>::value, "");\n'
    )
    expected = {
        1: "TfLiteRegistration*",
        2: "TfLiteRegistration*",
        3: "TfLiteRegistration_V1*",
        4: "TFLMRegistration*",
        5: "const TFLMRegistration*",
        6: "const tflite::micro::TFLMRegistration*",
    }
    for generation, name in expected.items():
        flags = ["-std=c++11", f"-DEXPECTED={name}", *glue_flags(generation)]
        build([compiler("g++"), *flags, "-fsyntax-only", source])


# ---- Running ----


def random_scenario(seed: int, first_number: int = 0) -> tuple[Scenario, Block, Operands]:
    """``first_number``: what the block reads from outside is numbered from there on; other blocks read the rest."""
    rng = Random(seed)
    return scenario_of(random_block(rng, largest=9), rng, first_number)


def scenario_of(block: Block, rng: Random, first_number: int = 0) -> tuple[Scenario, Block, Operands]:
    """The operator of a block, in random configuration and with random inputs."""
    numbers = {t: first_number + n for group in outside_tensors(block) for n, t in enumerate(group)}
    encoded = encode(block, plan(block, random_config(rng, block)), numbers)
    operands = random_operands(rng, block)
    inputs, externals, sources = operands
    tensors = [
        FakeTensor((1, *image.shape), content=image.tobytes(), type=FLOAT32 if image.itemsize == 4 else INT8)
        for image in inputs
    ]
    tensors.append(FakeTensor((len(encoded.constants),), encoded.constants))
    for index in block.outputs:
        tensor = block.tensors[index]
        tensors.append(FakeTensor((1, tensor.pixels, tensor.channels), type=FLOAT32 if tensor.is_real else INT8))
    tensors.append(FakeTensor((1, 1, encoded.scratch_bytes)))
    extra = ["external -", "source 1 1 00"] * first_number
    extra += [f"external {image.tobytes().hex()}" for image in externals]
    for image in sources:
        height, width, channels = image.shape
        extra.append(f"source {image.itemsize * channels} {width} {image.tobytes().hex()}")
        extra.append(f"shape {height} {width} {channels} {3 if image.itemsize == 4 else 1}")
    count = len(inputs) + 1
    places = tuple(range(len(tensors)))
    return Scenario(encoded.options, tuple(tensors), places[:count], places[count:], tuple(extra)), block, operands


def expected_outputs(block: Block, operands: Operands) -> list[bytes]:
    return [values.tobytes() for values in reference(block, operands)]


@functools.cache
def scenario_with(wanted: Callable[[Block], bool], first_number: int = 0) -> tuple[Scenario, Block, Operands]:
    return next(found for seed in range(1000) if wanted((found := random_scenario(seed, first_number))[1]))


def is_plain(block: Block) -> bool:
    if len(block.inputs) != 1 or is_external(block) or is_sourced(block) or holds_reals(block):
        return False
    return len(block.stages) > 2


def holds_reals(block: Block) -> bool:
    return any(tensor.is_real for tensor in block.tensors)


def is_external(block: Block) -> bool:
    return any(tensor.storage is Storage.EXTERNAL for tensor in block.tensors)


def is_sourced(block: Block) -> bool:
    return any(stage.kind is StageKind.SOURCE for stage in block.stages)


@pytest.mark.parametrize("generation", GENERATIONS)
def test_blocks_equal_the_reference(generation: int) -> None:
    for seed in range(10 * generation, 10 * generation + 10):
        scenario, block, operands = random_scenario(seed)
        how = ("registered", "runs 2") if generation == 1 else ("runs 2",)
        outcome = play(generation, replace(scenario, extra=(*scenario.extra, *how)))
        assert (outcome.prepare, outcome.invoke, outcome.log) == (0, [0, 0], []), f"seed {seed}"
        expected = expected_outputs(block, operands)
        assert outcome.outputs == [*expected, *expected], f"seed {seed}"


@pytest.mark.parametrize("generation", GENERATIONS)
def test_registers_once(generation: int) -> None:
    assert play(generation, random_scenario(1)[0]).register == [0, 1]


def test_keeps_no_more_than_the_block() -> None:
    """On a 32-bit target tflite_fuse_block is 28 bytes; here it is 56."""
    scenario, _, _ = scenario_with(is_plain)
    outcome = play(NEWEST, replace(scenario, extra=("persistent 56",)))
    assert (outcome.prepare, outcome.persistent_left) == (0, 0)


# ---- What does not fit ----


def _shorter(scenario: Scenario, index: int) -> Scenario:
    shape = scenario.tensors[index].shape
    return scenario.change_tensor(index, shape=(*shape[:-1], shape[-1] - 1))


DAMAGE: dict[str, tuple[Callable[[Scenario], Scenario], str]] = {
    "no options": (lambda s: replace(s, options=b""), "the options are truncated"),
    "short options": (lambda s: replace(s, options=s.options[:40]), "the options are"),
    "foreign options": (lambda s: replace(s, options=b"\x07" * 64), "the options are truncated"),
    "other version": (lambda s: replace(s, options=with_version(s.options, 99)), "of another version"),
    "short constants": (lambda s: s.change_tensor(s.inputs[-1], shape=(1,)), "the options or constants are damaged"),
    "no room for state": (lambda s: replace(s, extra=("persistent 20",)), "no memory for the operator's state"),
    "short scratch": (lambda s: _shorter(s, s.outputs[-1]), "as large as the block's scratch memory"),
    "short output": (lambda s: _shorter(s, s.outputs[0]), r"output 0 must be int8 of \d+ bytes"),
    "short input": (lambda s: _shorter(s, s.inputs[0]), r"input 0 must be int8 of \d+ bytes"),
    "uint8 input": (lambda s: s.change_tensor(s.inputs[0], type=UINT8), r"input 0 must be int8 of \d+ bytes"),
    "float output": (lambda s: s.change_tensor(s.outputs[0], type=FLOAT32), r"output 0 must be int8 of \d+ bytes"),
    "negative extent": (lambda s: s.change_tensor(s.inputs[0], shape=(-1, 5)), r"input 0 must be int8 of \d+ bytes"),
    "extents overflow": (
        lambda s: s.change_tensor(s.inputs[0], shape=(65536, 65536), arena=False),
        r"input 0 must be int8 of \d+ bytes",
    ),
    "constants in the arena": (
        lambda s: s.change_tensor(s.inputs[-1], data=None),
        "the last input must be a constant int8 tensor",
    ),
    "no scratch": (lambda s: replace(s, outputs=s.outputs[:-1]), "scratch memory"),
    "no constants": (lambda s: replace(s, inputs=s.inputs[:-1]), "the last input must be a constant int8 tensor"),
    "no inputs": (lambda s: replace(s, inputs=()), "is missing, or there are too many"),
    "no outputs": (lambda s: replace(s, outputs=()), "is missing, or there are too many"),
    "too many inputs": (lambda s: replace(s, inputs=(s.inputs[0],) * 17 + s.inputs[-1:]), "there are too many tensors"),
    "absent input": (lambda s: replace(s, inputs=(-1, s.inputs[-1])), r"input 0 must be int8 of \d+ bytes"),
    "absent constants": (lambda s: replace(s, inputs=(s.inputs[0], -1)), "must be a constant int8 tensor"),
    "absent scratch": (lambda s: replace(s, outputs=(*s.outputs[:-1], -1)), "the last output must be an int8 tensor"),
    "one input more": (
        lambda s: replace(s, inputs=(s.inputs[0], *s.inputs)),
        "the options list 1 input tensors, but the operator has 2",
    ),
    "one output more": (
        lambda s: replace(s, outputs=(s.outputs[0], *s.outputs)),
        r"the options list (\d+) output tensors, but the operator has (\d+)",
    ),
}


@pytest.mark.parametrize("generation", [1, NEWEST])
@pytest.mark.parametrize("damage", DAMAGE)
def test_tensors_that_do_not_fit_are_refused_in_prepare(damage: str, generation: int) -> None:
    edit, message = DAMAGE[damage]
    outcome = play(generation, edit(scenario_with(is_plain)[0]))
    assert outcome.prepare == 1
    assert len(outcome.log) == 1
    assert re.match(f"TFLITE_FUSE: .*{message}", outcome.log[0]), outcome.log


@pytest.mark.parametrize("which", ["input", "output", "scratch"])
def test_a_tensor_without_memory_is_refused_in_invoke(which: str) -> None:
    scenario, _, _ = scenario_with(is_plain)
    index = {"input": scenario.inputs[0], "output": scenario.outputs[0], "scratch": scenario.outputs[-1]}[which]
    outcome = play(NEWEST, scenario.change_tensor(index, arena=False))
    assert (outcome.prepare, outcome.invoke) == (0, [1])
    assert outcome.log == ["TFLITE_FUSE: one of the tensors has no memory"]


def test_damaged_options_are_harmless() -> None:
    """Refused, or run inside its memory: the sanitizers see to that."""
    scenario, _, _ = scenario_with(is_plain)
    rng = Random(5)
    refused = 0
    for _ in range(60):
        options = bytearray(scenario.options)
        at = rng.randrange(len(options) // 4) * 4
        number = rng.choice([0, 1, -1, 2**31 - 1, -(2**31), rng.randrange(-50, 50)])
        options[at : at + 4] = number.to_bytes(4, "little", signed=True)
        outcome = play(NEWEST, replace(scenario, options=bytes(options)))
        refused += outcome.prepare
        assert all(line.startswith("TFLITE_FUSE: ") for line in outcome.log)
    assert refused > 0


# ---- Inputs outside the arena ----


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("wanted", [is_external, is_sourced])
def test_inputs_outside_the_arena(wanted: Callable[[Block], bool], generation: int) -> None:
    scenario, block, operands = scenario_with(wanted)
    how = ("registered",) if generation == 1 else ()
    outcome = play(generation, replace(scenario, extra=(*scenario.extra, *how)))
    assert (outcome.invoke, outcome.outputs) == ([0], expected_outputs(block, operands))


@pytest.mark.parametrize("wanted", [is_external, is_sourced])
def test_inputs_of_other_blocks_stay_unchanged(wanted: Callable[[Block], bool]) -> None:
    scenario, block, operands = scenario_with(wanted, first_number=2)
    outcome = play(NEWEST, scenario)
    assert (outcome.invoke, outcome.outputs) == ([0], expected_outputs(block, operands))


@pytest.mark.parametrize("wanted", [is_external, is_sourced])
def test_a_foreign_external_context_leaves_the_registered_one(wanted: Callable[[Block], bool]) -> None:
    scenario, block, operands = scenario_with(wanted)
    outcome = play(NEWEST, replace(scenario, extra=(*scenario.extra, "registered", "foreign")))
    assert (outcome.invoke, outcome.outputs) == ([0], expected_outputs(block, operands))


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("wanted", [is_external, is_sourced])
def test_absent_or_foreign_or_short_inputs_outside_are_refused(
    wanted: Callable[[Block], bool], generation: int
) -> None:
    scenario, _, _ = scenario_with(wanted)
    short = tuple(line[:-2] for line in scenario.extra)
    for extra in ((), ("foreign",), (*short, "registered")):
        outcome = play(generation, replace(scenario, extra=extra))
        assert (outcome.prepare, outcome.invoke) in ((0, [1]), (1, []))
        assert "the block reads memory outside the arena, and none of that size was given" in outcome.log[0]


@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_source_of_another_geometry_is_refused_even_with_as_many_bytes(generation: int) -> None:
    scenario, block, _ = scenario_with(lambda block: is_sourced(block) and not holds_reals(block))
    image = next(block.tensors[stage.output] for stage in block.stages if stage.kind is StageKind.SOURCE)
    height, width, channels = image.height, image.width, image.channels
    others = {(height, width * channels, 1), (1, height * width, channels), (height * channels, width, 1), (0, 0, 0)}
    shapes = [f"{h} {w} {c} 1" for h, w, c in others - {(height, width, channels)}]
    for shape in (*shapes, f"{height} {width} {channels} 0", f"{height} {width} {channels} 2", "0 0 0 0"):
        outcome = play(generation, replace(scenario, extra=(*scenario.extra, f"shape {shape}", "registered")))
        assert (outcome.prepare, outcome.invoke) in ((0, [1]), (1, []))
        assert "none of that size was given" in outcome.log[0]
    right = f"shape {height} {width} {channels} 1"
    assert play(generation, replace(scenario, extra=(*scenario.extra, right, "registered"))).invoke == [0]


@pytest.mark.parametrize("language", ["c", "c++"])
def test_applications_for_0_1_do_not_compile(language: str, tmp_path: Path) -> None:
    old = """
#include "tflite_fuse_outside.h"
static int read_camera(void* u, int y, int x, int n, int8_t* d) { return u != 0 && y + x + n == *d; }
static const tflite_fuse_source sources[] = {{read_camera, 0}};
static const size_t source_bytes[] = {96 * 96 * 3};
const tflite_fuse_outside outside = {TFLITE_FUSE_OUTSIDE_MARK, 0, 0, 0, 1, sources, source_bytes};
"""
    source = tmp_path / ("old.c" if language == "c" else "old.cpp")
    source.write_text(old)
    tool = compiler("gcc" if language == "c" else "g++")
    command = [tool, "-w", "-x", language, "-fsyntax-only", f"-I{library_directory()}", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "TFLITE_FUSE_OUTSIDE_MARK" in done.stderr
    new = old.replace("int8_t* d)", "void* d, size_t c)").replace("== *d", "== *(int8_t*)d + (int)c")
    new = new.replace("{read_camera, 0}", "{read_camera, 0, 96, 96, 3, TFLITE_FUSE_INT8}").replace("MARK,", "MARK_2,")
    source.write_text(new.replace(", source_bytes}", "}"))
    subprocess.run(command, check=True)


def test_a_source_that_fails_ends_the_run() -> None:
    scenario, _, _ = scenario_with(is_sourced)
    outcome = play(NEWEST, replace(scenario, extra=(*scenario.extra, "failing")))
    assert (outcome.prepare, outcome.invoke) == (0, [1])
    assert outcome.log == ["TFLITE_FUSE: the source of the input reported an error"]


# ---- The same words as on this machine ----


def test_messages_equal_those_of_the_shim() -> None:
    """Who verified a model here must meet the same sentence on the device."""
    glue, shim = sentences(GLUE), sentences(shim_directory() / "operator.c")
    assert len(shim) >= 7
    for sentence in shim:
        assert any(sentence in other for other in glue), sentence


def sentences(source: Path) -> list[str]:
    """The string literals of more than one word; literals that follow each other are one."""
    text = re.sub(r'"\s*\n\s*"', "", source.read_text())
    literals = [literal.removeprefix("TFLITE_FUSE: ") for literal in re.findall(r'"([^"\n]*)"', text)]
    return [literal for literal in literals if " " in literal]
