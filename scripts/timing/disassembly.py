"""Instructions of a program for a timing model: the kind of each, and the registers that it reads and writes.

The input is the output of ``objdump -d`` of the target's tools. Flags count as a register, memory does not: models
handle loads and stores by their kind.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, replace
from enum import Enum, auto
from pathlib import Path

FLAGS = "flags"


class Kind(Enum):
    """Classes of instructions that take time in ways of their own."""

    ALU = auto()
    SHIFT = auto()  # arithmetic with a shifted operand, and packing
    MULTIPLY = auto()
    DIVIDE = auto()
    LOAD = auto()
    STORE = auto()
    BRANCH = auto()
    CONDITION = auto()  # IT, whose conditions the following carry
    NOTHING = auto()
    FLOAT = auto()
    FLOAT_MULTIPLY = auto()
    FLOAT_DIVIDE = auto()
    VECTOR = auto()
    VECTOR_MULTIPLY = auto()
    VECTOR_LOAD = auto()
    VECTOR_STORE = auto()


@dataclass(frozen=True)
class Instruction:
    """One instruction.

    Attributes:
        address, size: bytes.
        name: its mnemonic without width.
        words: of memory it reads or writes, 0 of those that do neither.
        reads, writes: registers; ``flags`` is one.
        addresses: the registers read for an address.
        accumulators: the registers read last, as a sum that products are added to.
        conditional: whether it is a branch that may not be taken.
        indirect: whether it is a branch to a place in a register or in memory.
    """

    address: int
    size: int
    name: str
    kind: Kind
    words: int = 0
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    addresses: frozenset[str] = frozenset()
    accumulators: frozenset[str] = frozenset()
    conditional: bool = False
    indirect: bool = False

    @property
    def end(self) -> int:
        return self.address + self.size


_LINE = re.compile(r"^\s*([0-9a-f]+):\t([0-9a-f ]+?)\s*\t(\S+)(?:\t([^\t]*))?")
_COMMENT = re.compile(r"\s*[@;#] .*$|<.*$")
_LIST = re.compile(r"\{([^}]*)\}")
_NAMED = re.compile(r"\b(r\d+|ip|sl|fp|lr|sp|pc|[sdq]\d+|vpr)\b")
_ALIASES = {"sl": "r10", "fp": "r11", "ip": "r12", "sp": "r13", "lr": "r14", "pc": "r15"}
_CONDITIONS = "eq|ne|cs|hs|cc|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le"

_ARM_KINDS = (
    (Kind.NOTHING, r"nop|dsb|isb|dmb|bkpt|cpsi[de]|vp[stn].*|vpst"),
    (Kind.CONDITION, r"it[te]*"),
    (Kind.BRANCH, rf"b({_CONDITIONS})?|bl|blx|bx|bxns|cb[n]?z|tb[bh]|le|letp|wls|wlstp|dls|dlstp|lctp"),
    (Kind.DIVIDE, rf"[su]div({_CONDITIONS})?"),
    (Kind.VECTOR_LOAD, r"v(ld[24][0-3]?|ldr[bhwd])[.\w]*"),
    (Kind.VECTOR_STORE, r"v(st[24][0-3]?|str[bhwd])[.\w]*"),
    (Kind.LOAD, r"ldr.*|ldm.*|pop.*|vldr.*|vldm.*|vpop.*|vlldm.*"),
    (Kind.STORE, r"str.*|stm.*|push.*|vstr.*|vstm.*|vpush.*|vlstm.*"),
    (Kind.FLOAT_DIVIDE, r"v(div|sqrt)[.\w]*"),
    (Kind.FLOAT_MULTIPLY, r"v(n?mul|n?ml[as]|fn?m[as])[.\w]*"),
    (Kind.MULTIPLY, r"(mul|mla|mls|umaal|[su]ml?ul?l|[su]mla?l|sm(mul|mla|mls|la|ls|ul|ua|us)).*"),
    (
        Kind.SHIFT,
        r"(ls[lr]|as[rl]|ror|rrx|pkh|[su]xt|ssat|usat|[us]bfx|bf[ic]|rev|rbit|clz|[su]q?h?(add|sub)(8|16)|sel|usad|"
        r"lsll|lsrl|asrl|sqrshr|uqrshl).*",
    ),
)
_ARM_KINDS_COMPILED = tuple((kind, re.compile(f"(?:{pattern})$")) for kind, pattern in _ARM_KINDS)
_LONG = re.compile(r"([us]ml[as]l|umaal|[us]mull|smlald|smlsld|ldrd|lsll|lsrl|asrl)")
_ACCUMULATING = re.compile(r"(mla|mls|[us]mlal|umaal|smla|smls|smml[as]|vml[as]|vfn?m[as]|vrmlaldavh|vmlada|vmlalda)")
_NO_RESULT = re.compile(r"(cmp|cmn|tst|teq|vcmp|vcmpe|vpt|vctp)")


def disassemble(elf: Path, prefix: str) -> dict[int, Instruction]:
    """Return the instructions of a program by address.

    Args:
        elf: the program.
        prefix: of the GNU tools' names: ``arm-none-eabi-`` or those of another architecture.
    """
    listing = subprocess.run(
        [f"{prefix}objdump", "-d", str(elf)], check=True, capture_output=True, text=True, errors="replace"
    ).stdout
    parse = arm if prefix.startswith("arm") else riscv if prefix.startswith("riscv") else plain
    found = {}
    for line in listing.splitlines():
        match = _LINE.match(line)
        if match is None or match[3].startswith("."):
            continue
        address, size = int(match[1], 16), len(match[2].replace(" ", "")) // 2
        found[address] = replace(parse(match[3], _COMMENT.sub("", match[4] or "")), address=address, size=size)
    return found


def plain(name: str, operands: str) -> Instruction:
    """Return an instruction of a core without a model: nothing but its name."""
    return Instruction(0, 0, name, Kind.ALU)


def arm(name: str, operands: str) -> Instruction:
    """Return an instruction of Armv7-M or Armv8.1-M.

    Args:
        name: as ``objdump`` writes it, ``smlad`` or ``bne.n``.
        operands: what follows, without comments.
    """
    name = re.sub(r"\.[nw]$", "", name)
    kind = next((kind for kind, pattern in _ARM_KINDS_COMPILED if pattern.match(name)), None)
    if kind is None:
        kind = Kind.ALU if not name.startswith("v") else Kind.FLOAT
    if re.search(r"\bq\d", operands) and kind in (Kind.FLOAT, Kind.FLOAT_MULTIPLY, Kind.NOTHING, Kind.ALU):
        product = re.match(r"v(q?r?d?mul|r?ml|fm|qr?dml|mul)", name)
        kind = Kind.VECTOR_MULTIPLY if product else Kind.VECTOR
    if kind is Kind.ALU and re.search(r", (lsl|lsr|asr|ror|rrx)\b", operands):
        kind = Kind.SHIFT
    if kind in (Kind.LOAD, Kind.STORE, Kind.VECTOR_LOAD, Kind.VECTOR_STORE):
        return _arm_memory(name, kind, operands)
    named = [_register(each) for each in _NAMED.findall(operands)]
    if kind is Kind.BRANCH:
        return _arm_branch(name, named)
    if name.startswith("vmrs"):
        return Instruction(0, 0, name, Kind.FLOAT, reads=frozenset(["fpscr"]), writes=frozenset([FLAGS]))
    results = 0 if _NO_RESULT.match(name) or not named else 2 if _LONG.match(name) else 1
    writes, reads = set(named[:results]), set(named[results:])
    sums = set[str]()
    if _ACCUMULATING.match(name):
        sums = writes if _LONG.match(name) or name.startswith("v") else set(named[-1:])
        reads |= writes if sums is writes else set()
    if re.match(r"(movt|bf[ic]|vins|sqrshr|uqrshl|lsll|lsrl|asrl)", name):
        reads |= writes
    if _NO_RESULT.match(name) or re.match(
        r"(adds|subs|movs|ands|orrs|eors|lsls|lsrs|asrs|rsbs|negs|mvns|bics|muls|adcs|sbcs)", name
    ):
        writes |= {"fpscr" if name.startswith("vc") else FLAGS}
    if re.match(r"(adc|sbc|vsel|sel)", name) or _conditional(name):
        reads |= {FLAGS}
    return Instruction(0, 0, name, kind, reads=frozenset(reads), writes=frozenset(writes), accumulators=frozenset(sums))


def _conditional(name: str) -> bool:
    """Return whether an IT before it decides; names that end like conditions (``mls``) are none."""
    return (
        re.match(rf"(mov|add|sub|neg|rsb|mvn|orr|and|eor|cmp|vmov|sxt[bh]|uxt[bh]|lsl|lsr|asr)s?({_CONDITIONS})", name)
        is not None
    )


def _register(name: str) -> str:
    return _ALIASES.get(name, name)


def _arm_memory(name: str, kind: Kind, operands: str) -> Instruction:
    """Return which registers a load or store moves, and which hold the address."""
    several = _LIST.search(operands)
    stores = kind in (Kind.STORE, Kind.VECTOR_STORE)
    if several is not None:
        moved = _expanded(several[1])
        base = [_register(each) for each in _NAMED.findall(operands[: several.start()] + operands[several.end() :])]
        base = base or ["r13"]
        changed = "!" in operands or name.startswith(("push", "pop", "vpush", "vpop"))
    else:
        before, _, inside = operands.partition("[")
        moved = [_register(each) for each in _NAMED.findall(before)]
        base = [_register(each) for each in _NAMED.findall(inside)]
        changed = "!" in inside or "]," in inside
    words = sum(2 if each[0] == "d" else 1 for each in moved)
    written = set(base[:1]) if changed else set()
    reads, writes = (set(base) | set(moved), written) if stores else (set(base), written | set(moved))
    if "r15" in moved and not stores:
        return Instruction(
            0, 0, name, Kind.BRANCH, words, frozenset(reads), frozenset(writes), frozenset(base), indirect=True
        )
    return Instruction(0, 0, name, kind, words, frozenset(reads), frozenset(writes), frozenset(base))


def _expanded(listed: str) -> list[str]:
    """Return registers of a list such as ``r4-r6, lr``."""
    found = []
    for part in listed.split(","):
        first, _, last = part.strip().partition("-")
        first, last = _register(first), _register(last or first)
        letter = first[0]
        found += [f"{letter}{number}" for number in range(int(first[1:]), int(last[1:]) + 1)]
    return found


def _arm_branch(name: str, named: list[str]) -> Instruction:
    conditional = re.match(rf"b({_CONDITIONS})$|cb|le|wls", name) is not None
    reads = set(named)
    if re.match(rf"b({_CONDITIONS})$", name):
        reads.add(FLAGS)
    if name in ("le", "letp"):
        reads = set()
    writes = {"r14"} if name in ("bl", "blx") else set()
    indirect = name in ("bx", "blx", "bxns", "tbb", "tbh")
    return Instruction(
        0,
        0,
        name,
        Kind.BRANCH,
        reads=frozenset(reads),
        writes=frozenset(writes),
        conditional=conditional,
        indirect=indirect,
    )


_RISCV_REGISTER = re.compile(r"\b(zero|ra|sp|gp|tp|t[0-6]|s\d+|a[0-7])\b")


def riscv(name: str, operands: str) -> Instruction:
    """Return an instruction of rv32imc."""
    named = _RISCV_REGISTER.findall(operands)
    everything = frozenset(named) - {"zero"}
    if re.match(r"(b(eq|ne|lt|ge|ltu|geu|gt|le|gtu|leu)z?)$", name):
        return Instruction(0, 0, name, Kind.BRANCH, reads=everything, conditional=True)
    if re.match(r"(j|jal|jr|jalr|ret|mret)$", name):
        return Instruction(0, 0, name, Kind.BRANCH, reads=everything, indirect=name in ("jr", "jalr", "ret", "mret"))
    if re.match(r"l[bhw]u?$", name):
        base = frozenset(named[1:]) - {"zero"}
        return Instruction(0, 0, name, Kind.LOAD, 1, base, frozenset(named[:1]), base)
    if re.match(r"s[bhw]$", name):
        return Instruction(0, 0, name, Kind.STORE, 1, everything, addresses=frozenset(named[1:]))
    kind = Kind.MULTIPLY if name.startswith("mul") else Kind.DIVIDE if name.startswith(("div", "rem")) else Kind.ALU
    return Instruction(0, 0, name, kind, reads=frozenset(named[1:]) - {"zero"}, writes=frozenset(named[:1]))
