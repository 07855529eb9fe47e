"""Proof that a rewritten model computes the original's bytes, without running either.

    certificate = validate(original, rewritten)
    certificate.proven, certificate.findings

Every written block is decoded and compared with the original's operators. Of the code that made the rewritten model,
this room shares only the structs of the options, the reader of model files and the checker of arena plans. Proven for
all inputs: constants, options and schedule implement the original. Kernels are tested by running them.
"""

from __future__ import annotations

from tflite_fuse.check.borders import check_outputs, match_inputs, match_outer_outputs
from tflite_fuse.check.certificate import BlockProof, Certificate, Finding
from tflite_fuse.check.correspondence import Correspondence, plan_findings
from tflite_fuse.check.operators import match_operators
from tflite_fuse.check.original.added.constants import with_open_shapes
from tflite_fuse.check.structure import buffer_findings, memory_findings, structure_findings, writing_findings
from tflite_fuse.errors import ModelError
from tflite_fuse.model.file import load_model
from tflite_fuse.model.schema import Model
from tflite_fuse.model.witness import Witness, read_witness

__all__ = ["BlockProof", "Certificate", "Finding", "validate"]


def validate(original: Model | bytes, rewritten: Model | bytes) -> Certificate:
    """Compare a rewritten model with its original and return the certificate.

    The witness in the rewritten file names the choices of the passes. A damaged witness is ignored with a note.

    Args:
        original: a model, or the bytes of its file.
        rewritten: the rewritten model, or the bytes of its file.

    Raises:
        ModelError: one of the files is damaged.
    """
    models = (load_model(m) if isinstance(m, bytes) else m for m in (original, rewritten))
    before, after = map(with_open_shapes, models)
    notes = []
    try:
        witness = read_witness(after, before)
    except ModelError as error:
        witness, notes = Witness(), [f"{error}; it is not used"]
    matching = Correspondence(before, after, witness, notes=notes)
    match_inputs(matching)
    match_outer_outputs(matching)
    match_operators(matching)
    check_outputs(matching)
    beside = (writing_findings, structure_findings, buffer_findings, plan_findings, memory_findings)
    findings = (*matching.findings, *(finding for look in beside for finding in look(matching)))
    same = tuple((a, b) for b, a in matching.values.items() if a < len(before.main.tensors))
    narrower = sum(value in matching.original.narrower for block in matching.blocks for _, value in block.values)
    notes_once = tuple(dict.fromkeys(matching.notes))
    findings = tuple({str(finding): finding for finding in findings}.values())  # each sentence once
    return Certificate(findings, tuple(matching.blocks), matching.plain, notes_once, same, narrower)
