"""Row programs (`kernels.rows`) into given memory: softmaxes and norms over the last dims."""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Any

import numpy

from dynograd.kernels.build import compiled_kernels
from dynograd.kernels.build.launches import Launch
from dynograd.kernels.rows.row_programs import COLUMN_SUM, EACH, FUNCTION_WORK, ROW, VECTOR, RowProgram
from dynograd.plans.calls import Call
from dynograd.plans.lowering import layouts
from dynograd.plans.lowering.families import reductions
from dynograd.plans.lowering.forms import Lowered, arguments_of, form

__all__ = ["program_launches", "rows_exactly"]

_BLOCKS = 16  # of rows, where there are several


@cache
def _program(name: str) -> RowProgram:
    from dynograd.kernels.rows.row_formulas import PROGRAMS

    return RowProgram(name, PROGRAMS[name])


@cache
def _kernel(name: str, dtype: str, inner: bool) -> Any:
    from dynograd.kernels.rows import row_programs_numba

    return (row_programs_numba.kernel_inner_of if inner else row_programs_numba.kernel_of)(_program(name), dtype)


def rows_exactly(array: Any) -> bool:
    """Whether eager goes through the row program too."""
    return array.dtype.char == "f" and compiled_kernels.compiled_for(array.size) is not None


def program_launches(
    name: str, shape: tuple[int, ...], inputs: dict[str, Any], outputs: dict[str, Any]
) -> list[Launch] | None:
    """Launches of a row program.

    Args:
        name: of the program.
        shape: (rows, columns), or (outer, columns, inner).
        inputs: arrays by name, or numbers.
        outputs: arrays by name, or None for one that nobody wants; column sums have any shape of `columns` elements.
    """
    program = _program(name)
    first = next(inputs[text] for text, kind in program.inputs.items() if kind == ROW)
    dtype = first.dtype
    if dtype.name not in ("float32", "float64") or 0 in shape:
        return None
    inner = len(shape) == 3
    each = shape[::2] if inner else shape[:1]
    sizes = {ROW: shape, EACH: each, VECTOR: (shape[1],)}
    before: list[Launch] = []
    behind: list[Launch] = []
    arguments: list[Any] = []
    for text, kind in program.inputs.items():
        value = inputs[text]
        if not isinstance(value, numpy.ndarray):
            arguments.append(value)
            continue
        if value.size != prod(sizes[kind]) or (text not in program.whole and value.dtype != dtype):
            return None
        if not value.flags.c_contiguous:
            copied = layouts.scratch(value.shape, value.dtype)
            put = layouts.copy(copied, value)
            if put is None:
                return None
            before += put
            value = copied
        arguments.append(layouts.flat(value).reshape(sizes[kind]))
    sums = [text for text in program.outputs if program.kind_of(text) == COLUMN_SUM]
    blocks = block_rows = 0
    if sums:
        from dynograd.kernels.rows.row_programs_numba import column_blocks

        blocks, block_rows = column_blocks(*shape)
        if blocks > 1:  # as many for many numbers of rows
            blocks = max(_BLOCKS, 1 << (blocks - 1).bit_length())
            block_rows = -(-shape[0] // blocks)
    for text in program.outputs:
        kind, target = program.kind_of(text), outputs.get(text)
        if kind == COLUMN_SUM:
            whole = layouts.scratch((blocks, shape[1]), dtype)
            arguments.append(whole)
            if target is not None:
                put = reductions.summed(whole, (0,), target.reshape(shape[1]))
                if put is None or not target.flags.c_contiguous:
                    return None
                behind += put
            continue
        if target is None or not target.flags.c_contiguous or target.dtype != dtype:
            whole = layouts.scratch(sizes[kind], dtype)
            if target is not None:
                put = layouts.copy(target, whole.reshape(target.shape))
                if put is None:
                    return None
                behind += put
            target = whole
        arguments.append(layouts.flat(target).reshape(sizes[kind]))
    if sums:
        arguments.append(block_rows)
    costly = sum([step.costly for step in program.steps.values() if step.kind == ROW])
    work = prod(shape) * (program.passes + FUNCTION_WORK * costly)
    width = 256 if not inner else _width()
    count = shape[0] * -(-shape[2] // width) if inner else blocks if sums else shape[0]
    launch = Launch(_kernel(name, dtype.name, inner), tuple(arguments), count, layouts.parts_of(work, count))
    return [*before, launch, *behind]


def _width() -> int:
    from dynograd.kernels.rows import row_programs_numba

    return row_programs_numba.WIDTH


def _folded(shape: tuple[int, ...], dim: int) -> tuple[int, ...]:
    inner = prod(shape[dim + 1 :])
    outer = prod(shape[:dim])
    return (outer, shape[dim]) if inner == 1 else (outer, shape[dim], inner)


@form("op", "softmax", "log_softmax")
def _softmax(call: Call) -> Lowered | None:
    x, y, dim = call.inputs[0], call.outputs[0], arguments_of(call)["dim"]
    if not x.ndim or not isinstance(dim, int) or x.dtype != y.dtype:
        return None
    launches = program_launches(call.name, _folded(x.shape, dim % x.ndim), {"x": x}, {"y": y})
    return None if launches is None else Lowered(launches, rows_exactly(x))


@form("rule", "softmax", "log_softmax")
def _softmax_rule(call: Call) -> Lowered | None:
    g, y, target = call.inputs[0], call.node.output, call.outputs[0]
    (dim,) = call.node.attrs
    if target is None or not y.ndim or y.dtype != g.dtype:
        return None
    shape = _folded(y.shape, dim % y.ndim)
    launches = program_launches(f"{call.name}_backward", shape, {"g": g, "y": y}, {"gx": target})
    return None if launches is None else Lowered(launches, rows_exactly(y))


@cache
def _constant(value: float, count: int, dtype: str) -> numpy.ndarray:
    return numpy.full(count, value, dtype)


def _vector(values: Any, default: float, count: int, dtype: Any) -> numpy.ndarray:
    return _constant(default, count, dtype.name) if values is None else values


def _rows_of(x: Any, rank: int) -> tuple[int, int]:
    split = x.ndim - rank
    return prod(x.shape[:split]), prod(x.shape[split:])


@form("op", "layer_norm")
def _layer_norm(call: Call) -> Lowered | None:
    arguments = arguments_of(call)
    x, y = arguments["input"], call.outputs[0]
    shape = _rows_of(x, arguments["rank"])
    node = call.node
    inputs = {
        "x": x,
        "weight": _vector(arguments["weight"], 1, shape[1], x.dtype),
        "bias": _vector(arguments["bias"], 0, shape[1], x.dtype),
        "eps": float(arguments["eps"]),
    }
    outputs = {"y": y, "mean": getattr(node, "mean", None), "rstd": getattr(node, "rstd", None)}
    launches = program_launches("layer_norm", shape, inputs, outputs)
    return None if launches is None else Lowered(launches, rows_exactly(x))


@form("rule", "layer_norm")
def _layer_norm_rule(call: Call) -> Lowered | None:
    node, g = call.node, call.inputs[0]
    x, rank = node.input, node.attrs[0]
    shape = _rows_of(x, rank)
    inputs = {
        "g": g,
        "x": x,
        "mean": node.mean,
        "rstd": node.rstd,
        "weight": _vector(node.weight, 1, shape[1], x.dtype),
    }
    launches = program_launches("layer_norm_backward", shape, inputs, dict(zip(("gx", "gw", "gb"), call.outputs)))
    return None if launches is None else Lowered(launches, exact=False)


@form("op", "rms_norm")
def _rms_norm(call: Call) -> Lowered | None:
    arguments = arguments_of(call)
    x, y = arguments["input"], call.outputs[0]
    shape = _rows_of(x, arguments["rank"])
    inputs = {"x": x, "weight": _vector(arguments["weight"], 1, shape[1], x.dtype), "eps": float(arguments["eps"])}
    outputs = {"y": y, "scale": getattr(call.node, "scale", None)}
    launches = program_launches("rms_norm", shape, inputs, outputs)
    return None if launches is None else Lowered(launches, rows_exactly(x))


@form("rule", "rms_norm")
def _rms_norm_rule(call: Call) -> Lowered | None:
    node, g = call.node, call.inputs[0]
    x, rank = node.input, node.attrs[0]
    shape = _rows_of(x, rank)
    inputs = {"g": g, "x": x, "scale": node.scale, "weight": _vector(node.weight, 1, shape[1], x.dtype)}
    launches = program_launches("rms_norm_backward", shape, inputs, dict(zip(("gx", "gw"), call.outputs)))
    return None if launches is None else Lowered(launches, exact=False)
