"""Which rules the order search may use. All of them keep the optimum; switching one off shows what it buys."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OrderRules:
    """Flags of the order search.

    Attributes:
        merge: run operators back to back where an optimal order may (``merging``).
        twins: fix the order of chains of operators that are copies of each other (``twins``).
        split: solve the pieces between forced sets one by one (``pieces``).
        run_at_once: never branch on a unit that fits under the bound and leaves no more live (``two_ended_search``).
        valley: commit to the first state with no more live than at the last committed one (``two_ended_search``).
        both_ends: search from the end too; the end that is exhausted first proves the bound (``two_ended_search``).
        flow_bound: raise the bound by minimum cuts if the search does not end quickly (``min_cut_bounds``).
        probe: if half the effort is spent, look for good orders under guessed bounds (``within_budget``).
    """

    merge: bool = True
    twins: bool = True
    split: bool = True
    run_at_once: bool = True
    valley: bool = True
    both_ends: bool = True
    flow_bound: bool = True
    probe: bool = True


ALL_RULES = OrderRules()
