"""Heuristic parameters: each is documented, and none affects a result's soundness."""

from __future__ import annotations

from dataclasses import Field, fields, replace
from typing import Any

import pytest

from scripts.graphs import tangle
from tflite_fuse.ir.liveness import peak
from tflite_fuse.memory.budget import Budget
from tflite_fuse.memory.checker import check_plan
from tflite_fuse.memory.order.least_peak import minimal_peak_order
from tflite_fuse.memory.place.portfolio import place
from tflite_fuse.tuning import TUNING, Tuning

FIELDS = [pytest.param(field, id=field.name) for field in fields(Tuning)]


@pytest.mark.parametrize("field", FIELDS)
def test_every_rule_has_a_unit_a_trade_and_a_switch(field: Field[Any]) -> None:
    assert field.metadata["unit"] and field.metadata["trades"]
    assert field.metadata["off"] != field.default


def test_there_are_few() -> None:
    assert len(FIELDS) <= 30


@pytest.mark.parametrize("field", FIELDS)
def test_orders_and_places_are_sound_without_any_rule(field: Field[Any]) -> None:
    off = replace(TUNING, **{field.name: field.metadata["off"]})
    graph = tangle(24, 3, 9, 1)
    found = minimal_peak_order(graph, Budget(20_000).part(off.order_share), tuning=off)
    assert found.lower_bound <= found.peak <= peak(graph)
    ordered = graph.reordered(found.order)
    placement = place(ordered, budget=Budget(200_000), tuning=off)
    check_plan(ordered, placement.offsets, height=placement.height)
    assert placement.height >= placement.lower_bound
