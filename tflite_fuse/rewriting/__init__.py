"""The way of a model through the rooms: rewrite, prove, run, report, and what other options would bring."""
