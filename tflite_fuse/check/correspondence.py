"""Which tensors of the rewritten model hold the bytes of which of the original; check of the arena plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from tflite_fuse.check.certificate import BlockProof, Finding
from tflite_fuse.check.moves import add_gathers
from tflite_fuse.check.original.added.constants import add_known_numbers
from tflite_fuse.check.original.added.decomposed import add_groups, add_joins, add_pools_by_axes
from tflite_fuse.check.original.added.heads import add_heads
from tflite_fuse.check.original.added.narrower import add_narrower
from tflite_fuse.check.original.added.quantized import add_quantized
from tflite_fuse.check.original.added.transposes import add_by_columns, add_untransposed
from tflite_fuse.check.original.functions import unite_types
from tflite_fuse.check.original.values import Original, Step
from tflite_fuse.check.streaming.states import States, find_states, mixes
from tflite_fuse.errors import ModelError, PlanError
from tflite_fuse.ir.program import Overlap, has_effects, program_of, with_placed_variables
from tflite_fuse.memory.checker import fault_for_kernels
from tflite_fuse.memory.tflm.offline_plan import ONLINE, read_plan
from tflite_fuse.model.schema import Model, Quantization, Tensor
from tflite_fuse.model.witness import Witness


def plan_findings(matching: Correspondence) -> Iterator[Finding]:
    """Check that the arena plan keeps every tensor intact until its last reader.

    Outputs of blocks may overlap inputs as far as the replay of their schedules permits.
    """
    model = matching.after
    try:
        offsets = read_plan(model)
        if offsets is None:
            return
        graph = with_placed_variables(program_of(model), model, offsets)
    except (PlanError, ModelError) as error:
        yield Finding("arena plan", str(error))
        return
    inside = len(model.main.tensors)
    if any(offset != ONLINE for offset in offsets[inside:]):
        yield Finding("arena plan", "it places tensors of other subgraphs")
    fault, kernels = fault_for_kernels(graph, offsets[:inside], _strictest(matching.overlaps))
    if fault is not None:
        yield Finding("arena plan", fault)
    if kernels is not None:
        note = f"the arena plan lets operators write over their inputs: it is sound with {kernels} kernels"
        matching.notes.append(note)


def _strictest(overlaps: Sequence[Overlap]) -> tuple[Overlap, ...]:
    """Return one overlap per pair of tensors; where a tensor is several inputs of a block, the largest distance."""
    distances: dict[tuple[int, int], int] = {}
    for overlap in overlaps:
        pair = overlap.input, overlap.output
        distances[pair] = max(overlap.distance or 0, distances.get(pair, overlap.distance or 0))
    return tuple(Overlap(a, b, distance) for (a, b), distance in distances.items())


@dataclass
class Correspondence:
    """State of the comparison while it walks through the rewritten model.

    Attributes:
        before, after: the original and the rewritten model.
        witness: choices of the passes, from the rewritten model's file.
        original: the original as values.
        values: tensor of the rewritten model → a tensor of the original that holds the same bytes.
        outside: (streamed, number) of each input that blocks read from outside the arena → tensor of the original.
        replaced: float32 or uint8 input or output of the original → the int8 tensor that takes its place.
        findings, notes, blocks, plain: for the certificate.
        states: variables of the original that blocks may keep.
        dissolved: subgraphs of the original that only initialized those variables and are gone.
        uninitialized: (subgraph, operator) pairs that are gone although their subgraph stays.
        overlaps: distances by which outputs of blocks may overlap their inputs, from the replay of their schedules.
        gone: inputs of the original that are outside the arena.
        exchanged: map of the original → the same with rows and columns exchanged.
        placed: offsets of each input and output of blocks in the slow memory, None for the arena.
    """

    before: Model
    after: Model
    witness: Witness = field(default_factory=Witness)
    values: dict[int, int] = field(default_factory=dict)
    outside: dict[tuple[bool, int], int] = field(default_factory=dict)
    replaced: dict[int, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    blocks: list[BlockProof] = field(default_factory=list)
    plain: int = 0
    states: States = field(default_factory=States)
    dissolved: set[int] = field(default_factory=set)
    uninitialized: frozenset[tuple[int, int]] = frozenset()
    overlaps: list[Overlap] = field(default_factory=list)
    placed: dict[int, set[int | None]] = field(default_factory=dict)
    exchanged: dict[int, int] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.original = Original(self.before)
        add_known_numbers(self.original)
        add_quantized(self.original)
        add_untransposed(self.original)
        add_groups(self.original)
        add_heads(self.original)
        add_gathers(self.original)
        add_joins(self.original)
        add_pools_by_axes(self.original)
        self.states = find_states(self.original)
        for step in mixes(self.original, self.states):
            self.original.add_step(step)
        add_narrower(self.original, self.witness.kept)
        self.exchanged = add_by_columns(self.original) if self.witness.columns else {}
        unite_types(self.original)
        self.original.unite_constants()
        _unite_twins(self.original)

    def report(self, where: str, what: str, expected: object = None, actual: object = None) -> None:
        """Add a finding."""
        self.findings.append(Finding(where, what, expected=expected, actual=actual))

    def same(self, tensor: int, theirs: int) -> bool:
        """Return whether a tensor of the rewritten model is known to hold the bytes of one of the original."""
        return tensor in self.values and self.original.value(self.values[tensor]) == self.original.value(theirs)

    def check_type(self, where: str, tensor: int, theirs: int) -> None:
        """Report a tensor whose type differs from that of the original's tensor with the same value."""
        rewritten = self.after.main.tensors[tensor]
        if rewritten.type != self.original.tensors[theirs].type:
            self.report(where, f"type of tensor {rewritten.name}", self.original.tensors[theirs].type, rewritten.type)

    def check_tensors(self, where: str, tensors: Iterable[int]) -> None:
        """Report tensors whose type, shape, quantization or name differ from the original's with the same bytes.

        An int8 tensor may have the name of the float32 or uint8 tensor that it replaces. A tensor added by the rewrite
        may have any name.
        """
        for tensor in tensors:
            if not self._is_among_its_own(tensor):
                name, theirs = self.after.main.tensors[tensor].name, self.original.tensors[self.values[tensor]].name
                self.report(where, f"type, shape, quantization or name of tensor {name} differ from those of {theirs}")

    def _is_among_its_own(self, tensor: int) -> bool:
        rewritten = self.after.main.tensors[tensor]
        for member in self.original.members(self.values[tensor]):
            theirs = self.original.tensors[member]
            names = {theirs.name, *(self.before.main.tensors[f].name for f, i in self.replaced.items() if i == member)}
            is_added = member >= len(self.before.main.tensors)
            if (is_added or rewritten.name in names) and same_fields(rewritten, theirs):
                return True
        return False


