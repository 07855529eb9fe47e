#!/usr/bin/env python3
"""Write the tables of docs/comparison.md: comparison.py RESULTS.json ...

Each file is the output of ``bench_papers.py --json`` (with ``--paper NAME`` or without), of ``bench_order.py --json``,
or as ``split.txt`` of ``bench_split.py``. Tables that are in no file stay unchanged.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.readme import write_part

PAGE = Path(__file__).resolve().parents[1] / "docs" / "comparison.md"

Row = Mapping[str, Any]


def kilobytes(value: float | None) -> str:
    """Return bytes in thousands with one decimal, as in the papers."""
    return "-" if value is None else f"{value / 1000:.1f}"


def factor(value: float | None) -> str:
    """Return a factor with two decimals."""
    return "-" if value is None else f"{value:.2f}"


def whole(value: float | None) -> str:
    """Return a number with separators of thousands."""
    return "-" if value is None else f"{value:,.0f}"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """Return a Markdown table; the first ``left`` columns are words, and columns without a figure are omitted."""
    cells = [tuple(row) for row in rows]
    kept = [at for at in range(len(heads)) if at < left or any(row[at] != "-" for row in cells)]
    heads, rows = [heads[at] for at in kept], [[row[at] for at in kept] for row in cells]
    line = "|".join(["---"] * left + ["---:"] * (len(heads) - left))
    return "\n".join([f"| {' | '.join(heads)} |", f"|{line}|", *(f"| {' | '.join(row)} |" for row in rows)])


def msf_cnn(rows: Sequence[Row]) -> str:
    """Return Table 1 of msf-CNN."""
    heads = ("network", "constraint", "their kB", "their F", "our search, kB", "F", "our run: head kB", "arena kB", "F")
    return table(
        heads,
        (
            (
                row["model"],
                row["constraint"],
                *_solved(row, "theirs", "ram_bytes"),
                *_solved(row, "ours", "ram_bytes"),
                *_solved(row, "measured", "head_bytes", "arena_bytes"),
            )
            for row in rows
        ),
        2,
    )


def _solved(row: Row, whose: str, *sizes: str) -> tuple[str, ...]:
    """Return sizes and the compute factor of an answer, of which there may be none."""
    values = [row.get(f"{whose}_{size}") for size in sizes]
    if f"{whose}_{sizes[0]}" in row and values[0] is None:
        return "no solution", *["-"] * len(sizes)
    return *map(kilobytes, values), factor(row.get(f"{whose}_compute_factor"))


def msf_cnn_least(rows: Sequence[Row]) -> str:
    """Return Table 3 of msf-CNN."""
    systems = ("vanilla", "MCUNetV2", "StreamNet", "msf-CNN")
    return table(
        ("network", *(f"{system} kB" for system in systems), "ours kB", "our F"),
        (
            (
                row["model"],
                *(kilobytes(row[f"theirs {system}: ram_bytes"]) for system in systems),
                kilobytes(row["ours_ram_bytes"]),
                factor(row["ours_compute_factor"]),
            )
            for row in rows
        ),
    )


def msf_cnn_boards(rows: Sequence[Row]) -> str:
    """Return Tables 2 and 4 of msf-CNN."""
    heads = ("network", "board", "core", "board's kB", "their kB", "their ms", "their time x", "our kB", "fits")
    heads += ("million instructions", "our ms, estimated", "instructions x", "instructions x in their kB")
    return table(
        heads,
        (
            (
                row["model"],
                row["board"],
                f"{row['core']}, {row['mhz']} MHz",
                kilobytes(row["board_ram_bytes"]),
                kilobytes(row["theirs_ram_bytes"]),
                whole(row["theirs_ms"]),
                factor(row["theirs_time_factor"]),
                kilobytes(row["ours_ram_bytes"]),
                "yes" if row["ours_fits"] else "no",
                f"{row['ours_instructions'] / 1e6:.1f}",
                f"{whole(row['ours_least_ms'])} to {whole(row['ours_most_ms'])}" if row["ours_fits"] else "-",
                factor(row["ours_instruction_factor"]),
                factor(row["ours_factor_at_theirs"]),
            )
            for row in rows
        ),
        3,
    )


def msf_cnn_time(rows: Sequence[Row]) -> str:
    """Return Table 6 of msf-CNN."""
    heads = ("network", "constraint", "their kB", "their time", "our kB", "our instructions")
    return table(
        heads,
        (
            (
                row["model"],
                row["constraint"],
                kilobytes(row["theirs_ram_bytes"]),
                factor(row["theirs_time_factor"]),
                kilobytes(row["ours_ram_bytes"]),
                factor(row["ours_instruction_factor"]),
            )
            for row in rows
        ),
        2,
    )


def streamnet(rows: Sequence[Row]) -> str:
    """Return Table 1 of StreamNet: memory."""
    modes = ("resident", "streamed", "external")
    heads = ("network", "image kB", "MCUNetV2 kB", "StreamNet-2D kB", "MCUNetV2's time / 2-D's")
    heads += tuple(f"ours, {mode}: head" for mode in modes)
    heads += tuple(f"arena, {mode}" for mode in modes)
    return table(
        heads,
        (
            (
                row["model"],
                kilobytes(row["image_bytes"]),
                kilobytes(row["theirs_mcunetv2_ram_bytes"]),
                kilobytes(row["theirs_stream_2d_ram_bytes"]),
                factor(row.get("theirs_mcunetv2_time_over_2d")),
                *(kilobytes(row.get(f"measured {mode} head_bytes")) for mode in modes),
                *(kilobytes(row.get(f"measured {mode} arena_bytes")) for mode in modes),
            )
            for row in rows
        ),
    )


SCHEMES = {"mcunetv2": "patches", "sn1d": "1-D", "sn2d": "2-D"}


def streamnet_work(rows: Sequence[Row]) -> str:
    """Return Table 2 of StreamNet."""
    heads = ["network", "their n / split", *(f"their MMAC, {name}" for name in SCHEMES.values())]
    heads += [f"counted, {name}" for name in SCHEMES.values()]
    heads += [f"our {name}: {what}" for name in SCHEMES.values() for what in ("kB", "n / split", "work x")]
    heads += ["chosen", "auto in that RAM: work x"]
    return table(
        heads,
        (
            (
                row["model"],
                f"{row['theirs: n_patch']} / {row['theirs: split_idx']}",
                *(f"{row[f'{whose} {key}: macs'] / 1e6:.1f}" for whose in ("theirs", "counted") for key in SCHEMES),
                *(cell for key in SCHEMES for cell in _scheme(row, key)),
                SCHEMES[row["chosen"]],
                factor(row["ours auto: work factor"]),
            )
            for row in rows
        ),
    )


def _scheme(row: Row, key: str) -> tuple[str, str, str]:
    parameters = f"{row[f'ours {key}: n_patch']} / {row[f'ours {key}: split_idx']}"
    return kilobytes(row[f"ours {key}: ram_bytes"]), parameters, factor(row[f"ours {key}: work factor"])


def streamnet_time(rows: Sequence[Row]) -> str:
    """Return Table 3 of StreamNet."""
    heads = ["network", *(f"their time / 2-D, {name}" for name in SCHEMES.values())]
    heads += [f"our {name}: {what}" for name in SCHEMES.values() for what in ("kB", "instructions x")]
    heads += ["chosen", "auto in that RAM: instructions x"]
    return table(
        heads,
        (
            (
                row["model"],
                *(factor(row[f"theirs {key}: time over sn2d"]) for key in SCHEMES),
                *(
                    cell
                    for key in SCHEMES
                    for cell in (
                        kilobytes(row[f"ours {key}: ram_bytes"]),
                        factor(row[f"ours {key}: instruction factor"]),
                    )
                ),
                SCHEMES[row["chosen"]],
                factor(row["ours auto: instruction factor"]),
            )
            for row in rows
        ),
    )


def fused_layer(rows: Sequence[Row]) -> str:
    """Return Figure 3 of the fused-layer paper."""
    heads = ("network", "input", "tiles", "unfused kB", "their Algorithm 1: kB", "MACs x", "their scheme here: kB")
    heads += ("MACs x", "instructions x", "our search: kB", "MACs x", "instructions x", "in 512 kB")
    heads += ("run, their scheme: kB", "run, our search: kB")
    return table(
        heads,
        (
            (
                row["model"],
                row["input"],
                row["tiles"],
                kilobytes(row["unfused_ram_bytes"]),
                kilobytes(row["alg1_ram_bytes"]),
                factor(row["alg1_compute_factor"]),
                kilobytes(row["scheme_ram_bytes"]),
                factor(row["scheme_compute_factor"]),
                factor(row["scheme_instruction_factor"]),
                kilobytes(row["auto_ram_bytes"]),
                factor(row["auto_compute_factor"]),
                factor(row["auto_instruction_factor"]),
                _fitting(row),
                kilobytes(row.get("measured_scheme_bytes")),
                kilobytes(row.get("measured_auto_bytes")),
            )
            for row in rows
        ),
        3,
    )


def _fitting(row: Row) -> str:
    fits = [name for name, key in (("theirs", "alg1"), ("ours", "auto")) if row[f"{key}_fits"]]
    return {0: "neither", 1: f"{''.join(fits)} alone", 2: "both"}[len(fits)]


def frontier(rows: Sequence[Row]) -> str:
    """Return the whole arenas of public models."""
    modes = ("resident", "streamed", "external")
    return table(
        ("model, F at most 1.1", *(f"arena, {mode}" for mode in modes)),
        ((row["model"], *(whole(row[f"{mode}: arena_bytes"]) for mode in modes)) for row in rows),
    )


def order(rows: Sequence[Row]) -> str:
    """Return the peaks of orders."""
    heads = ("graph", "operators", "peak in the order given", "least peak", "no order needs less than")
    kept = (row for row in rows if not row["without"] and row["default_peak"] != row["peak"] and "_" in row["graph"])
    return table(
        heads,
        (
            (
                row["graph"],
                whole(row["operators"]),
                *(whole(row[key]) for key in ("default_peak", "peak", "lower_bound")),
            )
            for row in kept
        ),
    )


def peers_ram(rows: Sequence[Row]) -> str:
    """Return the RAM of other engines beside ours."""
    heads = ("network", "system", "what it counts", "source", "theirs", "TFLM's arena", "ours", "and input streamed")
    return table(
        heads,
        (
            (
                row["model"],
                row["system"],
                row["what_is_counted"],
                row["source"] if not row.get("note") else f"{row['source']}; ours: {row['note']}",
                whole(row["theirs_bytes"]),
                whole(row.get("tflm_arena_bytes")),
                whole(row.get("ours_arena_bytes")),
                whole(row.get("ours_streamed_arena_bytes")),
            )
            for row in rows
        ),
        4,
    )


def peers_cycles(rows: Sequence[Row]) -> str:
    """Return the cycles of other engines beside our instructions."""
    heads = ("network", "core", "system", "source", "their million cycles", "our million instructions")

    def millions(value: float | None) -> str:
        return "-" if value is None else f"{value / 1e6:.2f}"

    return table(
        heads,
        (
            (
                row["model"],
                row["core"],
                row["system"],
                row["source"],
                millions(row["theirs_cycles"]),
                millions(row.get("ours_instructions")),
            )
            for row in rows
        ),
        4,
    )


TABLES: dict[str, Callable[[Sequence[Row]], str]] = {
    "msf-cnn": msf_cnn,
    "msf-cnn-least": msf_cnn_least,
    "msf-cnn-boards": msf_cnn_boards,
    "msf-cnn-time": msf_cnn_time,
    "streamnet": streamnet,
    "streamnet-work": streamnet_work,
    "streamnet-time": streamnet_time,
    "fused-layer": fused_layer,
    "frontier": frontier,
    "peers-ram": peers_ram,
    "peers-cycles": peers_cycles,
}

ALSO = {"streamnet-work": ("streamnet-time",)}
"""Tables made of the rows of another one."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the tables for which the files hold results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", type=Path)
    for path in parser.parse_args(arguments).results:
        try:
            text = path.read_text(encoding="utf-8")
            document = None if path.suffix == ".txt" else json.loads(text)
        except (OSError, ValueError) as error:
            parser.error(f"{path} has no results ({error})")
        if path.suffix == ".txt":
            write_part(path.stem, f"```text\n{text.strip()}\n```\n", PAGE)
            continue
        if isinstance(document, list) and "graph" in document[0]:
            write_part("order", f"{order(document)}\n", PAGE)
            continue
        for result in document if isinstance(document, list) else [document]:
            accounting = f"*{result['accounting'][0].upper()}{result['accounting'][1:].rstrip('.')}.*"
            for name in (result["paper"], *ALSO.get(result["paper"], ())):
                if name in TABLES:
                    write_part(name, f"{TABLES[name](result['rows'])}\n\n{accounting}\n", PAGE)


if __name__ == "__main__":
    main()
