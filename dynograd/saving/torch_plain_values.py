"""Values of Python's own library in PyTorch's checkpoints: containers, options of a program, times, paths, exact numbers.

Each entry of `PLAIN_CALLS` is a function of (machine, arguments) that checks what it is given and makes the value; what it makes holds
nothing but data. See `torch_pickles` for who calls it.
"""

from __future__ import annotations

import argparse
import datetime
import decimal
import fractions
import os
import pathlib
import re
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

from dynograd.saving.torch_pickles import Global, Machine

__all__ = ["HASHABLE", "PLAIN_BUILDS", "PLAIN_CALLS", "PLAIN_CONSTANTS"]

_TEXT_OF_FRACTION = re.compile(r"-?\d{1,2000}(/\d{1,2000})?")
_TEXT_OF_DECIMAL = re.compile(r"-?(\d{1,2000}(\.\d{0,2000})?([eE][+-]?\d{1,9})?|Infinity|s?NaN\d{0,100})")
_NAMES_OF_TYPES: dict[str, type] = {"builtins.set": set, "builtins.frozenset": frozenset, "collections.deque": deque}
_NAMES_OF_TYPES |= {"collections.OrderedDict": OrderedDict, "collections.Counter": Counter}
_NAMES_OF_TYPES |= {"builtins.bytes": bytes, "builtins.bytearray": bytearray, "builtins.complex": complex}


def _encode(machine: Machine, text: str, encoding: str = "latin1") -> bytes:
    if type(text) is not str or encoding not in ("latin1", "latin-1", "utf-8"):
        raise TypeError("bytes from something else than text")
    machine.pay(len(text))
    return text.encode(encoding)


def _bytearray(machine: Machine, *arguments: Any) -> bytearray:
    if not arguments:
        return bytearray()
    raw = arguments[0]
    if type(raw) is str:
        raw = _encode(machine, *arguments)
    elif type(raw) is not bytes or len(arguments) > 1:
        raise TypeError("bytes from something else than text")
    machine.pay(len(raw))
    return bytearray(raw)


def _bytes(machine: Machine) -> bytes:
    return b""


def _members(machine: Machine, items: Any = ()) -> list[Any]:
    if not isinstance(items, (list, tuple, set)):
        raise TypeError("a set of something else than a list")
    machine.pay(100 * len(items))
    return [machine.key(item) for item in items]


def _ordered(machine: Machine, items: Any = ()) -> OrderedDict:
    machine.pay(200 * len(items))
    pairs = items.items() if isinstance(items, dict) else items
    return OrderedDict([(machine.key(key), value) for key, value in pairs])


def _counter(machine: Machine, items: Any = ()) -> Counter:
    return Counter(dict(_ordered(machine, items)))


def _defaultdict(machine: Machine, factory: Any = None, items: Any = ()) -> defaultdict:
    if type(factory) is Global:
        factory = _NAMES_OF_TYPES.get(factory.name)
        if factory is None:
            raise TypeError("the default of a dict is not made by a plain type")
    elif factory is not None and type(factory) is not type:
        raise TypeError("the default of a dict is made by something else than a type")
    return defaultdict(factory, _ordered(machine, items))


def _deque(machine: Machine, items: Any = (), maxlen: Any = None) -> deque:
    if not isinstance(items, (list, tuple)) or not (maxlen is None or type(maxlen) is int):
        raise TypeError("a deque of something else than a list")
    machine.pay(8 * len(items))
    return deque(items, maxlen)


def _complex(machine: Machine, real: float, imag: float) -> complex:
    if not isinstance(real, (int, float)) or not isinstance(imag, (int, float)):
        raise TypeError("a complex number of something else than numbers")
    return complex(real, imag)


def _range(machine: Machine, *numbers: Any) -> range:
    return range(*[_whole(number) for number in numbers])


def _slice(machine: Machine, *parts: Any) -> slice:
    return slice(*parts)


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise TypeError("something else than a whole number")
    return value


def _fraction(machine: Machine, *parts: Any) -> fractions.Fraction:
    """Of a text such as `1/3`, or of two whole numbers, as later versions of Python write it."""
    if len(parts) == 1 and type(parts[0]) is str and _TEXT_OF_FRACTION.fullmatch(parts[0]):
        return fractions.Fraction(parts[0])
    return fractions.Fraction(*[_whole(part) for part in parts])


def _decimal(machine: Machine, text: Any) -> decimal.Decimal:
    if type(text) is not str or not _TEXT_OF_DECIMAL.fullmatch(text):
        raise TypeError("a number that is not written as one")
    return decimal.Decimal(text)


def _date(machine: Machine, raw: Any) -> datetime.date:
    return datetime.date(*_bytes_of(raw, 4))  # type: ignore[call-arg, arg-type]


