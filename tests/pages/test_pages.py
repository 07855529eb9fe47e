"""The page of ``tflite-fuse report`` in a browser: its numbers equal its JSON, and nothing is loaded from outside."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tflite_fuse
from scripts.zoo import ModelBuilder
from scripts.zoo.networks import inverted_residual_network
from tests.compiling import rewritten_by_default
from tests.conftest import shared_models
from tests.drawing.raw_streams import RawStream
from tests.pages.browser import browser, shown
from tests.test_cli import branching_model, run, validate
from tflite_fuse.data import SAMPLE_MODEL
from tflite_fuse.errors import LimitError, UsageError
from tflite_fuse.memory.regions import memories_of
from tflite_fuse.model.edit import replace_main
from tflite_fuse.model.file import load_model, serialize_model
from tflite_fuse.model.types import TensorType
from tflite_fuse.pages.content import MOST_BOXES, _verdict, page_content
from tflite_fuse.report.arena_map import arena_map

MOST_BYTES = 400_000
"""Of a page: what is sent around and opens at once on a phone."""

BRANCHING = serialize_model(branching_model())


def page_of(before: bytes, after: bytes, **options: Any) -> tuple[dict[str, Any], str]:
    pytest.importorskip("matplotlib")
    from tflite_fuse.pages.html import page_html

    content = page_content(before, after, ("in.tflite", "out.tflite"), **options)
    validate(content.json, "page")
    return content.json, page_html(content)


def at(document: Any, path: str) -> Any:
    for key in path.split("."):
        document = document[int(key) if isinstance(document, list) else key]
    return document


@pytest.fixture(scope="module")
def sample() -> tuple[bytes, bytes]:
    return Path(SAMPLE_MODEL).read_bytes(), rewritten_by_default(SAMPLE_MODEL)


@pytest.fixture(scope="module")
def sample_page(sample: tuple[bytes, bytes]) -> tuple[dict[str, Any], str]:
    return page_of(*sample)


def test_figures_are_those_of_inspect_and_of_the_file(
    sample: tuple[bytes, bytes], sample_page: tuple[dict[str, Any], str]
) -> None:
    found, _ = sample_page
    for figures, data in zip((found["figures"][key] for key in ("before", "after")), sample, strict=True):
        told = tflite_fuse.inspect(data).figures
        assert all(figures[name] == getattr(told, name) for name in ("arena_bytes", "head_bytes", "macs", "file_bytes"))
    assert found["sound"] and found["certificate"]["blocks"] == len(found["blocks"]) > 0
    assert found["blocks"][0]["operators"].startswith(tflite_fuse.inspect(sample[0]).operators[0].name)
    rings = sum(stage["ring_bytes"] for block in found["blocks"] for stage in block["stages"])
    assert 0 < rings < sum(block["whole_bytes"] for block in found["blocks"])


def test_a_real_browser_shows_the_numbers_of_the_json_and_complains_of_nothing(
    sample: tuple[bytes, bytes], tmp_path: Path
) -> None:
    document, html = page_of(*sample, inputs=2)
    page = tmp_path / "report.html"
    page.write_text(html, encoding="utf-8")
    with browser(tmp_path / "profile") as driver:
        for scheme in ("light", "dark"):
            for width in (1200, 380):
                shown(driver, page, width, scheme)
                assert driver.execute_script("return document.documentElement.scrollWidth") <= width
        numbers = driver.execute_script(
            "return [...document.querySelectorAll('[data-n]')].map(e => [e.dataset.n, e.textContent])"
        )
        inside = driver.execute_script("return JSON.parse(document.getElementById('figures').textContent)")
        paper = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
        log = driver.get_log("browser")
        asked = [json.loads(each["message"])["message"] for each in driver.get_log("performance")]
    assert inside == document and paper == "rgb(20, 23, 28)" and not log
    assert len(numbers) > 40
    assert not [(path, text) for path, text in numbers if int(text.replace(",", "")) != at(document, path)]
    urls = [each["params"]["request"]["url"] for each in asked if each["method"] == "Network.requestWillBeSent"]
    assert urls and all(url.startswith(("file:", "data:", "chrome:")) for url in urls)


def test_the_command_writes_the_page_and_prints_the_same_object(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    model, page = tmp_path / "in.tflite", tmp_path / "page.html"
    model.write_bytes(BRANCHING)
    done = run("report", model, "-o", page, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    validate(document, "page")
    text = page.read_text(encoding="utf-8")
    inside = re.search(r'<script type="application/json" id="figures">(.*?)</script>', text, re.S)
    assert inside and json.loads(inside[1]) == document and document["figures"]["after"]["arena_bytes"] > 0
    assert "://" not in re.sub(r'xmlns(:\w+)?="[^"]*"', "", text)
    assert run("report", model, "-o", tmp_path / "none" / "page.html").returncode == 2
    other = tmp_path / "other.tflite"
    other.write_bytes(serialize_model(branching_model(seed=1)))
    assert run("report", model, other, "-o", page).returncode == 1 and "not proven" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "arguments",
    [
        ("report", "in.tflite", "-o", "in.tflite"),
        ("report", "in.tflite", "link.tflite", "-o", "./in.tflite"),
        ("inspect", "in.tflite", "--metrics", "in.tflite"),
        ("inspect", "in.tflite", "--metrics", "out.json", "--trace", "out.json"),
        ("rewrite", "in.tflite", "out.tflite", "--metrics", "out.tflite"),
        ("rewrite", "in.tflite", "in.tflite", "--force", "--metrics", "in.tflite"),
    ],
)
def test_no_command_overwrites_its_own_files(arguments: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "in.tflite").write_bytes(BRANCHING)
    (tmp_path / "link.tflite").symlink_to(tmp_path / "in.tflite")
    paths = [tmp_path / each if "." in each else each for each in arguments]
    done = run(*paths)
    assert done.returncode == 2 and "is the input itself or written as well" in done.stderr
    assert {each.name for each in tmp_path.iterdir()} == {"in.tflite", "link.tflite"}
    assert (tmp_path / "in.tflite").read_bytes() == BRANCHING


def test_state_is_shown_before_and_after() -> None:
    b = ModelBuilder(seed=0)
    x = b.input((1, 4, 4, 2))
    state = b.variable((1, 4, 4, 2))
    y = b.add(x, b.read_variable(state))
    b.assign_variable(state, y)
    data = serialize_model(b.build([y]))
    found, _ = page_of(data, tflite_fuse.rewrite(data, verify=False).model)
    assert found["figures"]["before"]["state_bytes"] >= 32 and found["figures"]["after"]["state_bytes"] >= 32


def stream_model() -> bytes:
    raw, rng = RawStream(), np.random.default_rng(0)
    source = raw.tensor((1, 1, 1, 40), 0.1, -5)
    window = raw.window(source, 30, 30, "STRIDED_SLICE", None)
    mixed = raw.mixed(window, (31,), rng, "SPLIT")
    return serialize_model(raw.stream([source], [raw.convolution(mixed, 8, (1, 1), (1, 1), rng)]))


def test_the_front_of_a_stream_holds_the_arenas_of_rewrites() -> None:
    data = stream_model()
    found, html = page_of(data, tflite_fuse.rewrite(data, verify=False).model)
    after = found["figures"]["after"]["arena_bytes"]
    assert after < 0.6 * found["figures"]["before"]["arena_bytes"]
    assert found["front"][0]["ram_bytes"] < 1.05 * after
    (block,) = found["blocks"]
    assert set(block["operators"].split(" to ")) <= {row.name for row in tflite_fuse.inspect(data).operators}
    assert block["whole_bytes"] < block["scratch_bytes"] and "bytes of inner tensors</summary>" not in html


def test_on_paper_blocks_are_open(sample_page: tuple[dict[str, Any], str], tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(sample_page[1].replace("<details open>", "<details>"), encoding="utf-8")
    with browser(tmp_path / "profile") as driver:
        shown(driver, page, 800, "light")
        height = "return document.querySelector('details').getBoundingClientRect().height"
        closed = driver.execute_script(height)
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        assert driver.execute_script(height) > 2 * closed


def test_one_operator_is_counted_in_the_singular() -> None:
    b = ModelBuilder(seed=0)
    data = serialize_model(b.build([b.log_softmax(b.input((1, 10)))]))
    found, html = page_of(data, data)
    assert found["certificate"]["operators"] == 1 and "operator unchanged." in " ".join(html.split())


def test_a_model_that_is_no_rewrite_is_called_so() -> None:
    other = serialize_model(branching_model(seed=1))
    found, html = page_of(BRANCHING, other, inputs=2)
    assert not found["sound"] and "not the same" in found["verdict"] and 'class="bad" id="verdict"' in html
    told = found["certificate"]["findings"] + found["certificate"]["notes"]
    assert len(told) > 1 and all(html.count(f'<p class="quiet">{escape(each)}</p>') == 1 for each in set(told))


def test_a_small_gain_is_given_in_bytes() -> None:
    figures = [{"arena_bytes": size} for size in (66884, 66564)]
    assert _verdict(figures, None, True).endswith("66,564 bytes instead of 66,884: 320 bytes less.")
    assert _verdict([{"arena_bytes": 1100}, {"arena_bytes": 1000}], None, True).endswith(": 1.1 times less.")


def test_names_out_of_a_file_cannot_become_part_of_the_page() -> None:
    model = branching_model()
    evil = "</script><script>alert(1)</script>$\\frac{1}$\x1b[2J"
    named = tuple(replace(tensor, name=evil) for tensor in model.main.tensors)
    data = serialize_model(replace_main(model, replace(model.main, tensors=named)))
    _, html = page_of(data, data)
    assert "<script>alert" not in html and "\x1b" not in html


@pytest.mark.parametrize("fused", [False, True])
def test_everything_in_the_arena_is_drawn_once_and_inside(sample: tuple[bytes, bytes], fused: bool) -> None:
    shown_map = arena_map(load_model(sample[fused]))
    assert shown_map.head_bytes == tflite_fuse.inspect(sample[fused]).figures.head_bytes
    assert all(box.offset >= 0 and box.offset + box.nbytes <= shown_map.head_bytes for box in shown_map.boxes)
    taken = shown_map.used_bytes()
    assert len(taken) == len(shown_map.steps) + 1 and max(taken) <= shown_map.head_bytes
    rings = [box for box in shown_map.boxes if box.kind == "ring"]
    assert bool(rings) is fused
    scratch = {box.first: box for box in shown_map.boxes if box.kind == "scratch"}
    for ring in rings:
        around = scratch[ring.first]
        assert around.offset <= ring.offset and ring.offset + ring.nbytes <= around.offset + around.nbytes


def test_a_second_memory_is_drawn_below_the_arena() -> None:
    before = serialize_model(inverted_residual_network(size=48, blocks=3))
    memories = memories_of({"region": [{"name": "sram", "size": 3600}, {"name": "psram", "size": "64kB"}]})
    found, html = page_of(before, tflite_fuse.rewrite(before, memory=memories, verify=False).model)
    assert "lie 11,520 bytes in psram" in html and 'data-part="second"' in html
    assert found["figures"]["after"]["arena_bytes"] <= 3600
    assert 'data-part="second"' not in html.split('aria-label="the arena before"')[1].split("</svg>")[0]


def long_model(count: int) -> bytes:
    b = ModelBuilder(seed=0)
    x = b.input((1, 4, 4, 2))
    for _ in range(count):
        x = b.logistic(x)
    return serialize_model(b.build([x]))


def test_a_model_too_long_to_be_searched_has_a_page() -> None:
    data = long_model(1100)
    found, html = page_of(data, data)
    assert found["front"] == [] and "No front was searched" in html
    drawn = html.split('aria-label="the arena before"')[1].split("</svg>")[0]
    assert len(found["arena"]["before"]["boxes"]) == MOST_BOXES
    assert drawn.count("z\n") + drawn.count(" z") > 1100  # the picture has all of them
    assert html.count(">before and after ") == 1


def test_without_the_extra_one_sentence_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from tflite_fuse.errors import RuntimeUnavailableError
    from tflite_fuse.pages.charts import arena_chart

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(RuntimeUnavailableError, match=r"pip install 'jinja2>="):
        arena_chart(arena_map(load_model(BRANCHING)), "before")


@shared_models("swiftnet_vww224_uint8", "mlperf_tiny_autoencoder_int8")
def test_models_without_blocks_and_without_maps_have_a_page(path: Path) -> None:
    data = path.read_bytes()
    try:
        after = tflite_fuse.rewrite(data, verify=False).model
    except LimitError:
        after = data
    found, html = page_of(data, after)
    assert found["verdict"] and len(html) < MOST_BYTES


def test_schemes_stand_beside_the_front_with_the_advice_of_the_rewrite(
    sample: tuple[bytes, bytes], sample_page: tuple[dict[str, Any], str]
) -> None:
    document, html = page_of(*sample, advice=("with --input streamed: 28,772 B",))
    assert {"head-patches", "stream-2d", "h-cache"} <= {each["scheme"] for each in document["schemes"]}
    assert min(each["ram_bytes"] for each in document["schemes"]) >= document["front"][0]["ram_bytes"]
    assert (
        document["advice"] == ["with --input streamed: 28,772 B"] and "<li>with --input streamed: 28,772 B</li>" in html
    )
    assert sample_page[0]["advice"] == []


def test_a_model_of_too_many_operators_is_refused_in_a_sentence() -> None:
    data = long_model(2001)
    with pytest.raises(UsageError, match=r"in\.tflite: has 2,001 operators, and a page shows 2,000 at most"):
        page_of(data, data)


def test_tensors_of_one_type_are_one_reason_to_stay_outside_of_blocks() -> None:
    b = ModelBuilder(seed=0)
    model = b.build([b.max_pool(b.max_pool(b.input((1, 8, 8, 4)), 2), 2)])
    wide = tuple(replace(tensor, type=TensorType.INT16) for tensor in model.main.tensors)
    data = serialize_model(replace_main(model, replace(model.main, tensors=wide)))
    found, _ = page_of(data, data)
    (held,) = found["held"]
    assert (held["reason"], held["operators"]) == ("a tensor is int16, blocks compute in int8", 2)
