"""Papers beside ours: each constraint has its own result, each scheme its own parameters.

What scripts/bench_papers.py makes.
"""

from __future__ import annotations

import csv
import re

import pytest

from scripts.bench_papers import PAPERS
from scripts.comparison import PAGE, TABLES
from scripts.papers.boards import BOARDS, HIFIVE1
from scripts.papers.data import Data, search
from scripts.papers.fused_layer import LIMIT
from scripts.papers.layers import graph_from_layers
from scripts.papers.msf_cnn import answer, goal_of
from scripts.papers.stream_schemes import SCHEMES, parameters, patch_work
from scripts.papers.tiled_blocks import algorithm_1
from scripts.papers.tiled_networks import at_resolution, mobilenet_v2_like
from scripts.readme import part
from tests.conftest import SHARED
from tests.drawing.small_graphs import inverted_residuals
from tflite_fuse.model.outside import InputMode
from tflite_fuse.passes.goal import Goal
from tflite_fuse.search.fusion_front import SearchOptions, fusion_front
from tflite_fuse.search.schemes import Scheme

GRAPH = inverted_residuals((4, 4, 6, 6), size=20)

needs_facts = pytest.mark.skipif(not (SHARED / "facts").is_dir(), reason="no published figures beside the project")


def test_p1_minimises_ram_and_p2_compute() -> None:
    assert goal_of("P1:1.3") == Goal(max_compute=1.3)
    assert goal_of("P1:inf") == Goal(least_ram=True)
    assert goal_of("P2:64") == Goal(max_ram=64_000)
    assert goal_of("heuristic", 1.59) == Goal(max_compute=1.59)


