"""Shared parts of the folders for TFLM: the model as an array, its resolver, and parts of a main program."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tflite_fuse.errors import UsageError
from tflite_fuse.export.arena import Declared, declared_arenas
from tflite_fuse.export.ports import (
    SHOWN_ELEMENTS,
    Port,
    checked_outside,
    memory_macro,
    model_ports,
    outside_source,
    port_macros,
    require_arithmetic,
)
from tflite_fuse.export.text import byte_array, comment, fill
from tflite_fuse.ir.program import FUSED_OPERATOR
from tflite_fuse.memory.tflm.runtimes import Runtime
from tflite_fuse.memory.tflm.tail import resource_variables
from tflite_fuse.model.memories import slow_bytes
from tflite_fuse.model.outside import OutsideInput
from tflite_fuse.model.schema import Model
from tflite_fuse.runtime.registration import method, used_operators


def registration(name: str) -> str:
    """Return a C++ expression that registers an operator with ``ops``. Raises UsageError if TFLM has none such."""
    if name == FUSED_OPERATOR:
        return "tflite_fuse_register(ops)"
    if (adds := method(name)) is not None:
        return f"ops.{adds}()"
    if name.startswith("CUSTOM:"):
        raise UsageError(
            f"no project of an export registers the custom operator {name.removeprefix('CUSTOM:')}: run the model in a "
            "program of yours that does, or convert it without that operator"
        )
    raise UsageError(
        f"TensorFlow Lite Micro has no method that registers the operator {name}: convert the model without it"
    )


STEP_PAUSE, PAUSE = 20, 5000
"""Milliseconds between two runs of a main program: of a model with state, and of any other."""


@dataclass(frozen=True)
class TflmModel:
    """A model for a folder for TFLM.

    Attributes:
        title: its name in comments.
        data: the .tflite file.
        runtime: its runtime.
        arenas: by core.
        inputs, outputs: in the arena.
        outside: inputs outside the arena.
        operators: names, each once.
        variables: number of resource variables.
        remembers: whether a run depends on those before it.
        memory: bytes of the second memory.
        two_arenas: whether the runtime's own data and activations are two arrays.
    """

    title: str
    data: bytes
    runtime: Runtime
    arenas: tuple[Declared, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    outside: tuple[OutsideInput, ...]
    operators: tuple[str, ...]
    variables: int
    remembers: bool
    memory: int
    two_arenas: bool = False

    @property
    def pause(self) -> int:
        """Return the milliseconds from run to run."""
        return STEP_PAUSE if self.remembers else PAUSE

    @property
    def run(self) -> str:
        """Return a main program's action and interval, for a comment."""
        title = comment(self.title)
        return f"a step of {title} every {STEP_PAUSE} ms" if self.remembers else f"{title} every five seconds"


def tflm_model(model: Model, data: bytes, title: str, runtime: Runtime) -> TflmModel:
    """Return the data of a model for the templates.

    Raises:
        ModelError, PlanError: the model is damaged.
        UsageError: too many inputs outside the arena, or an operator that is hybrid or computes in uint8.
    """
    require_arithmetic(model)
    inputs, outputs = model_ports(model)
    arenas = declared_arenas(model, runtime)
    outside, operators = checked_outside(model), used_operators(model)
    variables = len(resource_variables(model, model.subgraphs))
    remembers = variables > 0 or any(tensor.is_variable for tensor in model.main.tensors)
    memory = slow_bytes(model)
    return TflmModel(title, data, runtime, arenas, inputs, outputs, outside, operators, variables, remembers, memory)


def model_files(model: TflmModel, where: str, fused_header: str) -> dict[str, str]:
    """Return ``model_data.h``, ``model_data.c`` and ``model_ops.h``, below ``where``.

    Args:
        model: the model.
        where: path with a slash at its end, or empty.
        fused_header: path of ``tflite_fuse_tflm.h`` in an include from there.

    Raises:
        UsageError: the resolver has no method for an operator.
    """
    return {**data_files(model, where, "model"), f"{where}model_ops.h": _ops_header(model, fused_header)}


def data_files(model: TflmModel, where: str, name: str) -> dict[str, str]:
    """Return header and array of a model with the C++ name ``name``, below ``where``."""
    array = byte_array("const unsigned char model_data[MODEL_BYTES] __attribute__((aligned(16)))", model.data)
    texts = {"h": _data_header(model), "c": f'#include "model_data.h"\n\n{array}'}
    return {
        f"{where}{name}_data.{suffix}": re.sub(
            r"\b(MODEL|model)_(?=[A-Zd])", lambda match: f"{name.upper() if match[1] == 'MODEL' else name}_", text
        )
        for suffix, text in texts.items()
    }


def _data_header(model: TflmModel) -> str:
    unknown = model.arenas[-1].arena.unknown
    exact = f": what {comment(', '.join(unknown))} needs is not known" if unknown else ""
    return fill(
        "tflm/model_data.h",
        title=comment(model.title),
        size=len(model.data),
        runtime=model.runtime,
        exact=exact,
        arenas=_arena_macros(model.arenas, model.two_arenas)
        + memory_macro(model.memory)
        + ("\n" + fill("tflm/sections.h") if model.two_arenas else ""),
        ports="".join(port_macros(port) + "\n" for port in (*model.inputs, *model.outputs)),
    )


