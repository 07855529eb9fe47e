"""The executor's schedule, followed literally pixel run by pixel run: slow, short, and without a closed form.

What the cost model is tested against: the largest distance between what has been written to a FIFO and the oldest
pixel a reader still needs, and the pixels each stage really produces.
"""

from __future__ import annotations

from tflite_fuse.fusion.block import BlockConfig
from tflite_fuse.fusion.cost import driven_tensor, find_tail
from tflite_fuse.fusion.geometry import LayerGraph

Span = tuple[int, int]


class Pull:
    """Runs layers first … last of a graph as one block."""

    def __init__(self, graph: LayerGraph, first: int, last: int, config: BlockConfig) -> None:
        self.graph, self.chunk = graph, config.chunk
        tail = find_tail(graph, last)
        self.folded = tail is not None and tail >= first
        self.driven = driven_tensor(graph, first, last)
        end = graph.producer[self.driven] if self.folded else last
        self.writer = {graph.layers[i].outputs[0]: i for i in range(first, end + 1)}
        self.fifo = {
            tensor
            for tensor in self.writer
            if tensor not in graph.outputs
            and all(r <= last for r in graph.consumers[tensor])
            and (self.folded or tensor != self.driven)
        }
        self.peak = dict.fromkeys(self.fifo, 0)
        self.pixels = dict.fromkeys(self.writer, 0)
        self.complete = True
        self.written: dict[int, set[tuple[int, int]]] = {tensor: set() for tensor in self.writer}
        extent = graph.tensors[self.driven]
        for top in range(0, extent.height, config.tile_height):
            for left in range(0, extent.width, config.tile_width):
                bottom = min(top + config.tile_height, extent.height)
                self._tile((top, bottom), (left, min(left + config.tile_width, extent.width)))

    def _window(self, layer: int, axis: int, low: int, high: int, source: int) -> Span | None:
        """Positions of an input axis that outputs low … high − 1 read; None if they touch padding only."""
        stage = self.graph.layers[layer].stage
        assert stage is not None
        length = (self.graph.tensors[source].height, self.graph.tensors[source].width)[axis]
        start = max(low * stage.stride[axis] - stage.padding[axis], 0)
        stop = min((high - 1) * stage.stride[axis] - stage.padding[axis] + stage.extent[axis], length)
        return (start, stop) if start < stop else None

    def _tile(self, rows: Span, columns: Span) -> None:
        self.region = {self.driven: (rows, columns)}
        for tensor in sorted(self.writer, key=lambda t: -self.writer[t]):
            if tensor not in self.region:
                continue
            layer = self.writer[tensor]
            for source in dict.fromkeys(self.graph.layers[layer].inputs):
                needs = [self._window(layer, axis, *self.region[tensor][axis], source) for axis in (0, 1)]
                if needs[0] is None or needs[1] is None:
                    continue
                known = self.region.get(source)
                self.region[source] = tuple(  # type: ignore[assignment]
                    need if known is None else (min(need[0], known[axis][0]), max(need[1], known[axis][1]))
                    for axis, need in enumerate(needs)
                    if need is not None
                )
        self.produced = dict.fromkeys(self.writer, 0)
        self.visited = 0
        count = (rows[1] - rows[0]) * (columns[1] - columns[0])
        if self.folded and self.driven in self.writer:
            width = columns[1] - columns[0]
            while self.visited < count:
                run = min(self.chunk, count - self.visited, width - self.visited % width)
                self._demand(self.driven, self.visited + run)
                self.visited += run
        elif not self.folded:
            self._demand(self.driven, count)

    def _demand(self, tensor: int, upto: int) -> None:
        layer = self.writer[tensor]
        (top, _), (left, right) = self.region[tensor]
        width = right - left
        while self.produced[tensor] < upto:
            at = self.produced[tensor]
            run = min(self.chunk, upto - at, width - at % width)
            row, column = top + at // width, left + at % width
            for source in dict.fromkeys(self.graph.layers[layer].inputs):
                if source in self.writer:
                    self._demand_window(layer, source, row, column, run)
            for pixel in range(column, column + run):
                self.written[tensor].add((row, pixel))
            if tensor in self.fifo:
                self.peak[tensor] = max(self.peak[tensor], at + run - self._oldest(tensor))
            self.produced[tensor] += run
            self.pixels[tensor] += run

    def _demand_window(self, layer: int, source: int, row: int, column: int, run: int) -> None:
        rows = self._window(layer, 0, row, row + 1, source)
        columns = self._window(layer, 1, column, column + run, source)
        if rows is not None and columns is not None:
            (top, _), (left, right) = self.region[source]
            self._demand(source, (rows[1] - 1 - top) * (right - left) + columns[1] - left)

    def _oldest(self, tensor: int) -> int:
        """Position of the oldest pixel any reader still needs, its current run included."""
        oldest = [self.visited] if tensor == self.driven else []
        for layer in self.graph.consumers[tensor]:
            out = self.graph.layers[layer].outputs[0]
            if out in self.region and out in self.writer:
                oldest += self._still_needed(layer, out, tensor)
        return min(oldest, default=1 << 40)

    def _still_needed(self, layer: int, out: int, tensor: int) -> list[int]:
        (top, bottom), (left, right) = self.region[out]
        (source_top, _), (source_left, source_right) = self.region[tensor]
        found = []
        at = self.produced[out]
        for position in range(at, (bottom - top) * (right - left)):
            row, column = top + position // (right - left), left + position % (right - left)
            if row > top + at // (right - left) + 1:
                break
            rows, columns = (
                self._window(layer, 0, row, row + 1, tensor),
                self._window(layer, 1, column, column + 1, tensor),
            )
            if rows is not None and columns is not None:
                found.append((rows[0] - source_top) * (source_right - source_left) + columns[0] - source_left)
        return found

    @property
    def macs(self) -> int:
        per_pixel = {t: self.graph.layers[i].macs // self.graph.tensors[t].pixels for t, i in self.writer.items()}
        return sum(count * per_pixel[tensor] for tensor, count in self.pixels.items())
