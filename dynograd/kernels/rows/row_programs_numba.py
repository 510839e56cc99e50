"""CPU kernels of row programs: one Numba function each, in the form that vectorises, and a runner that allocates its results.

Each pass over a row is one loop on row slices. Sums run in the dtype of the rows, in lanes, for `SUM_BLOCK` elements at a time,
and in float64 from block to block: rows of a million elements keep an error near 1e-6. Column sums are taken for each block of
rows, then over the blocks in order. Maxima compare integers that sort like the floats, which vectorises.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy
from numba import types
from numba.extending import overload

from dynograd.arrays import buffers
from dynograd.arrays.buffers import in_shape
from dynograd.base.generated_sources import run_source
from dynograd.kernels.build import threads
from dynograd.kernels.build.bits_numba import float32_of, float64_of, int32_of, int64_of
from dynograd.kernels.build.compiling_numba import IN_ORDER, PIPELINE, compile_source, compiled
from dynograd.kernels.build.kernel_cache import digest_of
from dynograd.kernels.formula import formulas, formulas_numba, logarithms_numba, math_numba, normal_numba, special_numba
from dynograd.kernels.formula.formulas import Tree
from dynograd.kernels.formula.formulas_numba import to_numba
from dynograd.kernels.rows.row_programs import COLUMN_SUM, EACH, FUNCTION_WORK, NUMBER, ROW, VECTOR, RowProgram, Step

SUM_BLOCK = 4096  # elements: see the top
# Rows that a kernel over an inner dim handles side by side: their sums stay in the first cache.
WIDTH = 256
# Rows whose column sums are added one after the other; more would lose digits, fewer would cost a tenth of the time.
_MOST_BLOCK_ROWS = 512
_LEAST_BLOCK_ELEMENTS = 1 << 14


def runner_of(program: RowProgram) -> Callable[..., Any]:
    """A function from the program's inputs (C-contiguous, of one float dtype) to its new outputs: one array, or a tuple.

    Plain numbers are passed as floats.
    """
    sums = [name for name in program.outputs if program.kind_of(name) == COLUMN_SUM]
    head = [
        "_rows, columns = {first}.shape",
        *(["_blocks, _block_rows = _column_blocks(_rows, columns)"] if sums else []),
    ]
    shapes = {ROW: "(_rows, columns)", EACH: "(_rows,)", COLUMN_SUM: "(_blocks, columns)"}
    count = "_blocks" if sums else "_rows"
    return _runner(program, _Writer, head, shapes, "_rows * columns", count, ["_block_rows"] if sums else [])


def runner_inner_of(program: RowProgram) -> Callable[..., Any]:
    """The same of arrays (outer, C, inner) whose "rows" run along the middle dim; one number for each row is (outer, inner)."""
    if any(program.kind_of(name) == COLUMN_SUM for name in program.steps) or _Writer(program, "float32").scratch:
        raise NotImplementedError(f"row program {program.name}: no form for an inner dim.")
    head = ["_outer, columns, _inner = {first}.shape"]
    shapes = {ROW: "(_outer, columns, _inner)", EACH: "(_outer, _inner)"}
    count = "_outer * -(-_inner // WIDTH)"
    return _runner(program, _InnerWriter, head, shapes, "_outer * columns * _inner", count, [])


def _runner(
    program: RowProgram, writer: Any, head: list[str], shapes: dict[str, str], size: str, count: str, more: list[str]
) -> Callable[..., Any]:
    first = _first_rows(program)
    costly = sum(step.costly for step in program.steps.values() if step.kind == ROW)
    results = [f"_total({name})" if program.kind_of(name) == COLUMN_SUM else name for name in program.outputs]
    names = ", ".join([*program.inputs, *program.outputs, *more])
    lines = [
        f"def run({', '.join(program.inputs)}):",
        *(f"    {line.format(first=first)}" for line in head),
        f"    _dtype = {first}.dtype",
        "    _kernel = _narrow if _dtype.itemsize == 4 else _wide()",
        f"    _work = {size} * {program.passes + FUNCTION_WORK * costly}",
        "    if _work < SMALL:",
        *(f"        {name} = _small({shapes[program.kind_of(name)]}, _dtype)" for name in program.outputs),
        f"        _kernel.serial({names}, 0, {count})",
        "    else:",
        *(f"        {name} = _empty({shapes[program.kind_of(name)]}, _dtype)" for name in program.outputs),
        f"        _kernel({names}, count={count}, work=_work)",
        f"    return {', '.join(results)}",
    ]
    space: dict[str, Any] = {
        "_narrow": _kernel(writer(program, "float32")),
        "_wide": cache(lambda: _kernel(writer(program, "float64"))),
        "_empty": buffers.empty,
        "_small": numpy.empty,
        "SMALL": 2 * threads.GRAIN,
        "_column_blocks": column_blocks,
        "_total": _total,
        "WIDTH": WIDTH,
    }
    run_source("\n".join(lines) + "\n", f"runner of {program.name}", space)
    space["run"].narrow = space["_narrow"]
    return space["run"]


def kernel_of(program: RowProgram, dtype: str) -> Any:
    """The program as a `Chunked` kernel: inputs, outputs, with column sums the rows of a block. Its items are rows, or blocks."""
    return _kernel(_Writer(program, dtype))


def kernel_inner_of(program: RowProgram, dtype: str) -> Any:
    """The same over (outer, C, inner): its items are `WIDTH` places of an inner dim."""
    return _kernel(_InnerWriter(program, dtype))


def _kernel(writer: Any) -> Any:
    return compile_rows(writer.source(), writer.name, writer.dtype)


def compile_rows(source: str, name: str, dtype: str, exact: bool = False) -> Any:
    """A generated text as a `Chunked` kernel that may call what formulas may: its last parameters are `start, stop`."""
    names = dict(_NAMES, **_of_dtype(dtype))
    return compile_source(source, name, names, chunk=True, noalias=True, exact=exact, key=digest_of(*_texts()))


def column_blocks(rows: int, columns: int) -> tuple[int, int]:
    """(blocks, rows of a block) of sums over rows, from the sizes alone."""
    least = -(-_LEAST_BLOCK_ELEMENTS // max(columns, 1))
    block_rows = min(max(-(-rows // 16), least), max(_MOST_BLOCK_ROWS, -(-rows // 1024)))
    return max(-(-rows // block_rows), 1), block_rows


def _total(partial: Any) -> Any:
    return in_shape(partial, partial.shape[1:]) if len(partial) == 1 else numpy.add.reduce(partial, 0)


# --- writing -----------------------------------------------------------------------------------------------------------------


class _Writer:
    """Names: `x` an array, `x_row` a row of it, `v_x` a value; `U` makes loops whose indices are known not to be negative."""

    def __init__(self, program: RowProgram, dtype: str) -> None:
        self.program, self.dtype, self.name = program, dtype, program.name
        self.values = {name: formulas.name(f"v_{name}") for name in (*program.inputs, *program.steps, "columns")}
        self.places: dict[str, str] = {}
        self.scratch: list[str] = []
        for name in program.kept:
            self.places[name] = self._place(name)

    def source(self) -> str:
        program = self.program
        body: list[str] = []
        for number in range(program.passes + 1):
            body += [f"v_{step.name} = {self._alone(step)}" for step in self._each_steps(number)]
            if number < program.passes:
                body += self._pass(number)
        body += [f"{name}[r] = v_{name}" for name in program.outputs if program.kind_of(name) == EACH]
        reads = [f"v_{name} = {name}[r]" for name, kind in program.inputs.items() if kind == EACH]
        sums = [name for name in program.outputs if program.kind_of(name) == COLUMN_SUM]
        parameters = [*program.inputs, *program.outputs, *(["block_rows"] if sums else []), "start", "stop"]
        head = self._head()
        lines = [f"def {program.name}({', '.join(parameters)}):", *_indented(head, 1)]
        if sums:
            lines += ["    for block in range(start, stop):"]
            for name in sums:
                lines += [f"        {name}_sums = {name}[block]", "        for j in range(columns):"]
                lines.append(f"            {name}_sums[j] = zero")
            lines.append("        for r in range(block * block_rows, min((block + 1) * block_rows, rows)):")
        else:
            lines.append("    for r in range(start, stop):")
        arrays = [name for name, kind in program.inputs.items() if kind == ROW]
        arrays += [name for name in program.outputs if program.kind_of(name) == ROW]
        slices = [f"{name}_row = {name}[r]" for name in arrays]
        lines += _indented([*slices, *reads, *body], 3 if sums else 2)
        return "\n".join(lines) + "\n"

    def _head(self) -> list[str]:
        first = _first_rows(self.program)
        head = [f"rows, columns = {first}.shape", "size = U(columns)", "v_columns = kind(columns)"]
        return [*head, *self._numbers(), *(f"{name} = empty(columns, kind)" for name in self.scratch)]

    def _numbers(self) -> list[str]:
        program = self.program
        names = [name for name, kind in program.inputs.items() if kind == NUMBER]
        operands = [f"v_{name} = {name}" if name in program.whole else f"v_{name} = kind({name})" for name in names]
        steps = [step for step in program.steps.values() if step.kind == NUMBER]
        return operands + [f"v_{step.name} = {self._scalar(step)}" for step in steps]

    def _each_steps(self, number: int) -> list[Step]:
        steps = self.program.steps.values()
        return [
            step for step in steps if step.kind == EACH and step.reduction in (None, "pick") and step.known == number
        ]

    def _pass(self, number: int) -> list[str]:
        program = self.program
        result = program.made_in(number)
        if not result:
            return []
        reductions = [step for step in result if step.reduction in ("sum", "max")]
        sums = [step.name for step in reductions if step.reduction == "sum"]
        inner = self._elements(number)
        for step in result:
            text = self._text(step.expression)
            if step.reduction == "sum":
                inner.append(f"part_{step.name} += {text}")
            elif step.reduction == "max":
                inner.append(f"key_{step.name} = ordered({text})")
                inner.append(
                    f"best_{step.name} = key_{step.name} if key_{step.name} > best_{step.name} else best_{step.name}"
                )
            elif step.reduction == "column_sum":
                inner.append(f"{step.name}_sums[j] += {text}")
        inner = self._loads(inner) + inner
        lines = [f"best_{step.name} = ordered(kind(-inf))" for step in reductions if step.reduction == "max"]
        if sums:
            lines += [f"whole_{name} = 0.0" for name in sums]
            lines += ["for begin in range(U0, size, SUM_BLOCK):", "    end = min(begin + SUM_BLOCK, size)"]
            lines += [f"    part_{name} = zero" for name in sums]
            lines += ["    for j in range(begin, end):", *_indented(inner, 2)]
            lines += [f"    whole_{name} += part_{name}" for name in sums]
            lines += [f"v_{name} = kind(whole_{name})" for name in sums]
        else:
            lines += ["for j in range(columns):", *_indented(inner, 1)]
        lines += [self._takes(step, f"{step.name}_row[v_{step.label}]") for step in result if step.taken]
        return lines + [
            f"v_{step.name} = unordered(best_{step.name})" for step in reductions if step.reduction == "max"
        ]

    def _elements(self, number: int) -> list[str]:
        """The elementwise steps of a pass: computed, or loaded, and stored where that is due."""
        program = self.program
        lines = []
        for step in program.needed_in(number):
            if program.is_loaded(step.name, number):
                lines.append(f"v_{step.name} = {self._stored(step.name)}[j]")
                continue
            lines.append(f"v_{step.name} = {self._text(step.expression)}")
            if program.kept.get(step.name) == number or (step.name in program.outputs and step.kind == ROW):
                lines.append(f"{self._stored(step.name)}[j] = v_{step.name}")
        return lines

    def _loads(self, inner: list[str]) -> list[str]:
        """The elements of the inputs that the loop uses, each read once."""
        used = set(re.findall(r"\bv_\w+", " ".join(inner)))
        rows = [
            (name, f"{name}_row" if kind == ROW else name)
            for name, kind in self.program.inputs.items()
            if kind in (ROW, VECTOR)
        ]
        return [f"v_{name} = {place}[j]" for name, place in rows if f"v_{name}" in used]

    def _stored(self, name: str) -> str:
        return self.places.get(name, f"{name}_row")

    def _place(self, name: str) -> str:
        """Where a kept value lies: in an output row that is written only when nobody needs it any more, else in a row of its own."""
        program = self.program
        last = max(
            number for number in range(program.passes) if any(step.name == name for step in program.needed_in(number))
        )
        for output in program.outputs:
            taken = f"{output}_row" in self.places.values()
            if program.kind_of(output) == ROW and program.pass_of(output) >= last and not taken:
                return f"{output}_row"
        self.scratch.append(f"{name}_scratch")
        return f"{name}_scratch"

    @staticmethod
    def _takes(step: Step, place: str) -> str:
        return f"if (v_{step.label} >= 0) & (v_{step.label} < columns): {place} -= v_{step.taken}"

    def _alone(self, step: Step) -> str:
        """`_scalar` outside of loops, where a logarithm that vectorises takes longer than the library's."""
        return re.sub(r"\blog\(", "log_alone(", self._scalar(step))

    def _scalar(self, step: Step) -> str:
        if step.reduction == "pick":
            name = str(step.expression.parts[0])
            vector = self.program.kind_of(name) == VECTOR
            place = f"{name}[v_{step.label}]" if vector else self._picked(name, f"v_{step.label}")
            return f"({place} if (v_{step.label} >= 0) & (v_{step.label} < columns) else zero)"
        return f"kind({self._text(step.expression)})"

    def _picked(self, name: str, label: str) -> str:
        return f"{name}_row[{label}]"

    def _text(self, expression: Tree) -> str:
        return to_numba(formulas.substitute(expression, self.values), self.dtype)


