"""Small networks of the families that matter on microcontrollers, for tests and benchmarks.

All functions return the model; sizes are arguments so that tests stay quick.
"""

from __future__ import annotations

from collections.abc import Callable

from tflite_fuse.model.schema import Model
from tflite_fuse.zoo.builder import ModelBuilder
from tflite_fuse.zoo.recording import Ref

Chooser = Callable[[int, int], int]
"""Chooses a whole number from low to high, both included: a random generator, or a property test's own draw."""


def inverted_residual_network(
    size: int = 32, channels: int = 8, expansion: int = 4, blocks: int = 3, classes: int = 10, seed: int = 0
) -> Model:
    """Stem of stride 2, inverted residual blocks (every second one narrows the image), mean, classifier, softmax.

    Blocks that keep their shape add their input (MobileNetV2, Sandler et al. 2018, section 3.3).
    """
    b = ModelBuilder(seed)
    x = b.conv(b.input((1, size, size, 3)), channels, 3, 2, activation="RELU6")
    for index in range(blocks):
        x = inverted_residual(b, x, x.shape[3], expansion, stride=1 + index % 2)
    return b.build([b.softmax(b.fully_connected(b.mean(x), classes))])


def inverted_residual(
    b: ModelBuilder, x: Ref, filters: int, expansion: int, stride: int = 1, kernel: int = 3, padding: str = "SAME"
) -> Ref:
    """Expand, depthwise, project; the input is added where shapes agree."""
    y = b.conv(x, x.shape[3] * expansion, activation="RELU6")
    y = b.depthwise(y, kernel, stride, padding, "RELU6")
    y = b.conv(y, filters)
    return b.add(x, y) if x.shape == y.shape else y


def one_dimensional_network(
    length: int = 64, channels: int = 8, blocks: int = 3, classes: int = 4, along_rows: bool = False, seed: int = 0
) -> Model:
    """Separable 1-D convolutions of growing dilation over a signal, mean, classifier, softmax.

    Args:
        length: samples of the signal; it has four channels.
        along_rows: the signal runs along height, not width.
    """

    def along(value: int) -> tuple[int, int]:
        return (value, 1) if along_rows else (1, value)

    b = ModelBuilder(seed)
    x = b.input((1, length, 1, 4) if along_rows else (1, 1, length, 4))
    x = b.conv(x, channels, along(5), along(2), activation="RELU")
    for index in range(blocks):
        y = b.depthwise(x, along(3), dilation=along(1 + index), activation="RELU")
        x = b.add(b.conv(y, channels), x, "RELU")
    return b.build([b.softmax(b.fully_connected(b.mean(x), classes))])


