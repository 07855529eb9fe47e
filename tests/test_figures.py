"""What figures say where the usual questions have no answer."""

from __future__ import annotations

from dataclasses import replace

from tflite_fuse.figures import front_report
from tflite_fuse.fusion.search.fusion_front import SearchOptions, fusion_front
from tflite_fuse.zoo.networks import inverted_residual_network


def test_marks_that_no_point_meets_are_left_out() -> None:
    model = inverted_residual_network(size=24, blocks=2)
    front = fusion_front(model, SearchOptions())
    marks = [mark for row in front_report(model, "m", front).rows for mark in row.marks]
    assert {"no recompute", "F <= 1.1"} <= set(marks)
    dear = replace(front.points[0], macs=front.unfused.macs * 6 // 5)
    marks = [mark for row in front_report(model, "m", replace(front, points=(dear,))).rows for mark in row.marks]
    assert {"F <= 1.3", "F <= 1.5", "least RAM"} <= set(marks)
    assert not {"no recompute", "F <= 1.1"} & set(marks)
