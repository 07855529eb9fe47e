"""Kinds of stages, one entry each, and the lowering of TFLite operators to stages."""
