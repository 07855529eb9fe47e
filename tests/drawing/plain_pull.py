"""The executor's schedule by its definition, run by run without shortcuts: the oracle."""

from __future__ import annotations

from tflite_fuse.ir.block import Block, BlockConfig, Stage, StageKind, Storage

Span = tuple[int, int]
EMPTY: Span = (1 << 40, 0)
PAIRS = (StageKind.ADD, StageKind.MULTIPLY, StageKind.SQUARED_DIFFERENCE, StageKind.MAXIMUM, StageKind.MINIMUM)
PAIRS += (StageKind.REAL_PAIR,)


class PlainPull:
    """Follows a block; afterwards ``capacity``, ``pixels`` and ``distance`` hold what was seen.

    ``filled`` holds for every run of a stage (tensor, pixels of it so far, oldest pixel still needed of each input).
    """

    def __init__(self, block: Block, config: BlockConfig) -> None:
        self.block, self.chunk = block, config.chunk
        self.spatial, self.driven = self._split()
        self.writer = {stage.output: stage for stage in block.stages[: self.spatial]}
        own = dict(zip(self.writer, config.longest_runs, strict=False))
        self.longest = {t: own.get(t) or self.chunk if s.inputs else 255 for t, s in self.writer.items()}
        self.ahead = {tensor for number, tensor in enumerate(self.writer) if number in config.ahead}
        self.capacity = dict.fromkeys(self.writer, 0)
        self.pixels = dict.fromkeys(self.writer, 0)
        self.filled: list[tuple[int, int, dict[int, int]]] = []
        self.distance = {(i, o): -block.tensors[i].nbytes for i in block.inputs for o in block.outputs}
        driven = block.tensors[self.driven]
        self.only = config.tile_height >= driven.height and config.tile_width >= driven.width
        for top in range(0, driven.height, config.tile_height):
            for left in range(0, driven.width, config.tile_width):
                rows = (top, min(top + config.tile_height, driven.height))
                self._tile(rows, (left, min(left + config.tile_width, driven.width)))
        for stage in self.writer.values():
            if stage.overwrites >= 0:
                self.capacity[stage.output] = self.capacity[stage.overwrites]

    def _split(self) -> tuple[int, int]:
        for number, stage in enumerate(self.block.stages):
            several = stage.inputs and self.block.tensors[stage.inputs[0]].pixels > 1
            name = stage.kind.name.removeprefix("FLOAT_")
            if name in ("GLOBAL_AVERAGE", "GLOBAL_MAX", "GLOBAL_REDUCE") or (name == "FULLY_CONNECTED" and several):
                return number, stage.inputs[0]
        return len(self.block.stages), self.block.stages[-1].output

    def _under(self, stage: Stage, axis: int, span: Span, number: int) -> Span:
        if span[0] >= span[1]:
            return EMPTY
        tensor = stage.inputs[number]
        length = (self.block.tensors[tensor].height, self.block.tensors[tensor].width)[axis]
        matrix = stage.kind.name.endswith("MATRIX_PRODUCT") and number == 1
        if matrix or stage.kind is StageKind.TRANSPOSE:
            return 0, length
        pixels = self.block.tensors[tensor].pixels, self.block.tensors[stage.output].pixels
        if stage.kind in PAIRS and pixels[0] == 1 < pixels[1]:
            return 0, 1
        first = span[0] * stage.stride[axis] - stage.padding[axis]
        behind = (span[1] - 1) * stage.stride[axis] - stage.padding[axis] + stage.extent[axis]
        seen = [i for i in range(length) if first <= i * stage.spread[axis] < behind]
        return (seen[0], seen[-1] + 1) if seen else EMPTY

    def _tile(self, rows: Span, columns: Span) -> None:
        tensors = self.block.tensors
        self.region: dict[int, list[Span]] = {index: [EMPTY, EMPTY] for index in range(len(tensors))}
        self.region[self.driven] = [rows, columns]
        for index, tensor in enumerate(tensors):
            whole = tensor.storage in (Storage.INPUT, Storage.EXTERNAL)
            if whole or (self.only and tensor.storage is Storage.OUTPUT):
                self.region[index] = [(0, tensor.height), (0, tensor.width)]
        self.visit = 0
        for stage in reversed(self.block.stages[: self.spatial]):
            for number, tensor_index in enumerate(stage.inputs):
                for axis in (0, 1):
                    seen = self._under(stage, axis, self.region[stage.output][axis], number)
                    low, high = self.region[tensor_index][axis]
                    self.region[tensor_index][axis] = (min(low, seen[0]), max(high, seen[1]))
        self.produced = dict.fromkeys(self.writer, 0)
        count = (rows[1] - rows[0]) * (columns[1] - columns[0])
        width = columns[1] - columns[0]
        while self.visit < count:
            run = min(self.chunk, count - self.visit, width - self.visit % width)
            if self.driven in self.writer:
                self._demand(self.driven, self.visit + run)
            self.visit += run
        for tensor_index in self.writer:
            if tensors[tensor_index].storage is Storage.OUTPUT:
                height, width = (span[1] - span[0] for span in self.region[tensor_index])
                if height > 0 and width > 0:
                    self._demand(tensor_index, height * width)
        self._tail()

    def _demand(self, tensor: int, upto: int) -> None:
        stage = self.writer[tensor]
        (top, _), (left, right) = self.region[tensor]
        while self.produced[tensor] < upto:
            at = self.produced[tensor]
            rest = right - left - at % (right - left)
            run = min(self.longest[tensor], rest if tensor in self.ahead else min(rest, upto - at))
            row, column = top + at // (right - left), left + at % (right - left)
            for number, source in enumerate(stage.inputs):
                if source in self.writer:
                    self._demand(source, self._needed(stage, number, row, column, run)[1])
            if stage.waits_for >= 0:
                self._demand(stage.waits_for, at + run)
            self._note(tensor, at + run)
            self.produced[tensor] += run
            self.pixels[tensor] += run

    def _needed(self, stage: Stage, number: int, row: int, column: int, run: int) -> tuple[int, int]:
        """First position and end of what a run sees of an input; (far, 0) for padding alone."""
        source = stage.inputs[number]
        rows = self._under(stage, 0, (row, row + 1), number)
        columns = self._under(stage, 1, (column, column + run), number)
        if EMPTY in (rows, columns):
            return EMPTY
        (top, _), (left, right) = self.region[source]
        first = (rows[0] - top) * (right - left) + columns[0] - left
        return first, (rows[1] - 1 - top) * (right - left) + columns[1] - left

    def _oldest(self, tensor: int) -> int:
        """The oldest position any reader still needs, the runs under way included."""
        oldest = [1 << 40]
        if tensor == self.driven and self.spatial < len(self.block.stages):
            (_, _), (left, right) = self.region[tensor]
            rows = self.region[tensor][0]
            if self.visit < (rows[1] - rows[0]) * (right - left):
                oldest.append(self.visit)
        for stage in self.block.stages[: self.spatial]:
            for number in (place for place, source in enumerate(stage.inputs) if source == tensor):
                (top, bottom), (left, right) = self.region[stage.output]
                count = max(0, bottom - top) * max(0, right - left)
                for position in range(self.produced[stage.output], count):
                    row, column = top + position // (right - left), left + position % (right - left)
                    oldest.append(self._needed(stage, number, row, column, 1)[0])
                    if row > top + self.produced[stage.output] // (right - left) + 1:
                        break  # later rows need nothing older
        for stage in self.block.stages[self.spatial :]:
            if tensor in stage.inputs and tensor != self.driven:
                oldest.append(0)
        return min(oldest)

    def _note(self, tensor: int, written: int) -> None:
        self.filled.append((tensor, written, {source: self._oldest(source) for source in self.block.inputs}))
        if self.block.tensors[tensor].storage is Storage.SCRATCH:
            oldest = min(map(self._oldest, self._in_ring_of(tensor)))
            self.capacity[tensor] = max(self.capacity[tensor], written - oldest)
        if self.block.tensors[tensor].storage is Storage.OUTPUT:
            self._compare(tensor, written)

    def _in_ring_of(self, tensor: int) -> list[int]:
        """The tensor, and those whose pixels replace its pixels one after the other."""
        later = [output for output, stage in self.writer.items() if stage.overwrites == tensor]
        return [tensor, *(each for output in later for each in self._in_ring_of(output))]

    def _compare(self, output: int, written: int) -> None:
        for source in self.block.inputs:
            oldest = self._oldest(source)
            if oldest < 1 << 40:
                gap = written * self.block.tensors[output].pixel_bytes - oldest * self.block.tensors[source].pixel_bytes
                self.distance[source, output] = max(self.distance[source, output], gap)

    def _tail(self) -> None:
        for stage in self.block.stages[self.spatial :]:
            if self.block.tensors[stage.output].storage is Storage.OUTPUT:
                self._compare(stage.output, 1)
