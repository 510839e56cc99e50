"""Where a loader stands, as plain data, and how to get there again: what `state_dict` and `load_state_dict` are made of.

An epoch's order is not stored. Stored is what it was made from (generators and fields of the samplers as the epoch began) and how many
batches were given; `Tasks` makes the order again and leaves those out. A sampler with a `state_dict` of its own is asked for that instead.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

import numpy

from dynograd.base.random_streams import Generator, default_generator
from dynograd.data.sampler import Sampler
from dynograd.errors import LoaderError
from dynograd.tensor.tensor import Tensor

__all__ = ["Tasks", "beginnings", "check_state", "owner_of_state", "restore"]

VERSION = 1
_LEAVE = object()


class Tasks:
    """An epoch's tasks (number, indices, position); positions are counted only where an index may come twice."""

    def __init__(self, sampler: Any, batched: bool, owner: Any = None) -> None:
        self.batched = batched
        self.owner = owner
        self._sampler = sampler
        self._indices: Iterator | None = None
        self._number = 0
        self._position = 0 if getattr(sampler, "may_repeat", True) else None
        self._first: list[tuple] = []
        self._error: Exception | None = None
        self._left_out: set[int] = set()
        self._after: dict[int, tuple] = {}
        self._last: int | None = None

    def start(self) -> None:
        """Draws the first task now, so that all random numbers for the order are drawn before the program goes on."""
        try:
            self._first.append(self._draw())
        except StopIteration:
            pass
        except Exception as error:  # raised when its turn comes
            self._error = error

    def skip(self, count: int, others: list[int]) -> None:
        """Leaves out the first `count` tasks, and later those numbered as in `others`."""
        for _ in range(count):
            try:
                self._draw()
            except StopIteration:
                break
        self._left_out = set(others)

    def go_on(self, number: int, position: int | None, others: list[int], ended: bool) -> None:
        """The sampler itself continues in the middle, or has ended."""
        self._number, self._left_out = number, set(others)
        if self._position is not None:
            self._position = position
        if ended:
            self._indices = iter(())

    def state_after(self, number: int) -> dict[str, Any]:
        """The owner's state after the task of this number (-1: before the first), and whether that was the last one."""
        for known in [known for known in self._after if known < number]:
            del self._after[known]
        state, position = self._after[number]
        return {"sampler": state, "position": position, "ended": self._last == number}

    def __iter__(self) -> Iterator[tuple]:
        return self

    def __next__(self) -> tuple:
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        while True:
            task = self._first.pop() if self._first else self._draw()
            if self.owner is not None:
                self.start()  # one ahead: its state behind the last task is that of the next epoch
            if task[0] not in self._left_out:
                return task
            self._left_out.discard(task[0])

    def _draw(self) -> tuple:
        if self._indices is None:
            self._indices = iter(self._sampler)
        if self.owner is not None and not self._after:
            self._after[self._number - 1] = copy.deepcopy(self.owner.state_dict()), self._position
        try:
            indices = next(self._indices)
        except StopIteration:
            if self._last is None:
                self._last = self._number - 1
                if self.owner is not None:
                    self._after[self._last] = copy.deepcopy(self.owner.state_dict()), self._position
            raise
        number, position = self._number, self._position
        if self.batched and not isinstance(indices, list):
            indices = list(indices)
        self._number += 1
        if position is not None:
            self._position = position + (len(indices) if self.batched else 1)
        if self.owner is not None:
            self._after[number] = copy.deepcopy(self.owner.state_dict()), self._position
        return number, indices, position


def owner_of_state(loader: Any) -> Any:
    """The sampler that can tell its own state, if there is one."""
    for sampler in (loader.batch_sampler, getattr(loader.batch_sampler, "sampler", None), loader.sampler):
        if callable(getattr(sampler, "state_dict", None)) and callable(getattr(sampler, "load_state_dict", None)):
            return sampler
    return None


def beginnings(loader: Any) -> dict[str, Any]:
    """What the order of the next epoch will be made of: generators, and numbers and lists that the samplers hold.

    Python's and NumPy's global generators belong to it where a sampler is not one of ours and may draw from them.
    """
    states: dict[str, Any] = {"dynograd": list(default_generator.state())}
    if any(not _is_ours(sampler) for _, sampler in _samplers(loader)):
        version, words, normal = random.getstate()
        states["python"] = [version, list(words), normal]
        states["numpy"] = _plain(numpy.random.get_state(legacy=False))
    for path, holder, name in _fields(loader):
        value = _plain(getattr(holder, name))
        if value is not _LEAVE:
            states[path] = value
    return states


def restore(loader: Any, saved: dict[str, Any], with_global: bool) -> None:
    """Sets what `beginnings` gave. The global generators are left alone unless `with_global`."""
    if with_global:
        default_generator.set_plain_state(saved["dynograd"])
        if "python" in saved:
            version, words, normal = saved["python"]
            random.setstate((version, tuple(words), normal))
            numpy.random.set_state(saved["numpy"])
    for path, holder, name in _fields(loader):
        if path in saved:
            _put(holder, name, saved[path])


