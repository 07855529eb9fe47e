"""The argument all commands of `tflite-fuse cluster` have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="What tflite-fuse split -o wrote.", show_default=False)]
