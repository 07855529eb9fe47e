"""Lowering of TFLite operators to stages: operands, shapes, requantization."""
