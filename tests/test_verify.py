"""`verify` where TensorFlow Lite Micro runs the models only in part: the words and exit codes of `rewrite`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tflite_fuse
from tests.test_cli import validate
from tests.test_passed_through import accelerated, dilated, images, needs_litert, needs_tflm, tiled
from tflite_fuse.cli import app
from tflite_fuse.errors import ModelError, RuntimeUnavailableError, VerificationError
from tflite_fuse.model import serialize_model
from tflite_fuse.pipelines import verifying


def told(*arguments: object, status: int = 0) -> str:
    """What the command prints on either stream, its white space as single spaces."""
    done = CliRunner().invoke(app, [*map(str, arguments)])
    assert done.exit_code == status, done.output
    return " ".join(done.output.split())


def files(folder: Path, *contents: bytes) -> list[Path]:
    """These contents as files."""
    paths = [folder / f"{number}.tflite" for number in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    return paths


def failing(error: Exception) -> Callable[..., None]:
    """A function that raises an error."""

    def fails(*_: object, **__: object) -> None:
        raise error

    return fails


@needs_tflm
@needs_litert
@pytest.mark.parametrize("make", [tiled, dilated])
def test_the_second_witness_of_a_rewrite_is_that_of_verify_in_the_same_words(
    make: Callable[[], bytes], tmp_path: Path
) -> None:
    rewritten = tflite_fuse.rewrite(make(), inputs=6)
    a, b = files(tmp_path, make(), rewritten.model)
    assert f"{rewritten.report.claim()}; not run in TFLM: " in told("verify", a, b, "--inputs", 6)
    comparison = json.loads(told("verify", a, b, "--inputs", 6, "--json"))
    validate(comparison, "comparison")
    witness = rewritten.report.second_witness
    assert witness is not None and comparison["no_second_witness"] is None and not comparison["identical"]
    version = {"runtime": witness.runtime, "version": witness.version}
    assert comparison["second_witness"] == {**version, "inputs": 6, "bit_exact": True}


@needs_tflm
@needs_litert
def test_verify_gives_the_reason_why_litert_cannot_run_a_result(tmp_path: Path) -> None:
    a, b = files(tmp_path, tiled(), tflite_fuse.rewrite(tiled(), input_mode="streamed").model)
    words = told("verify", a, b)
    assert f"- no second witness: LiteRT cannot run {b}: it supports no inputs outside the arena" in words
    assert "constants, options and schedule proven equal; kernels not run: TensorFlow Lite Micro cannot load" in words


@needs_tflm
def test_identical_files_that_no_runtime_loads_are_the_same_and_others_an_error(tmp_path: Path) -> None:
    changed = accelerated().replace(b"ethos-u", b"ethos-v")
    a, b, other = files(tmp_path, accelerated(), accelerated(), changed)
    words = told("verify", a, b)
    assert words.startswith("the files are the same, byte for byte; kernels not run: TensorFlow Lite Micro cannot load")
    comparison = json.loads(told("verify", a, b, "--json"))
    assert comparison["identical"] and comparison["proof"] is None and comparison["not_run"]
    assert "cannot load" in told("verify", a, other, status=2)


def test_identical_files_need_no_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifying, "compare", failing(RuntimeUnavailableError("no wheel")))
    comparison = tflite_fuse.verify(accelerated(), accelerated())
    assert comparison.identical and comparison.not_run == "no wheel" and comparison.fault is None


@needs_tflm
def test_a_proven_rewrite_that_does_not_run_where_its_original_does_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    original = serialize_model(images())
    rewritten = tflite_fuse.rewrite(original, verify=False).model
    monkeypatch.setattr(verifying, "compare", failing(ModelError("it has no memory")))
    with pytest.raises(VerificationError, match="model B does not run where model A does: it has no memory"):
        tflite_fuse.verify(original, rewritten)


@needs_tflm
def test_models_compiled_by_vela_are_not_sent_to_an_export_that_refuses_them(tmp_path: Path) -> None:
    (a,) = files(tmp_path, accelerated())
    step = "next: a program of yours that registers ethos-u, as no export does"
    for words in (told("rewrite", a, tmp_path / "b.tflite"), told("inspect", a)):
        assert step in words and "tflite-fuse export" not in words
    refusal = "no project of an export registers the custom operator ethos-u"
    assert refusal in told("export", a, tmp_path / "project", "--format", "arduino", status=2)
