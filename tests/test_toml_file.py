"""TOML as editors write it: with a byte order mark it is read, in UTF-16 it is refused in a sentence."""

from __future__ import annotations

import codecs
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.split.networks import branching_model
from tflite_fuse.boards.table import find_board
from tflite_fuse.cli import app
from tflite_fuse.errors import UsageError
from tflite_fuse.files import read_toml
from tflite_fuse.model import save_model
from tflite_fuse.split.cluster.file import cluster_of_file

WORKERS = '[[worker]]\nname = "left"\ntarget = "esp32s3"\nmhz = 240\n'
BOARD = 'name = "mine"\ncore = "cortex-m7"\nmhz = 400\nram = "512KiB"\nflash = "2MiB"\n'


def test_a_mark_of_utf8_is_no_part_of_any_file(tmp_path: Path) -> None:
    for name, text in (("workers.toml", WORKERS), ("board.toml", BOARD), ("config.toml", 'target = "cortex-m4"\n')):
        (tmp_path / name).write_bytes(codecs.BOM_UTF8 + text.encode())
    workers = tmp_path / "workers.toml"
    assert cluster_of_file(workers.read_bytes(), workers).workers[0].name == "left"
    assert find_board(str(tmp_path / "board.toml")).name == "mine"
    save_model(branching_model(), tmp_path / "in.tflite")
    ends = [str(tmp_path / "in.tflite"), str(tmp_path / "out.tflite"), "--config", str(tmp_path / "config.toml")]
    result = CliRunner().invoke(app, ["rewrite", *ends, "--no-verify", "--verbose"])
    assert result.exit_code == 0 and "instructions of cortex-m4" in result.output, result.output


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_utf16_is_refused_in_a_sentence(tmp_path: Path, encoding: str) -> None:
    mark = codecs.BOM_UTF16_BE if encoding.endswith("be") else b""
    (tmp_path / "workers.toml").write_bytes(mark + WORKERS.encode(encoding))
    with pytest.raises(UsageError, match=r"workers.toml: is UTF-16, and TOML is UTF-8: save it as that$"):
        read_toml(tmp_path / "workers.toml")
