"""Kernels bound to their arguments, run one after the other by one compiled loop: `Table`.

A kernel that Python calls unpacks its arguments, and where it runs in parts it puts them into a block of memory that the threads of the
pool read (`drivers_numba`). Here the block outlives the call: the kernel is called once with `_keep` in the place of the pool, which copies
the block and notes the worker that reads it. From then on a call is one of the worker with the block. Importing this loads Numba.
"""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from ctypes import addressof, c_int64
from time import perf_counter
from typing import Any, NamedTuple

import llvmlite.binding
import numba
import numpy
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.callconv import errcode_t
from numba.extending import intrinsic

from dynograd.kernels.build import blas, drivers_numba
from dynograd.kernels.build.addresses_numba import address_of, handle, make_vector
from dynograd.kernels.build.compiling_numba import PIPELINE, call_unnoted, compiled
from dynograd.kernels.build.launches import Launch

__all__ = ["Table"]

# Seconds and rows that are run before Python may see to signals; a table finds out how many rows these seconds are.
_SECONDS, _MOST_ROWS = 0.05, 4096
_LINE = 64  # bytes: a block begins where a line of the cache does
_LINE_WORDS = _LINE // 8
_HEAD = 3  # words before the arguments: parts, and where the bound call wanted its result and error; or the function


