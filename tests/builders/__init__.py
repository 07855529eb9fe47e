"""Random models, by a random generator or by hypothesis."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from scripts.zoo import ModelBuilder, Ref
from tflite_fuse.model import Model

Chooser = Callable[[int, int], int]
"""Chooses a whole number from low to high, both included: a random generator, or a property test's own draw."""


def random_graph(
    choose: Chooser, most_operators: int = 10, variables: bool = False, several_inputs: bool = True
) -> Model:
    """A random directed acyclic graph of small operators that TensorFlow Lite Micro runs.

    Holds what graphs in the wild hold: operators with several outputs, tensors read twice by one operator, outputs that
    are read inside as well, results nobody reads, and (with ``variables``) operators with effects.

    Args:
        choose: the only source of randomness.
        most_operators: a bound on the operators (chosen padding and variables may add a few).
    """
    b = ModelBuilder(choose(0, 1 << 16), calibration=2)
    height, width = choose(1, 7), choose(1, 7)
    inputs = [b.input((1, height, width, choose(1, 5))) for _ in range(choose(1, 2 if several_inputs else 1))]
    pool = list(inputs)
    state = b.variable(pool[0].shape) if variables else None
    if state is not None:
        pool.append(b.read_variable(state))
    for _ in range(choose(1, most_operators)):
        pool.extend(_random_operator(b, choose, pool))
    if state is not None:
        same = [ref for ref in pool if ref.shape == state.shape]
        b.assign_variable(state, same[choose(0, len(same) - 1)])
    computed = pool[len(inputs) :]
    marked = {choose(0, len(computed) - 1) for _ in range(choose(1, 2))}
    return b.build([computed[index] for index in sorted(marked)])


def _random_operator(b: ModelBuilder, choose: Chooser, pool: list[Ref]) -> list[Ref]:
    # Recent tensors come first so that the simplest choice gives a chain.
    x = pool[-1 - choose(0, len(pool) - 1)]
    kind = choose(0, 7)
    activation = ("NONE", "RELU", "RELU6")[choose(0, 2)]
    if kind == 0:
        return [b.conv(x, choose(1, 6), activation=activation)]
    if kind == 1:
        return [b.conv(x, choose(1, 6), (choose(1, 3), choose(1, 3)), choose(1, 2), "SAME", activation)]
    if kind == 2:
        pads = (choose(0, 1), choose(1, 2), choose(1, 2), choose(0, 1))
        kernel = (min(3, x.shape[1]), min(3, x.shape[2]))
        return [b.depthwise(x, kernel, choose(1, 2), pads, activation, multiplier=choose(1, 2))]
    if kind == 3:
        return [b.max_pool(x, (choose(1, min(3, x.shape[1])), 1), 1, "SAME")]
    if kind == 4 and x.shape[3] % 2 == 0:
        return b.split(x, 2)
    if kind == 5:
        return [_combine(b, choose, x, [y for y in pool if y.shape == x.shape])]
    if kind == 6:
        alike = [y for y in pool if y.shape[:3] == x.shape[:3]]
        return [b.concat([x] + [alike[choose(0, len(alike) - 1)] for _ in range(choose(1, 2))])]
    return [b.average_pool(x, (1, choose(1, min(2, x.shape[2]))), 1, "SAME", activation)]


def _combine(b: ModelBuilder, choose: Chooser, x: Ref, alike: list[Ref]) -> Ref:
    y = alike[choose(0, len(alike) - 1)]
    if choose(0, 1) == 0:
        return b.add(x, y)
    return b.mul(x, b.logistic(y) if choose(0, 1) else y)


@st.composite
def random_models(
    draw: st.DrawFn, most_operators: int = 10, variables: bool = False, several_inputs: bool = True
) -> Model:
    """Random directed acyclic graphs; they shrink to short chains."""
    return random_graph(
        lambda low, high: draw(st.integers(low, high)),
        most_operators=most_operators,
        variables=variables,
        several_inputs=several_inputs,
    )
