"""Notes as a terminal shows them: what has one reason is told once."""

from __future__ import annotations

from tflite_fuse.report.sentences import grouped


def test_notes_of_one_reason_are_one() -> None:
    notes = (
        "order of operators kept: its peak is 9 B",
        "CONV_2D_1 to CONV_2D_3 fused without recompute: 9 B of scratch",
        "PRELU_4 not fused: PRELU is not a fusable operator",
        "CONV_2D_5 not fused: tensor a is uint8, blocks compute in int8",
        "PRELU_6 not fused: PRELU is not a fusable operator",
        "ADD_7 to CONV_2D_9 not fused: tensor b is uint8, blocks compute in int8",
        "SOFTMAX_10 not fused: SOFTMAX is not a fusable operator",
        "order of operators kept: its peak is 8 B",
    )
    assert grouped(notes) == (
        notes[1],
        "2 PRELU not fused: PRELU is not a fusable operator",
        "3 operators in a row, 1 CONV_2D not fused: a tensor is uint8, blocks compute in int8",
        notes[6],
        notes[7],
    )
    assert grouped(("operators reordered: 1", "operators reordered: 1")) == ("operators reordered: 1",)
