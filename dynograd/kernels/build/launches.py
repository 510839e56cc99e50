"""Which compiled kernels run, with their arguments, so that they can be run again without Python: `noting`.

Every compiled kernel that Python calls is noted, whether by `Chunked`, by its `serial` or as a plain `compiled` function; what compiled code
calls is a part of what called it. While nobody notes, calls are what they are without this module: the hook is put into the class of
Numba's dispatchers by the first `noting` and taken out by the last one.

Not noted: the kernels of `small/objects_numba.entry` and what NumPy computes. With `NUMBA_DISABLE_JIT=1` there is no compiled kernel.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from dynograd.base.interrupts import InterruptSafe

__all__ = ["Launch", "data_address", "noting", "unnoted"]


@dataclass(slots=True)
class Launch:
    """A call of a compiled kernel: run again, it writes the same from what its arrays hold then.

    That is what the kernel itself did, and not what Python did around it: flags which a kernel writes for Python to raise an error are
    not looked at, what Python has read from an array (a size, a number of groups) stays as it was, and so does every plain number.

    Args:
        kernel: a `Chunked`; or a `compiled` function, where it has no items or was not called from item 0 on.
        arguments: of a `Chunked` without start and stop. Arrays are views with the shape in which the kernel has seen them.
        count: the items 0 to `count` were handled; -1 of a `compiled` function.
        parts: in how many parts it ran; 1: on the calling thread.
        kept: arrays that stand among the arguments by `addresses_numba.handle` or `data_address`, in their order.
        returns: whether it gave something back to Python. What Python has done with that is not part of the launch.
    """

    kernel: Any
    arguments: tuple[Any, ...]
    count: int
    parts: int = 1
    kept: tuple[Any, ...] = ()
    returns: bool = False

    @property
    def name(self) -> str:
        """Module and function, as in "matmuls_numba.products"; of what was compiled from a generated text the function, as in "softmax"."""
        function = getattr(self.kernel, "serial", self.kernel).py_func
        module = "" if hasattr(function, "dynograd_source") else function.__module__.rpartition(".")[2] + "."
        return module + str(function.__name__)


def data_address(array: Any) -> int:
    """Where element 0 of an array lies, for a kernel that takes addresses. The caller keeps the array; who notes does, too."""
    return int(array.__array_interface__["data"][0])


class noting(InterruptSafe["list[Launch]"]):
    """Notes the launches of this thread in a list, in order; loads Numba.

    Within one another, each list has what ran while it was open. Entering the outermost one takes some 100 us, an inner one 1.
    """

    __slots__ = ("_launches", "holds")

    def __init__(self) -> None:
        self._launches: list[Launch] = []
        self.holds = False

    def _enter(self) -> list[Launch]:
        _hook.put_in(self)
        _thread.lists.append(self._launches)
        return self._launches

    def forget(self) -> None:
        """Lets go of the launches so far, and of the arrays whose handles they have, unless another list is open within this one."""
        if len(_thread.lists) == 1:
            self._launches.clear()
            _thread.handles.clear()

    def _leave(self) -> None:
        lists = _thread.lists
        for position in reversed(range(len(lists))):
            if lists[position] is self._launches:
                del lists[position]
                break
        if not lists:
            _thread.handles.clear()
        _hook.take_out(self)


@contextlib.contextmanager
def unnoted() -> Iterator[None]:
    """Inside, no launch of this thread is noted."""
    lists, _thread.lists = _thread.lists, []
    try:
        yield
    finally:
        _thread.lists = lists


class _Thread(threading.local):
    """The open lists of a thread, and the arrays whose handles it has taken meanwhile."""

    def __init__(self) -> None:
        self.lists: list[list[Launch]] = []
        self.handles: dict[int, Any] = {}


_thread = _Thread()


class _Hook:
    """The noting call of dispatchers and the noting `handle` of kernel modules, there while anybody notes."""

    def __init__(self) -> None:
        self._lock, self._count = threading.Lock(), 0
        self._modules: list[Any] = []  # that have `handle`, of the first `_known` in sys.modules
        self._known = 0

    def put_in(self, holder: Any) -> None:
        """`holder.holds` says from the moment on in which it counts that it does, so that its end may come twice after an interrupt."""
        with self._lock:
            self._count += 1
            holder.holds = True
            if self._count == 1:
                _prepare()
                self._set_handles(_plain["handle"], _handle)
                self._set_addresses(_plain["data_address"], _data_address)
                _plain["class"].__call__ = _call

    def take_out(self, holder: Any) -> None:
        with self._lock:
            if holder.holds:
                holder.holds = False
                self._count -= 1
            if not self._count and _plain:
                if "__call__" in vars(_plain["class"]):
                    del _plain["class"].__call__
                self._set_handles(_handle, _plain["handle"])
                self._set_addresses(_data_address, _plain["data_address"])

    def _set_handles(self, old: Any, new: Any) -> None:
        if len(sys.modules) != self._known:  # modules that were imported meanwhile have taken what they found
            modules = list(sys.modules.items())
            self._known = len(modules)
            self._modules = [
                module
                for name, module in modules
                if name.startswith("dynograd.kernels.") and not {"handle", "data_address"}.isdisjoint(vars(module))
            ]
        for module in self._modules:
            if vars(module).get("handle") is old:
                module.handle = new

    def _set_addresses(self, old: Any, new: Any) -> None:
        for module in self._modules:
            if vars(module).get("data_address") is old:
                module.data_address = new


_hook = _Hook()
_plain: dict[str, Any] = {}  # what stands there while nobody notes


def _prepare() -> None:
    if not _plain:
        from dynograd.kernels.build import addresses_numba, compiling_numba, targets_numba

        _plain["handle"], _plain["data_address"] = addresses_numba.handle, data_address
        _plain["class"] = targets_numba._Dispatcher
        _plain["call"] = compiling_numba.call_unnoted


def _call(kernel: Any, *arguments: Any, **keywords: Any) -> Any:
    result = _plain["call"](kernel, *arguments, **keywords)
    if _thread.lists:
        launch = _launch_of(kernel, arguments, keywords, result is not None)
        for launches in _thread.lists:
            launches.append(launch)
    return result


def _launch_of(kernel: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], returns: bool) -> Launch:
    if keywords:
        arguments = inspect.signature(kernel.py_func).bind(*arguments, **keywords).args
    handles = _thread.handles
    kept = tuple([handles[argument] for argument in arguments if type(argument) is int and argument in handles])
    chunked = getattr(kernel, "dynograd_chunked", None)
    if chunked is None or arguments[-2] > 0:
        return Launch(kernel, _as_seen(arguments), -1, 1, kept, returns)
    from dynograd.kernels.build import drivers_numba

    *own, start, count = arguments
    parts = drivers_numba.parts_of(start)
    return Launch(chunked, _as_seen(own), count, parts, kept, returns)


def _as_seen(arguments: Sequence[Any]) -> tuple[Any, ...]:
    """The arguments with views in the place of arrays: what a kernel has written may be given another shape in place afterwards."""
    return tuple(
        [
            argument.view()
            if isinstance(argument, numpy.ndarray)
            else _as_seen(argument)
            if type(argument) is tuple
            else argument
            for argument in arguments
        ]
    )


def _handle(array: Any) -> int:
    """`addresses_numba.handle` while somebody notes."""
    handle: int = _plain["handle"](array)
    if _thread.lists:
        _thread.handles[handle] = array
    return handle


def _data_address(array: Any) -> int:
    """`data_address` while somebody notes."""
    address: int = _plain["data_address"](array)
    if _thread.lists:
        _thread.handles[address] = array
    return address
