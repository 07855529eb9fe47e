"""Public models: whole arenas, and the contribution of each technique."""

from __future__ import annotations

from typing import Any

from scripts.papers.data import Data, Row
from scripts.papers.measured import INPUTS, measure
from tflite_fuse.errors import UsageError
from tflite_fuse.passes.goal import Goal
from tflite_fuse.passes.options import FuseOptions

AIMS = {
    "mlperf_tiny_vww96_int8": (30_500, 13_200, 11_000),
    "tflm_person_detect_int8": (15_500, 12_800, 11_000),
    "mlperf_tiny_resnet8_int8": (13_500, 13_500, 13_500),
    "mlperf_tiny_dscnn_kws_int8": (7_500, 6_900, 6_900),
    "mcunet_vww1_float_io_int8": (23_500, 14_600, 13_600),
    "mcunet_in3_int8": (100_500, 55_800, 55_800),
}
"""What the whole arena may take at most on public models at F <= 1.1: input resident, streamed, external."""


def frontier(data: Data) -> dict[str, Any]:
    """Return the whole arena of public models, beside the limits that this package sets itself."""
    if not data.inputs:
        raise UsageError("the frontier is made of real runs; give --inputs 1 or more")
    rows = []
    for name, aims in AIMS.items():
        if data.model not in (None, name):
            continue
        model, row = data.file(name), Row(model=name)
        for mode, aim in zip(INPUTS, aims, strict=True):
            fuse = FuseOptions(goal=Goal(max_compute=FRONTIER_FACTOR), input_mode=mode)
            run = measure(name, model, fuse, data.inputs)
            row[f"{mode.value}: arena_bytes"], row[f"{mode.value}: estimate_bytes"] = (
                run.arena_bytes,
                run.estimate_bytes,
            )
            row[f"{mode.value}: aim_bytes"], row[f"{mode.value}: F"] = aim, run.compute_factor
            row["met"] = row.get("met", True) and run.arena_bytes <= aim
        rows.append(row)
    return {
        "paper": "frontier",
        "accounting": "the arena to allocate for TFLM's reference kernels on 32-bit Arm, of"
        f" models as they are published, QUANTIZE and DEQUANTIZE at float32 ends dropped, at F <= {FRONTIER_FACTOR};"
        f" every one gave the original's bytes on {data.inputs} inputs in each mode.",
        "rows": rows,
    }


FRONTIER_FACTOR = 1.1

IDEAS = {
    "all": {},
    "no overlap": {"overlap": False},
    "no strips": {"strips": False},
    "neither": {"overlap": False, "strips": False},
}
"""What an ablation switches off; on the command line --no-overlap and --no-strips."""


def ablation(data: Data) -> dict[str, Any]:
    """Return the gains of moving the input out, of overlap and of strips, on public models."""
    if not data.inputs:
        raise UsageError("the ablation is made of real runs; give --inputs 1 or more")
    rows = []
    for name in AIMS:
        if data.model not in (None, name):
            continue
        model, row = data.file(name), Row(model=name)
        for mode in INPUTS:
            for idea, switches in IDEAS.items():
                fuse = FuseOptions(goal=Goal(max_compute=FRONTIER_FACTOR), input_mode=mode, **switches)
                run = measure(f"{name}, {idea}", model, fuse, data.inputs)
                row[f"{mode.value}, {idea}: arena_bytes"] = run.arena_bytes
        rows.append(row)
    return {
        "paper": "ablation",
        "accounting": f"the whole arena at F <= {FRONTIER_FACTOR}, measured as in the frontier; overlap: a block writes"
        " over input it needs no more; strips: a block runs in strips and computes some columns twice.",
        "rows": rows,
    }
