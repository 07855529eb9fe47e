"""Timing models: cycles of instructions after others on a core whose memory has no wait states.

Each model is a few rules from the core maker's documentation. ``docs/time.md`` lists undocumented parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from scripts.timing.disassembly import FLAGS, Instruction, Kind

MEMORY = (Kind.LOAD, Kind.STORE, Kind.VECTOR_LOAD, Kind.VECTOR_STORE)


class Core(Protocol):
    """A timing model."""

    def cycles(self, before: Sequence[Instruction], these: Sequence[Instruction]) -> float:
        """Return cycles that a block of code takes more when it runs right behind another.

        Args:
            before: the block that ran before.
            these: the block.
        """

    @property
    def misprediction(self) -> float:
        """Return cycles of a conditional branch that goes where it seldom goes, beyond those of ``cycles``."""


def jumps(before: Sequence[Instruction], these: Sequence[Instruction]) -> bool:
    """Return whether the branch at the end of a block was taken."""
    return bool(before) and before[-1].end != these[0].address


@dataclass(frozen=True)
class CortexM4:
    """Arm's table of the Cortex-M4 (technical reference manual, 3.3.1): one instruction after another.

    Attributes:
        refill: cycles a taken branch takes beyond its own; of branches whose place stands in a register one more.
        unaligned: cycles more where the instruction branched to has 32 bits and lies across two words.
        divide: cycles of SDIV and UDIV: 2 to 12, by the operands.
    """

    refill: float = 1.0
    unaligned: float = 1.0
    divide: float = 6.0
    misprediction: float = 0.0

    def cycles(self, before: Sequence[Instruction], these: Sequence[Instruction]) -> float:
        taken = jumps(before, these)
        total = 0.0
        if taken:
            first, last = these[0], before[-1]
            total += self.refill + last.indirect
            total += self.unaligned if first.size == 4 and first.address % 4 else 0.0
        last_one = before[-1] if before and not taken else None
        for each in these:
            total += self._own(each, last_one)
            last_one = each
        return total

    def _own(self, each: Instruction, before: Instruction | None) -> float:
        if each.words:
            return self._memory(each, before)
        if each.kind is Kind.DIVIDE:
            return self.divide
        if each.kind is Kind.CONDITION:  # it is folded into a short instruction before it
            return 0.0 if before is not None and before.size == 2 else 1.0
        if each.kind is Kind.FLOAT_DIVIDE:
            return 14.0
        waits = before is not None and before.kind in _FLOATS and bool(before.writes & each.reads)
        if each.kind is Kind.FLOAT_MULTIPLY:
            return (1.0 if each.name.startswith(("vmul", "vnmul")) else 3.0) + waits
        return 1.0 + (waits and each.kind in _FLOATS)

    def _memory(self, each: Instruction, before: Instruction | None) -> float:
        several = each.words > 1 or each.name.startswith(("ldm", "stm", "push", "pop", "vldm", "vstm", "vpush", "vpop"))
        if several:
            return 1.0 + each.words
        pipelined = (
            before is not None
            and before.words == 1
            and before.kind in MEMORY
            and not (before.kind is Kind.LOAD and before.writes & each.addresses)
        )
        if each.kind is Kind.STORE and len(each.addresses) == 1:
            return 1.0
        return 1.0 if pipelined else 2.0


_FLOATS = (Kind.FLOAT, Kind.FLOAT_MULTIPLY, Kind.FLOAT_DIVIDE)


@dataclass
class _State:
    """A pipeline that issues in order.

    Attributes:
        cycle: the one in which the instruction last issued was.
        issued: instructions of each class in it.
        ready: the cycle from which on a register can be read.
        kinds: the class of instruction that wrote it.
    """

    cycle: float = 0.0
    issued: Counter[str] = field(default_factory=Counter)
    ready: dict[str, float] = field(default_factory=dict)
    kinds: dict[str, Kind] = field(default_factory=dict)


@dataclass(frozen=True)
class CortexM7:
    """Two instructions a cycle, in order: of each pair one multiplies, one stores, one shifts, one branches.

    Attributes:
        loads: words a cycle loads at most.
        load, multiply: cycles until arithmetic can use what was loaded, or a product; sums of products wait one less.
        to_address: cycles more until a result can be an address.
        divide: cycles of SDIV and UDIV.
        misprediction: cycles until a branch that was not expected has filled the pipeline.
    """

    loads: int = 2
    load: float = 2.0
    multiply: float = 2.0
    to_address: float = 1.0
    divide: float = 8.0
    misprediction: float = 7.0

    def cycles(self, before: Sequence[Instruction], these: Sequence[Instruction]) -> float:
        state = _State()
        for each in before:
            self._issue(state, each)
        start = state.cycle
        if jumps(before, these):
            state.cycle += 1
            state.issued.clear()
        for each in these:
            self._issue(state, each)
        return state.cycle - start

    def _issue(self, state: _State, each: Instruction) -> None:
        if each.kind in (Kind.CONDITION, Kind.NOTHING):
            self._place(state, state.cycle, each)
            return
        needed = max((self._ready(state, each, name) for name in each.reads), default=0.0)
        start = max(state.cycle, needed)
        long = self._long(each)
        if long > 1 and (start > state.cycle or state.issued.total()):
            start = max(start, state.cycle + 1)
        self._place(state, start, each)
        if long > 1:
            state.cycle += long - 1
            state.issued.clear()
            state.issued["any"] = 2
        later = state.cycle + self._latency(each)
        for name in each.writes:
            moved = name in each.addresses and each.words  # a base that was moved on
            state.ready[name] = state.cycle + 1 if moved else later
            state.kinds[name] = Kind.ALU if moved else each.kind

    def _place(self, state: _State, start: float, each: Instruction) -> None:
        while not self._fits(state, start, each):
            start = max(start, state.cycle) + 1
        if start > state.cycle:
            state.cycle = start
            state.issued.clear()
        state.issued["any"] += 1
        for name in _classes(each):
            state.issued[name] += each.words if name == "load" else 1

    def _fits(self, state: _State, start: float, each: Instruction) -> bool:
        if start > state.cycle:
            return True
        if state.issued["any"] > 1:
            return False
        for name in _classes(each):
            if name == "load":
                if (
                    state.issued["store"] == 0
                    and state.issued["load"] + each.words > self.loads
                    and state.issued["load"]
                ):
                    return False
            elif state.issued[name]:
                return False
        return True

    def _ready(self, state: _State, each: Instruction, name: str) -> float:
        if name not in state.ready:
            return 0.0
        ready = state.ready[name]
        if name in each.addresses:
            return ready + self.to_address
        if name in each.accumulators and state.kinds[name] is Kind.MULTIPLY:
            return ready - 1
        if name == FLAGS:
            return ready - 1  # branches are resolved behind arithmetic
        return ready

    def _latency(self, each: Instruction) -> float:
        if each.kind is Kind.LOAD:
            return self.load
        if each.kind is Kind.MULTIPLY:
            return self.multiply
        if each.kind in (Kind.FLOAT, Kind.FLOAT_MULTIPLY):
            return 3.0
        if each.kind is Kind.FLOAT_DIVIDE:
            return 16.0
        return 1.0

    def _long(self, each: Instruction) -> float:
        if each.kind is Kind.DIVIDE:
            return self.divide
        if each.words > 2 or (each.kind is Kind.BRANCH and each.words):
            return (each.words + 1) // 2
        return 1.0


def _classes(each: Instruction) -> tuple[str, ...]:
    if each.kind in (Kind.MULTIPLY, Kind.DIVIDE):
        return ("multiply",)
    if each.kind is Kind.LOAD:
        return ("load",)
    if each.kind is Kind.STORE:
        return ("store",)
    if each.kind is Kind.SHIFT:
        return ("shift",)
    if each.kind is Kind.BRANCH:
        return ("branch",)
    if each.kind in _FLOATS:
        return ("float",)
    return ()


@dataclass(frozen=True)
class Scalar:
    """A pipeline of one instruction a cycle, as that of the ESP32-C3.

    Attributes:
        load: cycles until arithmetic can use what was loaded.
        multiply, divide: cycles of such instructions.
        taken: cycles more of a branch that is taken, or of a jump.
    """

    load: float = 2.0
    multiply: float = 1.0
    divide: float = 16.0
    taken: float = 2.0
    misprediction: float = 0.0

    def cycles(self, before: Sequence[Instruction], these: Sequence[Instruction]) -> float:
        total = self.taken if jumps(before, these) else 0.0
        last = before[-1] if before else None
        for each in these:
            total += {Kind.MULTIPLY: self.multiply, Kind.DIVIDE: self.divide}.get(each.kind, 1.0)
            if last is not None and last.kind is Kind.LOAD and last.writes & each.reads:
                total += self.load - 1
            last = each
        return total


@dataclass(frozen=True)
class CortexM55:
    """One instruction a cycle; those on vectors take two, and overlap with one of another unit.

    Attributes:
        load: cycles until arithmetic can use what was loaded.
        taken: cycles more of a branch that is taken; those at the end of a loop that the core counts take none.
        beats: cycles of an instruction on vectors.
    """

    load: float = 2.0
    taken: float = 2.0
    divide: float = 8.0
    beats: float = 2.0
    misprediction: float = 0.0

    def cycles(self, before: Sequence[Instruction], these: Sequence[Instruction]) -> float:
        total, last = 0.0, before[-1] if before else None
        if jumps(before, these) and before[-1].name not in ("le", "letp"):
            total += self.taken
        for each in these:
            total += self._own(each, last)
            last = each
        return total

    def _own(self, each: Instruction, before: Instruction | None) -> float:
        if each.kind in _VECTORS:
            overlaps = before is not None and before.kind in _VECTORS and _unit(before) != _unit(each)
            own = self.beats * (2 if each.name.startswith(("vld2", "vst2")) else 1)
            return own - (1 if overlaps else 0)
        if each.kind is Kind.DIVIDE:
            return self.divide
        if each.name in ("le", "letp"):
            return 0.0
        if each.words > 1:
            return float((each.words + 1) // 2 + 1)
        waits = before is not None and before.kind is Kind.LOAD and before.writes & each.reads
        return self.load if waits else 1.0


_VECTORS = (Kind.VECTOR, Kind.VECTOR_MULTIPLY, Kind.VECTOR_LOAD, Kind.VECTOR_STORE)


def _unit(each: Instruction) -> str:
    return "memory" if each.kind in MEMORY else each.kind.name
