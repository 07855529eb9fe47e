"""Child processes are kept for later requests."""

from __future__ import annotations

import pytest

import tflite_fuse
from scripts.zoo.networks import inverted_residual_network
from tflite_fuse.model.file import serialize_model
from tflite_fuse.pages.content import page_content
from tflite_fuse.runtime.processes import worker as workers
from tflite_fuse.runtime.processes.connection import Child


def test_one_runtime_measures_both_models_of_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    before = serialize_model(inverted_residual_network(16, blocks=1))
    after = tflite_fuse.rewrite(before, verify=False).model
    workers._close_idle()
    started: list[Child] = []
    start = Child.__init__

    def counted(self: Child, *arguments: object) -> None:
        started.append(self)
        start(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Child, "__init__", counted)
    page_content(before, after, ("before", "after"))
    assert len(started) == 1
