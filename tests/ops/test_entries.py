"""Each operator that is a table has an entry, a rule of the proof and a row of tests; missing ones are named."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from scripts.write_operators import ABSENT, operators
from tests.drawing.table_rows import BYTE_ROWS, LITERT_ROWS, REAL_PAIR_ROWS, REAL_ROWS
from tflite_fuse.check.original import functions, meanings, reals
from tflite_fuse.check.original.values import RENAMING
from tflite_fuse.ops.kinds.lookup import FUNCTIONS
from tflite_fuse.ops.kinds.real import OF_ONE, OF_TWO
from tflite_fuse.ops.table import KINDS, LOWERINGS
from tflite_fuse.runtime.registration import registered

BYTES = {*FUNCTIONS, "QUANTIZE"}
BYTE_RULES = {name for name, rule in functions.RULES.items() if rule.operands == 1}
REAL_RULES = [{name for name, rule in reals.RULES.items() if rule.operands == count} for count in (1, 2)]


@pytest.mark.parametrize(
    ("names", "others", "missing"),
    [
        (BYTES, BYTE_RULES, "a rule in RULES of check/original/functions.py"),
        (BYTE_RULES, BYTES, "an entry in FUNCTIONS of ops/kinds/lookup.py"),
        (BYTES, {*BYTE_ROWS, *LITERT_ROWS}, "a row in BYTE_ROWS of tests/drawing/table_rows.py"),
        (OF_ONE, REAL_RULES[0], "a rule in RULES of check/original/reals.py"),
        (REAL_RULES[0], OF_ONE, "an entry in OF_ONE of ops/kinds/real.py"),
        (OF_ONE, REAL_ROWS, "a row in REAL_ROWS of tests/drawing/table_rows.py"),
        (OF_TWO, REAL_RULES[1], "a rule of two operands in RULES of check/original/reals.py"),
        (REAL_RULES[1], OF_TWO, "an entry in OF_TWO of ops/kinds/real.py"),
        (OF_TWO, REAL_PAIR_ROWS, "a row in REAL_PAIR_ROWS of tests/drawing/table_rows.py"),
    ],
)
def test_a_table_has_an_entry_a_rule_and_a_row(names: Collection[str], others: Collection[str], missing: str) -> None:
    lacking = sorted(set(names) - set(others))
    assert not lacking, f"{', '.join(lacking)}: add {missing}"


def test_every_operator_blocks_hold_has_a_rule_of_the_proof() -> None:
    known = {*meanings.RULES, *functions.RULES, *RENAMING}
    lacking = sorted(name for name in LOWERINGS if name not in known and not name.startswith("CUSTOM:"))
    assert not lacking, f"{', '.join(lacking)}: add a rule in RULES of check/original/meanings.py"


def test_operators_of_two_values_that_tables_take_in_have_a_rule() -> None:
    names = {name for kind in KINDS.values() if kind.by_value and kind.inputs == (2, 2) for name in kind.lowerings}
    lacking = sorted(names - functions.RULES.keys())
    assert not lacking, f"{', '.join(lacking)}: add a rule of two operands in RULES of check/original/functions.py"


def test_the_page_of_operators_lists_every_one_in_blocks_or_tables() -> None:
    listed = [row.split("|")[1].strip() for row in operators().splitlines() if "block" in row or "table" in row]
    lacking = sorted({*BYTES, *OF_ONE, *OF_TWO} - set(listed))
    assert not lacking, f"{', '.join(lacking)}: run scripts/write_operators.py"


def test_the_page_of_operators_has_a_row_for_every_one_of_the_runtime() -> None:
    rows = {row.split("|")[1].strip(): row.split("|")[2:7] for row in operators().splitlines()[2:]}
    lacking = sorted({name.removeprefix("CUSTOM:") for name in registered()} - rows.keys())
    assert not lacking, f"{', '.join(lacking)}: run scripts/write_operators.py"
    ways = {way.strip() for row in rows.values() for cell in row for way in cell.split(",")}
    assert ways == {"block", "table", "around", "refused", ABSENT}
