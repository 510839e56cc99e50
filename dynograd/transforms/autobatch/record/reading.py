"""Reading numbers of a Lazy: the values of its whole group come as one list, so that the reads of all examples cost one transfer.

Only what is not settled yet is read here: nobody has had its memory, so nobody can have written into it.
"""

from __future__ import annotations

from typing import Any

from dynograd import arrays
from dynograd.tensor.tensor import Tensor
from dynograd.transforms.autobatch.record.pending import Lazy, settle

__all__ = ["install"]

_MOST = 1 << 16  # numbers that are taken to be read if one of them is


def _values(lazy: Any) -> Any:
    """The Python number (or nested lists) of `lazy`; `lazy` itself, settled, where that is not so simple."""
    port = lazy.pending
    bucket = port.bucket
    if not bucket.done:
        bucket.recorder.flush(bucket)
    whole = port.whole
    found = whole.values
    if found is None:
        count = bucket.count()
        simple = (
            whole.slab is not None
            and not whole.one
            and not whole.span
            and bucket.errors is None
            and count * port.kind.size <= _MOST
        )
        if not simple or not port.kind.dtype.isbuiltin:
            return settle(lazy)
        array = arrays.to_numpy(whole.slab.array[whole.offset : whole.offset + count])
        found = whole.values = array.tolist()
    return found[lazy.row]


def _reader(name: str, convert: Any) -> Any:
    """The method of Lazy for a method of Tensor that reads one number."""
    plain = getattr(Tensor, name)

    def method(self: Any) -> Any:
        if self.pending.kind.size != 1:
            return plain(settle(self))
        found = _values(self)
        if isinstance(found, Tensor):
            return plain(found)
        while type(found) is list:
            (found,) = found
        return found if convert is None else convert(found)

    method.__name__ = method.__qualname__ = name
    return method


def _tolist(self: Any) -> Any:
    found = _values(self)
    return Tensor.tolist(found) if isinstance(found, Tensor) else _copied(found)


def _copied(found: Any) -> Any:
    return [_copied(one) for one in found] if type(found) is list else found


def _index(self: Any) -> int:
    kind = self.pending.kind
    if kind.dtype.kind not in "biu" or kind.size != 1:
        return Tensor.__index__(settle(self))
    return int(self.item())


def install() -> None:
    """Gives Lazy these methods."""
    for name, convert in (("item", None), ("__bool__", bool), ("__int__", int), ("__float__", float)):
        setattr(Lazy, name, _reader(name, convert))
    Lazy.tolist = _tolist  # type: ignore[method-assign]
    Lazy.__index__ = _index  # type: ignore[method-assign]
