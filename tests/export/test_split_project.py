"""Projects of a split: every environment compiled with stand-ins, and run together on this machine."""

from __future__ import annotations

import configparser
import json
import os
import re
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.arduino.fake_runtime import WARNINGS, build, compiler, library_objects
from tests.split.cluster.noise import Noise, Wire
from tests.split.networks import branching_model
from tests.test_cli import validate
from tflite_fuse.cli import app
from tflite_fuse.errors import UsageError
from tflite_fuse.export.split.project import export_split
from tflite_fuse.ir.enums import WeightLayout
from tflite_fuse.model import serialize_model
from tflite_fuse.runtime import tflm

HERE = Path(__file__).parent / "boards"
SANITIZE = ("-O0", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
WORKER = '[[worker]]\nname = "{}"\ntarget = "{}"\nmhz = 100\n'
NAMES = {"left": "cortex-m7", "in the middle": "xtensa", "right": "cortex-m4"}
KEY = bytes(range(7, 47))
ENVS = {"left": "left", "in the middle": "in_the_middle", "right": "right"}


def split(folder: Path, devices: str, *options: str, tail: bool = False) -> Path:
    """What ``split -o`` writes of the branching model."""
    (folder / "model.tflite").write_bytes(serialize_model(branching_model(tail=tail)))
    (folder / "workers.toml").write_text(devices)
    call = ["split", folder / "model.tflite", "--workers", folder / "workers.toml", "-o", folder / "plan", *options]
    assert run_main(*call) == 0
    return folder / "plan"


def run_main(*arguments: object) -> int:
    return CliRunner().invoke(app, [str(each) for each in arguments]).exit_code


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def ports() -> dict[str, int]:
    return {name: free_port() for name in ("left", "in the middle")}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, ports: dict[str, int]) -> Path:
    folder = tmp_path_factory.mktemp("split")
    devices = "".join(
        WORKER.format(name, target) + (f'address = "127.0.0.1:{ports[name]}"\n' if name in ports else "")
        for name, target in NAMES.items()
    )
    plan = split(folder, devices, "--strategy", "paper")
    (folder / "key").write_bytes(KEY)
    assert run_main("export", plan, folder / "project", "--format", "platformio") == 0
    keyed = ["export", plan, folder / "locked" / "project", "--format", "platformio", "--key-file", folder / "key"]
    assert run_main(*keyed) == 0
    return folder / "project"


def test_workers_leave_out_the_kernels_of_weights_that_fragments_do_not_have(project: Path) -> None:
    (loops,) = (project / "lib").rglob("tflite_fuse_loops.h")
    (bits,) = re.findall(r"#define TFLITE_FUSE_CONV_LOOPS (\w+)", loops.read_text())
    assert int(bits, 0) == sum(
        1 << layout for layout in (WeightLayout.PLAIN, WeightLayout.PACKED_DOWN, WeightLayout.PACKED)
    )


def environments(project: Path) -> dict[str, dict[str, str]]:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(project / "platformio.ini")
    assert parser["env"]["framework"] == "arduino"
    return {name[4:]: dict(parser[name]) for name in parser.sections() if name.startswith("env:")}


def test_each_device_has_an_environment_by_its_name(project: Path) -> None:
    found = environments(project)
    assert list(found) == [*ENVS.values(), "coordinator"]
    boards = {name: (each["board"], each.get("lib_deps", "").strip()) for name, each in found.items()}
    assert boards["left"] == ("teensy41", "ssilverman/QNEthernet")
    assert boards["in_the_middle"] == ("esp32dev", "") and boards["right"] == ("nano33ble", "")
    for name, each in found.items():
        assert each["build_src_filter"] == f"+<{name}/>"
        assert {path.name for path in (project / "src" / name).iterdir()} == {"main.cpp", "fragment.c", "fragment.h"}
    assert not list(project.rglob("*tflm*"))
    steps = re.findall(r"^(\d)\. ", (project / "README.md").read_text(), re.MULTILINE)
    assert steps == ["1", "2", "3", "4", "5"]


