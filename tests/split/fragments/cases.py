"""Splits with fragments: models, plans, and fragments that are changed and sealed again."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import cache
from typing import Any

from scripts.zoo import ModelBuilder
from tests.split.networks import cluster, network
from tflite_fuse.model.schema import Model
from tflite_fuse.split.cut.network import Network, network_of
from tflite_fuse.split.cut.plan import Plan
from tflite_fuse.split.fragments.encode import CHECKSUM_AT, Fragments, decode, encode_plan
from tflite_fuse.split.fragments.structs import LAYOUTS, FragmentHeader, FragmentStep, FragmentView, StepKind
from tflite_fuse.split.needs import Accountant
from tflite_fuse.split.search.auto import Search
from tflite_fuse.split.search.edges import Edge, Mode
from tflite_fuse.split.search.paper import paper_plan


def large_end(features: int = 600) -> Model:
    """A convolution, then a fully connected layer that holds nearly all weights: no SOFTMAX behind it."""
    builder = ModelBuilder(3)
    x = builder.conv(builder.input((1, 11, 9, 2), name="input"), 6, 3, 1, "SAME", "RELU")
    x = builder.max_pool(x, 2, 2, "VALID", "NONE")
    x = builder.fully_connected(builder.reshape(x, (1, 5 * 4 * 6)), features)
    return builder.build([builder.fully_connected(x, 10)])


def planned(net: Network, strategy: str, workers: int) -> tuple[Plan, Accountant]:
    """A plan of the published scheme, or of the search for an objective."""
    accountant = Accountant(net)
    if strategy == "paper":
        return paper_plan(net, [1.0] * workers, ""), accountant
    plan = Search(net, cluster((600.0,) * workers), accountant, strategy).run().plans[0]
    return plan, accountant.over(plan.sums)


@cache
def fragments(strategy: str = "paper", workers: int = 3) -> Fragments:
    """Of the branching model."""
    plan, accountant = planned(network(), strategy, workers)
    return encode_plan(network(), plan, accountant.parts)


@cache
def without_operators(workers: int = 2) -> tuple[Network, Fragments]:
    """Of a model whose coordinator only moves bytes."""
    net = network_of(large_end())
    plan, accountant = planned(net, "paper", workers)
    return net, encode_plan(net, plan, accountant.parts)


@cache
def with_sums(workers: int = 3) -> Fragments:
    """Of the branching model, where neighbouring cuts are joined by input channels wherever they can be."""
    net, devices = network(), cluster((600.0,) * workers)
    search = Search(net, devices, Accountant(net), "time")

    def edges(first: int, last: int, length: int) -> list[Edge]:
        summed = search.maker.edge(first, last, Mode.SUMS, tuple(range(workers))) if length <= 2 else None
        alone = search.maker.edge(first, last, Mode.ONE, (1,)) if length == 1 else None
        return [each for each in (summed or alone,) if each is not None]

    search._edges = edges  # type: ignore[method-assign,assignment]
    plan = search.run().plans[0]
    assert plan.sums
    accountant = Accountant(net).over(plan.sums)
    return encode_plan(accountant.network, plan, accountant.parts)


def sealed(data: bytearray) -> bytes:
    """With the checksum that fits."""
    data[CHECKSUM_AT : CHECKSUM_AT + 4] = bytes(4)
    data[CHECKSUM_AT : CHECKSUM_AT + 4] = zlib.crc32(data).to_bytes(4, "little")
    return bytes(data)


def with_header(fragment: bytes, **changes: Any) -> bytes:
    layout = LAYOUTS[FragmentHeader]
    header = FragmentHeader(*layout.unpack_from(fragment))._replace(**changes)
    return sealed(bytearray(layout.pack(*header) + fragment[layout.size :]))


def with_step(fragment: bytes, kind: StepKind, change: Callable[[FragmentStep], FragmentStep]) -> bytes:
    """The last step of a kind changed."""
    found = decode(fragment)
    number = max(index for index, step in enumerate(found.steps) if step.kind == kind)
    layout, data = LAYOUTS[FragmentStep], bytearray(fragment)
    at = found.header.steps + layout.size * number
    data[at : at + layout.size] = layout.pack(*change(found.steps[number]))
    return sealed(data)


def with_view(fragment: bytes, number: int, **changes: int) -> bytes:
    found = decode(fragment)
    layout, data = LAYOUTS[FragmentView], bytearray(fragment)
    at = found.header.views + layout.size * number
    data[at : at + layout.size] = layout.pack(*found.views[number]._replace(**changes))
    return sealed(data)
