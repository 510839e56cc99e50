"""Ragged tensors in collectives and messages: their rows travel as such, and who receives need not know their lengths.

A ragged tensor is sent as a description (where its rows begin, the dtype) and its elements behind each other.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dynograd.autograd.writes import before_rebinding
from dynograd.base import checksums
from dynograd.distributed import objects
from dynograd.distributed.buffers import Buffer, tensors_of
from dynograd.distributed.communicators.protocol import Communicator, Message
from dynograd.distributed.process_groups import ProcessGroup
from dynograd.errors import GradientError
from dynograd.ragged.tensor import RaggedTensor, make
from dynograd.tensor.tensor import Tensor, wrap

__all__ = [
    "Rows",
    "RowsReceived",
    "RowsSent",
    "all_ragged",
    "broadcast",
    "deliver",
    "described",
    "elements_of",
    "exchange",
    "gather",
    "is_ragged",
    "places_for",
    "put",
    "scatter",
]


def is_ragged(value: object) -> bool:
    """Whether a value is a ragged tensor."""
    return isinstance(value, RaggedTensor)


def elements_of(x: Tensor) -> Tensor:
    """All elements, behind each other."""
    return _levels(x)[1]


def described(x: RaggedTensor) -> str:
    """The rows in words, for the text by which processes compare their calls: reductions need the same rows."""
    levels, inner = _levels(x)
    return f"ragged {inner.dtype} of {len(x)} rows ({checksums.crc32(objects.packed(levels).tobytes()):08x})"


def _levels(x: Any) -> tuple[list[Any], Tensor]:
    """Where rows begin, from the outer level to the inner one, and the elements."""
    levels = []
    while isinstance(x, RaggedTensor):
        levels.append((x.partition, x.place))
        x = x.packed
    return levels, x


class Rows:
    """What is sent of a ragged tensor.

    Args:
        x: which; None where another process's is received.
    """

    def __init__(self, x: RaggedTensor | None = None) -> None:
        self.description: list[Any] | None = None
        self.array = np.empty(0, np.uint8)
        if x is not None:
            levels, inner = _levels(x)
            self.array = Buffer(inner, False).array
            self.description = [levels, tuple(inner.shape), self.array.dtype]

    def expect(self, description: Any) -> np.ndarray:
        """Memory for the elements of what is described."""
        self.description = description
        _, shape, dtype = description
        self.array = np.empty(int(np.prod(shape, dtype=np.int64)), dtype)
        return self.array

    def tensor(self) -> RaggedTensor:
        """What has been received."""
        assert self.description is not None
        levels, shape, _ = self.description
        x: Any = wrap(self.array.reshape(shape))
        for partition, place in reversed(levels):
            x = make(x, partition, place)
        return x


def put(target: Tensor, received: RaggedTensor) -> None:
    """`target` becomes what was received: other rows in the same tensor."""
    x: Any = target
    if not isinstance(x, RaggedTensor):
        raise TypeError(f"a ragged tensor came, and {type(x).__name__} of shape {tuple(x.shape)} cannot hold it.")
    if x.requires_grad:
        raise GradientError(
            "a ragged tensor that requires grad cannot be given other rows. Receive into x.detach(), or send its elements, x.values()."
        )
    before_rebinding(x)
    x.packed, x.partition, x.place = received.packed, received.partition, received.place


def broadcast(communicator: Communicator, x: RaggedTensor, root: int) -> None:
    """All processes have the rows of `root`."""
    is_root = communicator.rank == root
    rows = Rows(x if is_root else None)
    description = objects.sent(communicator, rows.description, root)
    array = rows.array if is_root else rows.expect(description)
    communicator.broadcast(array, root)
    if not is_root:
        put(x, rows.tensor())


def gather(communicator: Communicator, x: RaggedTensor, root: int | None) -> list[RaggedTensor] | None:
    """The ragged tensors of all processes, in all of them or in `root`."""
    rows = Rows(x)
    descriptions = objects.gathered(communicator, rows.description)
    if root is not None and communicator.rank != root:
        communicator.gather(rows.array, None, root)
        return None
    results = [Rows() for _ in descriptions]
    arrays = [result.expect(description) for result, description in zip(results, descriptions)]
    if root is None:
        communicator.all_gather(rows.array, arrays)
    else:
        communicator.gather(rows.array, arrays, root)
    return [result.tensor() for result in results]


def scatter(communicator: Communicator, x: RaggedTensor, parts: Sequence[RaggedTensor], root: int) -> None:
    """`x` becomes this process's part of those that `root` has."""
    rows = [Rows(part) for part in parts]
    is_root = communicator.rank == root
    descriptions = objects.sent(communicator, [part.description for part in rows] if is_root else None, root)
    own = Rows()
    communicator.scatter(
        [part.array for part in rows] if is_root else None, own.expect(descriptions[communicator.rank]), root
    )
    put(x, own.tensor())


