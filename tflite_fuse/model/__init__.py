"""The .tflite file as objects: lossless read, edit, aligned write, validation. Independent of passes and costs."""

from tflite_fuse.model.file import load_model, save_model, serialize_model
from tflite_fuse.model.schema import Model

__all__ = ["Model", "load_model", "save_model", "serialize_model"]
