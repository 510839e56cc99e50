"""Row programs on CudaArrays: `run("softmax", [x], inner)`.

Rows that fit one program's registers are read once. Longer ones are gone through once for each pass of the program, in parts: each
part's sums and maxima are reduced over the parts before the next pass. Sizes alone decide, and how sums are cut depends on them
alone: the bits are the same on every device.
"""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.arrays import cuda_arrays
from dynograd.arrays.cuda_arrays import CudaArray
from dynograd.kernels.build import launching_cuda
from dynograd.kernels.build.batch_invariance import batch_invariant
from dynograd.kernels.build.launch_arguments_cuda import Double
from dynograd.kernels.elementwise.loops_cuda import triton_type
from dynograd.kernels.reduce.reducing_cuda import power_of_two, reduced, rows_at_once
from dynograd.kernels.rows import row_programs_triton
from dynograd.kernels.rows.row_formulas import PROGRAMS
from dynograd.kernels.rows.row_programs import COLUMN_SUM, EACH, NUMBER, ROW, RowProgram

_FLOAT32, _FLOAT64 = numpy.dtype(numpy.float32), numpy.dtype(numpy.float64)
_TILE = 2048  # elements of a tile of short rows
# Bytes of a row's arrays that the registers of a program hold: half of the 256 KiB that a multiprocessor has, for there is more to
# hold than them. Longer rows are gone through in parts.
_HELD = 128 * 1024
_GROUPS = (
    256  # programs of 16 warps that share the rows of a column sum, and so partial sums; 4 times as many of 4 warps
)

# What only the GPU asks for: gradients of losses with the incoming gradient in memory, reductions that NumPy does in steps.
_OWN = {
    "logsumexp": """
        row x
        top = max(x)
        level = abs(top) < inf ? top : 0
        total = sum(exp(x - level))
        out = log(total) + level
        write out
    """,
    "row_moments": """
        row x
        mean = sum(x) / columns
        squares = sum((x - mean) ** 2)
        write mean, squares
    """,
    "row_normal": """
        row x
        each mean, scale, shift
        y = minus(x, mean) * scale + shift
        write y
    """,
    "row_sums": """
        row g, x
        each mean
        total = sum(g)
        along = sum(g * (x - mean))
        write total, along
    """,
    "row_gradient": """
        row g, x
        each mean, scale, shift, slope
        gx = scale * g - shift - (x - mean) * slope
        write gx
    """,
    "column_total": """
        row x
        total = column_sum(x)
        write total
    """,
    "column_squares": """
        row x
        vector mean
        squares = column_sum((x - mean) ** 2)
        write squares
    """,
    "column_normal": """
        row x
        vector mean, scale, shift
        y = minus(x, mean) * scale + shift
        write y
    """,
    "column_sums": """
        row g, x
        vector mean
        total = column_sum(g)
        along = column_sum(g * (x - mean))
        write total, along
    """,
    "column_gradient": """
        row g, x
        vector mean, scale, shift, slope
        gx = scale * g - shift - (x - mean) * slope
        write gx
    """,
    "deviation": """
        row x
        number freedom
        mean = sum(x) / columns
        distance = minus(x, mean)
        rest = sum(distance)
        total = max(sum(distance ** 2) - rest * (rest / columns), 0)
        out = sqrt(total / freedom)
        write out
    """,
}

_programs: dict[str, RowProgram] = {}
_kernels: dict[Any, Any] = {}
_stages: dict[Any, list[_Stage]] = {}


def program(name: str) -> RowProgram:
    program = _programs.get(name)
    if program is None:
        text = _OWN.get(name) or PROGRAMS[name]
        if name.endswith("_loss_backward"):
            text = text.replace("number p, g", "number p, share, g").replace(") * g", ") * (g * share)")
        program = _programs[name] = RowProgram(name, text)
    return program


