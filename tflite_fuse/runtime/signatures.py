"""What a model's signatures call its inputs: names of who wrote it, where tensors have a converter's own."""

from __future__ import annotations

from tflite_fuse.model.schema import Model


def signature_input_names(model: Model) -> tuple[tuple[str, ...], ...]:
    """Of each signature of the main subgraph that names all its inputs, once each: the names, in the inputs' order."""
    found = []
    for signature in model.signature_defs or ():
        names = {entry.tensor_index: entry.name or "" for entry in signature.inputs or ()}
        if signature.subgraph_index == 0 and all(names.get(index) for index in model.main.inputs):
            called = tuple(names[index] for index in model.main.inputs)
            if len(set(called)) == len(called):
                found.append(called)
    return tuple(dict.fromkeys(found))
