"""Kinds of stages on float32: what TFLM's reference kernels compute, in single precision and in the same order."""