def _arena_macros(arenas: tuple[Declared, ...], two: bool) -> str:
    """Return one definition, or one for each kind of core."""
    if len(arenas) == 1:
        return _arena_macro(arenas[0], two)
    lines = ['#if defined(__has_include)\n#if __has_include("sdkconfig.h")\n#include "sdkconfig.h"\n#endif\n#endif\n']
    for number, declared in enumerate(arenas):
        test = f"{'#elif' if number else '#if'} {declared.condition} /* {declared.core} */"
        lines += [test if declared.condition else "#else", "\n", _arena_macro(declared, two)]
    return "".join((*lines, "#endif\n"))


def _arena_macro(declared: Declared, two: bool) -> str:
    if two:
        persistent, activations = declared.apart.persistent, declared.apart.activations + declared.margin
        return (
            "/* Two arrays: what the runtime keeps, and activations with scratch. */\n"
            f"#define MODEL_PERSISTENT_BYTES {persistent}\n#define MODEL_ACTIVATIONS_BYTES {activations}\n"
            "#define MODEL_ARENA_BYTES (MODEL_PERSISTENT_BYTES + MODEL_ACTIVATIONS_BYTES)\n"
        )
    arena = declared.arena
    parts = [f"{arena.head} (activations, scratch) + {arena.tail} (the runtime's own data)"]
    if arena.needed - arena.total >= 16:
        parts.append(f"{arena.needed} for a moment while it loads")
    if declared.margin:
        parts.append(f"{declared.margin} added, as versions of ESP-NN differ")
    return f"/* {'; '.join(parts)}. */\n#define MODEL_ARENA_BYTES {declared.nbytes}\n"


def _ops_header(model: TflmModel, fused_header: str) -> str:
    calls = list(map(registration, model.operators))
    fused = any(call.startswith("tflite_fuse_") for call in calls)
    return fill(
        "tflm/model_ops.h",
        title=comment(model.title),
        include=f'#include "{fused_header}"\n' if fused else "",
        count=max(1, len(calls)),
        body="".join(f"  if ({call} != kTfLiteOk) {{\n    return kTfLiteError;\n  }}\n" for call in calls)
        or "  (void)ops;\n",
    )


# ---- Main programs ----


def includes(model: TflmModel) -> str:
    """Return the headers of every main program, and the inputs outside the arena."""
    source = outside_source(model.outside, model.memory)
    variables = '#include "tensorflow/lite/micro/micro_resource_variable.h"\n' if model.variables else ""
    return fill("tflm/includes.h", variables=variables, outside=f"\n{source}" if source else "")


def setup(model: TflmModel, print_line: str) -> str:
    """Return ``arena``, ``interpreter``, ``SetUp``, ``FillInputs`` and ``PrintOutputs`` in namespace tflite::micro.

    Args:
        model: the model.
        print_line: C++ that prints the char array ``line``.
    """
    here = _STEPS_HERE if model.remembers else _HERE
    filled = [f"  memset(interpreter->input({p.number})->data.raw, 0, {p.macro}_BYTES);{here}\n" for p in model.inputs]
    two = model.two_arenas
    return fill(
        "tflm/setup.cpp",
        arrays=_ARRAYS if two else "alignas(16) static uint8_t arena[MODEL_ARENA_BYTES];",
        bytes="sizeof(persistent) + sizeof(arena)" if two else "sizeof(arena)",
        allocator=", typename Allocator = MicroAllocator" if model.variables or two else "",
        plain=_built(model, ""),
        reported=_built(model, ", &reporter"),
        print_line=print_line,
        hand_over="  tflite_fuse_set_outside(&outside);\n" if model.outside or model.memory else "",
        fill="".join(filled),
        print="".join(_print(port, print_line) for port in model.outputs),
    )


def _built(model: TflmModel, reporter: str) -> str:
    """Return the definition of the interpreter; the runtime has variables only if the application creates them."""
    if not (model.variables or model.two_arenas):
        return f"  static Interpreter built(model, ops, arena, sizeof(arena){reporter});\n"
    buffers = f"{'persistent, sizeof(persistent), ' if model.two_arenas else ''}arena, sizeof(arena)"
    variables = f", MicroResourceVariables::Create(allocator, {model.variables})" if model.variables else ""
    return (
        f"  Allocator* allocator = Allocator::Create({buffers}{reporter});\n"
        f"  static Interpreter built(model, ops, allocator{reporter}{variables});\n"
    )


_ARRAYS = """\
alignas(16) static uint8_t persistent[MODEL_PERSISTENT_BYTES] MODEL_PERSISTENT_SECTION;
alignas(16) static uint8_t arena[MODEL_ACTIVATIONS_BYTES] MODEL_ACTIVATIONS_SECTION;"""


_HERE = "  // Your data goes here."
_STEPS_HERE = (
    "  // Your data goes here, the new time steps: earlier ones are remembered. interpreter->Reset() forgets them."
)


def _print(port: Port, print_line: str) -> str:
    if port.field is None:
        return f"  // Output {port.number} has elements of a type that is not shown here.\n"
    count, line = min(SHOWN_ELEMENTS, port.elements), print_line
    return fill(
        "tflm/print.cpp", number=port.number, count=count, field=port.field, factor=port.factor, print_line=line
    )
