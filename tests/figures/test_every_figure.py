"""Every figure on a page comes from a script or a constant that a test runs or reads: none is left over.

A figure is a number with a unit, with decimals or with thousands apart. Tables between marks are written by the script
that the mark names; of all else ``FIGURES`` says where it comes from. Code that is typed, shown as an example or kept
as a log is none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = (*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "arduino" / "README.md")

UNITS = "B|bytes|KiB|kB|MB|KB|ms|s|seconds?|%|percent|times|instructions|samples|inferences|networks"
FIGURE = re.compile(rf"(?<![\w.,/-])(?:\d{{1,3}}(?:,\d{{3}})+|\d+\.\d+|\d+(?= ?(?:{UNITS})(?!\w)))")

MARKED = re.compile(r"<!-- ([\w-]+):start \(.*?<!-- \1:end -->", re.S)
MARKED_BY = re.compile(r"<!-- [\w-]+:start \(.*?(?:scripts/)(\w+)\.py")
FENCED = re.compile(r"^```.*?^```$", re.S | re.M)

PUBLISHED = "published by others, as the page says"
GIVEN = "what somebody types, has or may ask for"
BY_HAND = "printed by hand, with what is too heavy for the tests; the page has the log and the versions"


PARTS = {"bench_streams": "streams"}
"""What tests import instead of a script that only prints what its folder finds."""


@dataclass(frozen=True)
class Origin:
    """Where the figures of a paragraph come from.

    Attributes:
        words: in the paragraph.
        source: a file that prints or holds the figures, or one of the sentences above.
        test: the file that runs or reads it.
    """

    words: str
    source: str
    test: str = ""


SMALL, ROWS, SPLIT = "figures/test_small_runs.py", "figures/test_rows.py", "figures/test_split_page.py"
CODE, METRICS = "figures/test_code_pages.py", "figures/test_metrics_page.py"

FIGURES: dict[str, tuple[Origin, ...]] = {
    "README.md": (
        Origin("needs 100 KB of tensor arena", "scripts/bench_readme.py", "project/test_readme.py"),
        Origin("up to 1.5 % less or 9 % more, and 14 % more", "tests/project/test_readme.py", "project/test_readme.py"),
        Origin("at most 80 bytes too much", "tests/memory/tflm/test_boards.py", "memory/tflm/test_boards.py"),
        Origin("with Python 3.10 or newer", GIVEN),
        Origin("an installation takes 76 MB", BY_HAND),
    ),
    "docs/index.md": (Origin("needs 100 KB of tensor arena", "scripts/bench_readme.py", "project/test_readme.py"),),
    "docs/tutorial.md": (Origin("with Python 3.10 or newer", GIVEN),),
    "docs/comparison.md": (
        Origin("MCUNetV2's 89 kB", PUBLISHED),
        Origin("Their Table 2 compares schemes", "scripts/bench_papers.py", "scripts/test_papers.py"),
        Origin("stays within the RAM of either", "scripts/bench_papers.py", "scripts/test_papers.py"),
        Origin("does not hold of our stand-ins", "scripts/bench_papers.py", "scripts/test_papers.py"),
        Origin("Claims of the paper", PUBLISHED),
        Origin("Table 1: SwiftNet", PUBLISHED),
        Origin("The published scheme with its own algorithms", "scripts/bench_split.py", SPLIT),
    ),
    "docs/proof.md": (Origin("Of 2,000 changes of single bytes", "scripts/bench_proof.py", SMALL),),
    "docs/security.md": (Origin("files beyond 512 MiB", "tflite_fuse/files.py", "figures/test_security_page.py"),),
    "docs/faq.md": (
        Origin("we say 0 to 80 bytes more", "tests/memory/tflm/test_boards.py", "memory/tflm/test_boards.py"),
        Origin("(75,264 bytes)", "scripts/bench_networks.py", "scripts/test_figures.py"),
    ),
    "docs/input.md": (
        Origin("input then costs the 32 B", "tests/test_input_modes.py", "test_input_modes.py"),
    ),
    "docs/options.md": (
        Origin("| a bound on the time |", GIVEN),
        Origin("| `--weights paired` |", "scripts/bench_weights.py", SMALL),
        Origin("Without a goal, up to", "tflite_fuse/tuning.py", ROWS),
    ),
    "docs/memories.md": (
        Origin("a fast memory of 64,000 bytes", "scripts/bench_memories.py", "scripts/test_figures.py"),
        Origin("Beside TiGrIS 0.12.1", PUBLISHED),
    ),
    "docs/time.md": (
        Origin("9 cycles for 16 bytes of flash", "scripts/timing/chips.py", "scripts/test_cycles.py"),
    ),
    "docs/pipelines.md": (
        Origin("`scripts/bench_metrics.py MODEL ...` compares", "scripts/bench_metrics.py", SMALL),
        Origin("still fits 12 kB", GIVEN),
        Origin("Run by hand with ray", BY_HAND),
        Origin("Run by hand (arenas are head + tail) with tensorflow", BY_HAND),
        Origin("bytes of arena before", BY_HAND),
        Origin("Run by hand with torch", BY_HAND),
        Origin("onnx2tf took 2.6 GB", BY_HAND),
        Origin("Run by hand with onnx2tf", BY_HAND),
        Origin("| MobileNet-like", BY_HAND),
        Origin("Of 200 small models", "scripts/bench_pipelines.py", SMALL),
    ),
    "docs/split.md": (
        Origin("Cortex-M7 with 64 KB of RAM", GIVEN),
        Origin("A message is 32 bytes of header", "arduino/src/link/tflite_fuse_message.c", CODE),
        Origin("any 16 to 1,024 bytes", GIVEN),
        Origin("3.5 KiB of Thumb code", "arduino/src/link/tflite_fuse_node.c", CODE),
        Origin("`scripts/bench_faults.py` made 1,000", "scripts/bench_faults.py", SMALL),
        Origin("| what goes wrong |", "scripts/bench_faults.py", SMALL),
        Origin("Each inference had one second", "scripts/bench_faults.py", SMALL),
        Origin("B of state. Measured on", "tests/device/split/test_stack.py", "device/split/test_stack.py"),
        Origin("three Cortex-M7 in QEMU, linked with 64 KB", GIVEN),
        Origin("workers like a Teensy 4.1", GIVEN),
        Origin("| objective | workers |", "scripts/bench_split.py", SPLIT),
        Origin("Of 40 random networks", "scripts/sweep_split.py", SMALL),
        Origin("The published scheme (`--strategy paper`", "scripts/bench_split.py", SPLIT),
        Origin("In the eight published cases", "scripts/bench_split.py", SMALL),
        Origin("runs the plans for the least time on worker", "scripts/bench_split_tcp.py", SMALL),
        Origin("puts each worker into a network namespace", "scripts/bench_split_namespaces.py", SMALL),
    ),
    "docs/streaming.md": (
        Origin("called every 10 to 30 ms", GIVEN),
        Origin("a step every 20 ms", GIVEN),
        Origin("in an arena of 272 bytes", "scripts/build_wake_word.py", "arduino/test_examples.py"),
        Origin("| microWakeWord |", "scripts/bench_streams.py", ROWS),
        Origin("All twelve models", "scripts/bench_streams.py", ROWS),
    ),
    "arduino/README.md": (
        Origin("enums of 4 bytes as on an ESP32", GIVEN),
        Origin("the least that allocates, to the 16 bytes", BY_HAND),
        Origin("5.1 or newer; the component manager", GIVEN),
        Origin("in a Zephyr workspace", GIVEN),
        Origin("Options of versions 1", "scripts/bench_start.py", SMALL),
        Origin("Arenas of 0 to 4,095 bytes", "scripts/bench_exports.py", SMALL),
        Origin("Flash: at most", "scripts/bench_start.py", SMALL),
    ),
}  # fmt: skip


def paragraphs(page: Path) -> list[str]:
    """Prose, tables and lists, each on one line; without marked tables, code and logs."""
    text = FENCED.sub("", MARKED.sub("", page.read_text()))
    lines = [line for line in text.splitlines() if not re.match(r" {4}(?!\d)", line)]
    blocks = re.split(r"\n\s*\n", "\n".join(lines))
    return [" ".join(block.split()) for block in blocks if block.strip()]


def figures(paragraph: str) -> list[str]:
    return FIGURE.findall(re.sub(r"`[^`]*`", "`", paragraph))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_figure_of_a_page_comes_from_somewhere(page: Path) -> None:
    known = FIGURES.get(str(page.relative_to(ROOT)), ())
    told = paragraphs(page)
    left = [text for text in told if figures(text) and not any(origin.words in text for origin in known)]
    assert not left, "say in FIGURES which script prints them, and which test runs it"
    stale = [origin.words for origin in known if not any(origin.words in text and figures(text) for text in told)]
    assert not stale


@pytest.mark.parametrize("page", FIGURES)
def test_each_figures_script_is_run_by_its_named_test(page: str) -> None:
    for origin in FIGURES[page]:
        if origin.source in (PUBLISHED, GIVEN, BY_HAND):
            continue
        source, test = ROOT / origin.source, ROOT / "tests" / origin.test
        assert source.is_file() and test.is_file(), origin
        named = re.sub(r"^tflite_fuse_", "", source.stem)
        assert source == test or re.search(rf"\b{named}\b", test.read_text()), origin


def test_the_script_of_each_marked_table_is_run_by_a_test() -> None:
    """A table's rows come from the script its mark names, and that of the comparison from those that page names."""
    tests = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    scripts = {name for page in PAGES for name in MARKED_BY.findall(page.read_text())}
    assert len(scripts) > 5
    for script in scripts:
        assert (ROOT / "scripts" / f"{script}.py").is_file()
        run = PARTS.get(script, script)
        assert re.search(
            rf"^(?:from scripts\.{run} import|from scripts import .*\b{run}\b|    {run},$)", tests, re.M
        ), run


def test_contributing_names_every_script_that_prints_figures() -> None:
    table = (ROOT / "CONTRIBUTING.md").read_text().split("## Where figures on pages come from")[1].split("\n## ")[0]
    scripts = {Path(origin.source) for known in FIGURES.values() for origin in known if "scripts/" in origin.source}
    assert not [script.name for script in scripts if script.name not in table]


def test_a_figure_is_a_measured_number() -> None:
    assert figures("needs 1,024 of 64 kB, 1.03 times, in 12 ms, 3 %") == ["1,024", "64", "1.03", "12", "3"]
    assert figures("a 3 x 3 convolution of int8, `--max-ram 64kB`, Cortex-M7, 2 W + 3 pixels, version 3") == []
