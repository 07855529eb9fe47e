"""Random networks of every operator of the zoo, combined as in real networks."""

from __future__ import annotations

from hypothesis import strategies as st

from scripts.zoo import ModelBuilder, Ref
from scripts.zoo.borders import with_borders
from tests.builders import Chooser
from tflite_fuse.model import Model
from tflite_fuse.model.types import TensorType

_ACTIVATIONS = ("NONE", "RELU", "RELU6")
_MOST_PIXELS = 700
_MOST_CHANNELS = 24


def mixed_graph(choose: Chooser, most_parts: int = 8) -> Model:
    """A random network: blocks of operators one after the other, some reading older tensors, heads at the end.

    Inputs and outputs may be uint8 or float32 with a QUANTIZE or DEQUANTIZE between.

    Args:
        choose: the only source of randomness.
        most_parts: a bound on the blocks before the heads.
    """
    b = ModelBuilder(choose(0, 1 << 16), calibration=2)
    pool = [b.input((1, choose(1, 20), choose(1, 20), choose(1, 6)))]
    for _ in range(choose(1, most_parts)):
        x = pool[-1] if choose(0, 3) else pool[choose(0, len(pool) - 1)]
        pool.append(_PARTS[choose(0, len(_PARTS) - 1)](b, choose, x, pool))
    ends = [_head(b, choose, pool[-1 - choose(0, min(2, len(pool) - 2))]) for _ in range(choose(1, 2))]
    model = b.build(ends)
    kinds = (None, None, TensorType.UINT8, TensorType.FLOAT32)
    inputs, outputs = kinds[choose(0, 3)], kinds[choose(0, 3)]
    return with_borders(model, inputs, outputs, coarser=(1.0, 1.0, 1.7)[choose(0, 2)])


def _activation(choose: Chooser) -> str:
    return _ACTIVATIONS[choose(0, 2)]


def _convolved(b: ModelBuilder, choose: Chooser, x: Ref, pool: list[Ref]) -> Ref:
    kernel, stride = (choose(1, 5), choose(1, 5)), (choose(1, 2), choose(1, 2))
    dilation = (choose(1, 2), choose(1, 2)) if stride == (1, 1) else 1
    filters = choose(1, _MOST_CHANNELS)
    return b.conv(
        x, filters, kernel, stride, "SAME", _activation(choose), dilation=dilation, per_channel=choose(0, 3) > 0
    )


def _separable(b: ModelBuilder, choose: Chooser, x: Ref, pool: list[Ref]) -> Ref:
    y = b.depthwise(x, (choose(1, 5), choose(1, 3)), choose(1, 2), "SAME", _activation(choose))
    return b.conv(y, choose(1, _MOST_CHANNELS), activation=_activation(choose))


def _inverted_residual(b: ModelBuilder, choose: Chooser, x: Ref, pool: list[Ref]) -> Ref:
    y = b.conv(x, min(x.shape[3] * choose(1, 4), 40), activation="RELU6")
    y = b.depthwise(y, choose(2, 5), 1, "SAME", "RELU6")
    if choose(0, 1):
        y = _excited(b, choose, y, pool)
    return b.add(b.conv(y, x.shape[3]), x)


