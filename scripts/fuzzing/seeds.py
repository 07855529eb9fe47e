"""Small sound models that the fuzzers damage: every part of the file format, loops, states, plans and fused blocks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from random import Random

import tflite_fuse
from scripts.zoo import ModelBuilder
from scripts.zoo.float_twin import float_twin
from scripts.zoo.networks import (
    branching_network,
    inverted_residual_network,
    one_dimensional_network,
    pyramid_network,
    temporal_network,
)
from tests.builders import random_graph
from tests.model.rich_model import rich_model
from tflite_fuse.data import SAMPLE_MODEL
from tflite_fuse.memory.regions import named_sizes
from tflite_fuse.model import schema as s
from tflite_fuse.model.file import serialize_model
from tflite_fuse.model.options import make_options
from tflite_fuse.model.types import BUILTIN_CODES
from tflite_fuse.runtime import tflm


@contextlib.contextmanager
def without_runtime() -> Iterator[None]:
    """The runtime, which is not ours, is left out."""
    available, tflm.available = tflm.available, lambda: False
    try:
        yield
    finally:
        tflm.available = available


def kinds_model() -> s.Model:
    """Return one operator of every kind the builder has, in a chain with branches."""
    b = ModelBuilder(seed=3)
    x = b.input((1, 12, 10, 4))
    y = b.depthwise(b.conv(b.pad(x, (1, 1, 1, 0)), 8, kernel=3), kernel=3, stride=2)
    z = b.add(b.logistic(y), b.mul(y, y))
    z = b.concat([b.max_pool(z, 2), b.average_pool(z, 2)])
    parts = b.split(z, 2)
    z = b.softmax(b.fully_connected(b.mean(b.add(*parts)), 5))
    return b.build([z])


def control_model() -> s.Model:
    """Return IF, WHILE and CALL_ONCE over small subgraphs."""
    names = ("IF", "WHILE", "CALL_ONCE", "RESHAPE")
    codes = tuple(s.OperatorCode(min(BUILTIN_CODES[n], 127), None, 1, BUILTIN_CODES[n]) for n in names)

    def tensors(count: int) -> tuple[s.Tensor, ...]:
        return tuple(
            s.Tensor((1, 4), 9, 0, f"t{n}", s.Quantization(scale=(0.5,), zero_point=(0,))) for n in range(count)
        )

    operators = (
        s.Operator(2, (), (), make_options("CallOnceOptions", init_subgraph_index=2)),
        s.Operator(0, (0, 1), (2,), make_options("IfOptions", then_subgraph_index=1, else_subgraph_index=1)),
        s.Operator(1, (2,), (3,), make_options("WhileOptions", cond_subgraph_index=1, body_subgraph_index=1)),
    )
    inner = s.SubGraph(tensors(2), (0,), (1,), (s.Operator(3, (0,), (1,), make_options("ReshapeOptions")),), "inner")
    graphs = (s.SubGraph(tensors(4), (0, 1), (3,), operators, "main"), inner, s.SubGraph((), (), (), (), "once"))
    return s.Model(3, codes, graphs, "", (s.Buffer(),))


def cell_of_two_paths() -> s.Model:
    """A residual block whose shortcut has a stride: its block runs the shortcut early."""
    b = ModelBuilder(seed=4)
    x = b.conv(b.input((1, 12, 12, 2)), 8, 3)
    return b.build([b.add(b.conv(b.conv(x, 4, 3, 2), 4, 3), b.conv(x, 4, 1, 2))])


def _rewritten(model: s.Model, **options: object) -> bytes:
    return tflite_fuse.rewrite(serialize_model(model), verify=False, **options).model  # type: ignore[arg-type]


SEEDS: dict[str, Callable[[], bytes]] = {
    "sample": SAMPLE_MODEL.read_bytes,
    "rich": lambda: serialize_model(rich_model()),
    "kinds": lambda: serialize_model(kinds_model()),
    "control": lambda: serialize_model(control_model()),
    "branching": lambda: serialize_model(branching_network(8, 2, 2)),
    "residual": lambda: serialize_model(inverted_residual_network(8, 4, 2, 1, 4)),
    "one_dimensional": lambda: serialize_model(one_dimensional_network(16, 4, 2)),
    "pyramid": lambda: serialize_model(pyramid_network(16, 2)),
    "random": lambda: serialize_model(random_graph(Random(7).randint)),
    "variables": lambda: serialize_model(random_graph(Random(8).randint, 6, variables=True)),
    "fused": lambda: _rewritten(kinds_model()),
    "fused_overlap": lambda: _rewritten(one_dimensional_network(16, 4, 2)),
    "early_branch": lambda: _rewritten(cell_of_two_paths()),
    "two_memories": lambda: _rewritten(inverted_residual_network(16, 4, 2, 2, 4), memory=named_sizes("a=1000,b=9kB")),
    "stream": lambda: _rewritten(temporal_network((1, 2), 3, 4), stream_time=1),
    "float32": lambda: serialize_model(float_twin(kinds_model())),
    "float32_fused": lambda: _rewritten(float_twin(kinds_model())),
    "streamed": lambda: _rewritten(branching_network(8, 2, 2), input_mode="streamed"),
}
"""Name of each seed and what makes its bytes."""
