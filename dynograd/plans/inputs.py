"""Inputs that the kernels of a program read where the caller has them, and gradients that they write where the caller is to have them: copies cost more
than a kernel or two.

Memory that both cores have just read is written slowly: 200 KB take 10 us alone, and 80 in the middle of a program on two threads.
"""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.arrays import buffers, ndarray
from dynograd.kernels.layout.digests_cpu import digest
from dynograd.plans.gpu.array_kinds import may_share
from dynograd.plans.lowering import layouts
from dynograd.plans.memory import bounds
from dynograd.plans.programs import nobody
from dynograd.plans.watches import compiled

__all__ = ["Pointer", "gradient_pointers_of", "let_go", "pointers_of", "settle"]

_LEAST = 1 << 15  # bytes of an input; fewer are copied
_DATA = 16  # where an array object has the address of its data


class Pointer:
    """The words by which kernels find an input.

    Args:
        place: the program's array for it.
        words: (address of a word, the distance from the beginning of the input of what it says).
    """

    def __init__(self, place: Any, words: list[tuple[int, int]]) -> None:
        self.place = place
        self._words = numpy.array(words, numpy.int64).reshape(-1, 2)
        self._rows, self._count = self._words.ctypes.data, len(words)
        self._pointed_alike = compiled().pointed_alike

    def point(self, array: Any) -> bool:
        """Kernels read `array`, which is kept by the caller; False where it is not like the program's."""
        return bool(self._pointed_alike(id(array), id(self.place), self._rows, self._count))

    def home(self) -> None:
        """Kernels read the program's own array."""
        self.point(self.place)


def settle(pointed: list[tuple[Pointer, Any]]) -> None:
    """Inputs that kernels read where the caller has them are copied, since somebody may write there; the list is empty then."""
    for pointer, array in pointed:
        pointer.place[...] = array
    let_go(pointed)


def let_go(pointed: list[tuple[Pointer, Any]]) -> None:
    """Kernels read the program's own arrays again; the list is empty then."""
    for pointer, _ in pointed:
        pointer.home()
    pointed.clear()


def pointers_of(program: Any, recording: Any) -> dict[int, Pointer]:
    """Those of large inputs, by their numbers, if all that reads them are kernels which give the same wherever they lie.

    Args:
        program: has been compared with the recorded step; the inputs are those of that step.
        recording: of it.
    """
    pointers: dict[int, Pointer] = {}
    for outside in recording.outside:
        place = program.outside[outside.number]
        if (
            outside.fresh
            and not outside.grad
            and outside.address is None
            and place.nbytes >= _LEAST
            and place.flags.c_contiguous
        ):
            words = _words_of(program, place, outside.number)
            if words:
                pointers[outside.number] = Pointer(place, words)
    if not pointers:
        return {}
    staying = [(outside.array, outside.array.copy()) for outside in recording.outside if not outside.fresh]
    same = _give_the_same(program, pointers)
    for array, before in staying:
        if digest(array) != digest(before):  # it is written by the program
            array[...] = before
            same = False
    return pointers if same else {}


def gradient_pointers_of(program: Any, staying: list[Any]) -> dict[int, Pointer]:
    """Those of large gradients that leave the program, by their places among these, on the same terms.

    Args:
        staying: arrays of tensors from outside that are the same ones in each step.
    """
    pointers: dict[int, Pointer] = {}
    regions = [bounds(buffer) for buffer in program.memory.buffers]
    for number, place in enumerate(program.gradients):
        if place is None or place.nbytes < buffers.SMALLEST or not place.flags.c_contiguous:
            continue
        others = [array for other, array in enumerate(program.gradients) if other != number and array is not None]
        others += [array for array, _ in program.seeds] + program.outside
        if bounds(place) in regions and not any([may_share(place, array) for array in others]):
            words = _words_of(program, place, -1)
            if words:
                pointers[number] = Pointer(place, words)
    if not pointers:
        return {}
    before = [array.copy() for array in staying]
    same = _writes_the_same(program, list(pointers.values()))
    for array, values in zip(staying, before):
        if digest(array) != digest(values):  # it is written by the program
            array[...] = values
            same = False
    return pointers if same else {}


def _writes_the_same(program: Any, pointers: list[Pointer]) -> bool:
    """Whether the program writes gradients elsewhere as it does into its own arrays for them, and nothing else becomes another."""
    memory = layouts.memory_at(program.memory.low, program.memory.bytes)
    for is_held in (nobody, None):  # with groups, and without
        program.run(0, len(program.calls), is_held)
        expected = digest(memory)
        gradients = [pointer.place.copy() for pointer in pointers]
        elsewhere = [numpy.full_like(gradient, numpy.nan) for gradient in gradients]
        for pointer, array in zip(pointers, elsewhere):
            pointer.place[...] = numpy.nan
            pointer.point(array)
        program.run(0, len(program.calls), is_held)
        is_untouched = all([bool(numpy.isnan(pointer.place).all()) for pointer in pointers])
        for pointer, gradient in zip(pointers, gradients):
            pointer.home()
            pointer.place[...] = gradient
        same = [digest(array) == digest(gradient) for array, gradient in zip(elsewhere, gradients)]
        if not (is_untouched and all(same) and digest(memory) == expected):
            return False
    return True


def _words_of(program: Any, place: Any, number: int) -> list[tuple[int, int]] | None:
    """None where something else than kernels reads the input, or a value is a part of it."""
    region = bounds(place)

    def meets(array: Any) -> bool:
        low, high = bounds(array)
        return low < region[1] and region[0] < high

    if ("outside", number) in program.kin or any([meets(array) for array in program.arrays]):
        return None
    for call, form in zip(program.calls, program.forms):
        if form is None or getattr(form, "check", None) is not None or call.in_place:
            if any([type(array) is ndarray and meets(array) for array in (*call.inputs, *call.outputs, *call.saved)]):
                return None
    words: dict[int, int] = {}
    for bound in {id(bound): bound for bound in (program.plain, program.mixed)}.values():
        its_words = None if bound.table is None else _words_in(bound.table, meets, region[0])
        if its_words is None:
            return None
        words |= its_words
    return list(words.items())


def _words_in(table: Any, meets: Any, start: int) -> dict[int, int] | None:
    if table.called:
        return None
    words: dict[int, int] = {}
    first = table.words.__array_interface__["data"][0]
    data, handles, _ = table.places()
    for place, array in data:
        if meets(array):
            words[first + 8 * place] = array.__array_interface__["data"][0] - start
    for _, array in handles:
        if meets(array):
            words[id(array) + _DATA] = array.__array_interface__["data"][0] - start
    return words


def _give_the_same(program: Any, pointers: dict[int, Pointer]) -> bool:
    """Whether the program leaves the same in its memory when inputs lie elsewhere, and its own arrays for them hold something else."""
    memory = layouts.memory_at(program.memory.low, program.memory.bytes)
    places = [pointer.place for pointer in pointers.values()]
    copies = [place.copy() for place in places]
    for is_held in (nobody, None):  # with groups, and without
        program.run(0, len(program.calls), is_held)
        expected = digest(memory)
        for pointer, array in zip(pointers.values(), copies):
            pointer.place[...] = array[::-1] if array.dtype.kind in "iu" else array.dtype.type(numpy.nan)
            pointer.point(array)
        program.run(0, len(program.calls), is_held)
        for pointer, array in zip(pointers.values(), copies):
            pointer.home()
            pointer.place[...] = array
        if digest(memory) != expected:
            return False
    return True
