"""Proof of files without a witness, as versions up to 0.4 wrote them: today's passes supply one.

The guess is checked like any witness, so a wrong guess proves nothing.
"""

from __future__ import annotations

from tflite_fuse.check import Certificate, validate
from tflite_fuse.model.schema import Model
from tflite_fuse.model.witness import has_witness, set_witness
from tflite_fuse.passes.base import witness_of
from tflite_fuse.passes.preparing.constant_channels import ConstantChannels


def validate_any(original: Model, rewritten: Model) -> Certificate:
    """Compare a rewritten model of any version with its original, as ``check.validate`` does.

    Raises:
        ModelError: one of the models is damaged.
    """
    certificate = validate(original, rewritten)
    if certificate.proven or has_witness(rewritten):
        return certificate
    guess = witness_of([ConstantChannels().run(original)])
    return validate(original, set_witness(rewritten, guess)) if guess.kept else certificate
