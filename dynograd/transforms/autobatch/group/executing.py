"""Running a group: its operands as slabs of rows, the op's batch rule once, its result as the slab that others take rows of."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy

from dynograd import arrays
from dynograd.arrays import buffers
from dynograd.autograd.modes import MODES
from dynograd.base import dtypes
from dynograd.base.random_streams import default_generator
from dynograd.ops.op import registry
from dynograd.tensor.tensor import wrap
from dynograd.transforms.autobatch.group.gathering import MASK, arguments, operand, single
from dynograd.transforms.autobatch.group.rows import Arena, reshaped, slab_of
from dynograd.transforms.autobatch.group.sums import RunningSum
from dynograd.transforms.batching.batched import Batched, Level, make_batched
from dynograd.transforms.batching.places import RowPlaces


def run_group(recorder: Any, buckets: list[Any]) -> None:
    """Runs all calls of `buckets` and fills their ports. A call that fails leaves its error with its row."""
    first = buckets[0]
    form = first.form
    if form.run_ops is not None:
        form.run_ops(recorder, buckets)
        return
    if form.run_chained is not None and not recorder.failed and form.run_chained(recorder, buckets):
        return
    size = sum([bucket.count() for bucket in buckets])
    MODES.grad = 2 * form.grad  # nodes are shown to the recorder's watcher
    if len(buckets) == 1:
        columns, by_row, numbers = first.columns, first.by_row, first.numbers
    else:
        columns = [[column for bucket in buckets for column in bucket.columns[k]] for k in range(len(first.columns))]
        by_row = None if first.by_row is None else [place for bucket in buckets for place in bucket.by_row]
        numbers = None if first.numbers is None else [number for bucket in buckets for number in bucket.numbers]
    group = Group(recorder, form, first.shared, columns, by_row, numbers, size)
    result = group.run()
    several = (size > 1 and not group.alike) or type(form) is RunningSum
    results = [(output, several) for output in ([result] if form.single else result)]
    fill_ports(recorder, form, buckets, results, group.errors)


def fill_ports(
    recorder: Any,
    form: Any,
    buckets: list[Any],
    results: list[tuple[Any, bool]],
    errors: dict[int, Exception] | None = None,
) -> None:
    """Gives the ports of `buckets`, which have run, their rows, and forgets their calls.

    Args:
        results: the outputs, each with whether it has a row for each call; else it is that of all of them.
        errors: of rows that failed.
    """
    arenas: Any = recorder.arenas.get(form)
    counts = [bucket.count() for bucket in buckets]
    size = sum(counts)
    if arenas is not None:
        results = [(output if several else _rows(output, size), True) for output, several in results]
    outputs: list[
        tuple[Any, Any, bool, Any, int]
    ] = []  # (tensor, its node, whether it is one row, its arena, where it begins there)
    alike = False  # calls share a row
    for place, (output, several) in enumerate(results):
        node = slab_of(output) if several else None
        alike = alike or not several
        arena = None if arenas is None else arenas[place]
        outputs.append((output, node, not several, arena, 0 if arena is None else _put(arena, output, node)))
    sources = dict.fromkeys([source.form for bucket in buckets for source in bucket.sources])
    start = 0
    for bucket, count in zip(buckets, counts, strict=True):
        for port, (output, node, is_one, arena, base) in zip(bucket.ports, outputs, strict=True):
            port.slab, port.one, port.offset, port.slab_node = output, is_one, start, node
            port.arena, port.base_row = arena, base
        if errors:
            bucket.errors = {
                row - start: error for row, error in errors.items() if start <= row < start + count
            } or None
        bucket.common = bucket.common or (alike and size > 1)
        bucket.close()
        start += count
    recorder.report.note_group(form, size, sources)


def attempted(run: Callable[[], Any]) -> tuple[Any, str]:
    """What `run()` gives for all rows, and why it fails: values that differ are read, or one of them is wrong. Then its own call says so."""
    try:
        return run(), ""
    except MemoryError:  # it says nothing of the call
        raise
    except Exception as error:
        return None, f"{type(error).__name__}: {str(error).partition('. ')[0][:100]}"


def _put(arena: Arena, output: Any, node: Any) -> int:
    """Copies a group's result into the arena; the row where it begins."""
    start, count = arena.filled, output.array.shape[0]
    arena.array[start : start + count] = output.array
    arena.filled = start + count
    if node is not None:
        node.start = start
    return start