def reads_alike(a: Tensor, b: Tensor, *, shaped: bool = True) -> bool:
    """Return whether an operator reads the same values from two tensors of the same bytes: scales and shapes match.

    Args:
        shaped: whether the operator depends on shapes.
    """
    return _as_read(a, shaped) == _as_read(b, shaped)


def _as_read(tensor: Tensor, shaped: bool) -> Tensor:
    quantization = None if tensor.quantization is None else replace(tensor.quantization, min=None, max=None)
    quantization = None if quantization == Quantization() else quantization
    shape = tensor.dims if shaped else None
    return replace(
        tensor, buffer=0, name=None, shape=shape, shape_signature=None, has_rank=False, quantization=quantization
    )


def same_fields(a: Tensor, b: Tensor) -> bool:
    """Return whether two tensors are equal in all fields but name and buffer number."""
    return replace(a, buffer=0, name=None) == replace(b, buffer=0, name=None)


def _unite_twins(original: Original) -> None:
    """Unite the outputs of operators of the file that compute the same of the same values.

    Converters write one QUANTIZE of a constant for each of its readers; any of them may take another's place.
    """
    model, seen = original.model, dict[tuple[object, ...], list[Step]]()
    for step, operator in zip(original.steps, model.main.operators, strict=False):
        if step.name.startswith("CUSTOM:") or has_effects(model, model.main, operator):
            continue
        read = step.name, *(original.value(tensor) if tensor >= 0 else tensor for tensor in step.inputs)
        alike = seen.setdefault(read, [])
        for twin in (each for each in alike if _are_twins(original, each, step)):
            for a, b in zip(twin.outputs, step.outputs, strict=True):
                original.unite(a, b)
        alike.append(step)


def _are_twins(original: Original, a: Step, b: Step) -> bool:
    """Return whether two operators that read the same values have equal codes, options, operands and outputs."""
    bare = [replace(each.operator, opcode_index=0, inputs=None, outputs=None) for each in (a, b)]
    read = [[original.tensors[tensor] for tensor in each.inputs if tensor >= 0] for each in (a, b)]
    written = [[original.tensors[tensor] for tensor in each.outputs] for each in (a, b)]
    return (
        a.code == b.code
        and bare[0] == bare[1]
        and len(written[0]) == len(written[1])
        and all(map(reads_alike, *read))
        and all(map(same_fields, *written))
    )
