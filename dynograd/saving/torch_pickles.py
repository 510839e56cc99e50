"""The structure of a PyTorch checkpoint, read from its pickle without unpickling: an own machine for the opcodes that data needs.

Nothing is looked up by name and called. A name in the file becomes a `Global`; what a call of it gives is decided by the table
that the caller brings. Whatever the table does not have is an error that names it, unless the program has said that it trusts
it. What is made is paid from an allowance that
grows with the length of the file, so a small file cannot ask for much memory, and nesting is limited.
"""

from __future__ import annotations

import argparse
import struct
import types
from collections import deque
from collections.abc import Callable
from typing import Any

from dynograd.errors import CheckpointError
from dynograd.saving import objects

__all__ = ["MOST_NESTED", "Global", "Machine", "check_nesting"]

MOST_NESTED = 500
_FREE = 1 << 24
_MARK = object()
_OLD_MODULES = {"__builtin__": "builtins", "copy_reg": "copyreg", "numpy.core.multiarray": "numpy._core.multiarray"}
_OLD_MODULES["numpy.core.numeric"] = "numpy._core.numeric"
_OLD_NAMES = {"builtins.xrange": "builtins.range", "builtins.long": "builtins.int", "builtins.unicode": "builtins.str"}


class Global:
    """A name that stands in the file, such as torch.FloatStorage. It is never looked up."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class Machine:
    """Reads one pickle.

    Args:
        data: bytes or a memory map; `position` says where the pickle begins, and afterwards where it ended.
        who: the file, for messages.
        constants: what names stand for that are values (dtypes).
        calls: what a call of a name gives: functions of (machine, arguments).
        builds: functions of (machine, value, state) by the type of the value.
        persistent: what a persistent id gives.
    """

    def __init__(
        self,
        data: Any,
        who: str,
        position: int = 0,
        constants: dict[str, Any] | None = None,
        calls: dict[str, Callable] | None = None,
        builds: dict[type, Callable] | None = None,
        persistent: Callable | None = None,
    ) -> None:
        self.data, self.who, self.position = data, who, position
        self.constants, self.calls, self.builds = constants or {}, calls or {}, builds or {}
        self.persistent = persistent
        self.trusted: dict[str, Any] = {}
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.allowance = _FREE + 64 * len(data)

    def error(self, problem: str) -> CheckpointError:
        return CheckpointError(f"load: {self.who} {problem}")

    def pay(self, cost: int) -> None:
        """Counts memory that a few bytes of the file ask for."""
        self.allowance -= cost
        if self.allowance < 0:
            raise self.error(f"asks for far more memory than its {len(self.data)} bytes can mean: it is not read.")

    def read(self) -> Any:
        """The value of the pickle."""
        steps, data = _STEPS, self.data
        try:
            while True:
                code = data[self.position]
                self.position += 1
                if code == _STOP:
                    value = self.pop()
                    if self.stack:
                        raise self.error("is damaged: its pickle ends with values left over. Use an older checkpoint.")
                    return value
                step = steps.get(code)
                if step is None:
                    raise self.error(
                        f"is damaged, or no checkpoint: its pickle has the opcode {code:#04x} at byte {self.position - 1}, "
                        f"which data does not need."
                    )
                step(self)
        except (IndexError, struct.error):
            raise self.error("is truncated or damaged: its pickle breaks off. Use an older checkpoint.") from None
        except (UnicodeDecodeError, OverflowError, MemoryError, KeyError, ValueError, TypeError) as error:
            if isinstance(error, CheckpointError):
                raise
            raise self.error(
                f"is damaged: its pickle makes no sense at byte {self.position} ({type(error).__name__}: {str(error)[:100]})."
            ) from None

    # --- pieces of the file, and the stack --------------------------------------------------------------------------------

    def take(self, count: int) -> bytes:
        end = self.position + count
        if count < 0 or end > len(self.data):
            raise IndexError
        taken = bytes(self.data[self.position : end])
        self.position = end
        return taken

    def number(self, kind: str, size: int) -> Any:
        return struct.unpack(kind, self.take(size))[0]

    def line(self) -> str:
        ahead = bytes(self.data[self.position : self.position + 1000])
        end = ahead.index(b"\n")
        self.position += end + 1
        return ahead[:end].decode("utf-8")

    def pop(self) -> Any:
        popped = self.stack.pop()
        if popped is _MARK:
            raise IndexError
        return popped

    def top(self) -> Any:
        top = self.stack[-1]
        if top is _MARK:
            raise IndexError
        return top

    def pop_to_mark(self) -> list[Any]:
        stack = self.stack
        place = len(stack) - 1
        while stack[place] is not _MARK:
            place -= 1
            if place < 0:
                raise IndexError
        items = stack[place + 1 :]
        del stack[place:]
        return items

    # --- names and calls --------------------------------------------------------------------------------------------------

    def name(self, module: Any, name: Any) -> None:
        if type(module) is not str or type(name) is not str:
            raise TypeError("a name that is not text")
        full = f"{_OLD_MODULES.get(module, module)}.{name}"
        full = _OLD_NAMES.get(full, full)
        if full in self.constants:
            self.stack.append(self.constants[full])
        elif full in self.calls:
            self.stack.append(Global(full))
        elif full in self.trusted:
            self.stack.append(self.trusted[full])
        else:
            raise self.error(
                f"holds {full!r}, which is not data. dynograd never unpickles arbitrary objects (weights_only=False changes nothing): "
                f"where PyTorch is installed, save a state_dict(), or "
                f"safetensors.torch.save_file(model.state_dict(), 'weights.safetensors'); or, if the program trusts that class, "
                f"dynograd.serialization.add_safe_globals([{full.rpartition('.')[2]}])."
            )

    def call(self, function: Any, arguments: Any, is_new: bool = False) -> Any:
        if type(arguments) is tuple and self._is_trusted(function):
            return self._of_trusted(function, arguments, is_new)
        if type(function) is not Global or type(arguments) is not tuple:
            raise self.error(f"is damaged: its pickle calls a {type(function).__name__}.")
        self.pay(256)
        return self.calls[function.name](self, *arguments)

    def reduce(self) -> None:
        arguments = self.pop()
        self.stack.append(self.call(self.pop(), arguments))

    def make_new(self) -> None:
        arguments = self.pop()
        self.stack.append(self.call(self.pop(), arguments, is_new=True))

    def _is_trusted(self, value: Any) -> bool:
        return any([value is trusted for trusted in self.trusted.values()])

    def _of_trusted(self, maker: Any, arguments: tuple, is_new: bool) -> Any:
        if is_new and not isinstance(maker, type):
            raise self.error(f"is damaged: its pickle makes an object of a {type(maker).__name__}.")
        try:
            return objects.new(maker, arguments, {}, is_new)
        except Exception as error:
            raise self.error(
                f"holds an object of {maker.__qualname__} that cannot be made again ({type(error).__name__}: {error}). The class may have "
                f"changed since; save its state as a dict of numbers, strings and tensors."
            ) from error

    def build(self) -> None:
        state = self.pop()
        value = self.top()
        if self._is_trusted(type(value)):
            objects.set_state(value, state)
            return
        change = next((self.builds[kind] for kind in type(value).__mro__ if kind in self.builds), None)
        if change is None:
            raise self.error(f"is damaged: its pickle sets the state of a {type(value).__name__}.")
        change(self, value, state)

    def persistent_id(self) -> None:
        if self.persistent is None:
            raise self.error("is damaged: a storage is named where none can be.")
        self.stack.append(self.persistent(self.pop()))

    # --- containers -------------------------------------------------------------------------------------------------------

    def key(self, value: Any, room: int = 64) -> Any:
        """`value`, if hashing it is quick: text, numbers, and small tuples of them."""
        if isinstance(value, tuple):
            if len(value) > room:
                raise self.error("has a dict whose key is a large tuple: it is not read.")
            for entry in value:
                self.key(entry, room // (len(value) + 1))
        elif not isinstance(value, (str, int, float, complex, bytes, type(None), *self.hashable)):
            raise self.error(f"has a dict or set with a {type(value).__name__} as a key: it is not read.")
        return value

    hashable: tuple[type, ...] = ()
    fill: Callable[[], None] = staticmethod(
        lambda: None
    )  # reads the bytes of the storages that the pickle has named so far

    def set_items(self, items: list[Any]) -> None:
        target = self.top()
        if not (isinstance(target, dict) or self._is_trusted(type(target))) or len(items) % 2:
            raise self.error(f"is damaged: its pickle sets items of a {type(target).__name__}.")
        for place in range(0, len(items), 2):
            target[self.key(items[place])] = items[place + 1]

    def append(self, items: list[Any]) -> None:
        target = self.top()
        if type(target) is not list and type(target) is not deque and not self._is_trusted(type(target)):
            raise self.error(f"is damaged: its pickle appends to a {type(target).__name__}.")
        target.extend(items)

    def add(self, items: list[Any]) -> None:
        target = self.top()
        if type(target) is not set:
            raise self.error(f"is damaged: its pickle adds to a {type(target).__name__}.")
        target.update([self.key(key) for key in items])

    def set_item(self) -> None:
        value, key = self.pop(), self.pop()
        self.set_items([key, value])

    def append_one(self) -> None:
        value = self.pop()
        self.append([value])

    def make_dict(self) -> None:
        items = self.pop_to_mark()
        self.stack.append({})
        self.set_items(items)

    def make_tuple(self, count: int) -> None:
        items = [self.pop() for _ in range(count)]
        self.stack.append(tuple(reversed(items)))

    def stack_global(self) -> None:
        name = self.pop()
        self.name(self.pop(), name)

    def copy_top(self) -> None:
        self.stack.append(self.top())


def check_nesting(value: Any, who: str) -> None:
    """Refuses what contains itself, what is nested deeper than `MOST_NESTED`, and names that are left over."""
    depth: dict[int, int] = {}  # 0 while its parts are looked at
    waiting = [(value, False)]
    while waiting:
        node, done = waiting.pop()
        if isinstance(node, Global):
            raise CheckpointError(f"load: {who} holds {node.name!r} itself, which is not data. Save a state_dict().")
        if not isinstance(node, _CONTAINERS):
            continue
        parts = _parts(node)
        if done:
            depth[id(node)] = 1 + max([depth.get(id(part), 0) for part in parts], default=0)
            if depth[id(node)] > MOST_NESTED:
                raise CheckpointError(f"load: {who} is nested deeper than {MOST_NESTED}: it is not read.")
            continue
        known = depth.get(id(node))
        if known == 0:
            raise CheckpointError(f"load: {who} has a {type(node).__name__} that contains itself: it is not read.")
        if known is None:
            depth[id(node)] = 0
            waiting.append((node, True))
            waiting.extend([(part, False) for part in parts if isinstance(part, (*_CONTAINERS, Global))])


_CONTAINERS = (dict, list, tuple, deque, slice, argparse.Namespace, types.SimpleNamespace)


def _parts(value: Any) -> list[Any]:
    """The values directly in a container."""
    if isinstance(value, (argparse.Namespace, types.SimpleNamespace)):
        value = vars(value)
    if isinstance(value, dict):
        return list(value.values())
    return [value.start, value.stop, value.step] if isinstance(value, slice) else list(value)


def _sized(kind: str, size: int, make: Callable[[bytes], Any]) -> Callable[[Machine], None]:
    """A step for "length, then that many bytes"."""
    return lambda machine: machine.stack.append(make(machine.take(machine.number(kind, size))))


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogatepass")


def _long(raw: bytes) -> int:
    return int.from_bytes(raw, "little", signed=True)


def _old_text(raw: bytes) -> str:
    return raw.decode("ascii")


def _constant(value: Any) -> Callable[[Machine], None]:
    return lambda machine: machine.stack.append(value)


def _fixed(kind: str, size: int) -> Callable[[Machine], None]:
    return lambda machine: machine.stack.append(machine.number(kind, size))


def _put(kind: str, size: int) -> Callable[[Machine], None]:
    return lambda machine: machine.memo.__setitem__(machine.number(kind, size), machine.top())


def _get(kind: str, size: int) -> Callable[[Machine], None]:
    return lambda machine: machine.stack.append(machine.memo[machine.number(kind, size)])


_STOP = ord(".")
_STEPS: dict[int, Callable[[Machine], Any]] = {
    0x80: lambda machine: machine.take(1),  # PROTO
    0x95: lambda machine: machine.take(8),  # FRAME
    ord("("): lambda machine: machine.stack.append(_MARK),
    ord("0"): lambda machine: machine.stack.pop(),
    ord("1"): lambda machine: machine.pop_to_mark(),
    ord("2"): Machine.copy_top,
    ord("N"): _constant(None),
    0x88: _constant(True),
    0x89: _constant(False),
    ord("J"): _fixed("<i", 4),
    ord("K"): _fixed("<B", 1),
    ord("M"): _fixed("<H", 2),
    ord("G"): _fixed(">d", 8),
    0x8A: _sized("<B", 1, _long),
    0x8B: _sized("<i", 4, _long),
    ord("X"): _sized("<I", 4, _text),
    0x8C: _sized("<B", 1, _text),
    0x8D: _sized("<Q", 8, _text),
    ord("T"): _sized("<i", 4, _old_text),
    ord("U"): _sized("<B", 1, _old_text),
    ord("B"): _sized("<I", 4, bytes),
    ord("C"): _sized("<B", 1, bytes),
    0x8E: _sized("<Q", 8, bytes),
    0x96: _sized("<Q", 8, bytearray),
    ord("]"): lambda machine: machine.stack.append([]),
    ord("}"): lambda machine: machine.stack.append({}),
    ord(")"): _constant(()),
    0x8F: lambda machine: machine.stack.append(set()),
    ord("a"): Machine.append_one,
    ord("e"): lambda machine: machine.append(machine.pop_to_mark()),
    ord("s"): Machine.set_item,
    ord("u"): lambda machine: machine.set_items(machine.pop_to_mark()),
    0x90: lambda machine: machine.add(machine.pop_to_mark()),
    0x91: lambda machine: machine.stack.append(frozenset([machine.key(key) for key in machine.pop_to_mark()])),
    ord("l"): lambda machine: machine.stack.append(machine.pop_to_mark()),
    ord("d"): Machine.make_dict,
    ord("t"): lambda machine: machine.stack.append(tuple(machine.pop_to_mark())),
    0x85: lambda machine: machine.make_tuple(1),
    0x86: lambda machine: machine.make_tuple(2),
    0x87: lambda machine: machine.make_tuple(3),
    ord("c"): lambda machine: machine.name(machine.line(), machine.line()),
    0x93: Machine.stack_global,
    ord("R"): Machine.reduce,
    0x81: Machine.make_new,  # NEWOBJ
    ord("b"): Machine.build,
    ord("Q"): Machine.persistent_id,
    ord("q"): _put("<B", 1),
    ord("r"): _put("<I", 4),
    0x94: lambda machine: machine.memo.__setitem__(len(machine.memo), machine.top()),
    ord("h"): _get("<B", 1),
    ord("j"): _get("<I", 4),
}