def _time(machine: Machine, raw: Any, zone: Any = None) -> datetime.time:
    return datetime.time(*_bytes_of(raw, 6), *_zone_of(zone))  # type: ignore[arg-type]


def _datetime(machine: Machine, raw: Any, zone: Any = None) -> datetime.datetime:
    return datetime.datetime(*_bytes_of(raw, 10), *_zone_of(zone))  # type: ignore[arg-type]


def _bytes_of(raw: Any, count: int) -> tuple[bytes]:
    """What `datetime` keeps of a time: so many bytes, whose numbers it checks."""
    if type(raw) is not bytes or len(raw) != count:
        raise TypeError("the bytes of a time")
    return (raw,)


def _zone_of(zone: Any) -> tuple[datetime.tzinfo, ...]:
    if zone is not None and type(zone) is not datetime.timezone:
        raise TypeError("a time zone that is none")
    return () if zone is None else (zone,)


def _timedelta(machine: Machine, *numbers: Any) -> datetime.timedelta:
    return datetime.timedelta(*[_whole(number) for number in numbers])


def _timezone(machine: Machine, offset: Any, *name: Any) -> datetime.timezone:
    if type(offset) is not datetime.timedelta or any([type(part) is not str for part in name]):
        raise TypeError("the offset of a time zone")
    return datetime.timezone(offset, *name)


def _path(kind: type[pathlib.PurePath]) -> Callable[..., pathlib.PurePath]:
    def path(machine: Machine, *parts: Any) -> pathlib.PurePath:
        if any([type(part) is not str for part in parts]):
            raise TypeError("a path of something else than text")
        return kind(*parts)

    return path


def _namespace(kind: type) -> Callable[..., Any]:
    return lambda machine: kind()


def _set_options(machine: Machine, value: Any, state: Any) -> None:
    """The attributes of a namespace: data under names that Python gives no meaning to."""
    if not isinstance(state, dict) or not all([type(name) is str and not name.startswith("__") for name in state]):
        raise TypeError("the options of a namespace are not a dict of names")
    vars(value).update(state)


def _keep_metadata(machine: Machine, value: Any, state: Any) -> None:
    """`_metadata`, the versions of a state_dict's modules, is the one attribute that is kept."""
    if not isinstance(state, dict):
        raise TypeError("the state of a dict is not a dict")
    if "_metadata" in state:
        value._metadata = state["_metadata"]


# A path of the system that wrote the file: one of this system where it is the same, else its text as that system reads it.
_PATHS: dict[str, type[pathlib.PurePath]] = {
    "PurePosixPath": pathlib.PurePosixPath,
    "PureWindowsPath": pathlib.PureWindowsPath,
    "PosixPath": pathlib.PosixPath if os.name == "posix" else pathlib.PurePosixPath,
    "WindowsPath": pathlib.WindowsPath if os.name == "nt" else pathlib.PureWindowsPath,
}

PLAIN_CONSTANTS: dict[str, Any] = {
    **{f"builtins.{kind.__name__}": kind for kind in (int, float, bool, str, list, dict, tuple)},
    "builtins.Ellipsis": Ellipsis,
    "builtins.NotImplemented": NotImplemented,
}
PLAIN_CALLS: dict[str, Callable] = {
    "collections.OrderedDict": _ordered,
    "collections.Counter": _counter,
    "collections.defaultdict": _defaultdict,
    "collections.deque": _deque,
    "_codecs.encode": _encode,
    "builtins.bytes": _bytes,
    "builtins.bytearray": _bytearray,
    "builtins.set": lambda machine, *items: set(_members(machine, *items)),
    "builtins.frozenset": lambda machine, *items: frozenset(_members(machine, *items)),
    "builtins.complex": _complex,
    "builtins.range": _range,
    "builtins.slice": _slice,
    "argparse.Namespace": _namespace(argparse.Namespace),
    "types.SimpleNamespace": _namespace(types.SimpleNamespace),
    "fractions.Fraction": _fraction,
    "decimal.Decimal": _decimal,
    "datetime.date": _date,
    "datetime.time": _time,
    "datetime.datetime": _datetime,
    "datetime.timedelta": _timedelta,
    "datetime.timezone": _timezone,
    **{f"{module}.{name}": _path(kind) for module in ("pathlib", "pathlib._local") for name, kind in _PATHS.items()},
}
PLAIN_BUILDS: dict[type, Callable] = {
    OrderedDict: _keep_metadata,
    argparse.Namespace: _set_options,
    types.SimpleNamespace: _set_options,
}
HASHABLE = (datetime.date, datetime.time, datetime.timedelta, datetime.timezone)
HASHABLE += (pathlib.PurePath, fractions.Fraction, decimal.Decimal, range, type)  # type: ignore[assignment]
