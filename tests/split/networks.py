"""Networks to split: small, with every kind of stage that can be cut, and clusters for them."""

from __future__ import annotations

from functools import cache

from scripts.zoo import ModelBuilder
from tflite_fuse.cost.instructions import Target
from tflite_fuse.model.schema import Model
from tflite_fuse.split.cut.network import Network, network_of
from tflite_fuse.split.devices import Cluster, Device, Link

FAST = Link(kilobytes_per_second=12_500.0, delay_ms_per_message=0.2)


def cluster(speeds: tuple[float, ...] = (600.0, 600.0, 600.0), direct: bool = True, link: Link = FAST) -> Cluster:
    """Cortex-M7 workers of these frequencies."""
    workers = tuple(Device(f"w{index}", Target.CORTEX_M7, mhz, link=link) for index, mhz in enumerate(speeds))
    count = len(workers)
    pairs = frozenset((a, b) for b in range(count) for a in range(b)) if direct else frozenset()
    return Cluster(workers, Device("computer", Target.GENERIC, 1000.0, link=FAST), pairs)


@cache
def large_model() -> Model:
    """2.4 MB of weights, most of them in two layers."""
    builder = ModelBuilder(1)
    x = builder.conv(builder.input((1, 40, 40, 3), name="input"), 16, 3, 1, "SAME", "RELU6")
    x = builder.conv(builder.depthwise(x, 3, 2, "SAME", "RELU6"), 24, 1, 1, "SAME", "RELU6")
    x = builder.max_pool(builder.conv(x, 24, 3, 2, "SAME", "RELU6"), 2, 2, "VALID", "NONE")
    x = builder.fully_connected(builder.reshape(x, (1, 5 * 5 * 24)), 1600)
    x = builder.fully_connected(x, 900)
    return builder.build([builder.log_softmax(builder.fully_connected(x, 10))])


@cache
def branching_model(seed: int = 0, tail: bool = True) -> Model:
    """Stride, a multiplier, a residual, a concatenation, both pools, a mean, a classifier and, as tail, LOG_SOFTMAX."""
    builder = ModelBuilder(seed)
    x = builder.input((1, 17, 13, 3), name="input")
    x = builder.conv(x, 8, 3, 2, "SAME", "RELU6")
    left = builder.depthwise(x, 3, 1, "SAME", "RELU6", multiplier=2)
    left = builder.conv(left, 8, 1, 1, "SAME", "NONE")
    x = builder.add(left, x, "NONE")
    x = builder.concat([builder.max_pool(x, 3, 1, "SAME", "NONE"), builder.average_pool(x, 3, 1, "SAME", "NONE")])
    x = builder.depthwise(x, (3, 5), (2, 1), "SAME", "RELU")
    x = builder.mean(builder.conv(x, 12, 1, 1, "SAME", "RELU6"))
    scores = builder.fully_connected(x, 7)
    return builder.build([builder.log_softmax(scores) if tail else scores])


@cache
def network(seed: int = 0, tail: bool = True) -> Network:
    """The branching model's."""
    return network_of(branching_model(seed, tail))
