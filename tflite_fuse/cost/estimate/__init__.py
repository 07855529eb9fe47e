"""Closed-form costs of a block under many configurations at once; scratch is an upper bound."""