def branching_network(size: int = 16, channels: int = 8, branches: int = 3, wide: int = 2, seed: int = 0) -> Model:
    """A cell whose branches widen before they narrow, written breadth first: the order that needs the most memory.

    Run depth first, only one wide tensor is live at a time.
    """
    b = ModelBuilder(seed)
    x = b.conv(b.input((1, size, size, 3)), channels, 3, activation="RELU6")
    widened = [b.conv(x, channels * wide, 1 + 2 * (i % 2), activation="RELU6") for i in range(branches)]
    narrowed = [b.depthwise(y, 3, 2, activation="RELU6") for y in widened]
    projected = [b.conv(y, channels // 2) for y in narrowed]
    y = b.concat(projected)
    return b.build([b.softmax(b.fully_connected(b.mean(y), 5))])


def cell_network(size: int = 32, channels: int = 8, cells: int = 2, classes: int = 4, seed: int = 0) -> Model:
    """Cells of parallel branches, some reading each other's results, concatenated: what architecture search finds.

    Between the cells the image narrows (NASNet, Zoph et al. 2018, figure 2; SwiftNet, Cheng et al. 2019).
    """
    b = ModelBuilder(seed)
    x = b.conv(b.input((1, size, size, 3)), channels, 3, 2, activation="RELU6")
    for cell in range(cells):
        if cell:
            channels += channels // 2
            x = b.conv(x, channels, 3, 2, activation="RELU6")
        separable = b.conv(b.depthwise(x, 5, activation="RELU6"), channels)
        expanded = b.depthwise(b.conv(x, channels, activation="RELU6"), 3, activation="RELU6")
        bottleneck = b.conv(b.depthwise(b.conv(x, 2 * channels, activation="RELU6"), 3, activation="RELU6"), channels)
        x = b.concat([separable, b.add(expanded, bottleneck), expanded])
    return b.build([b.softmax(b.fully_connected(b.mean(x), classes))])


def pyramid_network(size: int = 48, channels: int = 8, seed: int = 0) -> Model:
    """A backbone with three outputs of falling resolution, each with a head of its own: a detector.

    (Feature Pyramid Networks, Lin et al. 2017; no operator resizes, so that all of it can be fused.)
    """
    b = ModelBuilder(seed)
    x = b.conv(b.input((1, size, size, 3)), channels, 3, 2, activation="RELU6")
    heads = []
    for _ in range(3):
        x = inverted_residual(b, x, channels, 4, stride=2)
        x = inverted_residual(b, x, channels, 4)
        heads.append(b.conv(b.depthwise(x, 3, activation="RELU6"), 6))
    return b.build(heads)


def random_graph(
    choose: Chooser, most_operators: int = 10, variables: bool = False, several_inputs: bool = True
) -> Model:
    """A random directed acyclic graph of small operators that TensorFlow Lite Micro runs.

    Holds what graphs in the wild hold: operators with several outputs, tensors read twice by one operator, outputs that
    are read inside as well, results nobody reads, and (with ``variables``) operators with effects.

    Args:
        choose: the only source of randomness.
        most_operators: a bound on the operators (chosen padding and variables may add a few).
    """
    b = ModelBuilder(choose(0, 1 << 16), calibration=2)
    height, width = choose(1, 7), choose(1, 7)
    inputs = [b.input((1, height, width, choose(1, 5))) for _ in range(choose(1, 2 if several_inputs else 1))]
    pool = list(inputs)
    state = b.variable(pool[0].shape) if variables else None
    if state is not None:
        pool.append(b.read_variable(state))
    for _ in range(choose(1, most_operators)):
        pool.extend(_random_operator(b, choose, pool))
    if state is not None:
        same = [ref for ref in pool if ref.shape == state.shape]
        b.assign_variable(state, same[choose(0, len(same) - 1)])
    computed = pool[len(inputs) :]
    marked = {choose(0, len(computed) - 1) for _ in range(choose(1, 2))}
    return b.build([computed[index] for index in sorted(marked)])


def _random_operator(b: ModelBuilder, choose: Chooser, pool: list[Ref]) -> list[Ref]:
    # Recent tensors come first so that the simplest choice gives a chain.
    x = pool[-1 - choose(0, len(pool) - 1)]
    kind = choose(0, 7)
    activation = ("NONE", "RELU", "RELU6")[choose(0, 2)]
    if kind == 0:
        return [b.conv(x, choose(1, 6), activation=activation)]
    if kind == 1:
        return [b.conv(x, choose(1, 6), (choose(1, 3), choose(1, 3)), choose(1, 2), "SAME", activation)]
    if kind == 2:
        pads = (choose(0, 1), choose(1, 2), choose(1, 2), choose(0, 1))
        kernel = (min(3, x.shape[1]), min(3, x.shape[2]))
        return [b.depthwise(x, kernel, choose(1, 2), pads, activation, multiplier=choose(1, 2))]
    if kind == 3:
        return [b.max_pool(x, (choose(1, min(3, x.shape[1])), 1), 1, "SAME")]
    if kind == 4 and x.shape[3] % 2 == 0:
        return b.split(x, 2)
    if kind == 5:
        return [_combine(b, choose, x, [y for y in pool if y.shape == x.shape])]
    if kind == 6:
        alike = [y for y in pool if y.shape[:3] == x.shape[:3]]
        return [b.concat([x] + [alike[choose(0, len(alike) - 1)] for _ in range(choose(1, 2))])]
    return [b.average_pool(x, (1, choose(1, min(2, x.shape[2]))), 1, "SAME", activation)]


def _combine(b: ModelBuilder, choose: Chooser, x: Ref, alike: list[Ref]) -> Ref:
    y = alike[choose(0, len(alike) - 1)]
    return b.add(x, y) if choose(0, 1) == 0 else b.mul(x, y)
