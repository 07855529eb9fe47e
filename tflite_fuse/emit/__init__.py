"""Blocks as options and constants of a custom operator: encoding, decoding, insertion into models."""
