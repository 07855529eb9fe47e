"""Figures of the published scheme and of the search on the page on several devices, recomputed if quick."""

from __future__ import annotations

import re

import pytest

from scripts.bench_split import scaling, show
from scripts.comparison import PAGE
from scripts.readme import part
from scripts.zoo.architectures import build_architecture_file
from tests.conftest import SHARED
from tflite_fuse.split.cut.network import network_of

NETWORK = SHARED / "arch" / "mbv2-w1.0-r112.json"
TEXT = (PAGE.parent / "split.md").read_text()

pytestmark = pytest.mark.skipif(not NETWORK.exists(), reason="no layer lists beside the project")


def printed(capsys: pytest.CaptureFixture[str], count: str) -> list[str]:
    """Words of the line that begins with these, without the commas between them."""
    line = next(
        line for line in capsys.readouterr().out.splitlines() if line.split()[: len(count.split())] == count.split()
    )
    return line.split()


def without_commas(row: str) -> list[str]:
    """Cells of a row of the page; of a first one that says more, the words before it."""
    first, *rest = (cell.strip() for cell in row.strip("|").split("|"))
    return [re.split(r",| \(", first)[0].lower(), *rest]


@pytest.mark.parametrize(
    ("objective", "workers", "flash"),
    [
        ("traffic", 3, 1_500_000),
        ("time", 1, None),
        ("time", 2, None),
        ("time", 3, None),
        ("throughput", 3, None),
    ],
)
def test_splits_for_few_workers_equal_the_page(
    objective: str, workers: int, flash: int | None, capsys: pytest.CaptureFixture[str]
) -> None:
    show(build_architecture_file(NETWORK), [(objective, workers, flash, 0)])
    line = printed(capsys, f"{objective} {workers}")
    _, _, each, moved, ms, _, share, period, _, ram, used = line
    row = [objective, f"{workers}", f"{moved} B", f"{ms} ms", share, f"{ram} B", f"{used} B"]
    rows = [line for line in TEXT.splitlines() if line.startswith("| ")]
    (said,) = [
        line for line in rows if without_commas(line)[:2] == row[:2] and (flash is None) == ("MB of" not in line)
    ]
    assert without_commas(said) == row, "run scripts/bench_split.py --part search and memory"
    assert flash is None or (f"{flash / 1e6:g} MB of flash each" in said and int(each.replace(",", "")) == flash)
    assert objective != "throughput" or f"(a period of {period} ms)" in said


def test_the_cost_of_more_workers_in_the_published_scheme_equals_the_page(
    capsys: pytest.CaptureFixture[str],
) -> None:
    scaling(network_of(build_architecture_file(NETWORK)), SHARED / "facts")
    made = capsys.readouterr().out.splitlines()
    assert len(made) > 8 and {*made} <= {*part("split", PAGE).splitlines()}, "run scripts/bench_split.py"
    lines = [line.split() for line in made[1:]]
    rows = {int(line[0]): line for line in lines}
    moved = ", ".join(f"{int(rows[count][1].replace(',', '')) / 1e6:.1f}" for count in (3, 5, 8))
    computing = ", ".join(f"{float(rows[count][2]):.1f}" for count in (3, 5, 8))
    ram = {count: rows[count][6] for count in (1, 20, 120)}
    sentence = (
        f"With 3, 5, 8 workers bytes rise ({moved} MB) and computing falls ({computing} s); RAM per worker falls from "
        f"{ram[1]} B to {ram[20]} B with 20 workers and {ram[120]} B with 120."
    )
    assert sentence in " ".join(TEXT.split()), "run scripts/bench_split.py --part scaling"
