"""The C library on this machine: compiled, run alone, and as an operator of the TFLM wheel."""
