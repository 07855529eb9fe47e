"""Random LSTMs, as operators of a model and as stages of blocks."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
from hypothesis import strategies as st

from tests.drawing.random_blocks import BlockMaker
from tests.drawing.raw_elementwise import ELEMENTWISE, add_elementwise
from tests.drawing.raw_models import RawModel, activation_scales, float32_between, seeds, zero_points
from tflite_fuse.ir.block import Block, BlockTensor, Stage, StageKind, Storage
from tflite_fuse.model.options import make_options
from tflite_fuse.model.schema import Model
from tflite_fuse.model.types import TensorType
from tflite_fuse.ops.weighted.lstm import LstmParameters
from tflite_fuse.units import round_up

TANH = 4
GATES = 4


def add_lstm(
    model: RawModel,
    source: int,
    channels: int,
    rng: np.random.Generator,
    *,
    power: int = -12,
    clip: float = 0.0,
    activation: int = TANH,
    time_major: bool = False,
    hidden: tuple[float, int] = (1 / 128, 0),
    weight_scale: float = 0.01,
) -> int:
    """Append an LSTM; its output tensor, [.., channels]."""
    first, second, depth = model.tensors[source].dims
    quantization = model.tensors[source].quantization
    input_scale = 1.0 if quantization is None or not quantization.scale else quantization.scale[0]
    inputs = [source]
    for size in (depth, channels):
        for _ in range(GATES):
            weights = rng.integers(-127, 128, (channels, size)).astype(np.int8)
            inputs.append(model.constant(weights, [weight_scale * rng.uniform(0.2, 1.0)]))
    inputs += [-1] * 3
    for _ in range(GATES):
        bias = rng.integers(-20000, 20000, channels).astype(np.int32)
        inputs.append(model.constant(bias, [float(np.float32(input_scale * weight_scale))]))
    batch = second if time_major else first
    state = model.tensor((batch, channels), *hidden, is_variable=True)
    cell = model.tensor((batch, channels), 2.0**power, 0, TensorType.INT16, is_variable=True)
    inputs += [-1, -1, state, cell, -1, -1, -1, -1]
    output = model.tensor((first, second, channels), *hidden)
    options = make_options(
        "UnidirectionalSequenceLSTMOptions",
        fused_activation_function=activation,
        cell_clip=float(np.float32(clip)),
        time_major=time_major,
    )
    model.operator("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [output], options)
    return output


@st.composite
def lstms(draw: st.DrawFn, *, longest: int = 9, alone: bool = False) -> Model:
    """One or two LSTMs with any quantization the runtime takes, functions of one value before, between and behind."""
    model, rng = RawModel(), np.random.default_rng(draw(seeds))
    steps, time_major = draw(st.integers(1, longest)), draw(st.booleans())
    depth = draw(st.integers(1, 12))
    shape = (steps, 1, depth) if time_major else (1, steps, depth)
    source = newest = model.tensor(shape, draw(activation_scales), draw(zero_points))
    if not alone and not time_major and draw(st.booleans()):
        newest = add_elementwise(model, draw, draw(st.sampled_from(ELEMENTWISE)), newest)
    for _ in range(1 if alone else draw(st.integers(1, 2))):
        newest = add_lstm(
            model,
            newest,
            draw(st.integers(1, 10)),
            rng,
            power=draw(st.integers(-15, 0)),
            clip=draw(st.sampled_from([0.0, 0.0, 1.5, 30000.0])),
            time_major=time_major,
            hidden=(draw(float32_between(2**-10, 2**-4)), draw(zero_points)),
            weight_scale=draw(float32_between(2**-14, 2**-4)),
        )
    if not alone and not time_major and draw(st.booleans()):
        newest = add_elementwise(model, draw, draw(st.sampled_from(ELEMENTWISE)), newest)
    return model.build([source], [newest])


def recurrent_block(rng: Random) -> Block:
    """Stages, an LSTM, and perhaps others that read all its steps."""
    maker = BlockMaker(rng, largest=7)
    for _ in range(rng.randint(0, 2)):
        rng.choice([maker.windowed, maker.lookup, maker.addition])()
    _lstm(maker)
    for _ in range(rng.randint(0, 2)):
        rng.choice([maker.lookup, maker.offset, maker.scaling, maker.softmax])()
    if rng.random() < 0.4:
        maker.tail()
    return maker.finish(extra_outputs=False)


def _lstm(maker: BlockMaker) -> None:
    rng, noise, source, channels = maker.rng, maker.noise, maker.source, maker.rng.randint(1, 6)
    zero_point = rng.randint(-128, 127)
    scales = tuple((rng.randrange(2**30, 2**31), rng.randint(-12, 2)) for _ in range(2 * GATES))
    products = (2**30, -14), (rng.randrange(2**30, 2**31), rng.randint(-20, -10)), (2**30, rng.randint(-24, -20))
    parameters = LstmParameters(
        scales,
        products,
        (3 << rng.randint(0, 12), 0) if rng.random() < 0.5 else (3, rng.randint(0, 4)),
        rng.choice([2**15, rng.randint(1, 2**15 - 1)]),
        zero_point,
        noise.integers(-(2**14), 2**14, (GATES, 2, channels)),
    )
    weights = noise.integers(-128, 128, (GATES, channels, source.channels + channels)).astype(np.int8)
    memory = len(maker.tensors)
    maker.tensors.append(BlockTensor(f"t{memory}", 1, 1, 2 * round_up(3 * channels, 2), 0, Storage.PERSISTENT))
    stage = Stage(StageKind.LSTM, (maker.newest, memory), -1, weights=weights, parameters=parameters)
    shape = (source.height, source.width, channels)
    maker.add_stage(stage, shape)
    maker.stages[-1] = replace(maker.stages[-1], activation_min=-128, activation_max=127)
