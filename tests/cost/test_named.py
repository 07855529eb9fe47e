"""Names of targets: cores, chips and boards, and cores without measured costs."""

from __future__ import annotations

import pytest

from tflite_fuse.boards.table import known_boards
from tflite_fuse.cost.instructions import Target
from tflite_fuse.cost.targets import Named, read_target
from tflite_fuse.errors import UsageError


@pytest.mark.parametrize("target", Target)
def test_a_core_is_itself(target: Target) -> None:
    assert read_target(target.value) == read_target(target.value.upper().replace("-", "_")) == Named(target)


@pytest.mark.parametrize(
    ("word", "target", "board"),
    [
        ("esp32", Target.XTENSA, "esp32dev"),
        ("ESP32-S3", Target.XTENSA, "esp32-s3-devkitc-1"),
        ("esp32c6", Target.ESP32C3, "esp32-c6-devkitc-1"),
        ("teensy41", Target.CORTEX_M7, "teensy41"),
        ("Teensy 4.1", Target.CORTEX_M7, "teensy41"),
        ("stm32h743", Target.CORTEX_M7, "nucleo_h743zi"),
        ("stm32l4r5", Target.CORTEX_M4, "nucleo_l4r5zi"),
        ("nrf52840", Target.CORTEX_M4, "nano33ble"),
    ],
)
def test_a_chip_or_board_has_its_core(word: str, target: Target, board: str) -> None:
    assert read_target(word) == Named(target, board)


def test_every_board_has_the_target_it_is_predicted_for_or_none() -> None:
    for board in known_boards():
        try:
            assert read_target(board.name) == Named(board.target, board.name)
        except UsageError as error:
            assert board.target is Target.GENERIC and f"has a {board.core}, whose instructions" in str(error)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("rp2040", "'rp2040' has a cortex-m0plus, whose instructions were not measured; choose generic, which uses"),
        ("z80", "'z80' is no target; choose from cortex-m7, cortex-m4, "),
        ("", "'' is no target"),
        ("esp32-s9", "did you mean 'esp32s"),
        ("stm32", "'stm32' is no target"),
    ],
)
def test_targets_without_a_measured_core_are_refused_in_one_sentence(word: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        read_target(word)
    assert message in str(raised.value) and "\n" not in str(raised.value)
