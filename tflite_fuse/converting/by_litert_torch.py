"""Run by ``convert`` in a process of its own: litert-torch from an exported program to a .tflite file."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any


def main() -> None:
    """Convert ``argv[1]``, of ``torch.export.save``, to ``argv[2]``, float32 with channels last; ignore shapes."""
    source, target = sys.argv[1:3]
    import litert_torch
    import torch

    program = torch.export.load(source)
    if program.example_inputs is None:
        raise ValueError("the exported program holds no example inputs")
    inputs, named = program.example_inputs
    if named:
        raise ValueError(f"inputs by keyword are not converted: {', '.join(named)}")
    pictures = [at for at, each in enumerate(inputs) if each.ndim == 4]
    outputs = [at for at, each in enumerate(_outputs(program)) if each.ndim == 4]
    module = program.module()
    if pictures or outputs:
        module = litert_torch.to_channel_last_io(module, args=pictures, outputs=outputs)
    samples = tuple(each.permute(0, 2, 3, 1) if each.ndim == 4 else each for each in inputs)
    litert_torch.convert(module, samples).export(target)


def _outputs(program: Any) -> Sequence[Any]:
    outputs = program.module()(*program.example_inputs[0])
    return outputs if isinstance(outputs, (tuple, list)) else (outputs,)


if __name__ == "__main__":
    main()
