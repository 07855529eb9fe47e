"""Plain layer lists, the benchmarks' descriptions of published networks, as programs with costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tflite_fuse.cost.priced_program import PricedProgram, PricedStep
from tflite_fuse.errors import ModelError
from tflite_fuse.ir.block import BlockTensor, Stage, StageKind
from tflite_fuse.ops.entry import Kind, Window
from tflite_fuse.ops.table import KINDS, macs_per_pixel

_KINDS = {
    "add": StageKind.ADD,
    "avgpool": StageKind.AVERAGE_POOL,
    "concat": StageKind.CONCATENATION,
    "conv": StageKind.CONV,
    "dw": StageKind.DEPTHWISE,
    "fc": StageKind.FULLY_CONNECTED,
    "maxpool": StageKind.MAX_POOL,
    "mul": StageKind.MULTIPLY,
    "pw": StageKind.CONV,
}


def without_network_tensors(graph: PricedProgram) -> PricedProgram:
    """Return the graph in msf-CNN's accounting, which excludes network inputs and outputs."""
    left_out = {*graph.inputs, *graph.outputs}
    return replace(graph, sizes=tuple(0 if index in left_out else size for index, size in enumerate(graph.sizes)))


def graph_from_layers(description: Mapping[str, Any]) -> PricedProgram:
    """Return the graph of a plain layer list.

    Args:
        description: ``{"input": [h, w, c], "layers": [{"op", "kernel", "stride", "pad": [top, bottom, left, right],
            "out": [h, w, c], "residual_from"}, …]}``. PricedStep i reads layer i − 1; ``add`` reads layer
            ``residual_from`` too. ``op`` is one of conv, pw, dw, add, avgpool, maxpool, fc.

    Raises:
        ModelError: an unknown ``op``.
    """
    tensors = [_tensor("input", description["input"])]
    layers: list[PricedStep] = []
    for index, entry in enumerate(description["layers"]):
        name = f"{entry['op']}_{index}"
        if entry["op"] not in _KINDS:
            raise ModelError(f"layer {name} is none of {', '.join(sorted(_KINDS))}")
        sources = (index,) if entry.get("residual_from") is None else (index, entry["residual_from"] + 1)
        tensors.append(_tensor(name, entry["out"]))
        stage = _stage(KINDS[_KINDS[entry["op"]]], entry, sources, index + 1, tensors[index])
        macs = tensors[stage.output].pixels * macs_per_pixel(stage, tensors)
        layers.append(PricedStep(name, sources, (index + 1,), work=macs, stage=replace(stage, operator=index)))
    sizes = tuple(tensor.nbytes for tensor in tensors)
    names = tuple(tensor.name for tensor in tensors)
    return PricedProgram(sizes, tuple(layers), (0,), (len(layers),), names=names, tensors=tuple(tensors))


def _tensor(name: str, shape: Sequence[int]) -> BlockTensor:
    height, width, channels = shape
    return BlockTensor(name, height, width, channels, zero_point=0)


def _stage(kind: Kind, entry: Mapping[str, Any], sources: tuple[int, ...], output: int, source: BlockTensor) -> Stage:
    kernel, stride = _pair(entry["kernel"]), _pair(entry["stride"])
    if kind.window is Window.PIXEL:
        return Stage(kind.number, sources, output)
    if kind.number is StageKind.AVERAGE_POOL and kernel == (source.height, source.width):
        return Stage(StageKind.GLOBAL_AVERAGE, sources, output)
    top, _, left, _ = entry["pad"]
    return Stage(kind.number, sources, output, kernel_size=kernel, stride=stride, padding=(top, left))


def _pair(value: int | Sequence[int]) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value[0], value[1])
