"""Claims of a pass's result."""

from __future__ import annotations

from tflite_fuse.passes.base import PassResult


def proven(result: PassResult) -> bool:
    """Whether the result is proven the least there is."""
    assert result.claim is not None
    return result.claim.proven