class Flush(dict):
    """The arenas of the groups that run now: for each form, those of its outputs. `chains` are the fused cells among them."""

    def __init__(self, waiting: list[Any]) -> None:
        self.waiting = waiting
        self.has_levels: bool | None = None  # whether its cells run as chains; None: nobody has asked yet
        self.chains: dict[Any, Any] = {}
        self.arenas: list[Arena] = []
        # By the number of a port: where its rows begin in its arena, and which of `arenas` that is (negative: see `row_codes_numba`).
        self.first_rows: Any = None
        self.arena_numbers: Any = None

    def note_port(self, recorder: Any, port: Any) -> None:
        """The rows of the port lie in its arena, in a slab of their own, or in neither."""
        self._reach(recorder)
        place = port.base >> 32
        if 0 <= place < len(self.first_rows) and recorder.ports[place] is port:
            whole = port.whole
            if whole.arena is not None:
                if whole.arena not in self.arenas:
                    self.arenas.append(whole.arena)
                self.first_rows[place] = whole.base_row + whole.offset
                self.arena_numbers[place] = self.arenas.index(whole.arena)
            elif whole.slab is None or whole.one or whole.span:
                self.arena_numbers[place] = _NOWHERE
            else:
                number, _ = self._slabs.setdefault(id(whole.slab), (_NOWHERE - 1 - len(self._slabs), whole.slab))
                self.first_rows[place], self.arena_numbers[place] = whole.offset, number

    _marks: Any

    def _reach(self, recorder: Any) -> None:
        """Lets the tables have a place for each of the record's ports, of which there may be more than when the groups began to run."""
        known = 0 if self.first_rows is None else len(self.first_rows)
        if known and known == len(recorder.ports):
            return
        grown = numpy.full((3, len(recorder.ports)), _UNKNOWN, numpy.int64)
        if known:
            grown[:, :known] = self.first_rows, self.arena_numbers, self._marks
        else:
            from dynograd.kernels.rows.row_codes_numba import rows_of_codes

            self._rows_of_codes = rows_of_codes
            self._slabs: dict[int, tuple[int, Any]] = {}  # by id: the slab and its number
        self.first_rows, self.arena_numbers, self._marks = grown

    def rows_together(self, recorder: Any, codes: list[int]) -> Any:
        """(arena or None, rows, ports, whether they lie behind one another) where all rows are in one arena, or one slab; else None."""
        self._reach(recorder)
        listed = numpy.array(codes, numpy.int64)
        rows, ports = numpy.empty((2, len(codes)), numpy.int64)
        places = self.arena_numbers, self.first_rows, rows, self._marks, ports
        result, count, run = self._rows_of_codes(listed, *places)
        if result == _UNKNOWN:
            for place in ports[:count].tolist():
                self.note_port(recorder, recorder.ports[place])
            result, count, run = self._rows_of_codes(listed, *places)
        if result in (_UNKNOWN, _NOWHERE):
            return None
        arena = self.arenas[result] if result >= 0 else None
        return arena, rows, [recorder.ports[place] for place in ports[:count].tolist()], run


_UNKNOWN, _NOWHERE = -1, -2


def arenas_for(waiting: list[Any]) -> Flush:
    """For each form whose rows some calls take beside those of other buckets, and for cells, the arena of each of its outputs.

    All such outputs of one shape and dtype lie in one arena.
    """
    flush = Flush(waiting)
    rows_needed: dict[Any, int] = {}
    for bucket in waiting:
        if bucket.form.run_chained is not None and bucket.form.kinds[0].device.type == "cpu":
            rows_needed[bucket.form] = 0
        if len(bucket.sources) > 1 and type(bucket.form) is not RunningSum and bucket.count() > 1:
            for source in bucket.sources:
                form = source.form
                if (
                    form is not None
                    and not source.done
                    and type(form) is not RunningSum
                    and form.kinds[0].device.type == "cpu"
                ):
                    rows_needed[form] = 0
    if not rows_needed:
        return flush
    sizes: dict[Any, int] = {}
    for bucket in waiting:
        if bucket.form in rows_needed:
            count = bucket.count()
            for kind in bucket.form.kinds:
                key = kind.shape, kind.dtype.num
                sizes[key] = sizes.get(key, 0) + count
    arenas: dict[Any, Arena] = {}
    for form in rows_needed:
        for kind in form.kinds:
            key = kind.shape, kind.dtype.num
            if key not in arenas:
                arenas[key] = Arena(buffers.empty((sizes.get(key, 0), *kind.shape), kind.dtype))
        flush[form] = [arenas[kind.shape, kind.dtype.num] for kind in form.kinds]
    return flush


