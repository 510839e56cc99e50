"""Memory by the lines and modules of the program that made it, and what two pictures of it differ in."""

from __future__ import annotations

import gc
import threading
import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from dynograd import arrays
from dynograd.autograd.modes import unwatch, watch
from dynograd.autograd.nodes import FREED, Node, frame_at, line_text, place_of, traces
from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.debug.holders import living, who_holds
from dynograd.debug.modules import ModuleStack, path_of
from dynograd.debug.recording import array_of, tensors_in
from dynograd.debug.texts import short
from dynograd.nn import Module
from dynograd.optim import Optimizer
from dynograd.profiler.ranges import listen, stop_listening
from dynograd.tensor.tensor import Tensor

__all__ = ["Holding", "Snapshot", "snapshot", "tracking"]

_ELSEWHERE = "on a line that was not noted"


@dataclass
class Holding:
    """Memory that is held.

    Attributes:
        nbytes, shape, dtype: of the array that owns it.
        what: "parameter encoder.0.weight", "gradient of ...", "buffer ...", "state of AdamW", "saved by ExpBackward0", "tensor".
        line: where it was made, `file:line in function`; None: outside of `memory.tracking()`.
        module: the module it was made in, "" outside of one.
    """

    nbytes: int
    shape: tuple[int, ...]
    dtype: str
    what: str
    line: str | None
    module: str
    owner: Callable[[], Any] = field(default=lambda: None, repr=False)
    """Gives the array that owns the memory, as long as it lives."""

    def __str__(self) -> str:
        module = f", in module {self.module}" if self.module else ""
        line = _ELSEWHERE if self.line is None else short(self.line)
        return f"{_size(self.nbytes)}  {self.what}, {self.dtype}{list(self.shape)}: {line}{module}"


class Snapshot:
    """Who holds which memory at a moment: what `memory.snapshot()` gives. `later - earlier` has what came in between and is still there.

    Attributes:
        holdings: `Holding`s, the largest first.
        nbytes: their sum.
    """

    def __init__(self, holdings: list[Holding]) -> None:
        self.holdings = sorted(holdings, key=lambda holding: -holding.nbytes)

    @property
    def nbytes(self) -> int:
        return sum(holding.nbytes for holding in self.holdings)

    def by_line(self) -> dict[str, int]:
        """Bytes by the line that made them, the most first.

        Returns:
            A dict.
        """
        return _summed([(holding.line or _ELSEWHERE, holding.nbytes) for holding in self.holdings])

    def by_module(self) -> dict[str, int]:
        """Bytes by the module they were made in, the most first; "" for those outside of modules.

        Returns:
            A dict.
        """
        return _summed([(holding.module, holding.nbytes) for holding in self.holdings])

    def by_kind(self) -> dict[str, int]:
        """Bytes of parameters, gradients, buffers, states of optimizers, what is saved for backward, and other tensors.

        Returns:
            A dict.
        """
        return _summed([(holding.what.partition(" ")[0], holding.nbytes) for holding in self.holdings])

    def __sub__(self, earlier: Snapshot) -> Snapshot:
        owners = [holding.owner() for holding in earlier.holdings]
        before = {id(owner) for owner in owners if owner is not None}
        return Snapshot([holding for holding in self.holdings if id(holding.owner()) not in before])

    def holders(self, position: int = 0) -> list[str]:
        """What keeps one of the holdings alive: see `debug.who_holds`.

        Args:
            position: which one; 0 is the largest.
        Returns:
            A list of texts.
        """
        owner = self.holdings[position].owner()
        return [] if owner is None else who_holds(owner)

    def __str__(self) -> str:
        lines = [f"{_size(self.nbytes)} in {len(self.holdings)} arrays"]
        lines += [f"  {_size(nbytes)}  {kind}" for kind, nbytes in self.by_kind().items()]
        lines.append("by line:")
        lines += [f"  {_size(nbytes)}  {short(line)}" for line, nbytes in list(self.by_line().items())[:12]]
        lines.append("the largest:")
        lines += [f"  {holding}" for holding in self.holdings[:8]]
        return "\n".join(lines)

    __repr__ = __str__


