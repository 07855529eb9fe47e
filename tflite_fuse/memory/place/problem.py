"""The placement problem: items with sizes and lifetimes, and a rule for each pair that is live together.

Sizes and offsets are in units of the alignment (16 bytes), which keeps the numbers small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from tflite_fuse.ir.liveness import Lifetime, lifetimes
from tflite_fuse.ir.program import Overlap, Program, graph_overlaps, require_sound


@dataclass(frozen=True)
class Rule:
    """Range of starts forbidden to an item by the start of another.

    If the other item starts at ``s``, starts strictly between ``s + below`` and ``s + above`` are forbidden. For two
    items that must not overlap, ``below`` is minus the item's own size and ``above`` the other's size.

    Attributes:
        other: index of the other item.
        below: units, usually negative.
        above: units.
        same_start: whether starting exactly where the other item starts is allowed nevertheless.
        sharing: whether the two may share memory in some position.
    """

    other: int
    below: int
    above: int
    same_start: bool = False
    sharing: bool = False


@dataclass(frozen=True)
class Problem:
    """Items to place.

    Attributes:
        tensors: tensor of each item.
        sizes: units of each item.
        lives: first and last step of each item, both inclusive.
        rules: for each item, its rules about items live at the same time. Every pair appears on both sides.
        lower_bound: lower bound in units over all placements.
    """

    tensors: tuple[int, ...]
    sizes: tuple[int, ...]
    lives: tuple[Lifetime, ...]
    rules: tuple[tuple[Rule, ...], ...]
    lower_bound: int

    @cached_property
    def shares(self) -> bool:
        """Return whether any pair may share memory."""
        return any(rule.sharing for rules in self.rules for rule in rules)

    @cached_property
    def forbidden(self) -> tuple[tuple[tuple[int, int, int, bool], ...], ...]:
        """Return ``rules`` as tuples, for speed: (other, below, above, whether equal starts are allowed between)."""
        return tuple(
            tuple((r.other, r.below, r.above, r.same_start and r.below < 0 < r.above) for r in rules)
            for rules in self.rules
        )

    @cached_property
    def sharing(self) -> tuple[tuple[tuple[int, tuple[int, ...]], ...], ...]:
        """Return for each item its possible partners, with the distances between starts to try."""
        return tuple(
            tuple((r.other, (0, r.below, r.above) if r.same_start else (r.below, r.above)) for r in rules if r.sharing)
            for rules in self.rules
        )

    @cached_property
    def each_pair(self) -> tuple[tuple[int, int, int, int, Rule], ...]:
        """Return (item, other, below, above, rule), every pair once."""
        return tuple(
            (item, rule.other, rule.below, rule.above, rule)
            for item, rules in enumerate(self.rules)
            for rule in rules
            if rule.other <= item
        )

    @cached_property
    def pairs(self) -> int:
        """Return the steps that one placement of all items costs: items plus rules."""
        return len(self.sizes) + sum(len(rules) for rules in self.rules)


@dataclass(frozen=True)
class _Permission:
    """Permission of one pair: units of diagonal overlap (``distance``) or None, and whether the starts may be equal."""

    distance: int | None = None
    same_start: bool = False


_Permissions = dict[tuple[int, int], _Permission]


def build_problem(graph: Program, overlaps: Sequence[Overlap], alignment: int) -> Problem:
    """Return the placement problem of a graph, without residents, empty tensors and unused tensors.

    Raises:
        PlanError: an overlap joins tensors that are not input and output of one operator.
    """
    require_sound(graph, tuple(overlaps))
    alive = lifetimes(graph)
    resident = set(graph.resident)
    lives: list[Lifetime] = []
    tensors: list[int] = []
    for tensor, life in enumerate(alive):
        if life is not None and graph.sizes[tensor] > 0 and tensor not in resident:
            tensors.append(tensor)
            lives.append(life)
    item = {tensor: index for index, tensor in enumerate(tensors)}
    sizes = tuple(-(-graph.sizes[tensor] // alignment) for tensor in tensors)
    permissions = _permissions(graph, (*graph_overlaps(graph), *overlaps), item, lives, alignment)
    return Problem(
        tensors=tuple(tensors),
        sizes=sizes,
        lives=tuple(lives),
        rules=_rules(sizes, lives, permissions),
        lower_bound=_lower_bound(sizes, lives, permissions),
    )


def _permissions(
    graph: Program, overlaps: Sequence[Overlap], item: dict[int, int], lives: Sequence[Lifetime], alignment: int
) -> _Permissions:
    """Return permissions by (input item, output item) for inputs that die in the operator that writes the output."""
    permissions: _Permissions = {}
    kept = {*graph.outputs, *graph.resident}
    for overlap in overlaps:
        if overlap.input in kept or overlap.input not in item or overlap.output not in item:
            continue
        pair = item[overlap.input], item[overlap.output]
        if lives[pair[0]][1] != lives[pair[1]][0] or lives[pair[0]][0] == lives[pair[0]][1] >= 0:
            continue
        earlier = permissions.get(pair, _Permission())
        if overlap.distance is None:
            permissions[pair] = _Permission(earlier.distance, True)
        else:
            distance = -(-overlap.distance // alignment)
            least = distance if earlier.distance is None else min(distance, earlier.distance)
            permissions[pair] = _Permission(least, earlier.same_start)
    return permissions


def _rules(sizes: Sequence[int], lives: Sequence[Lifetime], permissions: _Permissions) -> tuple[tuple[Rule, ...], ...]:
    rules: list[list[Rule]] = [[] for _ in sizes]
    active: list[int] = []
    for index in sorted(range(len(sizes)), key=lambda i: lives[i]):
        active = [other for other in active if lives[other][1] >= lives[index][0]]
        for other in active:
            for pair in ((index, other), (other, index)):
                if pair in permissions:
                    _add_permitted(rules, sizes, pair, permissions[pair])
                    break
            else:
                rules[index].append(Rule(other, -sizes[index], sizes[other]))
                rules[other].append(Rule(index, -sizes[other], sizes[index]))
        active.append(index)
    return tuple(map(tuple, rules))


def _add_permitted(
    rules: list[list[Rule]], sizes: Sequence[int], pair: tuple[int, int], permission: _Permission
) -> None:
    """Add the rules of an input and an output that may overlap: the output starts at least ``reach`` units below."""
    source, target = pair
    reach = sizes[target] if permission.distance is None else min(permission.distance, sizes[target])
    if -reach >= sizes[source]:
        return
    rules[target].append(Rule(source, -reach, sizes[source], permission.same_start, sharing=True))
    rules[source].append(Rule(target, -sizes[source], reach, permission.same_start, sharing=True))


def _lower_bound(sizes: Sequence[int], lives: Sequence[Lifetime], permissions: _Permissions) -> int:
    """Return the largest sum of sizes live at one step, minus the most that sharing can save there, in units.

    Sharing occurs only at the step where the input dies and the output is born; all other items live there are apart
    from both. The union of two overlapping items is no smaller than in their tightest position, and an item saves at
    most its own size, however many items it overlaps.
    """
    if not sizes:
        return 0
    end = max(last for _, last in lives)
    changes = [0] * (end + 3)
    for size, (first, last) in zip(sizes, lives, strict=True):
        changes[first + 1] += size
        changes[last + 2] -= size
    saved: dict[int, _Permissions] = {}
    for pair, permission in permissions.items():
        saved.setdefault(lives[pair[1]][0], {})[pair] = permission
    best, total = 0, 0
    for moment in range(-1, end + 1):
        total += changes[moment + 1]
        best = max(best, total - _saving(sizes, saved.get(moment, {})))
    return best


def _saving(sizes: Sequence[int], permissions: _Permissions) -> int:
    """Return the most units that sharing can save at one step."""
    by_source: dict[int, list[tuple[int, bool]]] = {}
    by_target: dict[int, list[tuple[int, bool]]] = {}
    for (source, target), permission in permissions.items():
        shared = _pair_saving(sizes[source], sizes[target], permission)
        only_start = permission.distance is None
        by_source.setdefault(source, []).append((shared, only_start))
        by_target.setdefault(target, []).append((shared, only_start))
    return min(_side_saving(sizes, by_source), _side_saving(sizes, by_target))


def _pair_saving(source: int, target: int, permission: _Permission) -> int:
    if permission.same_start or (permission.distance is not None and permission.distance <= 0):
        return min(source, target)
    return 0 if permission.distance is None else max(0, min(source, target - permission.distance))


def _side_saving(sizes: Sequence[int], shared: dict[int, list[tuple[int, bool]]]) -> int:
    """Return the most units saved on one side: an item shares its start with one partner only, but overlaps several."""
    total = 0
    for item, savings in shared.items():
        at_start = max((saving for saving, only_start in savings if only_start), default=0)
        diagonal = sum(saving for saving, only_start in savings if not only_start)
        total += min(sizes[item], at_start + diagonal)
    return total
