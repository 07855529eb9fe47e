"""Generated int8 models: a builder without TensorFlow, and the networks of benchmarks and tests."""

from scripts.zoo.builder import ModelBuilder
from scripts.zoo.recording import Ref

__all__ = ["ModelBuilder", "Ref"]