def snapshot(least: int = 1) -> Snapshot:
    """Who holds memory now: parameters, gradients, buffers, states of optimizers, what is saved for backward, other tensors.

    Lines and modules are known of what was made inside `memory.tracking()`.

    Args:
        least: bytes; smaller arrays are left out.
    Returns:
        A `Snapshot`.

    >>> before = dynograd.memory.snapshot()
    >>> kept = [dynograd.zeros(1000) for _ in range(3)]
    >>> (dynograd.memory.snapshot() - before).nbytes
    12000
    """
    gc.collect()
    holdings: dict[int, Holding] = {}
    notes = dict(_names_of_memory())
    tracker = _tracking[-1] if _tracking else None

    def add(array: Any, what: str) -> None:
        if array is None or not arrays.is_array(array) or array.ndim is None:
            return
        owner = arrays.base_of(array)
        nbytes = getattr(owner, "nbytes", array.nbytes)
        if nbytes < least or id(owner) in holdings:
            return
        line, module = (None, "") if tracker is None else tracker._origin_of(owner)
        shape = tuple(getattr(array, "shape", ()))
        holdings[id(owner)] = Holding(nbytes, shape, str(array.dtype), what, line, module, _weakly(owner))

    for array, what in notes.values():
        add(array, what)
    for node in living(Node):
        if getattr(node, "attrs", FREED) is not FREED:
            for name in node.saved_names:
                value = getattr(node, name, None)
                for part in value if isinstance(value, (tuple, list)) else (value,):
                    add(part, f"saved by {node.name()}{_place_of_node(node)}")
    for tensor in living(Tensor):
        add(_plain_array(tensor), "tensor")
    return Snapshot(list(holdings.values()))


def _weakly(owner: Any) -> Callable[[], Any]:
    """A snapshot keeps no memory alive."""
    try:
        return weakref.ref(owner)
    except TypeError:  # memory of somebody else's
        return lambda: None


def _place_of_node(node: Node) -> str:
    line = traces.get(node)
    return f" ({short(line)})" if line else ""


def _plain_array(tensor: Tensor) -> arrays.Array | None:
    """The array of a tensor that has one; what waits in a scope has none yet."""
    if tensor.device.type == "meta" or type(tensor).__name__ == "Lazy":
        return None
    array = array_of(tensor)
    return array if arrays.is_array(array) else None


def _names_of_memory() -> list[tuple[int, tuple[Any, str]]]:
    """(owner, (array, words)) of parameters, buffers, gradients and states of optimizers."""
    named: list[tuple[int, tuple[Any, str]]] = []

    def note(tensor: Any, what: str) -> None:
        if isinstance(tensor, Tensor):
            array = _plain_array(tensor)
            if array is not None:
                named.append((id(arrays.base_of(array)), (array, what)))

    modules = living(Module)
    inner = {id(child) for module in modules for child in module.children()}
    for optimizer in living(Optimizer):
        for tensor in tensors_in(
            [list(state.values()) for state in optimizer.state.values() if isinstance(state, dict)]
        ):
            note(tensor, f"state of {type(optimizer).__name__}")
    for module in sorted(
        modules, key=lambda module: id(module) not in inner
    ):  # the outermost last: their names are whole
        for name, buffer in module.named_buffers():
            note(buffer, f"buffer {name}")
        for name, parameter in module.named_parameters():
            note(parameter.grad, f"gradient of {name}")
            note(parameter, f"parameter {name}")
    return named


