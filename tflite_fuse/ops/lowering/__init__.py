"""Operators of TFLite as stages: operands, shapes, requantization."""
