"""The passes of a rewrite, made from its options."""

from __future__ import annotations

from collections.abc import Callable, Collection

from tflite_fuse.emit.in_model import block_overlaps
from tflite_fuse.ir.program import Overlap
from tflite_fuse.memory.budget import Budget
from tflite_fuse.model.schema import Model
from tflite_fuse.model.types import TensorType
from tflite_fuse.notes import Note
from tflite_fuse.passes.base import Pass, PassResult, run_passes
from tflite_fuse.passes.fusing.fuse import Fuse, FuseSpelled
from tflite_fuse.passes.int8_borders import Int8Borders
from tflite_fuse.passes.options import FuseOptions
from tflite_fuse.passes.plan import Plan
from tflite_fuse.passes.preparing.channels_last import ChannelsLast
from tflite_fuse.passes.preparing.constant_channels import Accepts, ConstantChannels
from tflite_fuse.passes.preparing.dilate import Dilate
from tflite_fuse.passes.preparing.fold_constants import FoldConstants
from tflite_fuse.passes.preparing.heads import Heads
from tflite_fuse.passes.preparing.named_ends import NamedEnds
from tflite_fuse.passes.preparing.quantize_first import QuantizeFirst
from tflite_fuse.passes.preparing.sink_transpose import SinkTranspose
from tflite_fuse.passes.preparing.spell_out import spell_out
from tflite_fuse.passes.preparing.straighten import OwnPads, Straighten
from tflite_fuse.passes.reorder import Reorder
from tflite_fuse.passes.streaming.mixed_depthwise import MixedDepthwise
from tflite_fuse.passes.streaming.rings import Rings
from tflite_fuse.search.schemes import Scheme


def make_passes(
    options: FuseOptions,
    measure: Callable[[Model], int | None] | None,
    budget: Budget,
    *,
    states: bool = True,
    accepts: Accepts | None = None,
    outside: Collection[str] = (),
    original: Model | None = None,
) -> list[Pass]:
    """Return the passes to run, in order.

    Args:
        options: options of the rewrite.
        measure: function that returns the bytes of the head in a real runtime, for the plan.
        budget: work of all searches together.
        states: whether blocks may keep variables of a streaming model.
        accepts: function from the model with and without some channels to whether they may be removed; None for always.
        outside: names of tensors; the operators that write them are in no block.
        original: the model that compute factors refer to; None for the one that is fused.
    """

    def overlaps(model: Model) -> tuple[Overlap, ...]:
        return block_overlaps(model) if options.shares else ()

    by_name: dict[str, list[Pass]] = {
        # Fusing also tries the order in the file, so it orders operators itself.
        "reorder": [] if "fuse" in options.passes else [Reorder(budget, options.in_place, tuning=options.tuning)],
        "fuse": [
            *_preparing(accepts, states=states and options.scheme is Scheme.AUTO),
            FuseSpelled(Fuse(options, budget, frozenset(outside), original)),
        ],
        "plan": [Plan(options.arena(), overlaps, budget, measure)],
    }
    borders: list[Pass] = [Int8Borders()] if options.int8_io else []
    return borders + [step for name in options.passes for step in by_name[name]]


def _preparing(accepts: Accepts | None = None, *, states: bool = False) -> tuple[Pass, ...]:
    """Return the passes before the fuse pass, with those that make states of variables if ``states``."""
    streaming: tuple[Pass, ...] = (Rings(), MixedDepthwise()) if states else ()
    normalising = QuantizeFirst(), Heads(), ChannelsLast(), Straighten(), SinkTranspose(), OwnPads()
    return NamedEnds(), ConstantChannels(accepts), FoldConstants(), *streaming, *normalising


def prepared(model: Model, *, states: bool = False) -> Model:
    """Return a model as the fuse pass of a rewrite receives it, in which ``Dilate`` comes first."""
    return run_passes(model, [Dilate(), *_preparing(states=states)])[0]


def tidied(model: Model, accepts: Accepts) -> tuple[Model, list[Note]]:
    """Return a model in the best form for splitting: as the fuse pass receives it, groups divided.

    Args:
        model: any model.
        accepts: function that returns whether two models compute the same; rejected steps are skipped.

    Returns:
        The model, and notes of the changes.
    """

    def spelled(before: Model) -> PassResult:
        graph = before.main
        real = {index for index, tensor in enumerate(graph.tensors) if tensor.type == TensorType.FLOAT32}
        whole = [index for index, operator in enumerate(graph.operators) if real.intersection(operator.outputs or ())]
        spelled_out = spell_out(before, whole)  # operators on float32 run whole, in the runtime
        return PassResult(spelled_out.model, spelled_out.model is not before, spelled_out.notes)

    notes = list[Note]()
    for step in (*(each.run for each in _preparing()), spelled):
        result = step(model)
        if result.changed and accepts(model, result.witnessed):
            model = result.model
            notes += result.notes
    return model, notes
