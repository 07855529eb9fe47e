"""Kinds of stages on float32, bit-exact to TFLM's reference kernels: single precision, in the same order."""
