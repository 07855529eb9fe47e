"""Exports a model to a folder that a board's toolchain builds: Arduino, PlatformIO, ESP-IDF, plain C, Zephyr."""

from tflite_fuse.export.package import FORMATS, Export, export_model

__all__ = ["FORMATS", "Export", "export_model"]