def check_state(loader: Any, state: Any, sizes: dict[str, Any]) -> None:
    """Raises LoaderError for what is no state, or that of a loader whose batches are others."""
    if not isinstance(state, dict) or state.get("version") != VERSION or "beginnings" not in state:
        got = f"a dict with {sorted(map(str, state))[:8]}" if isinstance(state, dict) else type(state).__name__
        raise LoaderError(
            f"DataLoader.load_state_dict: expected what state_dict() of a DataLoader returned (version {VERSION}), got {got}."
        )
    if state["in_progress"]:
        for name, saved in state["sizes"].items():
            if saved != sizes[name] and not (name == "num_workers" and max(saved, 1) == max(sizes[name], 1)):
                raise LoaderError(
                    f"DataLoader.load_state_dict: the state was saved in the middle of an epoch with {name}={saved}, this loader has "
                    f"{sizes[name]}, so the rest of that epoch cannot be found. Make the loader as it was, or start the epoch "
                    f"anew by leaving the state out."
                )


def _is_ours(sampler: Any) -> bool:
    return type(sampler).__module__.startswith("dynograd.") or isinstance(sampler, (list, tuple, range))


def _samplers(loader: Any) -> Iterator[tuple[str, Any]]:
    """Each sampler once, with its path from the loader; also those that a sampler holds."""
    seen: set[int] = set()
    waiting = [(name, getattr(loader, name)) for name in ("batch_sampler", "sampler")]
    while waiting:
        path, sampler = waiting.pop(0)
        if sampler is None or id(sampler) in seen:
            continue
        seen.add(id(sampler))
        yield path, sampler
        for name, value in _held(sampler):
            if isinstance(value, Sampler):
                waiting.append((f"{path}.{name}", value))


def _held(holder: Any) -> list[tuple[str, Any]]:
    return list(vars(holder).items()) if hasattr(holder, "__dict__") else []


def _fields(loader: Any) -> Iterator[tuple[str, Any, str]]:
    """(path, object, attribute) of everything that may change from epoch to epoch."""
    owner = owner_of_state(loader)
    yield "generator", loader, "generator"
    for path, sampler in _samplers(loader):
        if sampler is owner:
            continue
        ours = _is_ours(sampler)
        for name, value in _held(sampler):
            if _is_generator(value) or not ours or name in getattr(sampler, "changing", ()):
                yield f"{path}.{name}", sampler, name


def _is_generator(value: Any) -> bool:
    return isinstance(value, (Generator, random.Random, numpy.random.Generator, numpy.random.RandomState))


def _plain(value: Any) -> Any:
    """A copy of the value as plain data, or `_LEAVE` for what is none."""
    if isinstance(value, Generator):
        return list(value.state())
    if isinstance(value, random.Random):
        version, words, normal = value.getstate()
        return [version, list(words), normal]
    if isinstance(value, numpy.random.Generator):
        return _plain(value.bit_generator.state)
    if isinstance(value, numpy.random.RandomState):
        return _plain(value.get_state(legacy=False))
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, numpy.ndarray):
        return value.copy() if value.dtype.kind in "biufU" else _LEAVE
    if isinstance(value, (list, tuple)):
        plain: Any = []
        for entry in value:
            plain.append(_plain(entry))
            if plain[-1] is _LEAVE:
                return _LEAVE
        return plain
    if isinstance(value, dict):
        plain = {key: _plain(entry) for key, entry in value.items()}
        return _LEAVE if any(entry is _LEAVE for entry in plain.values()) or not all(map(_is_key, plain)) else plain
    if isinstance(value, Tensor) and not value.is_cuda:
        return value.array.copy()
    return _LEAVE


def _is_key(key: Any) -> bool:
    return isinstance(key, (str, int))


def _put(holder: Any, name: str, saved: Any) -> None:
    """Writes a saved value back; into the generator, list, dict or array that is there, for others may hold it too."""
    now = getattr(holder, name)
    if saved is None and _is_generator(now):
        return  # it had none when the state was saved
    if isinstance(now, Generator):
        now.set_plain_state(saved)
    elif isinstance(now, random.Random):
        now.setstate((saved[0], tuple(saved[1]), saved[2]))
    elif isinstance(now, numpy.random.Generator):
        now.bit_generator.state = saved  # arrays may have become lists on their way through a file
    elif isinstance(now, numpy.random.RandomState):
        now.set_state(saved)
    elif isinstance(now, list) and isinstance(saved, list):
        now[:] = [tuple(new) if isinstance(old, tuple) else new for old, new in _beside(now, saved)]
    elif isinstance(now, dict) and isinstance(saved, dict):
        now.clear()
        now.update(saved)
    elif isinstance(now, numpy.ndarray) and now.shape == numpy.shape(saved):
        now[...] = saved
    elif isinstance(now, Tensor):
        now.array[...] = saved
    elif isinstance(now, tuple):
        setattr(holder, name, tuple(saved))
    else:
        setattr(holder, name, saved)


def _beside(now: list, saved: list) -> list[tuple[Any, Any]]:
    like = now[0] if now else None
    return [(now[place] if place < len(now) else like, copy.deepcopy(new)) for place, new in enumerate(saved)]
