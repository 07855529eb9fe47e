"""Boards: the table, a user's own, and whether a model fits."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tflite_fuse
from scripts.zoo.networks import inverted_residual_network
from tests.test_cli import validate
from tflite_fuse.boards.fit import fit_board
from tflite_fuse.boards.table import Board, find_board, known_boards
from tflite_fuse.boards.time import UNLIKE, Pair, expected_time, modelled_time
from tflite_fuse.cli import app
from tflite_fuse.cost.instructions import PredictedCycles, PredictionError, Target
from tflite_fuse.data import SAMPLE_MODEL
from tflite_fuse.errors import UsageError
from tflite_fuse.memory.regions import read_memories
from tflite_fuse.model import serialize_model
from tflite_fuse.model.memories import Memories, Region
from tflite_fuse.passes.goal import Goal
from tflite_fuse.report.sentences import inspection_headline

OWN = 'name = "mine"\nmhz = 64\nram = "64KiB"\nflash = "1MiB"\n'
SMALL = serialize_model(inverted_residual_network(size=24, blocks=2))


def board(ram: int, flash: int = 1 << 20) -> Board:
    return replace(find_board("nano33ble"), ram_bytes=ram, flash_bytes=flash)


def test_time_is_a_range_where_no_pair_calibrates_it() -> None:
    found = expected_time(Target.CORTEX_M4, 64, 6_400_000, ())
    assert (found.least_ms, found.most_ms, found.calibrated) == (100.0, 200.0, False)
    assert str(found).startswith("100 to 200 ms at 64 MHz, uncalibrated")


def test_seconds_are_printed_in_milliseconds_without_an_exponent() -> None:
    told = str(expected_time(Target.CORTEX_M4, 48, 49_137_000, ()))
    assert told.startswith("1,020 to 2,050 ms at 48 MHz")
    assert str(expected_time(Target.CORTEX_M4, 48, 1_234, ())).startswith("0.0257 to 0.0514 ms")


def test_one_pair_calibrates_with_an_unknown_error() -> None:
    found = expected_time(Target.CORTEX_M7, 216, 100, [Pair("cortex-m7", "engine", "board", "a", 100, 80, "")])
    assert found.calibrated and "its own error is not known" in str(found)
    middle = 80 / 216_000
    assert found.least_ms < middle < found.most_ms and (found.least_ms + found.most_ms) / 2 == pytest.approx(middle)


def test_cycles_become_milliseconds_with_the_error_of_the_model() -> None:
    cycles = PredictedCycles(2_160_000, 4_000_000, 4_000_000, PredictionError(0.02, 0.05))
    pairs = [Pair("cortex-m7", "engine", "STM32H753", name, 1, 100, "", off) for name, off in (("a", 110), ("b", 96))]
    found = modelled_time(find_board("nucleo_h743zi"), 1, cycles, pairs)
    spread = 1.05 * 1.1 - 1
    assert found.calibrated and found.most_ms == pytest.approx(5.4 * (1 + spread))
    assert found.least_ms == pytest.approx(5.4 * (1 - spread)) and str(found).startswith("about 5.4 ms, ")


def test_another_chip_of_the_core_has_a_wider_range() -> None:
    cycles = PredictedCycles(6_400_000, 1, 1, PredictionError(0.0, 0.0))
    pairs = [Pair("cortex-m4", "engine", "STM32F446", "a", 1, 100, "", 100)]
    found = modelled_time(find_board("nano33ble"), 1, cycles, pairs)
    assert (found.calibrated, found.least_ms, found.most_ms) == (False, 100.0, 100.0 * UNLIKE)


def test_the_error_of_several_pairs_is_that_of_each_without_the_others() -> None:
    pairs = [Pair("cortex-m4", "engine", "board", name, 100, cycles, "") for name, cycles in (("a", 100), ("b", 150))]
    found = expected_time(Target.CORTEX_M4, 100, 1_000_000, pairs)
    assert found.calibrated and "up to 50% off on the 2 published pairs" in str(found)
    assert found.most_ms > 1.5 * (100 * 150) ** 0.5 / 10


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, result.output


def test_every_row_of_the_table_is_a_board_with_its_source() -> None:
    boards = known_boards()
    assert len({each.name for each in boards}) == len(boards) > 60
    assert all(
        each.ram_bytes > 0 and each.flash_bytes > 0 and each.mhz > 0 and ".json" in each.source for each in boards
    )


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("teensy41", Target.CORTEX_M7),
        ("nano33ble", Target.CORTEX_M4),
        ("esp32dev", Target.XTENSA),
        ("PICO", Target.GENERIC),
    ],
)
def test_a_board_is_found_by_name_with_its_counted_core(name: str, target: Target) -> None:
    assert find_board(name).target is target


def test_an_unknown_name_brings_the_nearest_ones() -> None:
    with pytest.raises(UsageError, match="did you mean nano33ble"):
        find_board("nano33bel")
    with pytest.raises(UsageError, match=r"did you mean nucleo_h753zi\?"):
        find_board("STM32H753")


def test_a_users_board_is_a_few_lines(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(OWN)
    found = find_board(str(path))
    assert (found.name, found.ram_bytes, found.flash_bytes, found.target) == ("mine", 65536, 1 << 20, Target.GENERIC)


def test_the_board_that_the_page_on_options_describes_is_one(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "options.md").read_text()
    path = tmp_path / "mine.toml"
    path.write_text(page.split("```toml\n")[1].split("```")[0])
    assert (find_board(str(path)).target, find_board(str(path)).ram_bytes) == (Target.CORTEX_M7, 1 << 19)


def test_the_page_on_memories_describes_a_board_and_memories(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "memories.md").read_text()
    for number, name in ((1, "memory.toml"), (2, "board.toml")):
        (tmp_path / name).write_text(page.split("```toml\n")[number].split("```")[0])
    assert read_memories(tmp_path / "memory.toml").slow == Region("psram", 1 << 21, 4.0, 4.0)
    assert find_board(str(tmp_path / "board.toml")).second == Region("axi", 1 << 19, 0.5, 0.5)


def test_boards_have_a_second_memory(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(OWN + '[second]\nname = "axi"\nsize = "512KiB"\nread_cycles_per_byte = 0.5\n')
    assert find_board(str(path)).memories(1000) == Memories(Region("ram", 1000), Region("axi", 1 << 19, 0.5, 1.0))
    assert find_board("nano33ble").memories(1000) is None
    listed = {each.name: each.second for each in known_boards() if each.second is not None}
    assert {"esp32s3box", "nucleo_h743zi"} < listed.keys() and "esp32-s3-devkitc-1" not in listed
    assert all(each.name and each.nbytes >= 1 << 18 and each.read_cycles > 0 for each in listed.values())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (OWN + "second = 3\n", "'second' is a table with name and size"),
        (OWN + '[second]\nname = "psram"\n', r"\[second\] has no 'size'"),
        (OWN + 'rma = "1kB"\n', "did you mean 'ram'"),
        (OWN + 'core = "cortex-m77"\n', "'cortex-m77' is not a known core; did you mean 'cortex-m7'"),
        (OWN + 'core = "[/x]"\n', "choose from cortex-m7, .*, or leave it out for generic"),
        ('name = "mine"\nmhz = 64\nram = "64KiB"\n', "'flash' is missing"),
        (OWN.replace("64KiB", "much"), "'ram': 'much' is not a size"),
        (OWN.replace('"64KiB"', "0"), "'ram' is above 0"),
        (OWN.replace("= 64\n", '= "fast"\n'), "'mhz' is a whole number"),
        (OWN.replace('"mine"', "3"), "a board needs a name in quotes, 100 printable characters at most, not 3"),
        (OWN.replace('"mine"', '""'), "a board needs a name in quotes"),
        (OWN.replace('"mine"', r'"a\nb"'), "a board needs a name in quotes"),
        ("name = ", "not valid TOML"),
        (OWN.replace("= 64\n", f"= 0x{'f' * 5000}\n"), "more than 64 bits"),
        (" " * (1 << 21), "is longer than"),
    ],
)
def test_a_wrong_description_is_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        find_board(str(path))


@pytest.mark.parametrize(
    ("line", "target"),
    [
        ('core = "Cortex-M7"', Target.CORTEX_M7),
        ('core = "cortex-m55"', Target.CORTEX_M55),
        ('core = "cortex-m33"', Target.GENERIC),
        ('core = "esp32s3"', Target.XTENSA),
        ('mcu = "STM32H743ZI"', Target.CORTEX_M7),
        ('mcu = "esp32c3"', Target.ESP32C3),
        ('mcu = "rp2040"', Target.GENERIC),
        ('mcu = "one of my own"', Target.GENERIC),
    ],
)
def test_the_core_of_a_users_board_follows_from_its_words(tmp_path: Path, line: str, target: Target) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f"{OWN}{line}\n")
    assert find_board(str(path)).target is target


def test_a_missing_description_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.toml: cannot be read"):
        find_board(str(tmp_path / "none.toml"))


def test_each_option_of_the_verdict_was_computed(tmp_path: Path) -> None:
    as_it_is = tflite_fuse.inspect(SAMPLE_MODEL).figures.arena_bytes
    goal = Goal(max_ram=as_it_is - 1)
    after = tflite_fuse.rewrite(SAMPLE_MODEL, verify=False, target="cortex-m4", goal=goal).report.after.arena_bytes
    assert fit_board(SAMPLE_MODEL, board(as_it_is), 0).sentence().startswith("fits nano33ble as it is")
    less = fit_board(SAMPLE_MODEL, board(as_it_is - 1), 0)
    assert less.fitting is not None
    assert (less.fitting.options, less.fitting.arena_bytes) == ("--board nano33ble --reserve 0", after)
    assert less.fitting.time is not None and not less.fitting.time.calibrated
    least = fit_board(SAMPLE_MODEL, board(2048), 0)
    assert least.fitting is None and "does not fit" in least.sentence()
    sizes = [fit.arena_bytes for fit in least.tried]
    assert sizes == sorted(sizes, reverse=True) and sizes[0] == as_it_is and sizes[1] <= after


def test_smaller_boards_that_fit_too_are_named() -> None:
    found = fit_board(SAMPLE_MODEL, find_board("teensy41"))
    assert found.fitting is not None
    for name in found.also:
        other = find_board(name)
        assert found.tried[-1].arena_bytes <= other.ram_bytes * 3 / 4 and other.ram_bytes < found.board.ram_bytes
    assert "which have less RAM (a quarter of it reserved)" in found.also_fits()


def test_the_reserve_holds_on_smaller_boards_too() -> None:
    """A radio takes as many bytes on a small board as on a large one."""
    kept = 100_000
    found = fit_board(SAMPLE_MODEL, find_board("teensy41"), kept)
    assert found.fitting is not None and found.fitting.options is None
    least, most = found.tried[-1].arena_bytes + kept, found.board.ram_bytes
    fits = {each.name for each in known_boards() if least <= each.ram_bytes < most}
    assert set(found.also) == {name for name in fits if found.tried[-1].file_bytes <= find_board(name).flash_bytes}
    assert set(found.also) != set(fit_board(SAMPLE_MODEL, find_board("teensy41")).also)
    assert found.also_fits().endswith("which have less RAM (100,000 bytes of it reserved)")


def test_a_file_larger_than_the_flash_does_not_fit() -> None:
    assert "larger than its 1,024 of flash" in fit_board(SAMPLE_MODEL, board(1 << 20, 1024), 0).sentence()
    told = fit_board(SAMPLE_MODEL, board(2048, 1024), 0).sentence()
    assert "more than 2,048 of 2,048 bytes of RAM" in told and "larger than its 1,024 of flash" in told


def test_the_json_keeps_to_its_schema(tmp_path: Path) -> None:
    code, text = run("inspect", SAMPLE_MODEL, "--board", "nucleo_l432kc", "--json")
    assert code == 0
    validate(json.loads(text), "inspection")


@pytest.mark.parametrize("reserve", ["8kB", "2kB"])
def test_inspect_and_rewrite_give_the_same_arena_for_a_board(tmp_path: Path, reserve: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(OWN)
    out, options = tmp_path / "out.tflite", ("--reserve", reserve)
    told = json.loads(run("inspect", SAMPLE_MODEL, "--board", path, *options, "--json")[1])
    code, text = run("rewrite", SAMPLE_MODEL, out, "--board", path, *options, "--no-verify", "--json")
    assert code == 0 and told["rewritten"]["options"] == f"--board {path} --reserve {reserve.replace('kB', '000')}"
    assert told["rewritten"]["arena_bytes"] == json.loads(text)["after"]["arena_bytes"]
    assert told["rewritten"]["file_bytes"] == len(out.read_bytes())


def test_inspect_without_a_board_reports_the_gain_of_a_rewrite(tmp_path: Path) -> None:
    told = json.loads(run("inspect", SAMPLE_MODEL, "--json")[1])["rewritten"]
    assert told["options"] == ""
    assert told["arena_bytes"] == tflite_fuse.rewrite(SAMPLE_MODEL, verify=False).report.after.arena_bytes


@pytest.mark.parametrize("options", [(), ("--board", "nano33ble"), ("--board", "teensylc", "--json")])
def test_a_quick_inspection_rewrites_nothing_and_names_that_step(
    options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a rewrite")

    monkeypatch.setattr("tflite_fuse.api.rewrite", refuse)
    code, text = run("inspect", SAMPLE_MODEL, "--quick", *options)
    assert code == 0
    if "--json" in options:
        found = json.loads(text)
        assert found["rewritten"] is None and [fit["options"] for fit in found["board"]["tried"]] == [None]
    else:
        lines = text.splitlines()
        assert "no rewrite was tried" in lines[0] and len(lines) == 5
        assert lines[-1].startswith(f"next: tflite-fuse rewrite {SAMPLE_MODEL} small.tflite")


def test_a_model_that_fits_unchanged_is_offered_a_rewrite_for_less_ram() -> None:
    """A limit that the file meets asks for the fastest, which may be the file; without a limit RAM counts."""
    found, report = tflite_fuse.inspect(SMALL), tflite_fuse.rewrite(SMALL, verify=False).report
    lines = inspection_headline(found, (report, None), "--board nano33ble", "", fits=True)
    assert lines[0].endswith("it fits as it is, and no rewrite is predicted to be faster")
    assert "a rewrite was tried" in lines[3] and "to look for less RAM: tflite-fuse rewrite" in lines[4]
    assert inspection_headline(found, (report, None), "", "")[0].endswith("a rewrite saves nothing")


def test_a_rewrite_for_a_board_leaves_the_reserve(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(OWN)
    out = tmp_path / "out.tflite"
    code, text = run("rewrite", SAMPLE_MODEL, out, "--board", path, "--reserve", "8KiB", "--no-verify", "--json")
    assert code == 0 and json.loads(text)["after"]["arena_bytes"] <= 57344
    code, text = run("rewrite", SAMPLE_MODEL, out, "--board", path, "--reserve", "60KiB", "--no-verify")
    assert code == 1 and "cannot be reached" in text


@pytest.mark.parametrize(
    "arguments",
    [("--reserve", "8kB"), ("--board", "zero", "--max-ram", "8kB"), ("--board", "zero", "--reserve", "32KiB")],
)
def test_contradictory_options_write_nothing(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    out = tmp_path / "out.tflite"
    assert run("rewrite", SAMPLE_MODEL, out, *arguments)[0] == 2
    assert not out.exists()


def test_boards_lists_those_with_a_word() -> None:
    code, text = run("boards", "esp32c3", "--json")
    validate(json.loads(text), "boards")
    names = [each["name"] for each in json.loads(text)["boards"]]
    assert code == 0 and names == ["esp32-c3-devkitm-1", "seeed_xiao_esp32c3"]
    assert "teensy41" in run("boards")[1]
    code, told = run("boards", "teensy", "zzz")
    assert code == 2 and "no board has 'teensy' and 'zzz' in its name" in told