class _InnerWriter(_Writer):
    """The same program with rows along the middle dim of (outer, C, inner): loops run over `WIDTH` rows side by side.

    What is a number for a row is then an array `a_x` of numbers.
    """

    def __init__(self, program: RowProgram, dtype: str) -> None:
        super().__init__(program, dtype)
        self.name = f"{program.name}_inner"

    def source(self) -> str:
        program = self.program
        arrays = [name for name, kind in program.inputs.items() if kind == EACH]
        arrays += [name for name, step in program.steps.items() if step.kind == EACH]
        head = [f"outer, columns, inner = {_first_rows(program)}.shape", "blocks = (inner + WIDTH - 1) // WIDTH"]
        head += ["v_columns = kind(columns)", *self._numbers()]
        head += [f"a_{name} = empty(WIDTH, {'np.int64' if name in program.whole else 'kind'})" for name in arrays]
        for step in program.steps.values():
            if step.reduction == "sum":
                head.append(f"whole_{step.name} = empty(WIDTH, np.float64)")
            elif step.reduction == "max":
                head.append(f"best_{step.name} = empty(WIDTH, keys)")
        body = [
            f"for j in range(width): a_{name}[j] = {name}[o, begin + j]" for name in arrays if name in program.inputs
        ]
        for number in range(program.passes + 1):
            body += self._over_width(self._together(self._each_steps(number)))
            if number < program.passes:
                body += self._inner_pass(number)
        body += [
            f"for j in range(width): {name}[o, begin + j] = a_{name}[j]"
            for name in program.outputs
            if program.kind_of(name) == EACH
        ]
        lines = [
            f"def {self.name}({', '.join([*program.inputs, *program.outputs])}, start, stop):",
            *_indented(head, 1),
        ]
        lines += ["    for item in range(start, stop):", "        o, begin = item // blocks, item % blocks * WIDTH"]
        lines += ["        width = min(WIDTH, inner - begin)", *_indented(body, 2)]
        return "\n".join(lines) + "\n"

    def _together(self, steps: list[Step]) -> list[str]:
        """The lines of steps in one loop; what only they need is not stored."""
        others = [step.uses for step in self.program.steps.values() if step not in steps]
        stored = set(self.program.outputs).union(*others)
        lines: list[str] = []
        for step in steps:
            lines.append(f"v_{step.name} = {self._scalar(step)}")
            lines += [f"a_{step.name}[j] = v_{step.name}"] if step.name in stored else []
        return lines

    def _inner_pass(self, number: int) -> list[str]:
        result = self.program.made_in(number)
        if not result:
            return []
        sums = [step.name for step in result if step.reduction == "sum"]
        maxima = [step.name for step in result if step.reduction == "max"]
        inner = self._elements(number)
        for step in result:
            text = self._text(step.expression)
            if step.reduction == "sum":
                inner.append(f"a_{step.name}[j] += {text}")
            elif step.reduction == "max":
                inner.append(f"key = ordered({text})")
                inner.append(f"best_{step.name}[j] = key if key > best_{step.name}[j] else best_{step.name}[j]")
        text = " ".join(inner)
        program = self.program
        arrays = [name for name, kind in program.inputs.items() if kind == ROW]
        arrays += [name for name in program.outputs if program.kind_of(name) == ROW]
        slices = [
            f"{name}_row = {name}[o, c, begin : begin + width]"
            for name in arrays
            if f"{name}_row" in text or f"v_{name}" in text
        ]
        slices += [
            f"v_{name} = {name}[c]" for name, kind in program.inputs.items() if kind == VECTOR and f"v_{name}" in text
        ]
        loop = [*slices, *self._over_width(inner)]
        lines = [f"best_{name}[:width] = ordered(kind(-inf))" for name in maxima]
        if sums:
            lines += [f"whole_{name}[:width] = 0.0" for name in sums]
            lines += ["for part in range(0, columns, INNER_BLOCK):"]
            lines += [f"    a_{name}[:width] = zero" for name in sums]
            lines += ["    for c in range(part, min(part + INNER_BLOCK, columns)):", *_indented(loop, 2)]
            for name in sums:
                lines.append(f"    for j in range(width): whole_{name}[j] += a_{name}[j]")
            lines += [f"for j in range(width): a_{name}[j] = kind(whole_{name}[j])" for name in sums]
        else:
            lines += ["for c in range(columns):", *_indented(loop, 1)]
        for step in result:
            if step.taken:
                lines += self._over_width([self._takes(step, f"{step.name}[o, v_{step.label}, begin + j]")])
        return lines + [f"for j in range(width): a_{name}[j] = unordered(best_{name}[j])" for name in maxima]

    def _picked(self, name: str, label: str) -> str:
        return f"{name}[o, {label}, begin + j]"

    def _over_width(self, inner: list[str]) -> list[str]:
        """A loop over the rows, with what it reads loaded once."""
        used = set(re.findall(r"\bv_\w+", " ".join(inner)))
        program = self.program
        loads = [
            f"v_{name} = {name}_row[j]" for name, kind in program.inputs.items() if kind == ROW and f"v_{name}" in used
        ]
        result = {line.partition(" = ")[0] for line in inner}
        each = [name for name in (*program.inputs, *program.steps) if program.kind_of(name) == EACH]
        loads += [f"v_{name} = a_{name}[j]" for name in each if f"v_{name}" in used and f"v_{name}" not in result]
        return ["for j in range(width):", *_indented([*loads, *inner], 1)] if inner else []


