"""Names of blocks in viewers of models."""

from __future__ import annotations

import tflite_fuse
from tests.export.exported import network
from tflite_fuse.model import load_model


def test_tensors_of_a_block_are_named_after_its_first_and_last_operator() -> None:
    rewritten = tflite_fuse.rewrite(network(), verify=False)
    names = {tensor.name for tensor in load_model(rewritten.model).main.tensors}
    blocks = [block.operators for block in rewritten.report.blocks]
    assert blocks and any(len(operators) > 1 for operators in blocks)
    for first, *others in blocks:
        whole = f"{first} to {others[-1]}" if others else first
        assert {f"{whole}/constants", f"{whole}/scratch"} <= names