def test_platformio_reads_the_project(project: Path) -> None:
    call = [sys.executable, "-m", "platformio", "project", "config", "-d", str(project)]
    environment = {**os.environ, "PLATFORMIO_CORE_DIR": str(project.parent / "core")}
    for option, expected in (("--lint", "free from linting errors"), ("--json-output", '["env:coordinator", ')):
        done = subprocess.run([*call, option], capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == 0 and expected in done.stdout, done.stdout + done.stderr


def test_the_fragment_lies_in_flash_and_the_buffer_is_the_plans(project: Path) -> None:
    plan = project.parent / "plan"
    for number, env in enumerate(ENVS.values()):
        fragment = (plan / "fragments" / f"{number}.fragment").read_bytes()
        header = (project / "src" / env / "fragment.h").read_text()
        size = int.from_bytes(fragment[28:32], "little")
        assert f"FRAGMENT_BYTES {len(fragment)}\n" in header and f"BUFFER_BYTES {size}\n" in header
        source = (project / "src" / env / "fragment.c").read_text()
        values = source[source.index("= {") :]
        assert bytes(int(byte) for byte in re.findall(r"\d+", values)) == fragment
        assert 'section(".progmem")' in source and "const unsigned char fragment[FRAGMENT_BYTES] IN_FLASH" in source


@pytest.fixture(scope="module")
def programs(project: Path) -> dict[str, Path]:
    return compiled(project)


@pytest.fixture(scope="module")
def locked(project: Path) -> dict[str, Path]:
    """The same with a key."""
    if not Path("/usr/include/mbedtls/md.h").exists():
        pytest.skip("libmbedtls-dev is not installed")
    adapter = project.parent / "locked" / "project" / "lib" / "tflite_fuse" / "src" / "link" / "tflite_fuse_mbedtls.c"
    out = project.parent / "locked" / "mbedtls.o"
    build([compiler("gcc"), "-DTFLITE_FUSE_WITH_MBEDTLS", "-c", adapter, "-o", out])
    return compiled(project.parent / "locked" / "project", str(out), "-lmbedcrypto")


def compiled(project: Path, *more: str) -> dict[str, Path]:
    """Every environment, compiled as its board's compiler would but for the headers that stand for the board's."""
    found = {}
    library = project / "lib" / "tflite_fuse" / "src"
    for name in environments(project):
        folder, out = project / "src" / name, project.parent / f"{name}.out"
        (project.parent / f"{name}.cpp").write_text(
            f'#include "{folder / "main.cpp"}"\nint main() {{\n  setup();\n  for (;;) loop();\n}}\n'
        )
        build([compiler("gcc"), "-c", "-Wall", "-Werror", folder / "fragment.c", "-o", project.parent / f"{name}.o"])
        include = [f"-I{each}" for each in (HERE, folder, project / "include", library)]
        flags = ["-std=c++11", *WARNINGS, "-Wno-unused-variable", *SANITIZE, *include]
        own = [project.parent / f"{name}.cpp", project.parent / f"{name}.o", *library_objects()]
        build([compiler("g++"), *flags, *own, *more, "-o", out])
        found[name] = out
    return found


@contextmanager
def started(programs: dict[str, Path], wire: Wire) -> Iterator[dict[str, subprocess.Popen[str]]]:
    processes = dict[str, subprocess.Popen[str]]()
    try:
        for name, program in programs.items():
            environment = {**os.environ, "SERIAL1": wire.left if name == "coordinator" else wire.right}
            processes[name] = subprocess.Popen([program], stdout=subprocess.PIPE, text=True, env=environment)
        yield processes
    finally:
        for each in processes.values():
            each.kill()
            each.wait()


def said(process: subprocess.Popen[str], expected: str) -> str:
    """The next line that begins so."""
    assert process.stdout is not None
    while select.select([process.stdout], [], [], 60)[0]:
        line = process.stdout.readline()
        if line.startswith(expected):
            return line
        assert line, "it ended"
    raise AssertionError(f"it says nothing that begins with {expected}")


def test_the_boards_compute_the_bytes_of_tflm_and_name_a_lost_worker(programs: dict[str, Path]) -> None:
    model = serialize_model(branching_model(tail=False))
    ((output,),) = tflm.run(model, [[np.zeros((1, 17, 13, 3), np.int8)]]).outputs
    expected = " ".join(str(value) for value in np.asarray(output).ravel()[:16])
    with Wire(Noise()) as wire, started(programs, wire) as processes:
        assert said(processes["coordinator"], "output:") == f"output: {expected}\n"
        assert said(processes["coordinator"], "output:") == f"output: {expected}\n"
        processes["in_the_middle"].kill()
        processes["in_the_middle"].wait()
        assert "is lost" in said(processes["coordinator"], "in the middle")


def test_boards_with_a_key_compute_the_same_and_serve_only_its_holders(
    locked: dict[str, Path], programs: dict[str, Path]
) -> None:
    model = serialize_model(branching_model(tail=False))
    ((output,),) = tflm.run(model, [[np.zeros((1, 17, 13, 3), np.int8)]]).outputs
    expected = " ".join(str(value) for value in np.asarray(output).ravel()[:16])
    with Wire(Noise()) as wire, started(locked, wire) as processes:
        assert said(processes["coordinator"], "output:") == f"output: {expected}\n"
    with Wire(Noise()) as wire, started({**locked, "coordinator": programs["coordinator"]}, wire) as processes:
        assert "key" in said(processes["coordinator"], "left")


def test_the_key_is_in_one_file_that_is_not_for_repositories(project: Path) -> None:
    folder = project.parent / "locked" / "project"
    header = (folder / "include" / "key.h").read_text()
    assert bytes(int(each) for each in re.findall(r"\d+", header[header.index("= {") :])) == KEY
    assert "include/key.h" in (folder / ".gitignore").read_text().splitlines()
    assert "`include/key.h`" in (folder / "README.md").read_text()
    assert "--key-file" in (project / "README.md").read_text() and not (project / "include" / "key.h").exists()
    assert [
        path for path in folder.rglob("*.*") if path.is_file() and re.search(rb"\b7, ?8, ?9, ?10\b", path.read_bytes())
    ] == [folder / "include" / "key.h"]
    libraries = {name: each.get("lib_deps", "") for name, each in environments(folder).items()}
    assert "rweather/Crypto" in libraries["right"] and "Crypto" not in libraries["in_the_middle"]


def test_a_computer_may_be_the_coordinator(tmp_path: Path) -> None:
    devices = WORKER.format("a", "cortex-m4") + WORKER.format("b", "cortex-m7") + '[coordinator]\nboard = "computer"\n'
    found = export_split(split(tmp_path, devices, "--strategy", "paper", tail=True), tmp_path / "project", "platformio")
    assert list(environments(tmp_path / "project")) == ["a", "b"]
    assert "the coordinator is tflite-fuse cluster run on a computer" in found.notes
    assert any("192.168.1.11:7000" in note for note in found.notes)
    assert "cluster run" in (tmp_path / "project" / "README.md").read_text()
    assert "tflite_fuse_line<48> line(Serial);" in (tmp_path / "project" / "src" / "a" / "main.cpp").read_text()


def test_a_coordinator_with_an_address_has_it(tmp_path: Path) -> None:
    devices = WORKER.format("a", "cortex-m7") + '[coordinator]\naddress = "192.168.1.9:0"\n'
    export_split(split(tmp_path, devices, "--strategy", "paper"), tmp_path / "project", "platformio")
    program = (tmp_path / "project" / "src" / "coordinator" / "main.cpp").read_text()
    assert "Ethernet.begin(IPAddress(192, 168, 1, 9)," in program
    assert '{0, "0/192.168.1.10:7000", "192.168.1.10:7000"}' in program


DIRECT = '[[link]]\nbetween = ["a", "b"]\n'


@pytest.mark.parametrize(
    ("devices", "tail", "sentence"),
    [
        (WORKER.format("a", "cortex-m7"), True, "LOG_SOFTMAX_11 runs at the coordinator, and only the one in Python"),
        (WORKER.format("a", "cortex-m7") + 'board = "uno"\n', False, "'a' is a board 'uno', which is not known"),
        (
            WORKER.format("a", "cortex-m4") + 'address = "10.0.0.1:7000"\n',
            False,
            "an Arduino Nano 33 BLE has no network",
        ),
        (
            WORKER.format("a", "cortex-m7") + '[coordinator]\nboard = "pico"\n',
            False,
            "the coordinator is a Raspberry Pi Pico, which has no network, and 'a' has",
        ),
        (
            "".join(WORKER.format(each, "cortex-m4") for each in "abc") + '[coordinator]\nboard = "esp32dev"\n',
            False,
            "an ESP32 as the coordinator has 2 serial lines, and more workers are joined by one",
        ),
        (
            WORKER.format("a", "cortex-m4") + WORKER.format("b", "cortex-m7") + DIRECT,
            False,
            "'a' is joined by a serial line, and the plan has it talk to 'b' directly",
        ),
    ],
)
def test_impossible_requests_are_refused_in_one_sentence(
    devices: str, tail: bool, sentence: str, tmp_path: Path
) -> None:
    plan = split(tmp_path, devices, "--strategy", "auto" if DIRECT in devices else "paper", tail=tail)
    with pytest.raises(UsageError) as refused:
        export_split(plan, tmp_path / "project", "platformio")
    assert sentence in str(refused.value)
    assert not (tmp_path / "project").exists()


@pytest.mark.parametrize(
    ("board", "sentence"),
    [
        ("pico", "'a' is a Raspberry Pi Pico, which has no random bytes that a key may rely on"),
        ("esp32dev", "'a' is an ESP32, which has no random bytes while its radio is off"),
    ],
)
def test_boards_without_random_bytes_get_no_key(board: str, sentence: str, tmp_path: Path) -> None:
    where = 'address = "/dev/ttyUSB0"\n' if board == "esp32dev" else ""
    devices = WORKER.format("a", "cortex-m4") + f'board = "{board}"\n{where}[coordinator]\nboard = "computer"\n'
    plan = split(tmp_path, devices, "--strategy", "paper")
    with pytest.raises(UsageError) as refused:
        export_split(plan, tmp_path / "project", "platformio", key=KEY)
    assert sentence in str(refused.value) and not (tmp_path / "project").exists()


def test_other_formats_and_folders_are_refused(tmp_path: Path) -> None:
    plan = split(tmp_path, WORKER.format("a", "cortex-m7"))
    assert run_main("export", plan, tmp_path / "x", "--format", "arduino") == 2
    assert run_main("export", plan, tmp_path / "x", "--format", "platformio", "--tflm", "2024") == 2
    (tmp_path / "short").write_bytes(b"short")
    for source in (plan, plan / "model.tflite"):  # a key that is too short, and one for a model alone
        assert (
            run_main("export", source, tmp_path / "x", "--format", "platformio", "--key-file", tmp_path / "short") == 2
        )
    assert run_main("export", tmp_path, tmp_path / "x", "--format", "platformio") == 2
    assert not (tmp_path / "x").exists()


def test_workers_with_nothing_to_do_are_named(tmp_path: Path) -> None:
    """One that is a thousand times slower is left idle."""
    slow = WORKER.format("slow", "cortex-m4").replace("mhz = 100", "mhz = 0.1")
    plan = split(tmp_path, WORKER.format("quick", "cortex-m7") + slow)
    export = ["export", str(plan), str(tmp_path / "project"), "--format", "platformio"]
    said = CliRunner().invoke(app, export, env={"COLUMNS": "200"})
    assert said.exit_code == 0 and "nothing to do for slow: no program is made" in said.output
    assert "slow" not in environments(tmp_path / "project")
    said = CliRunner().invoke(app, [*export, "--force", "--json"])
    validate(json.loads(said.stdout), "export_split")