def _first_rows(program: RowProgram) -> str:
    return next(name for name, kind in program.inputs.items() if kind == ROW)


def _indented(lines: list[str], levels: int) -> list[str]:
    return ["    " * levels + line for line in lines]


# --- what the kernels call -----------------------------------------------------------------------------------------------------

_JIT: Any = {"error_model": "numpy", "fastmath": set(IN_ORDER), **PIPELINE}
_31, _63 = numpy.int32(31), numpy.int64(63)
_MASK32, _MASK64 = numpy.int32(0x7FFFFFFF), numpy.int64(0x7FFFFFFFFFFFFFFF)


def ordered(value: float) -> int:
    """An integer that sorts like the float: integer maxima vectorise, float ones do not. NaN with the sign bit sorts below -inf."""
    raise NotImplementedError


def unordered(key: int) -> float:
    """The float that `ordered` was given."""
    raise NotImplementedError


@overload(ordered, jit_options=_JIT)
def _ordered(value):  # type: ignore[no-untyped-def]
    if value == types.float32:

        def narrow(value):  # type: ignore[no-untyped-def]
            bits = int32_of(value)
            return numpy.int32(bits ^ ((bits >> _31) & _MASK32))

        return narrow

    def wide(value):  # type: ignore[no-untyped-def]
        bits = int64_of(value)
        return numpy.int64(bits ^ ((bits >> _63) & _MASK64))

    return wide