class tracking:
    """Notes where memory is made: on which line, in which module; of gradients in backward, the line of the op they belong to.

    Args:
        least: bytes; smaller arrays are not noted.

    >>> with dynograd.memory.tracking() as tracked:
    ...     x = dynograd.ones(1000)
    ...     y = (x * 2).exp()
    ...     del x
    >>> tracked.peak_bytes  # what ops have made
    8000
    """

    def __init__(self, least: int = 1) -> None:
        self.least = least
        self.peak_bytes = self.now = 0
        self._peak: Counter[tuple[Any, str]] = Counter()
        self._live: Counter[tuple[Any, str]] = Counter()
        self._origins: dict[int, tuple[Any, str]] = {}
        self._nodes: weakref.WeakKeyDictionary[Node, tuple[Any, str]] = weakref.WeakKeyDictionary()
        self._thread = self._depth = 0
        self._place: tuple[Any, str] = (None, "")
        self._modules = ModuleStack()
        self._watcher, self._listener = self._note_node, SimpleNamespace(begin=self._begin, end=self._end)

    def __enter__(self) -> tracking:
        self._thread = threading.get_ident()
        listen(self._listener)
        watch(self._watcher)
        self._modules.turn_on()
        _tracking.append(self)
        return self

    def __exit__(self, *error: Any) -> None:
        self._modules.turn_off()
        unwatch(self._watcher)
        stop_listening(self._listener)
        _tracking.remove(self)

    def _begin(self, kind: str, name: str, args: tuple) -> str | None:
        if threading.get_ident() != self._thread or kind not in ("op", "backward"):
            return None
        self._depth += 1
        if self._depth == 1:
            if kind == "backward":
                self._place = self._nodes.get(args[0], (None, ""))
            else:
                self._place = place_of(frame_at(3)), self._module()
        return kind

    def _end(self, mark: Any, result: Any) -> None:
        if mark is None:
            return
        self._depth -= 1
        if result is None:
            return
        if mark == "backward":
            for part in result:
                array = part.array if isinstance(part, Tensor) else part
                if arrays.is_array(array):
                    self._add(array)
        else:
            for tensor in tensors_in((result,)):
                array = _plain_array(tensor)
                if array is not None:
                    self._add(array)

    def _module(self) -> str:
        kind, path = path_of(tuple(self._modules.open))
        return path or kind

    def _note_node(self, node: Node) -> None:
        self._nodes[node] = self._place

    def _add(self, array: Any) -> None:
        owner = arrays.base_of(array)
        nbytes = getattr(owner, "nbytes", array.nbytes)
        if nbytes < self.least or id(owner) in self._origins:
            return
        place, key = self._place, id(owner)
        try:
            weakref.finalize(owner, self._gone, key, place, nbytes).atexit = False
        except TypeError:  # memory of somebody else's, which cannot be watched
            return
        self._origins[key] = place
        self._live[place] += nbytes
        self.now += nbytes
        if self.now > self.peak_bytes:
            self.peak_bytes, self._peak = self.now, self._live.copy()

    def _gone(self, key: int, place: tuple[Any, str], nbytes: int) -> None:
        self._origins.pop(key, None)
        self._live[place] -= nbytes
        self.now -= nbytes

    def _origin_of(self, owner: Any) -> tuple[str | None, str]:
        """(line, module) that made this memory."""
        place = self._origins.get(id(owner))
        return (None, "") if place is None else (line_text(place[0]), place[1])

    def peak(self) -> dict[str, int]:
        """Bytes by line when most were held that were made inside, the most first.

        Returns:
            A dict; its sum is `peak_bytes`.
        """
        return _summed([(line_text(place), nbytes) for (place, _), nbytes in self._peak.items()])

    def peak_by_module(self) -> dict[str, int]:
        """The same by module.

        Returns:
            A dict.
        """
        return _summed([(module, nbytes) for (_, module), nbytes in self._peak.items()])

    def __str__(self) -> str:
        lines = [f"{_size(self.peak_bytes)} at the peak, {_size(self.now)} now"]
        lines += [f"  {_size(nbytes)}  {short(line)}" for line, nbytes in list(self.peak().items())[:12]]
        return "\n".join(lines)

    __repr__ = __str__


_tracking: list[tracking] = []


def _summed(pairs: list[tuple[str, int]]) -> dict[str, int]:
    sums: Counter[str] = Counter()
    for key, nbytes in pairs:
        sums[key] += nbytes
    return {key: nbytes for key, nbytes in sums.most_common() if nbytes}


def _size(nbytes: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if nbytes >= size:
            return f"{nbytes / size:.1f} {unit}"
    return f"{nbytes} B"


_show_plainly(globals())
