"""Reading numbers of a Lazy: the values of its whole group come as one list, so that the reads of all examples cost one transfer.

Only what is not settled yet is read here: nobody has had its memory, so nobody can have written into it.
"""

from __future__ import annotations

from typing import Any

from dynograd import arrays
from dynograd.tensor.tensor import Tensor
from dynograd.transforms.autobatch.record.pending import Lazy, settle

_MOST = 1 << 16  # numbers that are taken to be read if one of them is


def _values(lazy: Any) -> Any:
    """The Python number (or nested lists) of `lazy`; `lazy` itself, settled, where that is not so simple."""
    if lazy.pending.is_open:
        lazy.pending.enter()
    port = lazy.pending
    bucket = port.bucket
    if not bucket.done:
        bucket.recorder.flush(bucket)
        bucket = port.bucket  # those of a sequence are others now
    whole = port.whole
    values = whole.values
    if values is None:
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
        values = whole.values = array.tolist()
    return values[lazy.row]


def _reader(name: str, convert: Any) -> Any:
    """The method of Lazy for a method of Tensor that reads one number."""
    plain = getattr(Tensor, name)

    def method(self: Any) -> Any:
        if self.pending.kind.size != 1:
            return plain(settle(self))
        values = _values(self)
        if isinstance(values, Tensor):
            return plain(values)
        while type(values) is list:
            (values,) = values
        return values if convert is None else convert(values)

    method.__name__ = method.__qualname__ = name
    return method


def _tolist(self: Any) -> Any:
    values = _values(self)
    return Tensor.tolist(values) if isinstance(values, Tensor) else _copied(values)


def _copied(result: Any) -> Any:
    return [_copied(tensor) for tensor in result] if type(result) is list else result


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
