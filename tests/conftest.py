"""Where the tests find models that are not part of the project."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"
SHARED_MODELS = sorted((SHARED / "models").glob("*.tflite"))
SHARED_GRAPHS = sorted((SHARED / "graphs").glob("*.json"))
SHARED_ARCH = sorted((SHARED / "arch").glob("*.json"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrise ``shared_model``, ``shared_graph`` and ``shared_arch`` over the files beside the project."""
    for name, files in (
        ("shared_model", SHARED_MODELS),
        ("shared_graph", SHARED_GRAPHS),
        ("shared_arch", SHARED_ARCH),
    ):
        if name in metafunc.fixturenames:
            absent = pytest.param(None, marks=pytest.mark.skip(reason=f"no {name} files beside the project"))
            metafunc.parametrize(name, files or [absent], ids=[f.stem for f in files] or ["absent"])
