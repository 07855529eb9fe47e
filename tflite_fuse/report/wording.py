"""The sentence of every note, and one sentence for notes that share a reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from tflite_fuse.notes import Note

_ORDERS = ("order of operators", "order of operators by arena")
"""Reasons of notes about the order, of which only the last is shown: earlier ones are of intermediate models."""


def sentence(note: Note) -> str:
    """Return the sentence of a note, without a full stop.

    Raises:
        KeyError: no wording for its fate and reason.
    """
    wording = WORDING[note.fate, note.reason]
    if callable(wording):
        return wording(note)
    return wording.format(site=_site(note.operators), operators=" and ".join(note.operators), **note.details)


def sentences_of(notes: Iterable[Note]) -> tuple[str, ...]:
    """Return the sentence of every note."""
    return tuple(map(sentence, notes))


def grouped(notes: Sequence[Note]) -> tuple[str, ...]:
    """Return sentences, one for all sites that share a reason (``31 PRELU not fused: ...``) and one for the order."""
    order = [note for note in notes if note.reason in _ORDERS][-1:]
    alike: dict[tuple[str, str, str], list[Note]] = {}
    for note in notes:
        alike.setdefault(_group(note), []).append(note)
    texts: list[str] = []
    for note in notes:
        together = alike.get(_group(note), []) if note.fate in _GROUPED and note.operators else [note]
        if note.reason in _ORDERS and note not in order:
            continue
        if len(together) > 1:
            texts.append(_together(together))
        else:
            texts.append(sentence(note))
    return tuple(dict.fromkeys(texts))


_GROUPED = ("not fused", "kept")


def _group(note: Note) -> tuple[str, str, str]:
    return note.fate, note.reason, general(str(note.details.get("why", "")), str(note.details.get("tensor", "")))


def general(why: str, tensor: str) -> str:
    """Return a reason with "a tensor" in place of the named one, to group sites."""
    return why.replace(f"tensor {tensor}", "a tensor", 1) if tensor else why


def kind_of(label: str) -> str:
    """Return the kind of operator in a label (``model.types.operator_label``)."""
    kind, behind, _ = label.partition(" behind ")
    return kind if behind else label.rpartition("_")[0]


def _together(notes: Sequence[Note]) -> str:
    """Return one sentence for sites that differ only in their operators and tensors."""
    kinds: Counter[str] = Counter()
    for note in notes:
        alone = len(note.operators) == 1
        kinds[kind_of(note.operators[0]) if alone else "operators in a row"] += len(note.operators)
    first = notes[0]
    one = Note(("SITE",), first.fate, first.reason, {**first.details, "why": _group(first)[2]})
    what = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    return sentence(one).replace("SITE", what, 1)


def _site(labels: Sequence[str]) -> str:
    operators = tuple(dict.fromkeys(labels))  # a pass may have made several of one
    if len(operators) < 3:
        return " and ".join(operators)
    return f"{operators[0]} to {operators[-1]}"


def _listed(operators: Sequence[str]) -> str:
    return operators[0] if len(operators) == 1 else f"{operators[0]} and {len(operators) - 1} more"


def _fused(note: Note) -> str:
    details, alone = note.details, len(note.operators) == 1
    shapes = {
        "tiles": "in tiles of {tile_height} x {tile_width}",
        "strips": "in strips of width {tile_width}",
        "line buffers": "without recompute",
    }
    extra = details["extra_macs"]
    assert isinstance(extra, int)
    return "".join(
        (
            f"{_site(note.operators)}{' alone' * alone} fused {shapes[note.reason].format(**details)}: ",
            f"{details['scratch_bytes']:,} B of scratch",
            "" if alone else " instead of whole inner tensors",
            f"; {-extra:,} MACs fewer, as pixels no operator reads are skipped" if extra < 0 else "",
        )
    )


def _order(note: Note) -> str:
    details = note.details
    proof = "proven to be the least of any order"
    if not details["proven"]:
        proof = f"the lower bound is {details['bound_bytes']:,} B, and the search ended without a proof"
    if note.fate == "kept":
        return f"order of operators kept: its peak is {details['peak_bytes']:,} B, {proof}"
    return f"operators reordered: peak {details['peak_before_bytes']:,} B -> {details['peak_bytes']:,} B, {proof}"


def _planned(note: Note) -> str:
    details = note.details
    end = "the least this order of operators allows"
    if not details["proven"]:
        end = f"the lower bound is {details['bound_bytes']:,} B"
    begin = {
        "smaller head": "planned ({method}): the head shrinks from {head_before_bytes:,} to {head_bytes:,} B, ",
        "least already": "no plan written: the runtime's own planner needs {head_before_bytes:,} B already, ",
        "larger head": "no plan written: with it the runtime would need {head_bytes:,} B, without it "
        "{head_before_bytes:,} B; ",
    }
    return begin[note.reason].format(**details) + end


def _straightened(note: Note) -> str:
    removed = note.details["removed"]
    more = f": {removed} operators before them removed" if removed else ""
    return f"{_listed(note.operators)} read {note.details['values']} directly from their source{more}"


def _compared(note: Note) -> str:
    inside = note.details["inside"]
    what = "1 tensor between or in blocks was" if inside == 1 else f"{inside} tensors between and in blocks were"
    more = f"; {what} compared, too" if inside else ""
    return f"run on inputs of seed {note.details['seed']}{more}"


WORDING: Mapping[tuple[str, str], str | Callable[[Note], str]] = {
    # Fusing.
    ("fused", "tiles"): _fused,
    ("fused", "strips"): _fused,
    ("fused", "line buffers"): _fused,
    ("not fused", "operator"): "{site} not fused: {why}",
    ("not fused", "does not pay"): "{site} not fused: fusing does not pay at this point of the front",
    ("not fused", "budget"): "not fused: {why}",
    ("limited", "longest block"): "blocks of at most {longest:,} of the {count:,} operators were searched",
    ("expected", "instructions"): "{instructions:,} instructions of {target} expected, {factor:.3f} times those of "
    "its operators one by one in the same library; predictions were {error}",
    ("expected", "16-bit weights"): "16-bit weights take {flash_bytes:,} B more flash than 8-bit ones; they save time "
    "on cores with the DSP extension (Cortex-M4, M7, M33 ...) and cost time on others",
    ("offered", "more RAM"): "{more_bytes:,} B more would save {saved:.0%} of the expected {unit}: "
    "--max-ram {max_ram_bytes}",
    ("offered", "full int8"): "the model has {kind} operators; int8 needs less flash and, in all but the smallest "
    "models, less RAM: quantize the model that it was converted from to int8",
    ("offered", "other operators"): "TensorFlow Lite Micro lacks {names}: convert the model anew without",
    ("offered", "own operators"): "no project of an export registers {names}: a program of yours has to",
    ("offered", "fixed batch"): "recurrent layers are loops of TensorFlow's own operators, which TensorFlow Lite Micro "
    "lacks: convert the model anew with a batch of 1, so that an LSTM becomes one operator",
    ("offered", "pruning stripped"): "the wrappers of pruning multiply weights by their masks in every inference: "
    "convert the model anew after tensorflow_model_optimization's strip_pruning",
    ("kept", "input in the arena"): "input {tensor} cannot be {mode}: {why}",
    ("changed", "input copied"): "input {tensor} is copied into the arena, {copied_bytes:,} B: its rows in a block "
    "would need more, or no block can hold all its readers",
    # Order and plan.
    ("kept", "order of operators"): _order,
    ("changed", "order of operators"): _order,
    (
        "kept",
        "order of operators by arena",
    ): "order of operators kept: it needs {arena_bytes:,} B, the order of least peak {other_bytes:,} B",
    ("removed", "plan of another order"): "the offline memory plan in the file belonged to the old order and was "
    "dropped",
    ("planned", "smaller head"): _planned,
    ("not planned", "least already"): _planned,
    ("not planned", "larger head"): _planned,
    (
        "not planned",
        "same arena",
    ): "no plan written: {arena_bytes:,} B of arena are needed with one, too, to load the model",
    ("not planned", "obstacle"): "not planned: {why}",
    ("not planned", "obstacle, plan kept"): "not planned: {why}; the plan in the file was left as it is",
    ("kept", "plan"): "the plan in the file was kept: it needs {head_bytes:,} B, a new one {other_bytes:,} B",
    ("removed", "plan"): "the plan in the file was dropped: {why}",
    ("changed", "plan"): "the plan in the file was redone",
    ("warned", "unknown scratch"): "scratch buffers of {names} are not known: figures leave them out",
    # Preparing.
    ("changed", "signatures"): "signatures name the inputs and outputs of the model in place of tensors inside",
    ("changed", "groups"): "{site} is computed in blocks as {groups} convolutions, one for each group",
    ("changed", "heads"): "{site} is gone: each of {heads} heads of attention has operators of its own",
    ("changed", "by columns"): "maps are walked column by column, because they are wider than high",
    ("changed", "pooled by axes"): "{site} is computed over columns, then over rows, which keeps fewer pixels",
    ("changed", "rows joined"): "{site} is computed in blocks value by value from its inputs, padded to its shape",
    ("changed", "border"): "{side} {tensor} is int8 now, q standing for {scale:.9g} * (q - {zero_point}): {site} "
    "removed",
    ("kept", "border"): "{side} {tensor} stays {type}: {why}",
    ("kept", "all borders"): "int8 inputs and outputs were requested, but no other input or output is float32 or uint8",
    ("removed", "channels"): "{count:,} of {channels:,} channels are constant or never read and were removed",
    ("kept", "channels"): "{count:,} channels seem constant but could not be proven so: they stay",
    ("kept", "channels not searched"): "constant channels were not searched: there is {what}, and the limit is "
    "{most:,}",
    ("removed", "transposes around"): "{site} removed: the {inside} operators between them compute with channels last",
    ("removed", "transpose before means"): "{site} removed: the means behind it average over the axes of its input",
    ("removed", "transpose before weights"): "{site} removed: the weights of {readers} are in the order of its input",
    ("kept", "transpose"): "{site} kept: its readers are neither a chain of int8 means that undoes its order nor "
    "a FULLY_CONNECTED of all its values",
    ("changed", "own padding"): "{site} replaced by padding in each of the {readers} convolutions that read it",
    ("changed", "straightened"): _straightened,
    ("changed", "quantized first"): "{site} moved before {before}, which now copies int8 instead of float32",
    ("changed", "dilated convolution"): "{site} replaced by the dilated convolution that they spell out, because "
    "TensorFlow Lite Micro would {fault}; the result is compared with a model that has this convolution",
    ("changed", "constants"): lambda note: (
        f"{_listed(note.operators)} replaced by constants: no input changes their results"
    ),
    # Streams.
    ("changed", "state"): lambda note: (
        f"{_listed(note.operators)}: earlier steps are kept in rings of fused blocks and no longer copied"
    ),
    ("kept", "variable"): "{site} cannot be kept in a ring of a block: {why}",
    ("changed", "depthwise of a state"): lambda note: (
        f"{', '.join(note.operators)}: depthwise convolutions of parts of a ring are joined"
    ),
    ("changed", "stream"): "a stream that takes {hop} of {window} steps a call and keeps {rings} rings: {macs:,} of "
    "{macs_of_window:,} MACs a call, {factor:.3f}",
    ("expected", "full window"): "from call {calls} on the window is full; earlier, and after a reset, missing "
    "steps count as the input's zero point",
    ("kept", "whole window"): "{site} and its readers need the whole window: {why}",
    # Rewriting.
    ("kept", "file"): "left as it is: {why}",
    ("kept", "file, larger otherwise"): "rewritten, it would need an arena of {arena_bytes:,} bytes instead of "
    "{before_bytes:,}",
    (
        "expected",
        "loading",
    ): "the model uses {used_bytes:,} bytes of its arena after loading, and {loading_bytes:,} while it loads",
    ("limited", "time"): "the time limit of {seconds:g} s ended a search: with more time the arena may be smaller",
    (
        "limited",
        "no proof",
    ): "{site}, which writes {tensor}, stays outside of blocks, because a block with it could not "
    "be proven ({why}): please report this sentence together with the model",
    ("limited", "no proof of blocks"): "no fused blocks were made, because they could not be proven ({why}): please "
    "report this sentence together with the model",
    ("kept", "file, not proven"): "left as it is ({why}): please report this sentence together with the model",
    ("limited", "work"): "the searches used up their budget: the last candidates were placed without a search",
    ("changed", "input outside the arena"): "input {tensor} ({type} {shape}{quantization}) is {mode}: {rows} rows of "
    "{columns} pixels of {channels} {elements} are read {order} from {source}, outside the arena",
    ("warned", "metadata"): "the metadata about inputs outside the arena is wrong: number {number} is {says}, blocks "
    "read {does}",
    (
        "warned",
        "unsound plan",
    ): "the offline memory plan in the file is unsound, so outputs of the model may be wrong: {why}",
    ("limited", "first subgraph"): "the table shows the first of {count} subgraphs",
    # Runs.
    ("run", "inputs"): _compared,
    ("run", "fewer channels"): "{count} tensors in blocks lack channels of the original and were not compared by "
    "themselves",
    (
        "run",
        "blocks by reference",
    ): "{run} of {blocks} blocks were run by themselves in the C library on this machine and "
    "gave the bytes of this package's numpy reference; that is not TensorFlow Lite Micro",
    ("run", "calls"): "run over two sequences of {calls} calls, one with a reset, too",
    ("run", "stream"): "run over two sequences of {calls} calls, seed {seed}, beside the model over the window",
    ("run", "stands for"): "{runtime} gave the same bytes for that model and the rewritten one on {inputs} inputs",
    ("warned", "rights"): "the runtime ran with rights it does not need: {rights}",
    ("warned", "blocks not run"): "no block was compared with this package's numpy reference: {why}",
    ("warned", "inputs say little"): "{why}",
    ("warned", "moved input"): "--input {mode} saves nothing: --input resident needs {resident_bytes:,} B",
    ("warned", "runtime refuses"): "{why}",
    ("warned", "no second witness"): "no second witness: {why}",
}
"""(fate, reason) → a template over ``details``, ``site`` (``A`` or ``A to B``) and ``operators``, or a function."""
