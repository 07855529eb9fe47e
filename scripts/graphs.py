"""Graphs of tensors to order and to place: read from JSON, or generated."""

from __future__ import annotations

import json
import random
from pathlib import Path

from tflite_fuse.errors import UsageError
from tflite_fuse.ir.program import Program, Step


def read_graph(path: Path) -> Program:
    """Read a graph from JSON: ``ops`` (name, inputs, outputs), ``tensors`` (bytes by name), ``inputs``, ``outputs``."""
    try:
        content = json.loads(path.read_text())
        number = {name: index for index, name in enumerate(content["tensors"])}
        ops = tuple(
            Step(op["name"], tuple(number[t] for t in op["inputs"]), tuple(number[t] for t in op["outputs"]))
            for op in content["ops"]
        )
        inputs, outputs = (tuple(number[t] for t in content[key]) for key in ("inputs", "outputs"))
        return Program(tuple(content["tensors"].values()), ops, inputs, outputs, names=tuple(number))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} is not a graph description: {error!r}") from error


def tangle(count: int, fan_in: int, window: int, seed: int = 0) -> Program:
    """Return operators that each read some of the last ``window`` tensors; far harder than any network."""
    generator = random.Random(seed)
    sizes = [100]
    ops = []
    for index in range(count):
        recent = list(range(len(sizes)))[-window:]
        inputs = sorted({generator.choice(recent) for _ in range(generator.randrange(1, fan_in + 1))})
        ops.append(Step(f"op_{index}", tuple(inputs), (len(sizes),)))
        sizes.append(generator.randrange(1, 100))
    read = {tensor for op in ops for tensor in op.inputs}
    ops.append(Step("join", tuple(t for t in range(len(sizes)) if t not in read), (len(sizes),)))
    return Program((*sizes, 10), tuple(ops), (0,), (len(sizes),))
