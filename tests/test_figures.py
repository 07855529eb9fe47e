"""Marks in reports of fronts no point of which meets them."""

from __future__ import annotations

from dataclasses import replace

from scripts.zoo.networks import inverted_residual_network
from tflite_fuse.passes.options import FuseOptions
from tflite_fuse.rewriting.trades import front_report, placed_front


def test_marks_that_no_point_meets_are_left_out() -> None:
    front = placed_front(inverted_residual_network(size=24, blocks=2), FuseOptions())
    marks = [mark for row in front_report("m", front).rows for mark in row.marks]
    assert {"no recompute", "F <= 1.1"} <= set(marks)
    dear = replace(front.points[0], compute=front.unfused.compute * 6 // 5)
    front = replace(front, points=(dear,))
    marks = [mark for row in front_report("m", front).rows for mark in row.marks]
    assert {"F <= 1.3", "F <= 1.5", "least RAM"} <= set(marks)
    assert not {"no recompute", "F <= 1.1"} & set(marks)
