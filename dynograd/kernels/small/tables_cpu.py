"""Many arrays handled by one compiled call: tables of their addresses, and the kernels that need nothing more (norm, scaling).

Results are the same, bit for bit, for any number of threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dynograd.kernels.build import threads
from dynograd.kernels.small.object_fields import FIELDS

# Below so many elements, in few arrays, NumPy is as quick and Numba need not be loaded.
FEW_ELEMENTS, FEW_ARRAYS = 256, 4
SQUARES_AT_ONCE = 1 << 16  # elements whose copy in the wider dtype stays in the second cache
KINDS: dict[str, Any] = {"f": np.dtype(np.float32), "d": np.dtype(np.float64)}


class StepTable:
    """The addresses of parameters, their states and (step by step) their gradients. Holds on to the arrays.

    Args:
        steps_module: the module of compiled steps.
        parameters: row-major arrays of one dtype, float32 or float64.
        states: lists of arrays like them; at most three.
        steps: step counters (one element, float32 or float64), or None.
        new: which rows have states that no step has written yet.
    """

    __slots__ = (
        "blocks",
        "compiled",
        "counters",
        "dtype",
        "held",
        "new",
        "numbers",
        "options",
        "ranges",
        "rates",
        "rows",
        "steps",
        "values",
        "width",
        "work",
    )

    def __init__(
        self,
        steps_module: Any,
        parameters: list[Any],
        states: list[list[Any]],
        steps: list[Any] | None,
        new: list[bool],
    ) -> None:
        from dynograd.kernels.small import tables_numba as compiled

        self.compiled = steps_module
        self.held = [*parameters, *[array for arrays in states for array in arrays], *(steps or ())]
        kind, count = KINDS[parameters[0].dtype.char], len(parameters)
        self.dtype = id(kind)
        rows = self.rows = np.zeros((count + 1, compiled.COLUMNS), np.int64)
        for column, arrays in [(compiled.PARAMETER, parameters), *enumerate(states, compiled.STATE)]:
            rows[:count, column] = [_address(array) for array in arrays]
        if steps is not None:
            rows[:count, compiled.STEP] = [_address(array) for array in steps]
            rows[:count, compiled.STEP_SIZE] = [array.itemsize for array in steps]
        rows[:count, compiled.OBJECT] = [id(array) for array in parameters]
        rows[:count, compiled.SIZE] = [array.size for array in parameters]
        rows[1:, compiled.FIRST] = np.cumsum(-(-rows[:count, compiled.SIZE] // compiled.BLOCK))
        self.blocks = int(rows[count, compiled.FIRST])
        self.work = int(rows[:, compiled.SIZE].sum())
        written = sorted((_address(array), array.nbytes) for array in self.held if array.size)
        self.ranges = np.array([(start, start + nbytes) for start, nbytes in written], np.int64).reshape(-1, 2)
        self.new = np.array(new) if any(new) else None
        self.width = len(states)
        self.steps = np.ones(count)  # that the rows have done; 1 without counters
        self.rates = np.zeros((count, 3), kind)
        self.counters: list[Any] = []  # other numbers that are counted, a vector of all parameters' each
        self.options = np.zeros(8, kind)
        self.numbers = np.zeros(3)  # what the rates are made of, in float64
        self.values: Any = None  # the numbers that `options` were made of

    def overlaps(self) -> bool:
        """Whether two of the arrays share memory: they then have to be updated one after the other."""
        return bool((self.ranges[1:, 0] < self.ranges[:-1, 1]).any())

    def stepped(self) -> Any:
        """Which parameters have a gradient, once a step has begun."""
        from dynograd.kernels.small.tables_numba import GRADIENT

        return self.rows[:-1, GRADIENT] != 0


def sum_of_squares(arrays: list[Any]) -> float:
    """Of all elements of all arrays, in float64; blocks of fixed sizes are summed first."""
    tables, others = _tables(arrays)
    total = 0.0
    for table in tables:
        total += table.sum_of_squares()
    return total + sum([_squares(x) for x in others])


def scale(arrays: list[Any], factor: float) -> None:
    """Multiplies in place."""
    tables, others = _tables(arrays)
    for table in tables:
        table.write("scale_blocks", factor)
    for x in others:
        np.multiply(x, x.dtype.type(factor), out=x)


def bound(arrays: list[Any], least: float, most: float) -> None:
    """Moves elements outside [least, most] to the nearer bound, in place; NaN stays."""
    tables, others = _tables(arrays)
    for table in tables:
        table.write("bound_blocks", least, most)
    for x in others:
        np.maximum(np.minimum(x, x.dtype.type(most)), x.dtype.type(least), out=x)


def fill(arrays: list[Any], value: float) -> None:
    """Writes `value` everywhere."""
    tables, others = _tables(arrays)
    for table in tables:
        table.write("fill_blocks", value)
    for x in others:
        x.fill(value)


def unscale(arrays: list[Any], inverse: Any, overflow: Any) -> None:
    """Multiplies in place by the number in `inverse`, and writes 1 into `overflow` when an element is not finite."""
    if not all([bool(np.isfinite(x).all()) for x in arrays]):
        overflow[...] = 1
    scale(arrays, float(inverse))


def update_scale(scale: Any, tracker: Any, overflow: Any, growth: float, backoff: float, interval: int) -> None:
    """The scale after a step, in place: times `backoff` when `overflow` is set, times `growth` after `interval` steps without."""
    if overflow > 0:
        scale[...] = scale * backoff
        tracker[...] = 0
        return
    tracker += 1
    if tracker == interval:
        grown = scale * np.float32(growth)
        scale[...] = grown if np.isfinite(grown) else scale
        tracker[...] = 0


class _Table:
    """Addresses and sizes of writeable, row-major arrays of one dtype, float32 or float64."""

    def __init__(self, arrays: list[Any], kind: np.dtype) -> None:
        from dynograd.kernels.small import tables_numba as compiled

        self.kind, self.held = kind, arrays
        self.rows = np.zeros((len(arrays) + 1, compiled.COLUMNS), np.int64)
        self.bad = compiled.read_arrays(id(arrays), FIELDS, id(kind), self.rows)
        self.blocks = int(self.rows[-1, compiled.FIRST])
        self.work = self.blocks * compiled.BLOCK

    def sum_of_squares(self) -> float:
        from dynograd.kernels.small.tables_numba import square_blocks

        sums = np.empty(self.blocks, np.float64)
        square_blocks(self.rows, np.empty(0, self.kind), sums, count=self.blocks, work=self.work)
        return float(sums.sum())

    def write(self, name: str, *numbers: float) -> None:
        from dynograd.kernels.small import tables_numba as compiled

        # what shares memory is written in the order of the list, by one thread
        starts, sizes = self.rows[:-1, compiled.PARAMETER], self.rows[:-1, compiled.SIZE]
        apart = threads.parts(self.work) == 1 or _apart(starts, sizes * self.kind.itemsize)
        getattr(compiled, name)(
            self.rows, np.array(numbers, self.kind), count=self.blocks, work=self.work, parts=0 if apart else 1
        )


def _tables(arrays: list[Any]) -> tuple[list[_Table], list[Any]]:
    """The arrays that compiled code can take, in tables; and the others, or all where there is little to do."""
    if FIELDS is None or (len(arrays) <= FEW_ARRAYS and sum([x.size for x in arrays]) < FEW_ELEMENTS):
        return [], arrays
    kind = KINDS.get(arrays[0].dtype.char)
    if kind is not None:
        table = _Table(arrays, kind)
        if table.bad < 0:
            return [table], []
    plain: dict[int, list[Any]] = {id(kind): [] for kind in KINDS.values()}
    others: list[Any] = []
    for x in arrays:
        fits = type(x) is np.ndarray and x.flags.carray  # in order, aligned and writeable
        (plain.get(id(x.dtype), others) if fits else others).append(x)
    return [_Table(alike, alike[0].dtype) for alike in plain.values() if alike], others


def _squares(x: Any) -> float:
    flat, wide = x.reshape(-1), np.complex128 if x.dtype.kind == "c" else np.float64
    total = 0.0
    for start in range(0, flat.size, SQUARES_AT_ONCE):
        block = flat[start : start + SQUARES_AT_ONCE].astype(wide)
        total += float(np.vdot(block, block).real)
    return total


def _address(array: Any) -> int:
    return array.__array_interface__["data"][0]


def _apart(starts: np.ndarray, nbytes: np.ndarray) -> bool:
    order = starts.argsort()
    ends = (starts + nbytes)[order]
    return not bool((starts[order][1:] < ends[:-1]).any())
