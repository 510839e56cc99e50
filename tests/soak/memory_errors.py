"""A MemoryError at a chosen allocation: NumPy is given an allocator that fails there, and dynograd's memory of large results one that does.

So each array fails that a step makes, also those that NumPy's functions make inside. What Python allocates for its own objects does not.
"""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable
from typing import Any

from dynograd.arrays import buffers
from tests.soak.interrupts import INTERRUPTED
from tests.soak.states import Disturbed

_SET_HANDLER, _GET_HANDLER = (
    304,
    305,
)  # places of PyDataMem_SetHandler and its like in NumPy's table of functions (NumPy >= 1.22)
_NAME = b"mem_handler"
_pointer, _size = ctypes.c_void_p, ctypes.c_size_t


class _Allocator(ctypes.Structure):
    _fields_ = [(name, _pointer) for name in ("context", "malloc", "calloc", "realloc", "free")]


class _Handler(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char * 127), ("version", ctypes.c_uint8), ("allocator", _Allocator)]


class Allocations:
    """Counts the arrays that a call makes, and lets a chosen one fail."""

    def __init__(self, place: int = -1) -> None:
        self.place, self.count = place, 0

    def fails(self) -> bool:
        self.count += 1
        return self.count == self.place

    def run(self, function: Callable[[], Any]) -> bool:
        """Whether the call ended with a MemoryError."""
        _current[:] = [self]
        before = _set_handler(_capsule)
        mapped = buffers._mapped

        def mapped_or_not(size: int) -> Any:
            if self.fails():
                self.place = self.count + 1  # the second try, with all unused memory given back, fails too
                raise MemoryError
            return mapped(size)

        buffers._mapped = mapped_or_not
        try:
            function()
        except MemoryError:
            return True
        finally:
            _current.clear()
            buffers._mapped = mapped
            _set_handler(before)
        return False


_current: list[Allocations] = []


def _content(capsule: Any, name: bytes | None) -> Any:
    content = ctypes.pythonapi.PyCapsule_GetPointer
    content.argtypes, content.restype = [ctypes.py_object, ctypes.c_char_p], _pointer
    return content(capsule, name)


def _capsule_of(handler: _Handler) -> Any:
    make = ctypes.pythonapi.PyCapsule_New
    make.argtypes, make.restype = [_pointer, ctypes.c_char_p, _pointer], ctypes.py_object
    return make(ctypes.addressof(handler), _NAME, None)


def _function_of_numpy(place: int, *arguments: Any) -> Any:
    from numpy._core._multiarray_umath import _ARRAY_API

    table = ctypes.cast(_content(_ARRAY_API, None), ctypes.POINTER(_pointer))
    return ctypes.PYFUNCTYPE(ctypes.py_object, *arguments)(table[place])


def _failing(kind: Any, address: int) -> Any:
    """An allocating function of NumPy's, which gives nothing when it is its turn to fail."""
    allocate = kind(address)

    def call(*arguments: Any) -> Any:
        if _current and _current[0].fails():
            return None
        return allocate(*arguments)

    return kind(call)


_set_handler = _function_of_numpy(_SET_HANDLER, ctypes.py_object)
_usual = ctypes.cast(_content(_function_of_numpy(_GET_HANDLER)(), _NAME), ctypes.POINTER(_Handler)).contents.allocator
# Arrays that live on are freed by this allocator: nothing of it may go. It frees by NumPy's own function, since Python code that ran there
# would lose the error that is on its way.
_functions = [
    _failing(ctypes.CFUNCTYPE(_pointer, _pointer, _size), _usual.malloc),
    _failing(ctypes.CFUNCTYPE(_pointer, _pointer, _size, _size), _usual.calloc),
    _failing(ctypes.CFUNCTYPE(_pointer, _pointer, _pointer, _size), _usual.realloc),
]
_allocator = _Allocator(_usual.context, *[ctypes.cast(function, _pointer) for function in _functions], _usual.free)
_handler = _Handler(b"failing", 1, _allocator)
_capsule = _capsule_of(_handler)


def starve(name: str, most: int = 0, seed: int = 0) -> tuple[int, int, list[str]]:
    """Lets each allocation of a step fail (or `most` of them), one step after the other.

    Returns:
        How many allocations a step has, how many have failed, and what was wrong.
    """
    disturbed = Disturbed(name, INTERRUPTED[name])
    count = disturbed.count(Allocations())
    places = list(range(1, count + 1))
    if most and most < count:
        places = sorted(random.Random(seed).sample(places, most))
    told = []
    for place in places:
        way = Allocations(place)
        problems = disturbed.problems(way.run)
        if problems:
            told.append(f"{name}, allocation {place} of {count}: {'; '.join(problems)}")
            break
    return count, len(places), told
