"""The page in a real browser: steps, the front, search, addresses; and complete without scripts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tflite_fuse
from scripts.zoo import ModelBuilder
from tests.compiling import rewritten_by_default
from tests.conftest import shared_models
from tests.pages.browser import browser, shown, wait_until
from tests.pages.test_pages import MOST_BYTES, page_of
from tflite_fuse.model.edit import replace_main
from tflite_fuse.model.file import serialize_model

EVIL = "</script><img src=x onerror=alert(1)><script>alert(2)</script>"


def model() -> bytes:
    """Convolutions with a front of several points, the last output of a hostile name."""
    b = ModelBuilder(seed=0)
    x = b.input((1, 48, 48, 3))
    for channels in (8, 16, 16):
        x = b.conv(b.depthwise(x, 3), channels, 1)
    made = b.build([b.softmax(b.reshape(b.average_pool(x, 48), (1, 16)))])
    tensors = list(made.main.tensors)
    tensors[made.main.outputs[0]] = replace(tensors[made.main.outputs[0]], name=EVIL)
    return serialize_model(replace_main(made, replace(made.main, tensors=tuple(tensors))))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    data, path = model(), tmp_path_factory.mktemp("page") / "report.html"
    document, html = page_of(data, tflite_fuse.rewrite(data, verify=False).model)
    path.write_text(html, encoding="utf-8")
    assert len(document["front"]) > 2
    return document, path


@pytest.fixture(scope="module")
def driver(page: tuple[dict[str, Any], Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


def opened(driver: Any, page: tuple[dict[str, Any], Path], place: str = "", width: int = 1200) -> dict[str, Any]:
    driver.get("about:blank")
    shown(driver, page[1], width, "light")
    if place:
        driver.get(f"{page[1].resolve().as_uri()}#{place}")
    return page[0]


def text(driver: Any, selector: str) -> str:
    return str(driver.execute_script(f"return document.querySelector({selector!r}).textContent"))


def rows(driver: Any, of: str) -> list[list[str]]:
    """The tensors that a figure lists."""
    found: list[list[str]] = driver.execute_script(
        f"return [...document.querySelectorAll('figure[data-of={of}] tbody tr')]"
        ".map(row => [...row.cells].map(cell => cell.textContent))"
    )
    return found


def boxes(document: dict[str, Any], shown_map: dict[str, Any], step: int) -> set[tuple[str, str, str]]:
    """Name, bytes and offset of what a page's data has at a step."""
    return {
        (document["arena"]["names"][name], f"{size:,}", f"{offset:,}")
        for name, _, first, last, offset, size in shown_map["boxes"]
        if first <= step <= last
    }


@pytest.mark.parametrize("of", ["before", "after"])
def test_a_step_under_the_pointer_shows_its_tensors(driver: Any, page: Any, of: str) -> None:
    from selenium.webdriver import ActionChains

    document = opened(driver, page)
    picture = driver.find_element("css selector", f"figure[data-of={of}] svg")
    for step in (0, len(document["steps"][of]) - 1):
        left, right, first, last = driver.execute_script(
            "const [l, , r, , first, , last] = arguments[0].dataset.axes.split(' ').map(Number);"
            "const wide = arguments[0].viewBox.baseVal.width; return [l / wide, r / wide, first, last]",
            picture,
        )
        size = picture.size["width"]
        at = size * (left + (right - left) * (step - first) / (last - first)) - size / 2
        ActionChains(driver).move_to_element_with_offset(picture, round(at), 0).perform()
        assert text(driver, f"figure[data-of={of}] output").startswith(
            f"step {step}: {document['steps'][of][step]['name']}, {document['steps'][of][step]['working_set_bytes']:,}"
        )
        assert {tuple(row[:3]) for row in rows(driver, of)} == boxes(document, document["arena"][of], step)


def test_the_keyboard_walks_the_front_and_the_arena_follows(driver: Any, page: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    document = opened(driver, page)
    driver.find_element("id", "point").send_keys(Keys.HOME, Keys.ARROW_RIGHT)
    point = document["front"][1]
    told = text(driver, "#chosen")
    assert told.startswith(f"{point['ram_bytes']:,} bytes, {point['instructions']:,} instructions")
    assert all(block in told for block in point["fused"])
    assert driver.execute_script("return location.hash") == "#point=1"
    assert len(driver.find_elements("css selector", "[data-part=point1].chosen")) == 1
    driver.find_element("id", "point-step").send_keys(Keys.END)
    last = len(point["arena"]["steps"]) - 1
    assert {tuple(row[:3]) for row in rows(driver, "point")} == boxes(document, point["arena"], last)
    drawn = driver.execute_script(
        "return [...document.querySelectorAll('.boxes path')].map(e => e.getAttribute('d').split('M').length - 1)"
    )
    assert sum(drawn) == len(point["arena"]["boxes"])


def test_an_address_shows_the_point_the_step_and_the_match(driver: Any, page: Any) -> None:
    document = opened(driver, page, "point=2&after=0&find=softmax", width=380)
    assert text(driver, "#chosen").startswith(f"{document['front'][2]['ram_bytes']:,} bytes")
    assert text(driver, "figure[data-of=after] output").startswith("step 0: ")
    links = driver.execute_script("return [...document.querySelectorAll('#found a')].map(e => e.getAttribute('href'))")
    (softmax,) = [at for at, step in enumerate(document["steps"]["before"]) if "SOFTMAX" in step["name"]]
    assert links == [f"#before={softmax}"]
    driver.find_element("css selector", "#found a").click()
    step = f"step {softmax}: SOFTMAX"
    wait_until(driver, lambda: text(driver, "figure[data-of=before] output").startswith(step))
    assert driver.execute_script("return document.documentElement.scrollWidth") <= 380
    opened(driver, page, "point=99&after=x&constructor=1&find=nothing-of-it")
    assert text(driver, "#chosen").startswith(f"{document['front'][-1]['ram_bytes']:,} bytes")
    assert text(driver, "#found") == "0 found" and not driver.get_log("browser")


def test_hostile_names_are_shown_as_text(driver: Any, page: Any) -> None:
    opened(driver, page, "find=onerror")
    assert EVIL in text(driver, "#found a")
    driver.find_element("css selector", "#found a").click()
    assert any(EVIL in row[0] for row in rows(driver, "before"))
    assert not driver.find_elements("css selector", "img") and not driver.get_log("browser")


def test_without_scripts_pictures_and_figures_are_there_and_controls_are_not(driver: Any, page: Any) -> None:
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        document = opened(driver, page)
        assert all(each.is_displayed() for each in driver.find_elements("css selector", "figure:not(.live) > svg"))
        assert not any(each.is_displayed() for each in driver.find_elements("css selector", ".live, input"))
        table = driver.find_element("id", "points").get_attribute("textContent")
        assert all(f"{point['ram_bytes']:,}" in table for point in document["front"])
    finally:
        driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_paper_has_no_controls(driver: Any, page: Any) -> None:
    opened(driver, page)
    assert driver.find_element("id", "point").is_displayed()
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        assert not any(each.is_displayed() for each in driver.find_elements("css selector", "input"))
    finally:
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "screen"})


@shared_models("mcunet_in3_int8")
def test_the_page_of_a_large_model_stays_small(path: Path) -> None:
    _, html = page_of(path.read_bytes(), rewritten_by_default(path))
    assert len(html.encode()) <= MOST_BYTES
