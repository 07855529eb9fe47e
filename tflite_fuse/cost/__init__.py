"""Costs of a block: closed-form estimate, exact schedule, predicted instructions and cycles."""
