"""The operators: one entry per kind of stage, and how operators of TFLite become stages."""
