"""Is a split bit-exact? All fragments run on this machine, twice, against the whole model in TFLM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tflite_fuse.fusion.block.stages import Int8Array
from tflite_fuse.memory.tflm.offline_plan import remove_plan
from tflite_fuse.model.edit import prune, replace_main
from tflite_fuse.model.file import serialize_model
from tflite_fuse.model.schema import Model
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.inputs import generate_inputs, input_specs
from tflite_fuse.runtime.library.host import run_block
from tflite_fuse.split.costs.needs import Accountant
from tflite_fuse.split.cut.network import Network
from tflite_fuse.split.cut.plan import Plan, Task
from tflite_fuse.split.verify.execute import DeviceMemory, PlanRun, RunWhole
from tflite_fuse.split.verify.validate import check_plan


@dataclass(frozen=True)
class Verified:
    """What was found.

    Attributes:
        runtime, version: what ran the whole model.
        inputs: how many inferences.
        witnesses: what ran the fragments.
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
    """Check what the plan declares, then run it on generated inputs and compare with TFLM, byte by byte.

    The fragments' blocks run in the C library compiled for this machine; the first input also in numpy, stage by stage.

    Raises:
        PlanError: the plan contradicts itself or the network.
        RuntimeUnavailableError: TFLM or a C compiler is not installed.
        ModelError: TFLM refuses the model.
    """
    check_plan(network, plan)
    samples = generate_inputs(network.model, inputs, seed)
    expected = tflm.run(serialize_model(network.model), samples).outputs
    operator = WholeOperators(network).run
    by_library = LibraryRun(network, plan, accountant, operator)
    runs: dict[str, PlanRun] = {"the device library": by_library, "numpy": PlanRun(network, plan, operator)}
    difference = None
    for index, (arrays, wanted) in enumerate(zip(samples, expected, strict=True)):
        given = [np.frombuffer(np.ascontiguousarray(array).tobytes(), np.int8) for array in arrays]
        for name, run in runs.items():
            if name == "numpy" and index < len(samples) - 1:
                continue  # slow, and one input with all of it different is enough for a second witness
            difference = difference or _difference(network, run.outputs(given), wanted, f"input {index} in {name}")
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


class LibraryRun(PlanRun):
    """A plan whose tasks run as the blocks a device would run, in the C library."""

    def __init__(self, network: Network, plan: Plan, accountant: Accountant, operator: RunWhole) -> None:
        super().__init__(network, plan, operator)
        self._accountant = accountant

    def _run_task(self, task: Task, memory: DeviceMemory) -> None:
        position = {step.node: index for index, step in enumerate(task.steps)}
        waiting = [step.node for step in task.steps if self.network.nodes[step.node].stage is None]
        for part in self._accountant.parts(task):
            while waiting and position[waiting[0]] < position[part.pieces[0].node]:
                self._run_whole(waiting.pop(0), memory)
            arrays = [memory.load(value, box) for value, box in part.inputs]
            encoded = part.plan.encoded
            outputs = run_block(encoded.options, encoded.constants, arrays)
            for (value, box), array in zip(part.outputs, outputs, strict=True):
                memory.store(value, box, array.reshape(box.shape))
        for node in waiting:
            self._run_whole(node, memory)


class WholeOperators:
    """Runs operators that have no stage in TFLM, each as a model of its own."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self._models: dict[int, Model] = {}

    def run(self, node: int, inputs: Sequence[Int8Array]) -> list[Int8Array]:
        """Outputs as bytes, flat, from inputs as bytes. Raises ModelError: TFLM does not run the operator."""
        if node not in self._models:
            self._models[node] = _alone(self.network, node)
        model = self._models[node]
        typed = [
            np.frombuffer(array.tobytes(), spec.dtype).reshape(spec.shape)
            for array, spec in zip(inputs, input_specs(model), strict=True)
        ]
        outputs = tflm.run(serialize_model(model), [typed]).outputs[0]
        return [np.frombuffer(np.ascontiguousarray(array).tobytes(), np.int8) for array in outputs]


def _alone(network: Network, index: int) -> Model:
    """A model of one operator."""
    model, node = remove_plan(network.model), network.nodes[index]
    graph = replace(
        model.main,
        operators=(model.main.operators[node.operator],),
        inputs=tuple(network.tensors[value] for value in node.inputs),
        outputs=tuple(network.tensors[value] for value in node.outputs),
    )
    return prune(replace_main(replace(model, signature_defs=None), graph))
