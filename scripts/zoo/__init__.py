"""Int8 models made on the spot: a builder that needs no TensorFlow, and the networks of benchmarks and tests."""

from scripts.zoo.builder import ModelBuilder
from scripts.zoo.recording import Ref

__all__ = ["ModelBuilder", "Ref"]