def _excited(b: ModelBuilder, choose: Chooser, x: Ref, pool: list[Ref]) -> Ref:
    """Squeeze and excite, in the spellings of converters."""
    means = b.mean(x, keep_dims=True) if choose(0, 1) else b.reshape(b.mean(x), (1, 1, 1, x.shape[3]))
    if choose(0, 1):
        narrow = b.conv(means, max(1, x.shape[3] // 2), activation="RELU")
        gate = b.conv(narrow, x.shape[3])
    else:
        narrow = b.fully_connected(means, max(1, x.shape[3] // 2), "RELU")
        gate = b.reshape(b.fully_connected(narrow, x.shape[3]), (1, 1, 1, x.shape[3]))
    gate = b.logistic(gate) if choose(0, 1) else b.hard_swish(gate)
    return b.mul(x, gate) if choose(0, 1) else b.mul(gate, x)


def _gated(b: ModelBuilder, choose: Chooser, x: Ref, pool: list[Ref]) -> Ref:
    y = b.conv(x, choose(1, _MOST_CHANNELS), choose(1, 3))
    return b.hard_swish(y) if choose(0, 1) else b.mul(y, b.logistic(y))


def _pooled(b: ModelBuilder, choose: Chooser, x: Ref, pool: list[Ref]) -> Ref:
    kernel, stride = (choose(1, 3), choose(1, 3)), choose(1, 2)
    if choose(0, 1):
        return b.max_pool(x, kernel, stride, "SAME", _activation(choose))
    return b.average_pool(x, kernel, stride, "SAME", _activation(choose))


def _larger(b: ModelBuilder, choose: Chooser, x: Ref, pool: list[Ref]) -> Ref:
    if x.shape[1] * x.shape[2] * 4 > _MOST_PIXELS:
        return _pooled(b, choose, x, pool)
    if choose(0, 2) == 0:
        return b.transpose_conv(x, choose(1, 12), choose(1, 4), choose(1, 2), _activation(choose))
    size = (choose(x.shape[1], 2 * x.shape[1]), choose(x.shape[2], 2 * x.shape[2]))
    return b.resize(x, size, bilinear=bool(choose(0, 1)))


def _joined(b: ModelBuilder, choose: Chooser, x: Ref, pool: list[Ref]) -> Ref:
    axis = choose(1, 3)
    rest = [y for y in pool if len(y.shape) == 4 and _without(y, axis) == _without(x, axis)]
    parts = [x, *(rest[choose(0, len(rest) - 1)] for _ in range(choose(1, 2)))]
    if sum(part.shape[3] for part in parts) > 2 * _MOST_CHANNELS:
        return _separable(b, choose, x, pool)
    return b.concat(parts, axis)


def _without(x: Ref, axis: int) -> tuple[int, ...]:
    return (*x.shape[:axis], *x.shape[axis + 1 :])


def _split(b: ModelBuilder, choose: Chooser, x: Ref, pool: list[Ref]) -> Ref:
    axis = choose(1, 3)
    if x.shape[axis] % 2:
        return _convolved(b, choose, x, pool)
    left, right = b.split(x, 2, axis)
    left = b.depthwise(left, 3, 1, "SAME", _activation(choose))
    return b.concat([right, left], axis) if choose(0, 1) else b.add(left, right)


def _added(b: ModelBuilder, choose: Chooser, x: Ref, pool: list[Ref]) -> Ref:
    alike = [y for y in pool if y.shape == x.shape]
    y = alike[choose(0, len(alike) - 1)]
    return b.add(x, y, _activation(choose)) if choose(0, 1) else b.mul(x, y, _activation(choose))


def _placed(b: ModelBuilder, choose: Chooser, x: Ref, pool: list[Ref]) -> Ref:
    return b.add_stored(x, _activation(choose), thin=bool(choose(0, 1)))


def _padded(b: ModelBuilder, choose: Chooser, x: Ref, pool: list[Ref]) -> Ref:
    y = b.pad(x, (choose(0, 2), choose(0, 2), choose(0, 2), choose(0, 2)))
    kernel = (min(choose(1, 3), y.shape[1]), min(choose(1, 3), y.shape[2]))
    return b.conv(y, choose(1, 8), kernel, 1, "VALID") if choose(0, 1) else b.quantize(y)


def _tabled(b: ModelBuilder, choose: Chooser, x: Ref, pool: list[Ref]) -> Ref:
    kind = choose(0, 3)
    if kind > 1:
        # What has a scale of its own could not share that of what it is joined with later.
        return b.quantize(b.logistic(x) if kind == 2 else b.softmax(x))
    return b.hard_swish(x) if kind == 1 else b.quantize(x)


_PARTS = (
    _convolved,
    _separable,
    _inverted_residual,
    _excited,
    _gated,
    _pooled,
    _larger,
    _joined,
    _split,
    _added,
    _placed,
    _padded,
    _tabled,
)


def _head(b: ModelBuilder, choose: Chooser, x: Ref) -> Ref:
    kind = choose(0, 4)
    if kind == 0:
        return b.fully_connected(b.mean(x), choose(1, 6))
    if kind == 1:
        return b.softmax(b.fully_connected(x, choose(1, 6)))
    if kind == 2:
        y = b.conv(x, choose(1, 4))
        return b.reshape(y, (1, y.shape[1] * y.shape[2], y.shape[3]))
    if kind == 3:
        return b.logistic(b.conv(x, choose(1, 4), 3))
    return b.mean(x)


@st.composite
def mixed_models(draw: st.DrawFn, most_parts: int = 8) -> Model:
    """Random networks of all operators; they shrink to single convolutions."""
    return mixed_graph(lambda low, high: draw(st.integers(low, high)), most_parts)