def run(
    name: str,
    arrays: list[Any],
    inner: int = 1,
    kinds: list[Any] | None = None,
    period: int = 1,
    places: dict[str, str] | None = None,
) -> list[CudaArray]:
    """The outputs of a program: rows in the shape of the first row array, numbers of rows (outer * inner,), column sums (n,).

    Args:
        arrays: the inputs in order: row-major (outer, n, inner) rows, numbers of rows, vectors, numbers (Python's or 0-dim arrays).
        inner: as `folding_cuda.rows_along` gave it.
        kinds: the outputs' dtypes; None for an output is the dtype that computes, None for all: rows like the first input, else that.
        places: of numbers of rows that repeat ("%") or hold for several rows ("//") every `period` rows.
    """
    stages, first, compute, values = _prepared(name, arrays, inner, period, places, False)
    result = program(name)
    if kinds is None:
        kinds = [first.dtype if result.kind_of(output) == ROW else None for output in result.outputs]
    kinds_of_outputs = {output: kind or compute for output, kind in zip(result.outputs, kinds, strict=True)}
    for stage in stages:
        stage.run(values, kinds_of_outputs, first)
    if len(stages) == 1:
        return [values[name] for name in kinds_of_outputs]
    return [values[name].astype(kind, copy=False) for name, kind in kinds_of_outputs.items()]


def part_sums(name: str, arrays: list[Any]) -> CudaArray:
    """The sums of parts of x, in any number, of a program that is one sum over rows: all of x is one row."""
    stages, first, _, values = _prepared(name, arrays, 1, 1, None, True)
    stages[0].run(values, {}, first)
    return values[program(name).outputs[0]]


def _prepared(
    name: str, arrays: list[Any], inner: int, period: int, places: dict[str, str] | None, as_parts: bool
) -> tuple[list[_Stage], CudaArray, Any, dict[str, Any]]:
    """(the launches, the first array of rows, the dtype that computes, the inputs by name)."""
    result = program(name)
    values = dict(zip(result.inputs, arrays, strict=True))
    first = next(value for value, kind in zip(arrays, result.inputs.values(), strict=True) if kind == ROW)
    compute = _FLOAT64 if first.dtype.itemsize == 8 else _FLOAT32
    loaded = tuple([type(array) is CudaArray for array in arrays])
    walk = None if places is None else tuple(places.items())
    key = (name, first.shape, compute, inner, period, walk, loaded, as_parts, batch_invariant(), _HELD, _TILE, _GROUPS)
    stages = _stages.get(key)
    if stages is None:
        if len(_stages) > 2000:
            _stages.clear()
        way = _Way(result, compute, first.shape, inner, period, places or {})
        way.loaded = frozenset(
            name for name, here in zip(result.inputs, loaded, strict=True) if here and result.inputs[name] == NUMBER
        )
        stages = _stages[key] = (
            [way.stage(result.outputs, way.part(), True, combine=False)] if as_parts else way.stages()
        )
    return stages, first, compute, values


class _Stage:
    """One launch: which kernel, what it takes and makes, and what is reduced of that."""

    __slots__ = ("combined", "compute", "constants", "grid", "inputs", "kernel", "made", "numbers", "wide")

    def run(self, values: dict[str, Any], kinds: dict[str, Any], first: CudaArray) -> None:
        """Adds what it makes to `values`; `kinds` are the dtypes of results."""
        index = first.device_index
        arguments = []
        for name in self.inputs:
            value = values[name]
            arguments.append(value if type(value) is CudaArray else Double(value) if self.wide else float(value))
        for name, shape, computed in self.made:
            kind = self.compute if computed else kinds[name]
            values[name] = result = cuda_arrays.empty(first.shape if shape is None else shape, kind, index)
            arguments.append(result)
        self.kernel(self.grid, *arguments, *self.numbers, **self.constants)
        for name, op, shape, dim, computed in self.combined:
            kind = self.compute if computed else kinds[name]
            values[name] = reduced(op, values[name].reshape(shape), dim, False, kind, self.compute)