def test_p2_takes_the_least_compute_that_fits_and_nothing_where_nothing_does() -> None:
    front, _ = search(GRAPH)
    kilobytes = -(-max(point.ram_bytes for point in front.points) // 1000)
    found = answer(front, f"P2:{kilobytes}")
    assert found is not None and found.work == min(point.work for point in front.points)
    assert answer(front, "P2:0") is None
    assert answer(front, "P1:0.01") is None


def test_an_answer_that_there_is_not_is_called_no_solution() -> None:
    none = {f"{whose}_{size}_bytes": None for whose, size in (("theirs", "ram"), ("ours", "ram"), ("measured", "head"))}
    row = {"model": "x", "constraint": "P2:16", **none}
    kept = {"model": "x", "constraint": "vanilla", "theirs_ram_bytes": 2000, "theirs_compute_factor": 1.0}
    kept |= {"ours_ram_bytes": 1000, "ours_compute_factor": 1.0}
    first, second = TABLES["msf-cnn"]([kept, row]).splitlines()[2:]
    assert first.split("|")[3:7] == [" 2.0 ", " 1.00 ", " 1.0 ", " 1.00 "]
    assert second.count("no solution") == 3


def test_the_parameters_of_a_scheme_are_those_of_its_block() -> None:
    front = fusion_front(GRAPH, SearchOptions(scheme=Scheme.STREAM_1D))
    for point in front.points:
        patches, split = parameters(GRAPH, point)
        assert (patches, split) == (1, 0) if not point.blocks else split == point.blocks[0].operators[-1] + 1
        assert point.compute_factor == 1 or patches > 1


def test_work_in_patches_by_hand() -> None:
    def layer(kernel: int, size: int, pad: int) -> dict[str, object]:
        shape = [size, size, 1]
        return {"op": "conv", "kernel": kernel, "stride": 1, "pad": [pad] * 4, "in": shape, "out": shape}

    layers = [layer(1, 4, 0), layer(3, 4, 1)]
    assert patch_work(layers, 1, 2, 2) == 16 + 9 * 16
    assert patch_work(layers, 1, 2, 0) == 36 + 9 * 16  # of the 1x1 layer 6 x 6 pixels, padding included
    assert patch_work(layers, 2, 2, 0) == 4 * 16 + 9 * 16  # four patches of 4 x 4 each
    assert patch_work(layers, 2, 2, 1) == 6 * 4 + 9 * 16  # two strips of 3 real columns


@needs_facts
def test_work_at_the_paper_s_parameters_is_the_paper_s() -> None:
    data = Data(SHARED)
    chosen = {row["model"]: row for row in data.facts("streamnet_table1")}
    off: dict[str, float] = {}
    for row in data.facts("streamnet_table2_mmac"):
        entry, layers = chosen[row["model"]], data.architecture(row["model"])["layers"]
        for level, column in enumerate(SCHEMES):
            counted = patch_work(layers, int(entry["sn2d_n_patch"]), int(entry["sn2d_split_idx"]), level)
            off[column] = max(off.get(column, 0.0), abs(counted / (float(row[column]) * 1e6) - 1))
    told = re.findall(
        r"([\d.]+) % of it for patches and 2-D, and within ([\d.]+) % for 1-D", " ".join(PAGE.read_text().split())
    )
    ((same, near),) = told
    assert max(off["mcunetv2"], off["sn2d"]) <= float(same) / 100
    assert off["sn1d"] <= float(near) / 100


@needs_facts
def test_schemes_are_compared_each_at_its_own_least_ram() -> None:
    (row,) = PAPERS["streamnet-work"](Data(SHARED, "mcunet-in1"))["rows"]
    graph = Data(SHARED).network("mcunet-in1")
    for column, scheme in SCHEMES.items():
        options = SearchOptions(scheme=scheme, input_mode=InputMode.EXTERNAL)
        assert row[f"ours {column}: ram_bytes"] == min(p.ram_bytes for p in fusion_front(graph, options).points)
    assert row["chosen"] == "sn1d" and row["ours sn1d: ram_bytes"] == row["ours mcunetv2: ram_bytes"]
    assert row["ours mcunetv2: work factor"] > row["ours sn1d: work factor"] > row["ours sn2d: work factor"] == 1
    assert row["ours auto: ram_bytes"] <= row["ours sn1d: ram_bytes"]


def test_the_work_of_the_free_search_in_the_ram_of_the_best_scheme_equals_the_page() -> None:
    lines = [line for line in part("streamnet-work", PAGE).splitlines() if line.startswith("| ")]
    works = [float(line.strip("| ").split("|")[-1]) for line in lines[1:]]
    ((told,),) = [re.findall(r"for at most ([\d.]+) times the work", " ".join(PAGE.read_text().split()))]
    assert len(works) == 10 and max(works) == float(told)


@needs_facts
def test_every_board_of_the_paper_is_on_the_page() -> None:
    rows = part("msf-cnn-boards", PAGE)
    assert len(BOARDS) == 6 and HIFIVE1.ram_bytes == 16 * 1024
    assert all(rows.count(f"| {board} |") == 3 for board in BOARDS)


@needs_facts
def test_no_stand_in_fits_the_papers_controller_at_320x320() -> None:
    mcunet = at_resolution(Data(SHARED).architecture("mcunet-vww0"), 320)
    for network in (mobilenet_v2_like(320), mcunet):
        graph = graph_from_layers(network)
        assert all(algorithm_1(graph, (tiles, tiles)).ram_bytes > LIMIT for tiles in (1, 2, 4, 8, 16))
        first = network["layers"][0]["out"]
        assert 320 * 320 * 3 + 8 * first[0] * first[1] <= LIMIT < 320 * 320 * 3 + 9 * first[0] * first[1]
    assert "The last claim does not hold of our stand-ins" in PAGE.read_text()


@needs_facts
def test_the_paper_s_rows_without_a_solution_are_known() -> None:
    with (SHARED / "facts" / "msf_cnn_table1.csv").open(newline="") as lines:
        empty = [row["constraint"] for row in csv.DictReader(lines) if not row["ram_kb"]]
    assert part("msf-cnn", PAGE).count("| no solution | - |") >= len(empty) == 2
