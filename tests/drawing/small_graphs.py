"""Small random layer graphs: windows of all kinds, skips, concatenations, strided and dangling branches."""

from __future__ import annotations

from random import Random

from tflite_fuse.cost.priced_program import PricedProgram, PricedStep
from tflite_fuse.ir.block import BlockTensor, Stage, StageKind
from tflite_fuse.ops.table import macs_per_pixel


class GraphMaker:
    """Appends layers to a graph; method names are operators, results tensor indices."""

    def __init__(self, height: int, width: int, channels: int) -> None:
        self.tensors = [BlockTensor("input", height, width, channels, 0)]
        self.layers: list[PricedStep] = []
        self.inputs = [0]

    def input(self, height: int, width: int, channels: int) -> int:
        """Another network input."""
        self.inputs.append(len(self.tensors))
        self.tensors.append(BlockTensor(f"input{len(self.tensors)}", height, width, channels, 0))
        return self.inputs[-1]

    def window(
        self,
        source: int,
        channels: int,
        kernel: tuple[int, int] = (1, 1),
        stride: tuple[int, int] = (1, 1),
        padding: tuple[int, int, int, int] | None = None,
        kind: StageKind = StageKind.CONV,
    ) -> int:
        """A window stage; padding is (top, bottom, left, right), SAME where it is None."""
        extent = self.tensors[source]
        sizes = (extent.height, extent.width)
        pads = []
        for axis in (0, 1):
            missing = (-(-sizes[axis] // stride[axis]) - 1) * stride[axis] + kernel[axis] - sizes[axis]
            pads += [max(0, missing) // 2, max(0, missing) - max(0, missing) // 2]
        top, bottom, left, right = padding or (pads[0], pads[1], pads[2], pads[3])
        height = (extent.height + top + bottom - kernel[0]) // stride[0] + 1
        width = (extent.width + left + right - kernel[1]) // stride[1] + 1
        stage = Stage(kind, (source,), len(self.tensors), kernel_size=kernel, stride=stride, padding=(top, left))
        return self._append(stage, height, width, channels)

    def larger(
        self, source: int, kernel: tuple[int, int], stride: tuple[int, int], spread: tuple[int, int], channels: int = 0
    ) -> int:
        """TRANSPOSE_CONV to so many channels, or RESIZE: every window sees a pixel if the kernel spans the spread."""
        extent = self.tensors[source]
        padding = [(length - 1) // 2 for length in kernel]
        height, width = (
            max(1, (length * apart - 1) // step + 1)
            for length, apart, step in zip((extent.height, extent.width), spread, stride, strict=True)
        )
        kind = StageKind.TRANSPOSE_CONV if channels else StageKind.RESIZE
        stage = Stage(
            kind,
            (source,),
            len(self.tensors),
            kernel_size=kernel,
            stride=stride,
            spread=spread,
            padding=(padding[0], padding[1]),
        )
        return self._append(stage, height, width, channels or extent.channels)

    def pad(self, source: int, border: int) -> int:
        """PAD by ``border`` pixels on every side."""
        extent = self.tensors[source]
        stage = Stage(StageKind.PAD, (source,), len(self.tensors), padding=(border, border))
        return self._append(stage, extent.height + 2 * border, extent.width + 2 * border, extent.channels)

    def join(self, kind: StageKind, *sources: int) -> int:
        """ADD, of which a source may be one pixel, or CONCATENATION."""
        extent = max((self.tensors[source] for source in sources), key=lambda tensor: tensor.pixels)
        channels = sum(self.tensors[source].channels for source in sources)
        stage = Stage(kind, sources, len(self.tensors))
        return self._append(stage, extent.height, extent.width, extent.channels if kind is StageKind.ADD else channels)

    def accumulate(self, kind: StageKind, source: int, channels: int) -> int:
        """GLOBAL_AVERAGE or FULLY_CONNECTED."""
        return self._append(Stage(kind, (source,), len(self.tensors)), 1, 1, channels)

    def other(self, source: int, height: int, width: int, channels: int, view: bool = False) -> int:
        """An operator no block can hold, or a RESHAPE."""
        self.tensors.append(BlockTensor(f"t{len(self.tensors)}", height, width, channels, 0))
        name = f"{'reshape' if view else 'other'}_{len(self.layers)}"
        reason = "" if view else "it is not a fusable operator"
        self.layers.append(PricedStep(name, (source,), (len(self.tensors) - 1,), reason=reason, view=view))
        return len(self.tensors) - 1

    def graph(self) -> PricedProgram:
        """All tensors that nothing reads are network outputs."""
        read = {tensor for layer in self.layers for tensor in layer.inputs}
        written = (tensor for layer in self.layers for tensor in layer.outputs)
        outputs = tuple(tensor for tensor in written if tensor not in read)
        sizes = tuple(tensor.nbytes for tensor in self.tensors)
        return PricedProgram(sizes, tuple(self.layers), tuple(self.inputs), outputs, tensors=tuple(self.tensors))

    def _append(self, stage: Stage, height: int, width: int, channels: int) -> int:
        index = len(self.layers)
        self.tensors.append(BlockTensor(f"t{len(self.tensors)}", height, width, channels, 0))
        name = f"{stage.kind.name.lower()}_{index}"
        macs = self.tensors[stage.output].pixels * macs_per_pixel(stage, self.tensors)
        self.layers.append(PricedStep(name, stage.inputs, (stage.output,), work=macs, stage=stage))
        return stage.output


def random_chain(random: Random, length: int) -> PricedProgram:
    """Windows with any padding below their extent, one after the other."""
    maker = GraphMaker(random.randint(4, 10), random.randint(4, 12), random.randint(1, 3))
    source = 0
    for _ in range(length):
        if maker.tensors[source].pixels < 100 and random.random() < 0.25:
            source = _any_larger(random, maker, source)
            continue
        kernel, stride = _pick_pair(random, (1, 1, 3, 3, 2, 5)), _pick_pair(random, (1, 1, 2, 3))
        pads = [random.randint(0, kernel[axis] - 1) for axis in (0, 0, 1, 1)]
        extent = maker.tensors[source]
        if extent.height + pads[0] + pads[1] >= kernel[0] and extent.width + pads[2] + pads[3] >= kernel[1]:
            channels = random.randint(1, 3)
            source = maker.window(source, channels, kernel, stride, (pads[0], pads[1], pads[2], pads[3]))
    if not maker.layers:
        maker.window(source, 1)
    return maker.graph()


def padded_branches(random: Random, length: int) -> PricedProgram:
    """Residual blocks whose windows see any part of what lies before and behind, such as only what lies before."""
    maker = GraphMaker(random.randint(1, 10), random.randint(1, 12), 2)
    latest = 0
    for _ in range(length):
        branches = [latest]
        for _ in range(random.randint(1, 2)):
            inner = latest
            for _ in range(random.randint(1, 3)):
                kernel = _pick_pair(random, (1, 2, 3, 5))
                before = [random.choice((0, size - 1, random.randint(0, size - 1))) for size in kernel]
                behind = [size - 1 - above for size, above in zip(kernel, before, strict=True)]
                inner = maker.window(inner, 2, kernel, padding=(before[0], behind[0], before[1], behind[1]))
            branches.append(inner)
        latest = maker.join(random.choice((StageKind.ADD, StageKind.CONCATENATION)), *branches)
    return maker.graph()


def random_graph(random: Random, length: int) -> PricedProgram:
    """Windows, additions and concatenations of any earlier tensors that fit, also of one pixel and all of another."""
    maker = GraphMaker(random.randint(2, 12), random.randint(2, 12), random.randint(1, 3))
    latest = 0
    for _ in range(length):
        twins = _equal_extents(maker)
        if maker.tensors[latest].pixels < 100 and random.random() < 0.25:
            latest = _any_larger(random, maker, latest)
            continue
        if random.random() < 0.15:
            latest = _gated(random, maker, latest)
            continue
        if twins and random.random() < 0.4:
            pair = random.choice(twins)
            alike = maker.tensors[pair[0]].channels == maker.tensors[pair[1]].channels
            add = alike and random.random() < 0.6
            latest = maker.join(StageKind.ADD if add else StageKind.CONCATENATION, *pair)
        else:
            source = latest if random.random() < 0.6 else random.randrange(len(maker.tensors))
            kernel, stride = _pick_pair(random, (1, 3, 3, 2, 5)), _pick_pair(random, (1, 1, 2))
            latest = maker.window(source, random.randint(1, 3), kernel, stride)
    return maker.graph()


def inverted_residuals(widths: tuple[int, ...] = (4, 4, 6), size: int = 12) -> PricedProgram:
    """A stem and one inverted residual per entry (width = channels out), a residual where widths agree; then a tail."""
    maker = GraphMaker(size, size, 3)
    current = maker.window(0, widths[0], (3, 3), (2, 2))
    for width in widths:
        channels = maker.tensors[current].channels
        wide = maker.window(current, 4 * channels)
        mixed = maker.window(wide, 4 * channels, (3, 3), kind=StageKind.DEPTHWISE)
        narrow = maker.window(mixed, width)
        current = maker.join(StageKind.ADD, narrow, current) if width == channels else narrow
    pooled = maker.accumulate(StageKind.GLOBAL_AVERAGE, current, maker.tensors[current].channels)
    maker.accumulate(StageKind.FULLY_CONNECTED, pooled, 5)
    return maker.graph()


def _any_larger(random: Random, maker: GraphMaker, source: int) -> int:
    spread = _pick_pair(random, (1, 2, 2, 2, 3))
    if random.random() < 0.5:
        return maker.larger(source, _pick_pair(random, (1, 2, 3, 4)), (1, 1), spread, random.randint(1, 3))
    kernel = spread[0] * random.randint(1, 2), spread[1] * random.randint(1, 2)
    return maker.larger(source, kernel, _pick_pair(random, (1, 1, 2)), spread)


def _gated(random: Random, maker: GraphMaker, source: int) -> int:
    """A tensor and one pixel that goes with all of it: an input, or made of one by up to two layers."""
    channels = maker.tensors[source].channels
    alike = [i for i, tensor in enumerate(maker.tensors) if tensor.pixels == 1 and tensor.channels == channels]
    gate = random.choice(alike) if alike and random.random() < 0.5 else maker.input(1, 1, channels)
    for _ in range(random.randint(0, 2)):
        gate = maker.window(gate, channels)
    return maker.join(StageKind.ADD, *random.sample([source, gate], 2))


def _pick_pair(random: Random, values: tuple[int, ...]) -> tuple[int, int]:
    return random.choice(values), random.choice(values)


def _equal_extents(maker: GraphMaker) -> list[tuple[int, int]]:
    extents = [(tensor.height, tensor.width) for tensor in maker.tensors]
    count = len(extents)
    return [(a, b) for a in range(count) for b in range(count) if a != b and extents[a] == extents[b]]
