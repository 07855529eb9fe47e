"""Emulated microcontrollers: how programs for them are compiled, started and read."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp

from tests import PATIENCE
from tests.compiling import compiled
from tests.device.program import Int8Array, Program, write_program
from tflite_fuse.export.folder import Files
from tflite_fuse.export.library import Parts, flat_sources, with_parts
from tflite_fuse.ir.block import StageKind
from tflite_fuse.ops.weighted.sums import OF_SUMS
from tflite_fuse.runtime.library.sources import library_directory, library_sources

HERE = Path(__file__).parent

OF_HALFWORDS = ("tflite_fuse_conv_int16", "tflite_fuse_conv_int16_dsp", "tflite_fuse_conv_paired_dsp")
"""Files that only blocks have whose weights are not bytes."""

NOT_OF_A_WORKER = ("tflite_fuse_coordinator", "tflite_fuse_several", "tflite_fuse_key", "tflite_fuse_sums")
"""Files that only a coordinator has, who has a key, or a worker whose layers are cut by input channels."""

ON_CALL = ("tflite_fuse_profile", "tflite_fuse_rows")
"""Files that only applications link that call them."""

_SEMIHOSTING = "-nographic -monitor none -serial none -icount shift=0 -semihosting-config enable=on,target=native"
_CORTEX = "-mthumb -mfloat-abi=hard -ffunction-sections -fdata-sections"
_CORTEX_LINK = "-nostartfiles --specs=nano.specs --specs=nosys.specs -Wl,--gc-sections"
_MPS2_MAP = ("code_origin=0x40", "code_length=0x3fffc0", "data_origin=0x20000000", "data_length=0x400000")
_MPS3_MAP = ("code_origin=0x01000000", "code_length=0x200000", "data_origin=0x21000000", "data_length=0x400000")
_PICOLIBC_MAP = ("flash=0x80000000", "flash_size=8M", "ram=0x80800000", "ram_size=16M")


def _cortex_link(memory: Sequence[str]) -> str:
    """Definitions come first: the linker script is made of them."""
    return " ".join([_CORTEX_LINK, *(f"-Wl,--defsym={entry}" for entry in memory), "-T {here}/cortex_m.ld", "-lm"])


@dataclass(frozen=True)
class Target:
    """One emulated core.

    Attributes:
        name: what the benchmark calls it.
        prefix: of the GNU toolchain's commands.
        flags: to compile.
        link: more flags to link; ``{here}`` is this directory.
        sources: files of this directory that start a program on it.
        emulator: the command that runs a program; its path is appended.
    """

    name: str
    prefix: str
    flags: str
    link: str
    sources: tuple[str, ...]
    emulator: str

    def missing(self) -> list[str]:
        """The commands this machine lacks."""
        needed = (f"{self.prefix}gcc", f"{self.prefix}size", self.emulator.split()[0])
        return [command for command in needed if shutil.which(command) is None]


TARGETS = {
    target.name: target
    for target in (
        Target(
            "cortex-m7",
            "arm-none-eabi-",
            f"-mcpu=cortex-m7 -mfpu=fpv5-d16 {_CORTEX}",
            _cortex_link(_MPS2_MAP),
            ("cortex_m.c", "mps2.c"),
            f"qemu-system-arm -M mps2-an500 -cpu cortex-m7 {_SEMIHOSTING},chardev=s -chardev stdio,id=s -kernel",
        ),
        Target(
            "cortex-m4",
            "arm-none-eabi-",
            f"-mcpu=cortex-m4 -mfpu=fpv4-sp-d16 {_CORTEX}",
            _cortex_link(_MPS2_MAP),
            ("cortex_m.c", "mps2.c"),
            f"qemu-system-arm -M mps2-an386 -cpu cortex-m4 {_SEMIHOSTING},chardev=s -chardev stdio,id=s -kernel",
        ),
        Target(
            "cortex-m55",
            "arm-none-eabi-",
            f"-mcpu=cortex-m55 {_CORTEX}",
            _cortex_link(_MPS3_MAP),
            ("cortex_m.c", "mps3.c"),
            f"qemu-system-arm -M mps3-an547 -cpu cortex-m55 {_SEMIHOSTING},chardev=s -chardev stdio,id=s -kernel",
        ),
        Target(
            "rv32imc",
            "riscv64-unknown-elf-",
            "-march=rv32imc -misa-spec=2.2 -mabi=ilp32 --specs=picolibc.specs -ffunction-sections -fdata-sections",
            "--crt0=semihost --oslib=semihost -Wl,--gc-sections "
            + " ".join(f"-Wl,--defsym=__{entry}" for entry in _PICOLIBC_MAP)
            + " -lm",
            ("riscv.c",),
            f"qemu-system-riscv32 -M virt -m 64M -bios none {_SEMIHOSTING},chardev=s -chardev stdio,id=s -kernel",
        ),
        Target(
            "xtensa-lx106",
            "xtensa-lx106-elf-",
            "-mlongcalls -mtext-section-literals --specs=/usr/lib/xtensa-lx106-elf/picolibc.specs "
            "-ffunction-sections -fdata-sections -DTFLITE_FUSE_NO_FLOATS",
            "-nostartfiles -Wl,--gc-sections -T {here}/xtensa.ld",
            ("xtensa_start.S", "xtensa.c"),
            f"qemu-system-xtensa -M sim -cpu lx106 -m 64M {_SEMIHOSTING} -kernel",
        ),
    )
}


@dataclass(frozen=True)
class Report:
    """What a program wrote.

    Attributes:
        prepare: instructions to check each block.
        stack: most bytes of stack that checking and running a block took.
        instructions: of each run and block, ``instructions[run][block]``.
        outputs: bytes of each run and output.
    """

    prepare: list[int]
    stack: tuple[int, int]
    instructions: list[list[int]]
    outputs: list[list[bytes]]

    @property
    def total(self) -> int:
        """Instructions of all runs."""
        return sum(map(sum, self.instructions))


def build(
    target: Target,
    program: Program,
    inputs: Sequence[Sequence[Int8Array]],
    directory: Path,
    flags: str,
    guarded: bool = False,
) -> Path:
    """Compile the library, the runner and a program; returns the ELF file.

    Args:
        target: for which core.
        program: what to run.
        inputs: for each run one array per input of the program.
        directory: for generated files.
        flags: more flags, such as ``-O2``.
        guarded: whether the program fails where a block writes outside its memory.
    """
    write_program(program, inputs, directory, guarded)
    return link(target, HERE / "runner.c", directory, flags)


def link(target: Target, main: Path, directory: Path, flags: str) -> Path:
    """Compile a program whose other files lie in a directory, with the library; returns the ELF file.

    Args:
        target: for which core.
        main: the C file with ``main``.
        directory: with what it includes; the program is written there.
        flags: more flags, such as ``-O2``.
    """
    elf = directory / "program.elf"
    own = [main, *(HERE / name for name in target.sources)]
    call(
        [
            f"{target.prefix}gcc",
            *f"-std=gnu11 {target.flags} {flags} -I. -I{library_directory()} -I{HERE}".split(),
            *map(str, (*own, *_library_objects(target, flags))),
            *target.link.format(here=HERE).split(),
            "-o",
            elf.name,
        ],
        directory,
    )
    return elf


def _library_objects(target: Target, flags: str) -> list[Path]:
    return compiled(f"{target.prefix}gcc -std=gnu11 {target.flags} {flags}".split(), library_sources())


def execute(target: Target, elf: Path, program: Program, timeout: float = PATIENCE) -> Report:
    """Run a program in the emulator."""
    lines = lines_of(target, elf, timeout)
    blocks, outputs = len(program.steps), len(program.outputs)
    failed = [line for line in lines if line[0] in ("prepare", "block") and line[2] != "0"]
    if failed or not lines:
        raise RuntimeError(f"{target.name}: {' '.join(failed[0]) if failed else 'no output'}")
    counts = [int(line[3]) for line in lines if line[0] == "block"]
    values = [bytes.fromhex(line[1]) for line in lines if line[0] == "output"]
    return Report(
        prepare=[int(line[3]) for line in lines if line[0] == "prepare"],
        stack=(_deepest(lines, "0"), _deepest(lines, "1")),
        instructions=[counts[at : at + blocks] for at in range(0, len(counts), blocks)],
        outputs=[values[at : at + outputs] for at in range(0, len(values), outputs)],
    )


def lines_of(target: Target, elf: Path, timeout: float = PATIENCE) -> list[list[str]]:
    """Run a program in the emulator: the words of each line it writes."""
    return [line.split() for line in call([*target.emulator.split(), str(elf)], elf.parent, timeout).splitlines()]


def _deepest(lines: Sequence[Sequence[str]], which: str) -> int:
    return max(int(line[3]) for line in lines if line[:2] == ["stack", which])


def linked_size(target: Target, directory: Path, flags: str, kinds: Collection[StageKind]) -> int:
    """Bytes of code and constants that programs with blocks of these kinds link, with all loops of weights in bytes."""
    folder, files = _flat_objects(target, flags), _flat(frozenset(kinds))
    objects = [folder / f"{Path(name).stem}.o" for name in files if name.endswith(".c") and name != _TABLE]
    _write(directory, {_TABLE: files[_TABLE]})
    compiler = f"{target.prefix}gcc -std=gnu11 {target.flags} {flags}".split()
    roots = ["-nostdlib", "-r", "-Wl,--gc-sections,-u,tflite_fuse_prepare,-u,tflite_fuse_invoke", "-o", "linked.o"]
    call([*compiler, f"-I{folder}", *roots, _TABLE, *map(str, objects)], directory)
    return int(call([f"{target.prefix}size", "linked.o"], directory).splitlines()[1].split()[0])


_TABLE = "tflite_fuse_kinds.c"


def _flat(kinds: frozenset[StageKind]) -> Files:
    """The library with these kinds, without weights in halfwords."""
    return with_parts(flat_sources(), Parts(kinds, convolutions=0x7, depthwise=0x7F))


def _write(directory: Path, files: Files) -> None:
    for name, content in files.items():
        (directory / name).write_bytes(content if isinstance(content, bytes) else content.encode())


_sources = TemporaryDirectory(prefix="tflite-fuse-device-")


@cache
def _flat_objects(target: Target, flags: str) -> Path:
    """Sources and objects of the library with all kinds, once per target and flags."""
    folder = Path(mkdtemp(prefix=f"{target.name}-flat-", dir=_sources.name))
    _write(folder, _flat(frozenset(StageKind) - frozenset(OF_SUMS)))
    sources = [path.name for path in sorted(folder.glob("*.c"))]
    call([f"{target.prefix}gcc", *f"-std=gnu11 {target.flags} {flags} -c".split(), *sources], folder)
    return folder


def library_size(
    target: Target, directory: Path, flags: str, worker: bool = False, optional: bool = False
) -> dict[str, int]:
    """Bytes of code and constants of each source file of the library: what a block that uses everything links, or what
    the worker of a split has beside that, its link included; ``optional``: what only some of these have. Files that
    only applications link that call them are not counted."""
    sizes: dict[str, int] = {}
    objects = {each.stem: each for each in _library_objects(target, flags)}
    for source in library_sources():
        if (source.parent.name in ("worker", "link")) is not worker or (source.stem in NOT_OF_A_WORKER) is not optional:
            continue
        if source.stem in ON_CALL:
            continue
        listing = call([f"{target.prefix}size", str(objects[source.stem])], directory)
        sizes[source.name] = int(listing.splitlines()[1].split()[0])
    return sizes


def call(command: list[str], directory: Path, timeout: float = PATIENCE) -> str:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} failed with {done.returncode}:\n{done.stderr[-4000:]}{done.stdout[-2000:]}")
    return done.stdout
