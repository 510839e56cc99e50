"""Who wrote into which memory, and when. An in-place op stamps the memory with the time (`seq`) and the user's line.

Backward compares one number per node, `last_write[0] > node.seq`, and looks at stamps only when something was written later than
the node was recorded. Stamps are kept by owner of the memory and vanish with it.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

from dynograd import arrays
from dynograd.autograd.modes import MODES
from dynograd.autograd.nodes import caller, line_text, next_seq

__all__ = [
    "Stamp",
    "before_rebinding",
    "before_writing",
    "count_on",
    "last_write",
    "marks",
    "note_again",
    "note_later",
    "stamp",
    "stamp_all",
    "stamp_marks",
    "stamp_whole",
    "stamps",
    "version",
    "written_since",
]

last_write = [0]


def before_rebinding(*tensors: Any) -> None:
    """Tensors are about to get other memory: the calls of an open `autobatch` scope that wait with them run first."""
    recorder = MODES.recorder
    if recorder is not None:
        for tensor in tensors:
            recorder.before_rebinding(tensor)
    if MODES.plan is not None:
        for tensor in tensors:
            MODES.plan.before_write(tensor)


def before_writing(written: Iterable[Any]) -> None:
    """Kernels are about to write into these arrays: the calls of an open `autobatch` scope that wait with them run first."""
    if MODES.recorder is not None:
        MODES.recorder.before_writing(written)


class Stamp:
    """The last writes into one owner's memory: into all of it, and into regions of it, each with its time, code and place in it."""

    __slots__ = ("count", "owner", "regions", "whole")

    def __init__(self) -> None:
        self.count = 0
        self.whole: tuple[int, Any, Any] | None = None
        self.regions: dict[Any, tuple[int, Any, Any]] = {}
        self.owner: Any = None


stamps: dict[int, Stamp] = {}
_REGIONS = 64


def stamp(array: Any, line: Any = None) -> None:
    """Records that `array`'s memory is being written now, by `line` (default: the nearest caller outside dynograd)."""
    if array.base is None:
        owner, entry = array, stamps.get(id(array))
        if entry is not None and not entry.regions:  # the common case
            now = last_write[0] = next_seq()
            entry.count += 1
            entry.whole = _write_of(now, line or caller())
            return
    else:
        owner = arrays.base_of(array)
        entry = stamps.get(id(owner))
    if entry is None:
        entry = _new_entry(owner)
    now = next_seq()
    entry.count += 1
    write = _write_of(now, line or caller())
    _note(entry, _region_of(array, owner), write)
    last_write[0] = now


def note_again(array: Any) -> None:
    """Counts a write that left the memory as the one before it did."""
    entry = stamps.get(id(arrays.base_of(array)))
    if entry is not None:
        entry.count += 1


def note_later(array: Any, since: int) -> None:
    """Writes after `since` into the memory count as made now: nodes that were there before them are made anew."""
    entry = stamps.get(id(arrays.base_of(array)))
    if entry is None:
        return
    now = last_write[0] = next_seq()
    if entry.whole is not None and entry.whole[0] > since:
        entry.whole = (now, *entry.whole[1:])
    for region, write in entry.regions.items():
        if write[0] > since:
            entry.regions[region] = (now, *write[1:])


def count_on(array: Any, count: int) -> None:
    """The memory counts as written so often, at no time that backward asks for."""
    owner = arrays.base_of(array)
    entry = stamps.get(id(owner))
    (_new_entry(owner) if entry is None else entry).count = count


def marks(listed: list[Any]) -> list[tuple[Stamp, Any]]:
    """What `stamp_marks` needs to stamp these arrays again and again; good for as long as the arrays live."""
    marked = []
    for array in listed:
        owner = arrays.base_of(array)
        entry = stamps.get(id(owner))
        marked.append((_new_entry(owner) if entry is None else entry, _region_of(array, owner)))
    return marked


def stamp_all(written: list[Any], line: Any = None) -> None:
    """Stamps several arrays at one time."""
    stamp_marks(marks(written), written, line or caller())


def stamp_marks(marked: list[tuple[Stamp, Any]], written: list[Any], line: Any) -> None:
    """Stamps the marked arrays whose entry in `written` is not None, at one time."""
    now = next_seq()
    write = _write_of(now, line)
    for (entry, region), array in zip(marked, written):
        if array is not None:
            entry.count += 1
            if region is None and not entry.regions:
                entry.whole = write
            else:
                _note(entry, region, write)
    last_write[0] = now


def stamp_whole(entries: list[Stamp], line: Any) -> None:
    """`stamp_marks` of arrays that are all of their memory, each with an entry of its own, and all written."""
    now = next_seq()
    write = _write_of(now, line)
    for entry in entries:
        entry.count += 1
        if entry.regions:
            _note(entry, None, write)
        else:
            entry.whole = write
    last_write[0] = now


def _write_of(now: int, line: Any) -> tuple[int, Any, Any]:
    return (now, *line) if type(line) is tuple else (now, line, None)


def _line_of(write: tuple[int, Any, Any]) -> str:
    _, code, reached = write
    return line_text(code if reached is None else (code, reached))


def _region_of(array: Any, owner: Any) -> tuple[int, tuple[int, ...], tuple[int, ...]] | None:
    """Which of the owner's bytes an array has: None for all."""
    if owner is array or (owner is array.base and arrays.owns_memory(array)):
        return None
    return arrays.address_of(array), array.shape, array.strides


def _note(entry: Stamp, region: Any, write: tuple[int, Any, Any]) -> None:
    if region is None or (len(entry.regions) >= _REGIONS and region not in entry.regions):
        entry.whole = write
        if entry.regions:
            entry.regions = {}
    else:
        entry.regions[region] = write


def _new_entry(owner: Any) -> Stamp:
    key = id(owner)
    entry = stamps[key] = Stamp()
    forget = stamps.pop  # the name `stamps` is gone when Python ends
    try:
        entry.owner = weakref.ref(owner, lambda _: forget(key, None))
    except TypeError:
        entry.owner = owner
    return entry


def version(array: Any) -> int:
    """How often the memory behind `array` was written in place."""
    entry = stamps.get(id(arrays.base_of(array)))
    return 0 if entry is None else entry.count


def written_since(array: Any, seq: int) -> str | None:
    """The line that wrote into `array`'s bytes after `seq`, or None."""
    entry = stamps.get(id(arrays.base_of(array)))
    if entry is None:
        return None
    if entry.whole is not None and entry.whole[0] > seq:
        return _line_of(entry.whole)
    for region, write in entry.regions.items():
        if write[0] > seq and _overlaps(array, region):
            return _line_of(write)
    return None


def _overlaps(array: Any, region: Any) -> bool:
    address, shape, strides = region
    low, high = _bounds(address, shape, strides, array.dtype.itemsize)
    start, stop = _bounds(arrays.address_of(array), array.shape, array.strides, array.dtype.itemsize)
    return low < stop and start < high


def _bounds(address: int, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[int, int]:
    low = high = address
    for size, stride in zip(shape, strides, strict=True):
        if size == 0:
            return address, address
        if stride < 0:
            low += (size - 1) * stride
        else:
            high += (size - 1) * stride
    return low, high + itemsize