def all_ragged(who: str, name: str, values: Any, size: int) -> list[RaggedTensor]:
    """A list that has one ragged tensor for each process."""
    for place, x in enumerate(tensors_of(who, name, values, size)):
        if not isinstance(x, RaggedTensor):
            raise TypeError(
                f"{who}: {name}[{place}] is no ragged tensor, and others are. Send all as they are, or x.values() of all."
            )
    return list(values)


def places_for(who: str, name: str, places: Any, size: int) -> list[Any]:
    """A list with one place for each process, into which what comes is put."""
    if not isinstance(places, list) or len(places) != size:
        shown = f"{len(places)} places" if isinstance(places, list) else type(places).__name__
        raise ValueError(f"{who}: expected {name} to be a list of {size} places (one for each process), got {shown}.")
    return places


def exchange(communicator: Communicator, parts: Sequence[RaggedTensor]) -> list[RaggedTensor]:
    """The part that each process has for this one."""
    rows = [Rows(part) for part in parts]
    descriptions = objects.gathered(communicator, [part.description for part in rows])
    results = [Rows() for _ in rows]
    arrays = [result.expect(described[communicator.rank]) for result, described in zip(results, descriptions)]
    communicator.all_to_all([part.array for part in rows], arrays)
    return [result.tensor() for result in results]


class _Steps(Message):
    """Messages of which each is begun when the one before it is done."""

    def __init__(self, begins: Sequence[Callable[[], Message]]) -> None:
        self._begins = list(begins)
        self._message = self._begins.pop(0)()

    def test(self) -> bool:
        while self._message.test():
            self.source = getattr(self._message, "source", -1)
            if not self._begins:
                return True
            self._message = self._begins.pop(0)()
        return False

    def wait(self) -> None:
        while True:
            self._message.wait()
            self.source = getattr(self._message, "source", -1)
            if not self._begins:
                return
            self._message = self._begins.pop(0)()


class RowsSent(Message):
    """A copy of a ragged tensor on its way to a process: the length of its description, the description, its elements.

    It is done at once: who waits for it first, and then for what the other one sends, would wait for ever.
    """

    def __init__(self, group: ProcessGroup, x: RaggedTensor, to: int, tag: int) -> None:
        engine, rows = group.communicator, Rows(x)
        assert engine is not None
        text = objects.packed(rows.description)
        group.outbox[:] = [message for message in group.outbox if not message.test()]
        for array in (np.array([text.size], np.int64), text, rows.array.copy()):
            group.outbox.append(engine.start_send(array, to, tag))

    def test(self) -> bool:
        return True

    def wait(self) -> None:
        pass


def deliver(group: ProcessGroup) -> None:
    """Waits until the copies that are on their way have been received."""
    for message in group.outbox:
        message.wait()
    group.outbox.clear()


class RowsReceived(_Steps):
    """A ragged tensor that is being received from a process, or from whichever sends first."""

    def __init__(self, engine: Communicator, source: int | None, tag: int) -> None:
        length, rows = np.empty(1, np.int64), Rows()
        texts: list[np.ndarray] = []

        def begin_text() -> Message:
            texts.append(np.empty(int(length[0]), np.uint8))
            return engine.start_receive(texts[0], self.source, tag)

        def begin_elements() -> Message:
            return engine.start_receive(rows.expect(objects.unpacked(texts[0])), self.source, tag)

        self.rows = rows
        super().__init__([functools.partial(engine.start_receive, length, source, tag), begin_text, begin_elements])
