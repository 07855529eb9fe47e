"""Models in which one pixel is combined with all of a map: squeeze and excite, and other operators."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tests.drawing.raw_elementwise import ELEMENTWISE, add_elementwise, add_pair
from tests.drawing.raw_models import RawModel, activation_scales, add_convolution, zero_points
from tflite_fuse.model.options import make_options
from tflite_fuse.model.schema import Model


def add_gate(model: RawModel, draw: st.DrawFn, source: int) -> int:
    """Append what makes one pixel of a map: its mean, and up to three layers behind it; that pixel."""
    (_, _, _, channels), keeps = model.tensors[source].dims, draw(st.booleans())
    mean = model.tensor((1, 1, 1, channels) if keeps else (1, channels), draw(activation_scales), draw(zero_points))
    axes = model.constant(np.array([1, 2], np.int32))
    model.operator("MEAN", [source, axes], [mean], make_options("ReducerOptions", keep_dims=keeps))
    for step in draw(st.lists(st.sampled_from(["layer", "value"]), max_size=3)):
        if step == "value":
            mean = add_elementwise(model, draw, draw(st.sampled_from(ELEMENTWISE)), mean)
        elif keeps:
            mean = add_convolution(model, mean, (1, 1, 1, channels))
    return mean


@st.composite
def gates_in_every_position(draw: st.DrawFn) -> Model:
    """Convolutions, maps gated by their own means, by those of others and by another input of the model."""
    shape = (1, draw(st.integers(3, 9)), draw(st.integers(3, 9)), draw(st.integers(1, 5)))
    model = RawModel()
    source = newest = model.tensor(shape, draw(activation_scales), draw(zero_points))
    inputs, gates = [source], []
    for step in draw(
        st.lists(st.sampled_from(["convolution", "value", "gate", "gate", "again"]), min_size=2, max_size=6)
    ):
        if step == "convolution":
            newest = add_convolution(model, newest, shape, kernel=draw(st.sampled_from([1, 3])))
        elif step == "value":
            newest = add_elementwise(model, draw, draw(st.sampled_from(ELEMENTWISE)), newest)
        elif step == "gate" or not gates:
            if draw(st.integers(0, 3)) == 0:
                inputs.append(model.tensor((1, 1, 1, shape[3]), draw(activation_scales), draw(zero_points)))
                gates.append(inputs[-1])
            else:
                gates.append(add_gate(model, draw, newest))
            newest = add_pair(model, draw, newest, gates[-1])
        else:
            newest = add_pair(model, draw, newest, draw(st.sampled_from(gates)))
    return model.build(inputs, [newest])
