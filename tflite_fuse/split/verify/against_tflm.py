"""Compares a split with the whole model in TFLM: all fragments run on this machine, and the tasks in numpy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tflite_fuse.ir.block import Int8Array
from tflite_fuse.model.file import serialize_model
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.inputs import generate_inputs
from tflite_fuse.split.cut.network import Network
from tflite_fuse.split.cut.plan import Plan
from tflite_fuse.split.fragments.encode import encode_plan
from tflite_fuse.split.fragments.operators import operators_of
from tflite_fuse.split.needs import Accountant
from tflite_fuse.split.verify.devices import LocalDevices
from tflite_fuse.split.verify.execute import PlanRun
from tflite_fuse.split.verify.validate import check_plan


@dataclass(frozen=True)
class Verified:
    """Results of the comparison.

    Attributes:
        runtime, version: of the whole model's run.
        inputs: number of inferences.
        witnesses: implementations that ran the plan.
        first_difference: None exactly if all bytes of all outputs are equal.
    """

    runtime: str
    version: str
    inputs: int
    witnesses: tuple[str, ...]
    first_difference: str | None

    @property
    def bit_exact(self) -> bool:
        return self.first_difference is None


def verify_plan(
    network: Network,
    plan: Plan,
    accountant: Accountant,
    *,
    inputs: int = 4,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Verified:
    """Check the plan's declarations, run it on generated inputs and compare with TFLM, byte by byte.

    Every worker's fragment runs in the device library's worker, compiled for this machine; messages are passed within
    this process. The last input also runs in numpy, stage by stage.

    Raises:
        BlockError: a worker refuses its fragment (a defect of this package).
        PlanError: the plan contradicts itself or the network.
        RuntimeUnavailableError: TFLM or a C compiler is not installed.
        ModelError: TFLM refuses the model.
    """
    check_plan(network, plan)
    samples = generate_inputs(network.model, inputs, seed)
    expected = tflm.run(serialize_model(network.model), samples).outputs
    operators = operators_of(network)
    by_library = LocalDevices(encode_plan(network, plan, accountant.parts), operators)
    in_numpy = PlanRun(network, plan, lambda node, arrays: operators.run(network.nodes[node].operator, arrays))
    runs = {"the device library's worker": by_library.outputs, "numpy": in_numpy.outputs}
    difference = None
    for index, (arrays, wanted) in enumerate(zip(samples, expected, strict=True)):
        given = [np.frombuffer(np.ascontiguousarray(array).tobytes(), np.int8) for array in arrays]
        for name, run in runs.items():
            if name == "numpy" and index < len(samples) - 1:
                continue  # slow, and one input suffices for the second witness
            difference = difference or _difference(network, run(given), wanted, f"input {index} in {name}")
        if progress is not None:
            progress(index + 1, len(samples))
    version = tflm.runtime_version() or "unknown"
    return Verified(tflm.RUNTIME_NAME, version, len(samples), tuple(runs), difference)


def _difference(network: Network, found: Sequence[Int8Array], wanted: Sequence[object], where: str) -> str | None:
    for value, ours, theirs in zip(network.outputs, found, wanted, strict=True):
        other = np.frombuffer(np.ascontiguousarray(theirs).tobytes(), np.int8)
        different = np.flatnonzero(ours != other)
        if len(different):
            first = int(different[0])
            name = network.values[value].name
            return (
                f"byte {first} of output {name} is {ours[first]} instead of {other[first]} "
                f"({len(different)} bytes differ) for {where}"
            )
    return None
