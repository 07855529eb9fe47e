"""Plans as JSON (``schemas/plan.schema.json``), and the number that identifies a plan.

The number is a hash of the plan and the model's bytes: two devices with the same number run parts of the same model in
the same way.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

from tflite_fuse.errors import PlanError
from tflite_fuse.split.cut.network import Network
from tflite_fuse.split.cut.plan import MOST_THRIFT, Phase, Plan, Step, Summed, Task, Transfer
from tflite_fuse.split.cut.regions import Box, Range, Region
from tflite_fuse.split.cut.sums import network_of_plan
from tflite_fuse.split.devices import COORDINATOR

SCHEMA = "tflite-fuse/plan/1"


PREDICTED = "predicted"
"""Key of the predicted times in ``plan.json``; devices ignore it."""


def plan_document(network: Network, plan: Plan, workers: Sequence[str], model: bytes) -> dict[str, Any]:
    """Return the content of ``plan.json`` without ``PREDICTED``.

    Args:
        network: of the plan's numbers (``network_of_plan``).
        plan: of the network.
        workers: their names.
        model: the model file's bytes.
    """
    sums = [{"node": each.node, "parts": list(map(list, each.parts))} for each in plan.sums]
    return {
        "schema": SCHEMA,
        "model_sha256": hashlib.sha256(model).hexdigest(),
        "strategy": plan.strategy,
        "workers": list(workers),
        "values": [
            {"name": tensor.name, "shape": [tensor.height, tensor.width, tensor.channels]} for tensor in network.values
        ],
        "nodes": [
            {"name": node.name, "inputs": list(node.inputs), "outputs": list(node.outputs)} for node in network.nodes
        ],
        "inputs": list(network.inputs),
        "outputs": list(network.outputs),
        **({"sums": sums} if sums else {}),
        "phases": [
            {
                "name": phase.name,
                "transfers": [_transfer(each) for each in phase.transfers],
                "tasks": [_task(each) for each in phase.tasks],
                "returned": [_transfer(each) for each in phase.returned],
            }
            for phase in plan.phases
        ],
    }


def plan_transfers(plan: Plan) -> Iterator[Transfer]:
    """Yield all transfers in the order of their numbers: phase by phase, those before the tasks, then the returned."""
    for phase in plan.phases:
        yield from (*phase.transfers, *phase.returned)


def read_document(document: Any, network: Network, model: bytes) -> Plan:
    """Return the plan of a document that was made for a model.

    Args:
        document: of ``plan.json``.
        network: of the model; the plan's may be larger (``network_of_plan``).
        model: the model file's bytes.

    Raises:
        PlanError: it is no such document, or belongs to another model. ``check_plan`` checks its consistency.
    """
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise PlanError(f"it is no plan of {SCHEMA}")
    if document.get("model_sha256") != hashlib.sha256(model).hexdigest():
        raise PlanError("it is the plan of another model")
    try:
        workers = document["workers"]
        phases = tuple(
            Phase(
                str(each["name"]),
                tuple(map(_read_transfer, each["transfers"])),
                tuple(map(_read_task, each["tasks"])),
                tuple(map(_read_transfer, each["returned"])),
            )
            for each in document["phases"]
        )
        plan = Plan(len(workers), phases, str(document["strategy"]), tuple(map(_read_sums, document.get("sums", ()))))
        network = network_of_plan(network, plan)
        planned = {key: value for key, value in document.items() if key != PREDICTED}
        same = plan_document(network, plan, [str(name) for name in workers], model) == planned
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise PlanError(f"it is damaged ({type(error).__name__}: {error})") from error
    if not same:
        raise PlanError("it divides the model differently from this version of tflite-fuse: split again")
    _check_numbers(network, plan)
    return plan


def _check_numbers(network: Network, plan: Plan) -> None:
    values = [each.value for each in plan_transfers(plan)]
    tasks = [task for phase in plan.phases for task in phase.tasks]
    values += [value for task in tasks for value, _ in task.owned]
    nodes = [step.node for task in tasks for step in task.steps]
    if not all(0 <= value < len(network.values) for value in values):
        raise PlanError("it names a value that the model does not have")
    if not all(0 <= node < len(network.nodes) for node in nodes):
        raise PlanError("it names a step that the model does not have")


# ---- Parts of a document ----


def _transfer(transfer: Transfer) -> dict[str, Any]:
    source, target = (None if device == COORDINATOR else device for device in (transfer.source, transfer.target))
    return {"value": transfer.value, "from": source, "to": target, "region": _region(transfer.region)}


def _task(task: Task) -> dict[str, Any]:
    return {
        "worker": None if task.worker == COORDINATOR else task.worker,
        "steps": [{"node": step.node, "region": _region(step.region)} for step in task.steps],
        "owned": [{"value": value, "region": _region(region)} for value, region in task.owned],
        "copies": [],
        "thrift": task.thrift,
    }


def _region(region: Region) -> list[list[list[int]]]:
    return [[list(each) for each in box.ranges] for box in region]


def _read_sums(document: Any) -> Summed:
    return Summed(_count(document["node"]), tuple(map(_range, document["parts"])))


def _read_transfer(document: Any) -> Transfer:
    source, target = _device(document["from"]), _device(document["to"])
    return Transfer(_count(document["value"]), source, target, _read_region(document["region"]))


def _read_task(document: Any) -> Task:
    steps, owned = (
        tuple((_count(each[number]), _read_region(each["region"])) for each in document[name])
        for name, number in (("steps", "node"), ("owned", "value"))
    )
    thrift = _count(document["thrift"], MOST_THRIFT)
    return Task(_device(document["worker"]), tuple(Step(*each) for each in steps), owned, thrift)


def _read_region(document: Any) -> Region:
    region = tuple(Box(*map(_range, box)) for box in document)
    if not all(box.volume for box in region):
        raise ValueError("an empty box")
    return region


def _range(document: Any) -> Range:
    low, high = map(_count, document)
    return low, high


def _device(value: Any) -> int:
    return COORDINATOR if value is None else _count(value)


def _count(value: Any, most: int = (1 << 32) - 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise ValueError(f"{value!r} is no number from 0 to {most}")
    return value
