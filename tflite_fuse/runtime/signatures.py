"""Names that a model's signatures give its inputs: the author's names, where tensors have a converter's."""

from __future__ import annotations

from tflite_fuse.model.schema import Model


def signature_input_names(model: Model) -> tuple[tuple[str, ...], ...]:
    """Return the input names, in order, of each signature of the main subgraph that names all inputs uniquely."""
    found = []
    for signature in model.signature_defs or ():
        names = {entry.tensor_index: entry.name or "" for entry in signature.inputs or ()}
        if signature.subgraph_index == 0 and all(names.get(index) for index in model.main.inputs):
            called = tuple(names[index] for index in model.main.inputs)
            if len(set(called)) == len(called):
                found.append(called)
    return tuple(dict.fromkeys(found))
