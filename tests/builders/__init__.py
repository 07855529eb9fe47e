"""Hypothesis strategies over the models of ``tflite_fuse.zoo``."""

from __future__ import annotations

from hypothesis import strategies as st

from tflite_fuse.model import Model
from tflite_fuse.zoo.networks import random_graph


@st.composite
def random_models(
    draw: st.DrawFn, most_operators: int = 10, variables: bool = False, several_inputs: bool = True
) -> Model:
    """Random directed acyclic graphs; they shrink to short chains."""
    return random_graph(
        lambda low, high: draw(st.integers(low, high)),
        most_operators=most_operators,
        variables=variables,
        several_inputs=several_inputs,
    )