class _Way:
    """How a program goes through arrays of certain shapes."""

    def __init__(
        self, result: RowProgram, compute: Any, shape: tuple[int, ...], inner: int, period: int, places: dict[str, str]
    ) -> None:
        self.program, self.compute, self.inner, self.period = result, compute, inner, period
        self.outer, self.n = shape[:2]
        self.places = {name: f"i_row {operator} i_period" for name, operator in places.items()}
        self.loaded: frozenset[str] = frozenset()
        self.summed = any(result.kind_of(output) == COLUMN_SUM for output in result.outputs)
        self.reduces = any(step.reduction in ("sum", "max") for step in result.steps.values())
        rows = [name for name in (*result.inputs, *result.outputs) if result.kind_of(name) == ROW]
        self.arrays = max(len(rows) + self.summed * 2, 2)

    def stages(self) -> list[_Stage]:
        program = self.program
        if self.n and self.fits():
            return [self.stage(program.outputs, self.held(), False)]
        stages: list[_Stage] = []
        known: list[str] = []
        for number in range(program.passes):
            steps = [step for step in program.steps.values() if step.reduction in ("sum", "max")]
            names = [step.name for step in steps if program.pass_of(step.name) == number]
            if names:
                stages.append(self.stage(names, self.part(), True, frozenset(known)))
                known += names
        left = [output for output in program.outputs if output not in known]
        return [*stages, self.stage(left, self.part(), False, frozenset(known))] if left else stages

    def fits(self) -> bool:
        """Whether rows are held in registers, or need not be held."""
        if not self.reduces:
            return True
        most = _HELD // 2 if self.inner > 1 else _HELD  # places of elements take registers too
        return power_of_two(self.n) * min(self.inner, 16) * self.compute.itemsize * self.arrays <= most

    def held(self) -> tuple[int, int]:
        """(ROWS, BLOCK) with whole rows, or parts of them where nothing is reduced along them."""
        if not self.reduces:
            return self.part()
        block = power_of_two(self.n)
        if self.inner > 1:
            return min(power_of_two(self.inner), max(16, min(64, _TILE // block))), block
        return rows_at_once(self.outer, _TILE // block), block

    def part(self) -> tuple[int, int]:
        if self.inner > 1:
            rows = min(power_of_two(self.inner), 64)
            return rows, min(power_of_two(self.n), max(_TILE // rows, 1))
        block = min(power_of_two(self.n), 128 if self.summed else _TILE)
        return rows_at_once(self.outer, _TILE // block), block

    def stage(
        self,
        names: list[str],
        tile: tuple[int, int],
        in_parts: bool,
        known: frozenset[str] = frozenset(),
        combine: bool = True,
    ) -> _Stage:
        """The launch that makes `names`: results, or (`in_parts`) reductions of parts of rows, which are then joined (`combine`)."""
        result, (rows, block) = self.program, tile
        Stage = _Stage()
        Stage.inputs = row_programs_triton.arguments_of(result, names, known)
        Stage.kernel = _kernel(result, names, known, self.loaded & set(Stage.inputs), self.places)
        Stage.compute, Stage.wide = self.compute, self.compute.itemsize == 8
        parts = max(-(-self.n // block), 1)
        blocks = -(-self.inner // rows)
        groups = self.outer * blocks if self.inner > 1 else -(-self.outer // rows)
        tiles, count = 1, self.outer * self.inner
        if any(result.kind_of(name) == COLUMN_SUM for name in names):
            shares = max(_GROUPS * max(16 // self.warps(tile), 1) // parts, 32)
            tiles = max(-(-groups // shares), min(-(-groups // _GROUPS), 4))
            groups = -(-groups // tiles)
        Stage.made, Stage.combined = [], []
        for name in names:
            kind = result.kind_of(name)
            if kind == ROW:
                Stage.made.append((name, None, False))
            elif kind == EACH and in_parts:
                Stage.made.append((name, (count * parts,), True))
                if parts > 1 and combine:
                    Stage.combined.append((name, result.steps[name].reduction, (count, parts), 1, True))
            elif kind == EACH:
                Stage.made.append((name, (count,), False))
            elif groups == 1:
                Stage.made.append((name, (self.n,), False))
            else:
                Stage.made.append((name, (groups, self.n), True))
                Stage.combined.append((name, "sum", (groups, self.n), 0, False))
        Stage.grid = (groups * parts,)
        Stage.numbers = (self.outer, self.n, self.inner, blocks, parts, tiles, self.period)
        Stage.constants = {
            "ACC": triton_type(self.compute), "INNER": self.inner > 1, "ROWS": rows, "BLOCK": block, "num_warps": self.warps(tile),
        }  # fmt: skip
        return Stage

    def warps(self, tile: tuple[int, int]) -> int:
        """So many that a thread holds up to 128 bytes of all arrays together, but 4 to 32 (for float64 16: it computes in pairs of registers)."""
        nbytes = tile[0] * tile[1] * self.compute.itemsize * self.arrays
        return max(4, min(16 if self.compute.itemsize == 8 else 32, power_of_two(nbytes // (32 * 128))))


def _kernel(
    program: RowProgram, names: list[str], known: frozenset[str], loaded: frozenset[str], places: dict[str, str]
) -> Any:
    key = (program.name, tuple(names), known, loaded, *places.items())
    kernel = _kernels.get(key)
    if kernel is None:
        suffix = "" if names == program.outputs and not known else "_of_" + "_".join(names)
        name = f"rows_{program.name}{suffix}"
        text = row_programs_triton.source(name, program, names, known, loaded, places)
        kernel = _kernels[key] = launching_cuda.triton_source(text, name, ("i_n", "i_inner"))
    return kernel


# --- what the offline tests compile --------------------------------------------------------------------------------------------


def kernels_to_check() -> list[tuple[Any, dict[str, Any]]]:
    """(kernel, variant): each program with the longest rows that it holds, and some in the other forms."""
    kernels = [
        _checked(name, "fp32", "first" if name.endswith("_loss") else "whole")
        for name in (*PROGRAMS, *_OWN)
        if not program(name).whole
    ]
    for name in ("softmax", "layer_norm_backward", "bias_gelu_backward"):
        kernels += [_checked(name, "bf16"), _checked(name, "fp64")]
    for name in ("softmax", "layer_norm_backward"):
        kernels += [_checked(name, "fp32", "first"), _checked(name, "fp32", "last")]
    return [*kernels, _checked("softmax", "fp32", inner=True), _checked("logsumexp", "bf16", inner=True)]


def _checked(name: str, kind: str, form: str = "whole", inner: bool = False) -> tuple[Any, dict[str, Any]]:
    """A kernel for whole rows, or for the first or last pass over long ones."""
    import triton.language as tl

    result = program(name)
    reductions = [name for name, step in result.steps.items() if step.reduction in ("sum", "max")]
    known = frozenset(reductions if form == "last" else ())
    outputs = (
        [reduction for reduction in reductions if not result.pass_of(reduction)] if form == "first" else result.outputs
    )
    sums = "fp64" if kind == "fp64" else "fp32"
    way = _Way(result, _FLOAT64 if kind == "fp64" else _FLOAT32, (4096, 1 << 20), 64 if inner else 1, 1, {})
    while form == "whole" and not way.fits():
        way.n //= 2
    tile = way.held() if form == "whole" else way.part()
    variant: dict[str, Any] = {}
    loaded = frozenset({"g"} & {name for name, role in result.inputs.items() if role == NUMBER})
    for argument in row_programs_triton.arguments_of(result, outputs, known):
        role = EACH if argument in known else result.inputs[argument]
        plain = role == NUMBER and argument not in loaded
        variant[argument if plain else f"p_{argument}"] = sums if plain else f"*{kind if role == ROW else sums}"
    for output in outputs:
        variant[f"p_{output}"] = f"*{kind if result.kind_of(output) == ROW else sums}"
    sizes = dict.fromkeys(("i_outer", "i_n", "i_inner", "i_blocks", "i_parts", "i_tiles", "i_period"), "i32")
    if form == "whole" and name == "layer_norm":
        variant["spills"] = 32  # the longest rows in the 64 registers of 1024 threads, for an sm_100 by Triton 3.9
    options = {"ACC": getattr(tl, way.compute.name), "INNER": inner, "ROWS": tile[0], "BLOCK": tile[1]}
    return _kernel(result, outputs, known, loaded, {}), variant | sizes | options | {"num_warps": way.warps(tile)}
