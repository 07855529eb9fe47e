"""Data of the package: a sample model, boards, and measured costs."""

from __future__ import annotations

from pathlib import Path

SAMPLE_MODEL = Path(__file__).parent / "sample_shapes_int8.tflite"
"""An int8 classifier of 128x128x3 pictures of shapes (``scripts/shapes.py``), made by ``scripts/train_sample.py``."""

__all__ = ["SAMPLE_MODEL"]
