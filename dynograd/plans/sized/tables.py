"""Tables of bound kernels for several sizes: the words that differ among the tables of recorded steps are written anew when the sizes change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy

from dynograd.arrays import ndarray
from dynograd.kernels.build.addresses_numba import handle_of_place
from dynograd.kernels.matmul.matmuls_cpu import blocking
from dynograd.kernels.recurrent import recurrent_products_numba
from dynograd.plans.sized.memory import Differs, SizedMemory
from dynograd.plans.sized.rules import PRODUCT, blocks_of_rows, counts_of_blocks, products_of, rows_of_loops
from dynograd.plans.sized.sizes import NoFormula, Number, Real, at

__all__ = ["OtherKernels", "SizedBound", "Word", "explained"]


class Word(NamedTuple):
    """A word of tables that is not the same in all of them, or is an address."""

    place: int
    call: int
    kind: str  # "unexplained": no formula gives it
    what: Any


class SizedBound:
    """The launches of a program's calls in one table, as in `programs.Bound`; `resize` makes it that of other sizes.

    Args:
        bounds: of the recorded programs.
        memory: what they have in common.
        apart: the calls that are computed otherwise.
        checked: those that look at values first.
        words: what `explained` gives of them.
    Raises:
        Differs: they are not the same kernels in the same order.
    """

    def __init__(
        self,
        bounds: Sequence[Any],
        memory: SizedMemory,
        apart: set[int],
        checked: set[int],
        words: Sequence[Word],
    ) -> None:
        first = bounds[0]
        self.rows, count = first.rows, len(first.rows) - 1
        self.checks: dict[int, Any] = {}
        self.next_stop = [0] * count
        following = count
        for place in reversed(range(count)):
            if place in apart or place in checked:
                following = place
            self.next_stop[place] = following
        self.table: Any = None
        self._words: list[tuple[int, Any, Any]] = []  # (place, region, offset)
        self._data: list[tuple[Any, Any]] = []  # the same of what handles lead to
        self._handles: list[int] = []  # the places of those handles
        self._numbers: list[tuple[int, Number]] = []
        self._reals: list[tuple[int, Real]] = []
        self._parts: list[tuple[int, Any, list[int]]] = []  # (row, parts at each sample, words that are the parts)
        if any([bound.table is None for bound in bounds]):
            if not all([bound.table is None for bound in bounds]):
                raise Differs("kernels in some programs only")
            return
        self.memory = memory
        self._compare([bound.table for bound in bounds], words)

    def _compare(self, tables: list[Any], explained_words: Sequence[Word]) -> None:
        first = tables[0]
        words = numpy.stack([table.words for table in tables])
        self.table = first.copied()
        self._rows_of_loops = rows_of_loops(first)
        self._blocks_of_rows = blocks_of_rows(first, words)
        self._counts_of_blocks = counts_of_blocks(first)
        self._products = products_of(tables, words, self.memory)
        parts = numpy.stack([table.parts for table in tables])
        follow = {row: [int(first.first_words[row])] for row in numpy.flatnonzero((parts != parts[0]).any(0)).tolist()}
        kinds: dict[str, list[Any]] = dict(word=self._words, data=self._data, number=self._numbers, real=self._reals)
        for place, call, kind, entry in explained_words:
            if kind == "unexplained":
                raise Differs(f"{entry} of the kernels of call {call}")
            if kind == "part":
                follow[entry].append(place)
                continue
            kinds[kind].append(entry)
            if kind == "data":
                self._handles.append(place)
        self._parts = [(row, parts[:, row], places) for row, places in follow.items()]

    def place(self) -> None:
        """The memory is laid out: addresses are known."""
        if self.table is None:
            return
        words, memory = self.table.words, self.memory
        places, numbers = [place for place, _ in self._numbers], [number for _, number in self._numbers]
        added = [0] * len(places)
        self._slots = numpy.zeros(len(self._data) + 1, numpy.int64)
        start = self._slots.__array_interface__["data"][0]
        for place, slot in zip(self._handles, range(len(self._data))):
            words[place] = handle_of_place(start + 8 * slot)
        moving: list[tuple[int, Number, int]] = []
        for slot, (region, offset) in enumerate(self._data):
            if type(offset) is Number:
                moving.append((slot, offset, memory.base(region)))
            else:
                self._slots[slot] = memory.base(region) + offset
        for place, region, offset in self._words:
            if type(offset) is Number:
                places.append(place)
                numbers.append(offset)
                added.append(memory.base(region))
            else:
                words[place] = memory.base(region) + offset
        self._places = numpy.array(places, numpy.int64), numpy.array([number.place for number in numbers], numpy.int64)
        self._added = numpy.array(added, numpy.int64)
        self.moving = (
            numpy.array([slot for slot, _, _ in moving], numpy.int64),
            numpy.array([number.place for _, number, _ in moving], numpy.int64),
            numpy.array([base for _, _, base in moving], numpy.int64),
        )

    def resize(self, numbers: Any, nearest: int) -> None:
        """The sizes are those with these numbers (int64); the sample `nearest` is most like them."""
        if self.table is None:
            return
        words = self.table.words
        places, which = self._places
        words[places] = numbers[which] + self._added
        slots, which, bases = self.moving
        self._slots[slots] = numbers[which] + bases
        floats = words.view(numpy.float64)
        for place, real in self._reals:
            floats[place] = real.at(numbers)
        for place, (total, columns) in self._rows_of_loops.items():
            words[place] = -(-int(words[total]) // int(words[columns]))
        for place, (rows, blocks) in self._blocks_of_rows.items():
            words[place] = -(-int(words[rows]) // int(words[blocks]))
        for place, rows in self._counts_of_blocks.items():
            words[place] = -(-int(words[rows]) // recurrent_products_numba.BLOCK)
        for row, parts, followers in self._parts:
            self.table.parts[row] = parts[nearest]
            words[followers] = parts[nearest]
        for row, first, last, batch in self._products:
            m, n, k = words[first + PRODUCT : first + PRODUCT + 3].tolist()
            block_m, block_n, count, parts = blocking(at(batch, numbers), m, n, k)
            words[first + PRODUCT + 3], words[first + PRODUCT + 4], words[last] = block_m, block_n, count
            words[first] = self.table.parts[row] = max(1, min(parts, count))

    def followed(self) -> Iterator[tuple[int, Number]]:
        """(place of a word, number) of what differs from size to size, the numbers that rows count by included."""
        if self.table is not None:
            for place, which in zip(*self._places):
                yield int(place), Number(int(which))
            for place, real in self._reals:
                if isinstance(real.whole, Number):
                    yield place, real.whole
            for _, first, _, batch in self._products:
                if isinstance(batch, Number):
                    yield first, batch

    def taken(self, words: Any, slots: Any, rows: Any) -> tuple[Any, ...]:
        """Some words, data and rows as they are now, for `put`."""
        return () if self.table is None else (self.table.words[words], self._slots[slots], self.table.parts[rows])

    def put(self, taken: tuple[Any, ...], words: Any, slots: Any, rows: Any) -> None:
        """Makes them what they were."""
        if taken:
            self.table.words[words], self._slots[slots], self.table.parts[rows] = taken

    def state(self) -> tuple[Any, ...]:
        """What `resize` has written."""
        return () if self.table is None else (self.table.words.copy(), self._slots.copy(), self.table.parts.copy())

    def restore(self, state: tuple[Any, ...]) -> None:
        """Makes the table one of the sizes again that it had then."""
        if state:
            self.table.words[:], self._slots[:], self.table.parts[:] = state

    def launch(self, start: int, stop: int) -> None:
        first, last = self.rows[start], self.rows[stop]
        if last > first:
            self.table.run(first, last)


def explained(bounds: Sequence[Any], memory: SizedMemory) -> list[Word]:
    """What the words of the tables are that differ at the recorded sizes, or are addresses.

    Raises:
        OtherKernels: other kernels run at other sizes.
    """
    tables = [bound.table for bound in bounds]
    if any([table is None for table in tables]):
        return []
    calls = call_of_rows(bounds[0].rows)
    odd = {call_of_rows(bound.rows)[row] for bound in bounds for row in bound.table.called}
    if odd:
        raise OtherKernels(odd)
    if any([bound.rows != bounds[0].rows for bound in bounds]):
        odd = {
            call
            for call in range(len(bounds[0].rows) - 1)
            if len({bound.rows[call + 1] - bound.rows[call] for bound in bounds}) > 1
        }
        raise OtherKernels(odd)
    for row, call in enumerate(calls):
        if len({int(table.workers[row]) for table in tables}) > 1:
            odd.add(call)
    sizes = [numpy.diff(table.first_words, append=len(table.words)) for table in tables]
    for row, call in enumerate(calls):
        if len({int(size[row]) for size in sizes}) > 1:
            odd.add(call)
    if odd:
        raise OtherKernels(odd)
    words = numpy.stack([table.words for table in tables])
    owner = call_of_words(tables[0], calls)
    return [
        Word(place, int(owner[place]), kind, what) for place, kind, what in _explained(tables, memory, words, owner)
    ]


class OtherKernels(Differs):
    """Some calls have other kernels at other sizes."""

    def __init__(self, calls: set[int]) -> None:
        super().__init__(f"other kernels in calls {sorted(calls)}")
        self.calls = calls


def _explained(tables: list[Any], memory: SizedMemory, words: Any, owner: Any) -> Iterator[tuple[int, str, Any]]:
    """(place, kind, what it is) of each such word."""
    places = [table.places() for table in tables]
    for data, handles, _starts in places[1:]:
        if [place for place, _ in data] != [place for place, _ in places[0][0]] or [place for place, _ in handles] != [
            place for place, _ in places[0][1]
        ]:
            raise Differs("arrays at other places")
    skipped = set(places[0][2]) | set(tables[0].first_words.tolist())
    skipped |= set(rows_of_loops(tables[0]))
    skipped |= set(blocks_of_rows(tables[0], words)) | set(counts_of_blocks(tables[0]))
    for _, first, last, _ in products_of(tables, words, memory):
        skipped |= {first + PRODUCT + 3, first + PRODUCT + 4, last}
    for index, name in enumerate(("word", "data")):
        addresses_of = [[array.__array_interface__["data"][0] for _, array in of[index]] for of in places]
        times = owner[[place for place, _ in places[0][index]]].tolist()
        memory.learn(addresses_of, times)
        for position, ((place, _), *addresses) in enumerate(zip(places[0][index], *addresses_of)):
            if place in skipped:
                continue
            skipped.add(place)
            yield _address(place, name, [of[index][position][1] for of in places], addresses, memory, times[position])
    inside = numpy.zeros(words.shape[1], bool)
    row_of = call_of_words(tables[0], list(range(len(tables[0]))))
    for row, regions in zip(words, memory.regions):
        inside |= (row >= regions.around[0]) & (row < regions.around[1])
    parts = numpy.stack([table.parts for table in tables])
    reals, packed = [set(places) for places in tables[0].floating()]
    differing = (words != words[0]).any(0)
    left = numpy.flatnonzero(differing | inside)
    addressing = left[inside[left]]
    memory.learn(words[:, addressing].tolist(), owner[addressing].tolist())
    columns = zip(left.tolist(), words[:, left].T.tolist(), differing[left].tolist(), inside[left].tolist())
    for place, values, differs, is_address in columns:
        if place in skipped:
            continue
        if place in reals or place in packed:
            if differs:
                yield place, *(_real(place, values, memory) if place in reals else ("unexplained", f"words {values}"))
            continue
        try:
            where = memory.place_of(values, int(owner[place])) if is_address else None
            if where is not None:
                yield place, "word", (place, *where)
            elif differs and values == parts[:, row_of[place]].tolist():
                yield place, "part", int(row_of[place])
            elif differs:
                yield place, "number", (place, memory.sizes.number(values))
        except (Differs, NoFormula):
            yield place, "unexplained", f"words {values}"


def _real(place: int, values: list[int], memory: SizedMemory) -> tuple[str, Any]:
    """A floating number."""
    floats = numpy.array(values, numpy.int64).view(numpy.float64)
    try:
        number = memory.sizes.real(floats.tolist())
    except (NoFormula, OverflowError, ZeroDivisionError):
        return "unexplained", f"words {values}"
    return "real", (place, number)


def _address(
    place: int, name: str, arrays: list[Any], addresses: list[int], memory: SizedMemory, time: int
) -> tuple[int, str, Any]:
    """What the address of an array is."""
    if handle_of_place(0) is None:
        name = "word"
    try:
        where = memory.place_of(addresses, time)
    except Differs as error:
        return place, "unexplained", str(error)
    if where is not None:
        return place, name, (place, *where) if name == "word" else where
    first = arrays[0]
    if all([address == addresses[0] for address in addresses]) or _is_constant(arrays, memory):
        # The first program's own: of a handle the array is alive as long as the table.
        return (place, name, (place, first, 0)) if name == "word" else (place, name, (first, 0))
    try:
        extra = memory.extras.find(arrays, time)
    except NoFormula:
        extra = None
    if extra is None:
        return place, "unexplained", "an array that is no part of the plan"
    return (place, name, (place, *extra)) if name == "word" else (place, name, extra)


def _is_constant(arrays: list[Any], memory: SizedMemory) -> bool:
    """Whether the programs' own arrays hold the same, and no addresses of the plan."""
    first = arrays[0]
    if any(
        [type(array) is not ndarray or array.dtype != first.dtype or array.shape != first.shape for array in arrays]
    ):
        return False
    if any([array.tobytes() != first.tobytes() for array in arrays]):
        return False
    if first.dtype.itemsize == 8 and first.dtype.kind in "iu":
        low, high = memory.regions[0].around
        return not bool(((first >= low) & (first < high)).any())
    return True


def call_of_rows(rows: list[int]) -> list[int]:
    """The call of each row of a table."""
    return [call for call in range(len(rows) - 1) for _ in range(rows[call], rows[call + 1])]


def call_of_words(table: Any, calls: list[int]) -> ndarray:
    """The call of each word of a table."""
    begins = table.first_words
    return numpy.repeat(numpy.array(calls), numpy.diff(begins, append=len(table.words)))
