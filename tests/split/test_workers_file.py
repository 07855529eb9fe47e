"""workers.toml: its content, and errors in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tflite_fuse.cost.instructions import Target
from tflite_fuse.errors import UsageError
from tflite_fuse.split.cluster.file import cluster_of_file
from tflite_fuse.split.devices import COORDINATOR, Cluster, Link

WORKER = '[[worker]]\nname = "{}"\ntarget = "cortex-m7"\nmhz = 600\n'


PAIR = WORKER.format("a") + WORKER.format("b") + '[[link]]\nbetween = ["a", "b"]\n'


def written(folder: Path, text: str) -> Path:
    path = folder / "workers.toml"
    path.write_text(text, encoding="utf-8")
    return path


def read_workers(path: Path) -> Cluster:
    return cluster_of_file(path.read_bytes(), path)


def test_devices_links_and_sizes_are_read(tmp_path: Path) -> None:
    text = (
        WORKER.format("left") + 'ram = "128kB"\nflash = 1048576\n[worker.link]\nkilobytes_per_second = 1000\n'
        "delay_ms_per_message = 0.2\n"
        + WORKER.format("right")
        + WORKER.format("far")
        + '[coordinator]\nname = "computer"\n[[link]]\nbetween = ["right", "left"]\ndirect = true\n'
    )
    cluster = read_workers(written(tmp_path, text))
    left, right, _ = cluster.workers
    assert (left.name, left.target, left.mhz, left.ram, left.flash) == ("left", Target.CORTEX_M7, 600, 128000, 1 << 20)
    assert left.link == Link(1000.0, 0.2) and left.link.latency == pytest.approx(0.0002)
    assert right.ram is None and right.link == Link()
    assert cluster.coordinator.name == "computer"
    assert cluster.is_direct(1, 0) and not cluster.is_direct(0, 2) and cluster.is_direct(2, COORDINATOR)


def test_a_board_implies_the_target_where_none_is_given(tmp_path: Path) -> None:
    text = '[[worker]]\nname = "a"\nboard = "teensy41"\nmhz = 600\n'
    (worker,) = read_workers(written(tmp_path, text)).workers
    assert (worker.target, worker.board) == (Target.CORTEX_M7, "teensy41")
    (worker,) = read_workers(written(tmp_path, text + 'target = "cortex-m4"\n')).workers
    assert (worker.target, worker.board) == (Target.CORTEX_M4, "teensy41")


def test_a_link_may_join_more_than_two_each_with_each(tmp_path: Path) -> None:
    text = "".join(map(WORKER.format, "abcd")) + '[[link]]\nbetween = ["a", "c", "d"]\n'
    cluster = read_workers(written(tmp_path, text))
    assert cluster.direct == {(0, 2), (0, 3), (2, 3)}


def test_devices_may_share_a_medium_the_coordinator_among_them(tmp_path: Path) -> None:
    shared = (
        '[[link]]\nbetween = ["a", "c", "coordinator"]\nshared = true\n[[link]]\nbetween = ["a", "b"]\nshared = true\n'
    )
    cluster = read_workers(written(tmp_path, "".join(map(WORKER.format, "abc")) + shared))
    assert cluster.media == ({0, 2, COORDINATOR}, {0, 1}) and cluster.direct == {(0, 2), (0, 1)}
    pairs = ((0, 2), (COORDINATOR, 2), (1, 0), (1, 2), (1, COORDINATOR))
    assert [cluster.medium(*pair) for pair in pairs] == [0, 0, 1, None, None]
    star = shared.replace('shared = true\n[[link]]\nbetween = ["a", "b"]', "direct = false")
    cluster = read_workers(written(tmp_path, "".join(map(WORKER.format, "abc")) + star))
    assert not cluster.direct and cluster.media == ({0, 2, COORDINATOR},)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "names no worker"),
        ("[[worker]", "not valid TOML"),
        ('[[workers]]\nname = "a"\n', "unknown key 'workers'; did you mean 'worker'?"),
        (WORKER.format("a") + "frequency_mhz = 3\n", "worker 1 has the unknown key 'frequency_mhz'"),
        (WORKER.format("a") + "rams = 3\n", "unknown key 'rams'; did you mean 'ram'?"),
        ('[[worker]]\nname = "a"\nmhz = 6\n', "worker 1 has no target"),
        ('[[worker]]\nname = "a"\nmhz = 6\nboard = "teensy14"\n', "'a' has no target, and its board: 'teensy14' is no"),
        (WORKER.format("a").replace("m7", "m9"), "did you mean 'cortex-m"),
        (
            WORKER.format("a").replace("600", "0"),
            "mhz of 'a' must be a number from 0.001 to 1e+09, not 0",
        ),
        (WORKER.format("a").replace("600", "1e10"), "mhz of 'a' must be a number from 0.001 to 1e+09"),
        (WORKER.format("a") + "[worker.link]\ndelay_ms_per_message = 1e308\n", "from 0 to 1e+09, not 1e+308"),
        (WORKER.format("a\\nb"), "worker 1 needs a name in quotes, 100 printable characters at most, not 'a\\nb'"),
        (WORKER.format("\\u0000"), "needs a name in quotes, 100 printable characters at most"),
        (WORKER.format("n" * 101), "needs a name in quotes, 100 printable characters at most"),
        (WORKER.format(" "), "needs a name in quotes"),
        (WORKER.format("a").replace("600", "nan"), "mhz of 'a' must be a number"),
        (WORKER.format("a").replace("600", "9" * 400), "more than 64 bits"),
        (WORKER.format("a").replace("600", "true"), "mhz of 'a' must be a number"),
        (WORKER.format("a") + 'ram = "12 apples"\n', "ram of 'a': '12 apples' is not a size"),
        (WORKER.format("a") + "ram = -1\n", "ram of 'a' is a size"),
        (WORKER.format("a") + WORKER.format("a"), "two devices are called 'a'"),
        (WORKER.format("a") + '[coordinator]\nram = "64kB"\n', "the coordinator has no limit of ram"),
        (WORKER.format("a") + "[worker.link]\nkilobytes_per_secnd = 3\n", "did you mean 'kilobytes_per_second'?"),
        (WORKER.format("a") + "[worker.link]\nkilobytes_per_second = 0\n", "kilobytes_per_second of 'a'"),
        (
            WORKER.format("one") + '[[link]]\nbetween = ["one", "ona"]\n',
            "'ona', which is no device; did you mean 'one'?",
        ),
        (WORKER.format("a") + '[[link]]\nbetween = ["a"]\n', "a link needs between"),
        (WORKER.format("a") + "link = 3\n", "the link of 'a' is a table"),
        (WORKER.format("a") + '[[link]]\nbetween = ["a", "a"]\n', "a link joins 'a' with itself"),
        (WORKER.format("a") + '[[link]]\nbetween = ["a", "coordinator"]\n', "each worker reaches anyway"),
        (PAIR + 'shared = "yes"\n', "shared is true or false, not 'yes'"),
        (PAIR + "shared = true\ndirect = false\n", "carries nothing, unless between names 'coordinator', too"),
        (PAIR + 'shared = true\n[[link]]\nbetween = ["b", "a"]\nshared = true\n', "two shared links join 'a' and 'b'"),
    ],
)
def test_defects_are_reported_in_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        read_workers(written(tmp_path, text))
    assert message in str(raised.value) and "workers.toml" in str(raised.value) and "\n" not in str(raised.value)