class Table:
    """Launches that `run` runs in order, without the GIL.

    The arrays among the arguments are kept as long as the table is, and are read and written where they lay when the table was made. A
    kernel in parts is shared out to `num_threads` threads at most. What a kernel cannot tell from its block is called from Python
    (`called` has the numbers of these rows): `compiled` functions without items, and arguments that are neither arrays nor numbers.

    As in parts of an eager call, nobody hears of an error that a kernel raises; those of this library raise none.

    Args:
        launches: in order; as `launches.noting` gives them.
        num_threads: of kernels in parts.
    Raises:
        ValueError: a launch gave something back to Python, which a table cannot.
    """

    def __init__(self, launches: Iterable[Launch], num_threads: int) -> None:
        self._num_threads = num_threads
        self._rows = numpy.zeros((0, _COLUMNS), numpy.int64)
        self._blocks: list[_Blocks] = []
        self._calls: dict[int, _Call] = {}
        self._kernels: list[Any] = []  # whose machine code runs
        self._forks = self._needs_blas = False
        self._piece = 8  # rows at a time, for a start
        self.extend(launches)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def called(self) -> list[int]:
        """The rows that are called from Python."""
        return list(self._calls)

    def extend(self, launches: Iterable[Launch]) -> None:
        """Adds rows at the end.

        Args:
            launches: as in `Table`.
        Raises:
            ValueError: as in `Table`.
        """
        launches = list(launches)
        for launch in launches:
            if launch.returns:
                raise ValueError(
                    f"Table: expected kernels that return nothing, got {launch.name}, whose result Python has used. Run it with the Python code around it."
                )
        first = len(self._rows)
        blocks = _Blocks(launches)
        self._calls |= {first + number: _Call(launches[number]) for number in sorted(blocks.left)}
        bound = [launch for number, launch in enumerate(launches) if number not in blocks.left]
        self._forks |= any(launch.parts > 1 for launch in bound)
        self._needs_blas |= any(getattr(launch.kernel, "needs_blas", False) for launch in bound)
        self._kernels += [launch.kernel for launch in bound]
        self._blocks.append(blocks)
        self._set_rows(numpy.concatenate([self._rows, blocks.rows]))

    def _set_rows(self, rows: numpy.ndarray) -> None:
        self._rows, self._rows_at = rows, _address(rows)

    def run(self, start: int = 0, stop: int | None = None) -> None:
        """Runs the rows `start` to before `stop` (None: the last one).

        Args:
            start: 0 or more.
            stop: at most the number of rows.
        """
        stop = len(self._rows) if stop is None else stop
        num_threads = pool = 0
        if self._forks:
            num_threads = min(self._num_threads, drivers_numba.pool_threads())
            pool = _pool() if num_threads > 1 else 0
        if not self._calls and stop - start <= self._piece and not self._needs_blas:
            self._drive(start, stop, pool, num_threads)
            return
        with blas.one_thread if self._needs_blas else contextlib.nullcontext():
            for first, last in self._pieces(start, stop):
                if first in self._calls:
                    self._calls[first].run()
                else:
                    self._drive(first, last, pool, num_threads)

    def copied(self) -> Table:
        """A table of the same launches, whose numbers and addresses are its own to change: see `words`."""
        (blocks,) = self._blocks
        table = copy.copy(self)
        table._blocks = [blocks.copied()]
        table._set_rows(self._rows.copy())
        table._rows[:, 1] += _address(table.words) - _address(self.words)
        return table

    @property
    def words(self) -> numpy.ndarray:
        """What the kernels read: the numbers and addresses of all launches, row by row (int64)."""
        return self._blocks[0]._words

    @property
    def first_words(self) -> numpy.ndarray:
        """Where the words of each row begin; the first says in how many parts it runs."""
        return (self._rows[:, 1] - _address(self.words)) >> 3

    @property
    def parts(self) -> numpy.ndarray:
        """In how many parts each row runs; may be written."""
        return self._rows[:, 2]

    @property
    def workers(self) -> numpy.ndarray:
        """The machine code of each row."""
        return self._rows[:, 0]

    @property
    def kernels(self) -> list[Any]:
        """What each row runs."""
        return self._kernels

    def places(self) -> tuple[list[tuple[int, Any]], list[tuple[int, Any]], list[int]]:
        """Of the words: (place, array) where the address of an array's data stands, the same for handles, and what no kernel reads."""
        blocks = self._blocks[0]
        data = list(zip(blocks._at.tolist(), blocks._owners))
        return data, list(zip(blocks._handle_places, blocks._handle_owners)), blocks.starts

    def floating(self) -> tuple[list[int], list[int]]:
        """Of the words: those that are floating numbers, and those of numbers that fill less than a word each."""
        return self._blocks[0].reals, self._blocks[0].packed

    def rebind(self, old: numpy.ndarray, new: numpy.ndarray) -> None:
        """Puts the memory of `new` in the place of `old`'s: each argument that lies in it lies as far from its beginning from now on.

        The table then lets go of `old` and its views. Addresses within arrays (the tables of optimizers) are not looked at.

        Args:
            old: an array that owns the memory to be left, or all of what is used of it.
            new: of the same dtype, shape and strides.
        Raises:
            ValueError: they differ in those.
        """
        if (old.dtype, old.shape, old.strides) != (new.dtype, new.shape, new.strides):
            raise ValueError(
                f"rebind: expected an array like the old one (dtype {old.dtype}, shape {old.shape}, strides {old.strides}), got dtype {new.dtype}, "
                f"shape {new.shape}, strides {new.strides}. Copy it into the old one, or record again."
            )
        low, high = _bounds(old)
        moved = _Move(low, high, _bounds(new)[0] - low, new)
        for blocks in self._blocks:
            blocks.rebind(moved)
        for call in self._calls.values():
            call.rebind(moved)

    def _pieces(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """(first, last) of what is run by one call: a row of `_calls`, or rows up to the next one."""
        ends = [*sorted(row for row in self._calls if start <= row < stop), stop]
        for end in ends:
            while start < end:
                last = min(start + self._piece, end)
                yield start, last
                start = last
            if end < stop:
                yield end, end + 1
            start = end + 1

    def _drive(self, first: int, last: int, pool: int, num_threads: int) -> None:
        before = perf_counter()
        if pool and drivers_numba.turns is not None:
            with drivers_numba.turns:
                _driver()(self._rows_at, first, last, pool, num_threads)
        else:
            _driver()(self._rows_at, first, last, pool, num_threads)
        seconds = perf_counter() - before
        if seconds > _SECONDS:
            self._piece = max(1, min(self._piece, last - first) // 2)
        elif seconds < _SECONDS / 4 and last - first == self._piece < _MOST_ROWS:
            self._piece *= 2

    def __repr__(self) -> str:
        return f"<table of {len(self)} kernels>"


# --- blocks ------------------------------------------------------------------------------------------------------------------


class _Blocks:
    """The blocks of some launches, behind one another, and which words in them are addresses of arrays.

    `rows` are those of the table, `left` the launches that have no block.
    """

    def __init__(self, launches: list[Launch]) -> None:
        layouts = [_layout_of(launch) for launch in launches]
        lines = [0 if layout is None else -(-8 * layout.words // _LINE) for layout in layouts]
        memory = numpy.zeros((sum(lines) + 1) * _LINE, numpy.uint8)
        ahead = -_address(memory) % _LINE
        self._words = memory[ahead : ahead + sum(lines) * _LINE].view(numpy.int64)
        self.rows = numpy.zeros((len(launches), _COLUMNS), numpy.int64)
        # What `in_parts` gives: the pool, parts, and for the number of threads the address of the receipt that begins behind it.
        order = (c_int64 * 6)()
        at = addressof(order)
        start, block = -at, _address(self._words)
        order[0], order[2] = _keeper(), at + 24
        rows: list[tuple[int, int, int]] = []
        for launch, layout, line_count in zip(launches, layouts, lines):
            if layout is None:
                rows.append((0, 0, 0))
                continue
            parts = launch.parts
            if layout.values:
                first = block - _address(self._words) >> 3
                self._words[first : first + layout.words] = layout.values
                rows.append((_worker_of_words(layout.words - _HEAD), block, 1))
            else:
                order[1], order[3], order[4] = parts, block, 8 * layout.words
                call_unnoted(launch.kernel.serial, *launch.arguments, start, launch.count)
                rows.append((order[5], block, parts))
            block += line_count * _LINE
        self.rows = numpy.array(rows, numpy.int64).reshape(-1, _COLUMNS)
        self._take(launches, layouts, lines, start)

    def _take(self, launches: list[Launch], layouts: list[_Layout | None], lines: list[int], start: int) -> None:
        """Notes where the arrays are, and leaves what is not as its layout says to Python."""
        places: list[int] = []
        values: list[int] = []  # that stand there
        of: list[int] = []  # which launch
        self._owners: list[Any] = []  # arrays, in the order of
        array_places: list[int] = []  # of their meminfo
        self._handle_places: list[int] = []
        self._handle_owners: list[Any] = []
        cleared: list[int] = []  # what only the bound call had: where it wanted its result and error
        self.starts: list[int] = []  # places of what says in how many parts the bound call ran
        self.reals: list[int] = []
        self.packed: list[int] = []
        first = 0
        for number, (launch, layout, line_count) in enumerate(zip(launches, layouts, lines)):
            if layout is None:
                continue
            if not layout.values:
                end = first + layout.words
                places.append(end - 2)
                self.starts.append(end - 2)
                values.append(start)
                cleared += first + 1, first + 2
            for place, array in layout.arrays:
                array_places.append(first + place)
                self._owners.append(array)
                places.append(first + place + 1)  # of the object that they are the fields of
                values.append(id(array))
            for place, array in zip(layout.handles, launch.kept):
                self._handle_places.append(first + place)
                self._handle_owners.append(array)
                places.append(first + place)
                values.append(handle(array))
            of += [number] * (len(places) - len(of))
            self.reals += [first + place for place in layout.reals]
            self.packed += [first + place for place in layout.packed]
            for low, high in layout.unused:
                self._words.view(numpy.uint8)[8 * first + low : 8 * first + high] = 0
            first += line_count * _LINE_WORDS
        self.left = {number for number, layout in enumerate(layouts) if layout is None}
        wrong = self._words[places] != values
        self.left |= set(numpy.array(of, int)[wrong].tolist())
        at = numpy.array(array_places, numpy.int64)
        for numbers in (cleared, at, at + 1):  # references are Numba's: nobody counts them here
            self._words[numbers] = 0
        self._at = at + 4

    def copied(self) -> _Blocks:
        blocks = copy.copy(self)
        memory = numpy.zeros(self._words.nbytes + _LINE, numpy.uint8)
        ahead = -_address(memory) % _LINE
        blocks._words = memory[ahead : ahead + self._words.nbytes].view(numpy.int64)
        blocks._words[:] = self._words
        return blocks

    def rebind(self, moved: _Move) -> None:
        addresses = self._words[self._at]
        inside = numpy.flatnonzero((addresses >= moved.low) & (addresses < moved.high))
        self._words[self._at[inside]] += moved.by
        for position in inside.tolist():
            self._owners[position] = moved.new
        for position, place in enumerate(self._handle_places):
            array = moved.moved(self._handle_owners[position])
            if array is not None:
                self._handle_owners[position] = array
                self._words[place] = handle(array)


class _Layout(NamedTuple):
    """How long a block is, the first words of arrays and the words of handles in it; and all of it where no call of the kernel writes it.

    `reals` are words that are floating numbers, `packed` those of numbers of fewer bytes, `unused` bytes between arguments.
    """

    words: int
    arrays: list[tuple[int, Any]]
    handles: list[int]
    values: list[int] | None = None
    reals: Sequence[int] = ()
    packed: Sequence[int] = ()
    unused: Sequence[tuple[int, int]] = ()


def _layout_of(launch: Launch) -> _Layout | None:
    """The layout of a launch's block, or None for what is called from Python.

    Numba hands an array on as its fields (meminfo, parent, items, itemsize, data, shape, strides), a tuple as its elements.
    """
    if launch.count < 0:
        return _layout_of_words(launch)
    if not launch.kernel.splits:
        return None
    places = _Places({handle(array) for array in launch.kept} if launch.kept else ())
    if not places.take(launch.arguments):
        return None
    places.align()
    return _Layout(
        (places.at >> 3) + 2, places.arrays, places.handles, None, places.reals, places.packed, places.unused
    )


_COMPLEX, _NUMBERS = (complex, numpy.complexfloating), (numpy.number, numpy.bool_)


class _Places:
    """Where arguments lie in a block, one behind the other from byte `at` on."""

    def __init__(self, known: Container[int]) -> None:
        self.at, self.known = 8 * _HEAD, known
        self.arrays: list[tuple[int, Any]] = []
        self.handles: list[int] = []
        self.reals: list[int] = []
        self.packed: list[int] = []
        self.unused: list[tuple[int, int]] = []

    def align(self) -> None:
        if self.at & 7:
            self.unused.append((self.at, self.at + 7 & -8))
            self.at = self.at + 7 & -8

    def take(self, arguments: tuple[Any, ...]) -> bool:
        """False: nobody knows how they lie."""
        for argument in arguments:
            kind = type(argument)
            if kind is numpy.ndarray:
                self.align()
                self.arrays.append((self.at >> 3, argument))
                self.at += 40 + 16 * argument.ndim
            elif kind is int:
                self.align()
                if argument in self.known:
                    self.handles.append(self.at >> 3)
                self.at += 8
            elif kind is float:
                self.align()
                self.reals.append(self.at >> 3)
                self.at += 8
            elif kind is bool:
                self._take_packed(1, 1)
            elif isinstance(argument, tuple):
                if not self.take(argument):
                    return False
            elif isinstance(argument, _COMPLEX):
                size = numpy.asarray(argument).itemsize // 2
                self._take_packed(size, 2 * size)
            elif isinstance(argument, _NUMBERS):
                self._take_packed(argument.itemsize, argument.itemsize)
            else:
                return False
        return True

    def _take_packed(self, alignment: int, size: int) -> None:
        start = -(-self.at // alignment) * alignment
        if start != self.at:
            self.unused.append((self.at, start))
        self.at = start + size
        self.packed += range(start >> 3, (self.at + 7) >> 3)


def _layout_of_words(launch: Launch) -> _Layout | None:
    """That of a `compiled` function of arrays and whole numbers: nothing but words, which any function of as many words takes."""
    kernel, arguments = launch.kernel, launch.arguments
    if not PIPELINE or not all(type(argument) in (numpy.ndarray, int) for argument in arguments):
        return None
    kinds = tuple([numba.typeof(argument) for argument in arguments])
    address = _functions.get((kernel, kinds))
    if address is None:
        overload = kernel.overloads.get(kinds)
        known_to_work = overload is not None and overload.signature.return_type == types.none
        address = address_of(kernel, kinds) if known_to_work and kernel.targetoptions.get("nogil") else 0
        _functions[kernel, kinds] = address
    if not address:
        return None
    values = [address, 0, 0]
    arrays: list[tuple[int, Any]] = []
    handles: list[int] = []
    known = {handle(array) for array in launch.kept}
    for argument in arguments:
        if type(argument) is int:
            if argument in known:
                handles.append(len(values))
            values.append(argument)
        else:
            arrays.append((len(values), argument))
            data = _address(argument)
            values += (0, id(argument), argument.size, argument.itemsize, data, *argument.shape, *argument.strides)
    return _Layout(len(values), arrays, handles, values)


_functions: dict[tuple[Any, Any], int] = {}  # addresses; 0: not to be called by address


class _Call:
    """A launch that Python calls."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._arguments, self._kept = launch.arguments, launch.kept

    def run(self) -> None:
        launch = self._launch
        if launch.count < 0:
            launch.kernel(*self._arguments)
        else:
            launch.kernel(*self._arguments, count=launch.count, work=0, parts=launch.parts)

    def rebind(self, moved: _Move) -> None:
        kept = {handle(array): moved.moved(array) for array in self._kept}
        self._kept = tuple([array if kept[handle(array)] is None else kept[handle(array)] for array in self._kept])
        self._arguments = tuple([self._after(argument, kept, moved) for argument in self._arguments])

    def _after(self, argument: Any, kept: dict[int, Any], moved: _Move) -> Any:
        if isinstance(argument, numpy.ndarray):
            array = moved.moved(argument)
            return argument if array is None else array
        if isinstance(argument, tuple):
            return type(argument)([self._after(inner, kept, moved) for inner in argument])
        array = kept.get(argument) if type(argument) is int else None
        return argument if array is None else handle(array)


class _Move:
    """From the addresses `low` to `high` to as many bytes further in the memory of `new`."""

    def __init__(self, low: int, high: int, by: int, new: numpy.ndarray) -> None:
        self.low, self.high, self.by, self.new = low, high, by, new

    def moved(self, array: numpy.ndarray) -> numpy.ndarray | None:
        """The array there, or None for one that lies elsewhere."""
        at = _address(array)
        if not self.low <= at < self.high:
            return None
        return numpy.asarray(_At(self.new, at + self.by, array))


class _At:
    """What NumPy makes an array of: one in the memory of `owner`."""

    def __init__(self, owner: numpy.ndarray, address: int, like: numpy.ndarray) -> None:
        self._owner = owner
        self.__array_interface__ = {**like.__array_interface__, "data": (address, not like.flags.writeable)}
        self.__array_interface__["strides"] = like.strides


def _address(array: numpy.ndarray) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _bounds(array: numpy.ndarray) -> tuple[int, int]:
    """Where the array's memory begins and ends."""
    low = high = _address(array)
    if not array.size:
        return low, low
    for extent, stride in zip(array.shape, array.strides):
        if stride < 0:
            low += (extent - 1) * stride
        else:
            high += (extent - 1) * stride
    return low, high + array.itemsize


# --- compiled ----------------------------------------------------------------------------------------------------------------

_BYTES, _WORD = drivers_numba._BYTES, drivers_numba._WORD
_POOL = ir.FunctionType(ir.VoidType(), [_BYTES] * 5 + [_WORD] * 3)  # numba_parallel_for
_WORKER = ir.FunctionType(ir.VoidType(), [_BYTES.as_pointer(), _WORD.as_pointer(), _WORD.as_pointer(), _BYTES])
_COLUMNS = 3  # of a table: worker, block, parts
_words_at = make_vector(types.int64)


@intrinsic
def _keep(context):
    """The address of a function that takes the place of the pool: what it takes for a number of threads is the address of a receipt."""

    def generate(context, builder, signature, values):
        keep = ir.Function(builder.module, _POOL, name=builder.module.get_unique_name("keep"))
        keep.linkage = "internal"
        inner = ir.IRBuilder(keep.append_basic_block("entry"))
        worker, block, receipt = keep.args[0], keep.args[4], inner.inttoptr(keep.args[7], _WORD.as_pointer())
        target, size = (inner.load(inner.gep(receipt, [_WORD(index)])) for index in range(2))
        cgutils.raw_memcpy(inner, inner.inttoptr(target, _BYTES), block, size, 1)
        inner.store(inner.ptrtoint(worker, _WORD), inner.gep(receipt, [_WORD(2)]))
        inner.ret_void()
        return builder.ptrtoint(keep, _WORD)

    return types.int64(), generate


@intrinsic
def _run_row(context, worker, block, parts, pool, num_threads):
    """Has the worker do all parts, in this thread where `pool` is 0."""

    def generate(context, builder, signature, values):
        worker, block, parts, pool, num_threads = values
        args = cgutils.alloca_once_value(builder, ir.Constant(_BYTES, None))
        dims, steps = cgutils.alloca_once(builder, _WORD), cgutils.alloca_once_value(builder, _WORD(1))
        builder.store(parts, dims)
        data = builder.inttoptr(block, _BYTES)
        with builder.if_else(builder.icmp_signed("==", pool, _WORD(0))) as (alone, together):
            with alone:
                builder.call(builder.inttoptr(worker, _WORKER.as_pointer()), [args, dims, steps, data])
            with together:
                pointers = [
                    builder.inttoptr(worker, _BYTES),
                    *(builder.bitcast(p, _BYTES) for p in (args, dims, steps)),
                    data,
                ]
                builder.call(builder.inttoptr(pool, _POOL.as_pointer()), [*pointers, _WORD(1), _WORD(1), num_threads])
        return context.get_dummy_value()

    kind = types.int64
    return types.void(kind, kind, kind, kind, kind), generate


def _worker_of_words(count: int) -> int:
    """A worker that calls the function at the block's first address with the `count` words of its arguments."""
    if count not in _workers:

        @intrinsic
        def worker(context):
            def generate(context, builder, signature, values):
                worker = ir.Function(builder.module, _WORKER, name=builder.module.get_unique_name("words"))
                worker.linkage = "internal"
                inner = ir.IRBuilder(worker.append_basic_block("entry"))
                words = inner.bitcast(worker.args[3], _WORD.as_pointer())
                places = [
                    inner.alloca(_BYTES) for _ in range(2)
                ]  # of the result, which there is none of, and of an error
                arguments = [inner.load(inner.gep(words, [_WORD(_HEAD + number)])) for number in range(count)]
                kind = ir.FunctionType(errcode_t, [place.type for place in places] + [_WORD] * count)
                inner.call(inner.inttoptr(inner.load(words), kind.as_pointer()), [*places, *arguments])
                inner.ret_void()
                return builder.ptrtoint(worker, _WORD)

            return types.int64(), generate

        @compiled(key=f"of {count} words")
        def address():
            return worker()

        _workers[count] = call_unnoted(address), address
    return _workers[count][0]


_workers: dict[int, tuple[int, Any]] = {}  # with the function whose machine code lies there


@compiled
def _keeper_address():
    return _keep()


@compiled
def _drive(rows, first, last, pool, num_threads):
    words = _words_at(rows, _COLUMNS * last)
    for row in range(_COLUMNS * first, _COLUMNS * last, _COLUMNS):
        worker, block, parts = words[row], words[row + 1], words[row + 2]
        if parts > 1:
            _run_row(worker, block, parts, pool, min(parts, num_threads))
        else:
            _run_row(worker, block, 1, 0, 1)


@functools.cache
def _driver() -> Callable[..., None]:
    """`_drive` for rows at an address, as Python calls it: without Numba's dispatcher, which costs 0.4 us."""
    kinds = (types.int64,) * 5
    _drive.compile(kinds)
    return getattr(_drive.overloads[kinds], "entry_point", None) or _drive


_addresses: dict[str, int] = {}


def _keeper() -> int:
    if "keep" not in _addresses:
        _addresses["keep"] = call_unnoted(_keeper_address)
    return _addresses["keep"]


def _pool() -> int:
    if "pool" not in _addresses:
        _addresses["pool"] = llvmlite.binding.address_of_symbol("numba_parallel_for")
    return _addresses["pool"]
