"""Paths of models beside the project, and shared fixtures."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Generator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.compiling import FOLDER

SHARED = Path(__file__).resolve().parents[2] / "shared"

settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

SHARED_MODELS = sorted((SHARED / "models").glob("*.tflite"))
SHARED_GRAPHS = sorted((SHARED / "graphs").glob("*.json"))
SHARED_ARCH = sorted((SHARED / "arch").glob("*.json"))

RAY_IS_HERE = importlib.util.find_spec("ray") is not None
collect_ignore = [] if RAY_IS_HERE else ["pipelines/test_ray.py"]


def pytest_configure(config: pytest.Config) -> None:
    """Makes a folder of compiled objects, which workers inherit by its variable."""
    if FOLDER not in os.environ:
        folder = TemporaryDirectory(prefix="tflite-fuse-objects-")
        config.add_cleanup(folder.cleanup)
        os.environ[FOLDER] = folder.name


def pytest_report_header() -> str:
    """Says what is left out: Ray takes 250 MB and minutes, and has a script of its own."""
    return "" if RAY_IS_HERE else "no Ray here: tests/pipelines/test_ray.py is left out, scripts/test_ray runs it"


UNKNOWN_TO_THE_WHEEL = frozenset({"swiftnet_vww224_uint8"})
"""Shared models TensorFlow Lite Micro's wheel refuses to load: it has no uint8 convolution."""


def shared_models(*names: str) -> pytest.MarkDecorator:
    """Parametrise ``path`` over these models beside the project, given without suffix; skips those not there."""
    return pytest.mark.parametrize("path", [_present(SHARED / "models" / f"{name}.tflite") for name in names])


def _present(path: Path) -> Any:
    absent = [] if path.exists() else [pytest.mark.skip(reason=f"no {path.name} beside the project")]
    return pytest.param(path, id=path.stem, marks=absent)


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


DELIBERATE_SKIPS = ("beside the project",)
"""Reasons that stay skips where nothing may be missing: the test has no such file."""


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
    """With TFLITE_FUSE_NO_SKIPS set, a test that skips for lack of a tool fails: a missing install step must show."""
    outcome = yield
    report = outcome.get_result()
    if not (report.skipped and os.environ.get("TFLITE_FUSE_NO_SKIPS")):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if not any(text in reason for text in DELIBERATE_SKIPS):
        report.outcome = "failed"
        report.longrepr = f"skipped where nothing may be missing: {reason}"