class Group:
    """Calls of one form with the same shared operands, about to run together."""

    __slots__ = ("alike", "by_row", "columns", "errors", "form", "numbers", "recorder", "shared", "size")

    def __init__(
        self, recorder: Any, form: Any, shared: tuple, columns: list, by_row: Any, numbers: Any, size: int
    ) -> None:
        self.recorder, self.form, self.shared, self.columns = recorder, form, shared, columns
        self.by_row, self.numbers, self.size = by_row, numbers, size
        self.errors: dict[int, Exception] = {}
        self.alike = False  # one call has been made for all

    def run(self) -> Any:
        """What the op gives for all calls, along dim 0; for a single call, what it gives."""
        form, size = self.form, self.size
        if self.recorder.failed:
            self._inherit()
        if type(form) is RunningSum:
            return self._running_sum()
        if form.joins and (size > 1 or len(self.columns) > 3) and not self.errors:
            rows = joined(self.recorder, form, self.shared, self.columns, size)
            if rows is not None:
                return rows
        if size == 1:
            return self._one_by_one("")
        operands = [operand(self.recorder, column, size) for column in self.columns]
        if self.by_row is not None and not any([stacked for _, stacked in operands]):
            if not operands:
                return self._one_by_one("its operands are shared, but each call draws for itself")
            operands[0] = _repeat(operands[0][0], size), True  # the same operands, and yet another draw each time
        result, why = attempted(lambda: self.computed(operands))
        if why:
            return self._one_by_one(why)
        if not self.alike or self.recorder.arenas.get(form) is None:
            return result
        self.alike = False
        return tuple([_repeat(value, size) for value in result]) if isinstance(result, tuple) else _repeat(result, size)

    def computed(self, operands: list[tuple[Any, bool]]) -> object:
        """What the op gives for these operands, each with whether it has a row for each call; `alike` where one call has been made for all."""
        form, size = self.form, self.size
        numbers = None
        if self.numbers is not None and not _alike(self.numbers):
            like = (
                operands[0][0] if operands else next(tensor.tensor for tensor in self.shared if tensor is not None)
            ).array
            given_numbers = numpy.array(self.numbers, like.dtype)
            numbers = wrap(arrays.to_device(given_numbers, arrays.device_of(like)))
        stacked = tuple([is_batched for _, is_batched in operands])
        ready = None if form.ready is None or self.by_row is not None or self.numbers is not None else form.ready
        if numbers is None and self.by_row is None and not any(stacked):  # the same call again and again
            arguments = self._given(iter([value for value, _ in operands]))
            if self.numbers is not None:
                arguments[form.number] = self.numbers[0]
            result = form.call(arguments)
            self.alike = True
            return result
        if ready is not None:
            result = ready.call(form.op, self._given(iter([value for value, _ in operands])), stacked, size)
            if result is not None:
                return result
        draws = "error" if self.by_row is None else RowPlaces(self.by_row)
        with Level(size, draws) as level:  # type: ignore[arg-type]
            values = [make_batched(level, value) if is_batched else value for value, is_batched in operands]
            arguments = self._given(iter(values))
            if numbers is not None:
                arguments[form.number] = make_batched(level, numbers)
            elif self.numbers is not None:
                arguments[form.number] = self.numbers[0]
            if ready is not None:
                result = ready.watch(form.op, level, arguments, stacked)
                if result is not NotImplemented:
                    return result
            result = self._drawing(arguments, 0)
            if isinstance(result, tuple):
                return tuple([_lowered(value, size) for value in result])
            return _lowered(result, size)

    def _drawing(self, arguments: dict[str, Any], row: int) -> Any:
        """`form.call(arguments)`, with the place of `row` in the random stream where it draws."""
        if self.by_row is None:
            return self.form.call(arguments)
        name = self.form.op.row["by_row"]
        if name is not None:
            arguments[name] = self.by_row[row]
        before = default_generator.state()
        default_generator.set_plain_state(self.by_row[row])
        try:
            return self.form.call(arguments)
        finally:
            default_generator.set_plain_state(before)

    def _one_by_one(self, why: str) -> Any:
        """One call after the other, results stacked."""
        form, size = self.form, self.size
        if size > 1:
            self.recorder.report.note_refused(form.label, f"one by one in its group ({why})")
        results = []
        for row in range(size):
            try:
                if row in self.errors:
                    raise self.errors[row]
                operands = self._given(iter([single(self.recorder, column[row]) for column in self.columns]))
                if self.numbers is not None:
                    operands[form.number] = self.numbers[row]
                results.append(self._drawing(operands, row))
            except Exception as error:
                if row not in self.errors:
                    error.add_note(f"autobatch: in call {row} of a group of {size} calls of {form.label}")
                    self.errors[row] = error
                    self.recorder.failed.append(error)
                empty = [
                    wrap(arrays.zeros(kind.shape, dtypes.BY_NUM[kind.dtype.num], kind.device)) for kind in form.kinds
                ]
                results.append(empty[0] if form.single else tuple(empty))
        if size == 1:
            return results[0]
        stack = registry["stack"].function
        if form.single:
            return stack(results, 0)
        return tuple([stack(list(parts), 0) for parts in zip(*results, strict=True)])

    def _running_sum(self) -> Any:
        column = self.columns[0]
        terms, stacked = self._terms(column)
        if self.errors:  # so are the sums from there on
            first = min(self.errors)
            error = self.errors[first]
            self.errors = dict.fromkeys(range(max(0, first - 1), self.size), error)
        return self.form.prefix_sums(terms if stacked else _repeat(terms, len(column)))

    def _terms(self, column: list[int]) -> tuple[Any, bool]:
        """The terms of a running sum as `operand` gives them: the first is often a sum itself, the others are rows of one slab."""
        if len(column) > 2 and column[0] >> 32 != column[1] >> 32 and not self.errors:
            others, stacked = operand(self.recorder, column[1:], len(column) - 1)
            if stacked:
                first = registry["view"].function(single(self.recorder, column[0]), (1,))
                return registry["cat"].function([first, others], 0), True
        return operand(self.recorder, column, len(column))

    def _inherit(self) -> None:
        """Calls with an operand that failed have failed too."""
        for column in self.columns:
            for row, code in enumerate(column):
                errors = self.recorder.ports[code >> 32].bucket.errors
                if errors is not None and (code & MASK) in errors:
                    self.errors.setdefault(row, errors[code & MASK])

    def _given(self, operands: Any) -> dict[str, Any]:
        """The arguments by name: `shared` has, in order, a Shared, or None for the next operand or for what is no tensor."""
        return arguments(self.form, self.shared, operands)