@overload(unordered, jit_options=_JIT)
def _unordered(key):  # type: ignore[no-untyped-def]
    if key == types.int32:

        def narrow(key):  # type: ignore[no-untyped-def]
            return float32_of(key ^ ((key >> _31) & _MASK32))

        return narrow

    def wide(key):  # type: ignore[no-untyped-def]
        return float64_of(key ^ ((key >> _63) & _MASK64))

    return wide


@compiled(in_order=True, inline=True)
def rsqrt(x):  # type: ignore[no-untyped-def]
    """1 / sqrt(x) as IEEE 754 has it: a row takes one, so an estimate gains nothing."""
    return type(x)(1) / numpy.sqrt(x)


@compiled(inline=True)
def plus(x, y):  # type: ignore[no-untyped-def]
    """x + y of a sum whose order is left to the compiler, in code that is otherwise computed as written."""
    return x + y


# The modules whose functions formulas may call.
_FUNCTIONS = (math_numba, logarithms_numba, normal_numba)

_NAMES: dict[str, Any] = {
    "SUM_BLOCK": numpy.uint64(SUM_BLOCK),
    "INNER_BLOCK": 256,  # sums along a middle dim run one after the other for so many elements
    "U": numpy.uint64,
    "U0": numpy.uint64(0),
    "WIDTH": WIDTH,
    "empty": numpy.empty,
    "inf": math.inf,
    "log_alone": math.log,
    "np": numpy,
    "ordered": ordered,
    "plus": plus,
    "sqrt": math.sqrt,
    **{name: getattr(numpy, name) for name in ("ceil", "cos", "cosh", "floor", "power", "sin", "sinh", "tan", "trunc")},
    "atan": numpy.arctan,
    "erfc": special_numba.erfc,
    "unordered": unordered,
    **{name: getattr(module, name) for module in _FUNCTIONS for name in module.__all__},
    "rsqrt": rsqrt,
}


def _of_dtype(dtype: str) -> dict[str, Any]:
    kind = getattr(numpy, dtype)
    return {"kind": kind, "zero": kind(0), "keys": numpy.int32 if dtype == "float32" else numpy.int64}


def _texts() -> list[str]:
    """What machine code depends on beside the generated text."""
    modules = (*_FUNCTIONS, special_numba, formulas, formulas_numba)
    return [inspect.getsource(module) for module in modules] + [str(SUM_BLOCK)]