def _alike(numbers: list[float]) -> bool:
    """Whether these are the same number again and again; 0.0 and -0.0 are two."""
    first = numbers[0]
    return numbers.count(first) == len(numbers) and (
        first != 0 or len({math.copysign(1, zero) for zero in numbers}) == 1
    )


def joined(recorder: Any, form: Any, shared: tuple, columns: list[Any], size: int) -> Any:
    """`cat` or `stack` of operands of one kind behind one another: more rows, gathered at once. None: some are shared."""
    count = len(columns)
    if count != len(shared):
        return None
    codes = columns[0] if count == 1 else [*itertools.chain.from_iterable(zip(*columns, strict=True))]
    result, stacked = operand(recorder, codes, count * size, own=True)
    if not stacked or type(result.array) is not numpy.ndarray:
        return None
    shape = form.kinds[0].shape
    return reshaped(result, shape if size == 1 else (size, *shape))


def _lowered(value: Any, size: int) -> Any:
    return value.inner if type(value) is Batched else _repeat(value, size)


def _rows(output: Any, size: int) -> object:
    """A result of all calls as rows, one for each."""
    return registry["view"].function(output, (1, *output.shape)) if size == 1 else _repeat(output, size)


def _repeat(value: Any, size: int) -> Any:
    """Rows of their own memory, all alike."""
    wide = registry["expand"].function(registry["view"].function(value, (1, *value.shape)), (size, *value.shape))
    return registry["clone"].function(wide, None)
