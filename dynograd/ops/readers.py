"""Readers: those who see calls before they are computed, on one stack in one declared order.

A mode of `__torch_function__`, types that take functions over, autobatch's recorder, the profiler, autocast and ragged tensors are readers.
While one is on, each function that it sees has code that asks it first. It may answer, or go on to what lies below: the next reader, and at
last the function as it is. With no reader on, functions are as they are and a call costs nothing more. A function keeps its identity, since
programs import it by name and use it as a key: its code is exchanged, in this file and nowhere else.

A reader is on for the whole process; its code looks at the state of the thread. `ORDER` says who is asked first, whoever came first.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import linecache
import os
import threading
import types
from collections import Counter, deque
from collections.abc import Collection, Iterable
from typing import Any

from dynograd.base.generated_sources import run_source
from dynograd.errors import hands_on

__all__ = [
    "CALLS",
    "ORDER",
    "Entry",
    "Holder",
    "Reader",
    "end_rest",
    "entry_of",
    "is_read",
    "join",
    "quick_entries",
    "set_quick_ways_aside",
    "with_quick_ways",
]

# Outermost first. The recorder stands above autocast: a recorded call notes what autocast was at, and is cast when it is run.
# What a checkpoint keeps are results of the ops that kernels compute, below all others but `compile`, which sees what is computed at last.
ORDER = ("modes", "overrides", "profiler", "recorder", "autocast", "ragged", "checkpoint", "plan")


class Calls:
    """What calls of modules go by: `change` is another object after a reader came or went, or a module got a hook; `scopes` record now."""

    def __init__(self) -> None:
        self.change, self.scopes = object(), 0

    def note_change(self) -> None:
        self.change = object()


class Holder:
    """Who has turned a reader on, so that it may be turned off twice by whom an interrupt has stopped the first time."""

    is_reading = False


CALLS = Calls()
_rest = Holder()  # of the reader that rests
_lock = threading.RLock()
_number = itertools.count().__next__
_entries: dict[types.FunctionType, Entry] = {}
_listed: list[Entry] = []  # in the order in which they came
_with_ways: dict[str, list[Entry]] = {}  # by the name of an op whose quick way an entry takes; "": all of them
_on: list[tuple[Reader, ...]] = [()]  # innermost first
_resting: list[Reader | None] = [
    None
]  # one that is turned off, whose functions have its code for the sake of the next time
_MOST_PASSING = (
    16  # calls of an op with a reader's code cost as much as changing the code of some twenty functions, and back
)
_ended: deque[Reader] = deque()
_MOST_ENDED = 16  # whose names stay: another thread may be in their code, for the instructions that look them up
_versions = [0]  # grows when a function gets other code than readers gave it


def _renew_lock() -> None:
    """In a process that was forked while another thread of its parent held the lock, nobody would give it back."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


class Reader:
    """Sees calls of functions while it is on. It may be turned on several times; it is off after as many times of `turn_off`.

    `sets_aside` names the ops whose quick ways are not taken meanwhile, since a quick way computes an op without a call of its function;
    with "" all.
    """

    name: str
    sets_aside: Collection[str] = ()
    changes_calls = True
    """Whether calls of modules are to ask anew what they go by, once it has come or gone."""

    def __init_subclass__(cls) -> None:
        if "call" in cls.__dict__:
            hands_on(cls.call)

    def __init__(self) -> None:
        self.times, self._looked, self._passing = 0, 0, 0
        self.comings = 0  # how often functions got its code
        # What turning it on alone does to the code of functions: (function, code without it, code with it), as of a version.
        self._exchanged: list[tuple[Any, types.CodeType, types.CodeType]] = []
        self._version = -1
        self.entries: dict[Entry, None] = {}  # in order
        self.texts: list[tuple[dict[str, Any], list[str], str]] = []  # of its code: (globals, its names there, file)

    def sees(self, entry: Entry) -> bool:
        """Whether the reader is asked when this function is called."""
        raise NotImplementedError

    def call(self, entry: Entry, below: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """What a call gives; `below(*args, **kwargs)` goes on."""
        raise NotImplementedError

    def write(self, entry: Entry, below: Any, names: dict[str, Any]) -> tuple[str, list[str]]:
        """Parameters and lines of the code that asks. `$name` stands for what the code puts into `names`."""
        names["call"] = functools.partial(self.call, entry, below)
        return "*args, **kwargs", ["return $call(args, kwargs)"]

    def turn_on(self, holder: Any = None) -> None:
        """From now on functions that the reader sees ask it.

        An interrupt or another error on the way leaves it off as it was. `holder.is_reading` says from the moment on in which the reader counts it
        that it does: where it is on for that holder already nothing changes, so that whoever ends may do so twice.
        """
        with _lock:
            if holder is not None and holder.is_reading:
                return
            resting = _resting[0]
            if resting is self:
                _resting[0], _rest.is_reading, self._passing = None, False, 0
                if holder is not None:
                    holder.is_reading = True
                return
            if resting is not None:
                resting.turn_off(_rest)
                _resting[0] = None
            on = _on[0]
            self.times += 1
            if holder is not None:
                holder.is_reading = True
            if self.times > 1:
                return
            self.comings += 1
            try:
                self._come(on)
            except BaseException:
                self.times -= 1
                if holder is not None:
                    holder.is_reading = False
                _mend(on)
                raise

    def _come(self, others: tuple[Reader, ...]) -> None:
        if not others and self._version == _versions[0]:
            _on[0] = (self,)
            for function, _, code in self._exchanged:
                function.__code__ = code
            for name in self.sets_aside:
                _aside[name] += 1
            if self.changes_calls:
                CALLS.note_change()
            return
        on = tuple(sorted([*others, self], key=lambda reader: -ORDER.index(reader.name)))
        if others:
            self._change(on, 1)
            return
        functions = self._functions()
        before = [function.__code__ for function in functions]
        self._change(on, 1)
        functions_now = self._functions()
        if functions_now == functions:
            pairs = zip(functions, before, [function.__code__ for function in functions])
            self._exchanged = [(function, old, new) for function, old, new in pairs if old is not new]
            self._version = _versions[0]

    def turn_off(self, holder: Any = None) -> None:
        """Off after as many calls as `turn_on` had; with a holder, if it is on for that one. What interrupts it on the way does not keep it on."""
        with _lock:
            if holder is not None:
                if not holder.is_reading:
                    return
                holder.is_reading = False
            self.times -= 1
            if self.times:
                return
            try:
                self._go()
            except BaseException:
                _mend(tuple([reader for reader in _on[0] if reader is not self]))
                raise

    def _go(self) -> None:
        if _on[0] == (self,) and self._version == _versions[0]:
            _on[0] = ()
            for function, code, _ in self._exchanged:
                function.__code__ = code
            for name in self.sets_aside:
                _aside[name] -= 1
            if self.changes_calls:
                CALLS.note_change()
            return
        self._change(tuple([reader for reader in _on[0] if reader is not self]), -1)

    def rest(self, holder: Any = None) -> None:
        """`turn_off`, but functions keep their code until another reader is turned on or `end_rest` is called.

        That code is to call `pass_by` where it lets a call through meanwhile.
        """
        with _lock:
            if holder is not None and not holder.is_reading:
                return
            if self.times > 1:
                self.turn_off(holder)
                return
            if _resting[0] is not None:
                end_rest()
            _resting[0], _rest.is_reading = self, True
            if holder is not None:
                holder.is_reading = False

    def pass_by(self) -> None:
        """A function with the reader's code is called where nobody is to be asked: not often, or the functions are as they are again."""
        self._passing += 1
        if self._passing >= _MOST_PASSING:
            self._passing = 0
            end_rest()

    def _functions(self) -> list[Any]:
        """All whose code changes when the reader comes or goes."""
        entries = dict.fromkeys(
            [*self.entries, *[entry for name in self.sets_aside for entry in _with_ways.get(name, ())]]
        )
        return list(dict.fromkeys([function for entry in entries for function in (entry.function, entry.plain)]))

    def end(self) -> None:
        """It is turned on no more: what was written for it goes, when code is next written for a reader. Called in finalizers, too."""
        if self._looked:  # it was on
            _ended.append(self)

    def look(self) -> None:
        """Functions that came since then: those that it sees are its own."""
        _versions[0] += 1
        self.entries |= dict.fromkeys([entry for entry in _listed[self._looked :] if self.sees(entry)])
        self._looked = len(_listed)

    def look_anew(self, entries: Iterable[Entry]) -> None:
        """It sees these functions now, which it did not: the reader, which is off, looks at all when it is turned on."""
        for entry in entries:  # some were called for the first time while it was on, and have no code for it
            entry.codes = {on: code for on, code in entry.codes.items() if self not in on}
        self._looked, self.entries, self._version = 0, {}, -1

    def see(self, entry: Entry) -> None:
        """From now on the reader sees this function, which it did not when it looked."""
        with _lock:
            self.look()
            _versions[0] += 1
            self.entries[entry] = None
            entry.codes = {on: code for on, code in entry.codes.items() if self not in on}
            entry.show()

    def _change(self, on: tuple[Reader, ...], change: int) -> None:
        if self._looked != len(_listed):
            self.look()
        _on[0] = on
        for entry in self.entries:
            entry.show()
        if self.sets_aside:
            set_quick_ways_aside(change, self.sets_aside)
        if self.changes_calls:
            CALLS.note_change()


class Entry:
    """A function that readers may see.

    `op` is its row in the table, and `key` its name there; a function that is none has only a name. `plain` is the function without
    readers. One that is not `written` has no code of its own yet. The code that asks readers is written at the first call: ragged tensors have
    some four hundred functions ask, of which a program calls few.
    """

    __slots__ = ("_later", "codes", "function", "key", "op", "plain", "ways", "written")

    def __init__(self, function: types.FunctionType, key: str, op: Any, written: bool) -> None:
        self.function, self.key, self.op, self.written = function, key, op, written
        self.plain = function
        # By the readers that are on; None where none of them sees it.
        self.codes: dict[tuple[Reader, ...], types.CodeType | None] = {}
        self.ways: tuple[types.CodeType, types.CodeType, Collection[str]] | None = None
        self._later: types.CodeType | None = None

    def show(self, also_unwritten: bool = False) -> None:
        """Gives the function the code for the readers that are on."""
        if self.written or also_unwritten:
            try:
                code = self.codes[_on[0]]
            except KeyError:
                code = self.codes[_on[0]] = self._code_at_first(_on[0])
            self.function.__code__ = self.plain.__code__ if code is None else code

    def apart(self, code: types.CodeType | None = None) -> types.FunctionType:
        """The function as it is without readers (or is to be, with this code), as one that no reader sees."""
        if self.plain is self.function:
            _versions[0] += 1
            if not hasattr(self.function, "__signature__") and not hasattr(self.function, "__wrapped__"):
                self.function.__signature__ = inspect.signature(self.function)  # type: ignore[attr-defined]
            self.plain = self._with_code(code or self.function.__code__)
        return self.plain

    def give(self, written: Any) -> None:
        """The function has the code and the defaults of `written` from now on, beneath readers. The first of several threads gives it."""
        with _lock:
            if not self.written:
                self._give(written)

    def _give(self, written: Any) -> None:
        _versions[0] += 1
        for function in (self.function, self.plain):
            function.__defaults__, function.__kwdefaults__ = written.__defaults__, written.__kwdefaults__
        self._set_plain(written.__code__)
        self.written = True  # last: a thread that is told so calls the function

    def give_ways(self, written: Any, names: Collection[str], long: types.CodeType) -> None:
        """`give`, but while quick ways of one of the ops `names` are set aside the code is `long`."""
        with _lock:
            if not self.written:
                self.ways = written.__code__, long, names
                for name in {"", *names}:
                    _with_ways.setdefault(name, []).append(self)
                self._give(written)
                self.choose_way()

    def choose_way(self) -> None:
        if self.ways is not None:
            quick, long, names = self.ways
            code = long if _is_aside(names) else quick
            if self.plain.__code__ is not code:
                self._set_plain(code)

    def _set_plain(self, code: types.CodeType) -> None:
        if self.plain is self.function and any([reader.sees(self) for reader in _on[0]]):
            self.apart(code)  # or another thread would call it meanwhile, and ask no reader
        self.plain.__code__ = code
        self.show(also_unwritten=True)

    def _code_at_first(self, on: tuple[Reader, ...]) -> types.CodeType | None:
        """Code that writes the code for these readers when it is called; None where none of them sees the function."""
        if not any([reader.sees(self) for reader in on]):
            return None
        if self.function.__closure__:  # its code has to name the closure's variables
            return self._code_for(on)
        self.apart()
        if self._later is None:
            name = f"written_{_number()}"
            self.function.__globals__[name] = self._with_written_code
            self._later = _LATER.replace(co_names=(name,), co_name=self.function.__name__)
        return self._later

    def _with_written_code(self) -> types.FunctionType:
        """The function, when its code for the readers that are on is written. The first of several threads writes it."""
        with _lock:
            on = _on[0]
            if self.function.__code__ is self._later:
                if self.codes.get(on, self._later) is self._later:  # of a reader that does not see it, `on` may be new
                    _versions[0] += 1
                    self.codes[on] = self._code_for(on)
                self.show(also_unwritten=True)
        return self.function

    def _code_for(self, on: tuple[Reader, ...]) -> types.CodeType | None:
        readers = [reader for reader in on if reader.sees(self)]
        if not readers:
            return None
        below = self.apart()
        for reader in readers:
            below = self._with_code(self._asking(reader, below))
        return below.__code__

    def _with_code(self, code: types.CodeType) -> types.FunctionType:
        own = self.function
        copied = types.FunctionType(code, own.__globals__, own.__name__, own.__defaults__, own.__closure__)
        copied.__kwdefaults__, copied.__annotations__ = own.__kwdefaults__, own.__annotations__
        return copied

    def _asking(self, reader: Reader, below: types.FunctionType) -> types.CodeType:
        """Code that asks `reader`, for the closure that the function has, or it would not fit."""
        names: dict[str, Any] = {}
        parameters, lines = reader.write(self, below, names)
        _clear_away()
        prefix = f"{reader.name}_{_number()}_"
        own = self.function.__globals__
        own.update({prefix + name: value for name, value in names.items()})
        title = self.function.__name__ if self.function.__name__.isidentifier() else "function"
        free = ", ".join(self.function.__code__.co_freevars)
        text = [f"def {title}({parameters}):", *[f"    {line.replace('$', prefix)}" for line in lines]]
        if free:
            text.insert(1, f"    if 0: {free}")
            text = [f"def make({free}):", *[f"    {line}" for line in text], f"    return {title}"]
        space = run_source("\n".join(text) + "\n", f"{reader.name} before {self.key}", {})
        asking = space["make"](*[None] * len(self.function.__code__.co_freevars)) if free else space[title]
        reader.texts.append((own, [prefix + name for name in names], asking.__code__.co_filename))
        return asking.__code__


_LATER = compile(
    "def later(*args, **kwargs): return written()(*args, **kwargs)", "<dynograd first call for readers>", "exec"
).co_consts[0]


def join(function: types.FunctionType, key: str = "", op: Any = None, written: bool = True) -> Entry:
    """Readers may see the function from now on."""
    entry = _entries.get(function)
    if entry is None:
        with _lock:
            _versions[0] += 1
            entry = _entries[function] = Entry(function, key or function.__name__, op, written)
            _listed.append(entry)
            if _on[0]:
                entry.show()
    return entry


def entry_of(function: Any) -> Entry | None:
    """What is known of a function that readers may see; None: there is none."""
    return _entries.get(function)


def is_read(function: Any, above: str | None = None) -> bool:
    """Whether a reader that is on sees the function; with `above`, one that is asked before the reader of that name."""
    entry = _entries.get(function)
    last = len(ORDER) if above is None else ORDER.index(above)
    return entry is not None and any([reader.sees(entry) for reader in turned_on() if ORDER.index(reader.name) < last])


_aside: Counter[str] = Counter()  # op, or "" for all


def turned_on() -> tuple[Reader, ...]:
    """The readers that are on, innermost first."""
    resting, on = _resting[0], _on[0]
    if resting is None:
        return on
    return () if len(on) == 1 else tuple([reader for reader in on if reader is not resting])


def end_rest() -> None:
    """Functions get the code back that they have without a reader that rests."""
    if _resting[0] is not None:
        with _lock:
            resting = _resting[0]
            if resting is not None:
                resting.turn_off(_rest)
                _resting[0] = None


def _clear_away() -> None:
    """Deletes what was written for readers that have ended, but for the latest."""
    while len(_ended) > _MOST_ENDED:
        reader = _ended.popleft()
        if reader.times or _resting[0] is reader:
            _ended.append(reader)
            return
        for entry in _listed:
            if any([reader in on for on in entry.codes]):
                entry.codes = {on: code for on, code in entry.codes.items() if reader not in on}
        for space, names, file in reader.texts:
            for name in names:
                space.pop(name, None)
            linecache.cache.pop(file, None)


def _mend(on: tuple[Reader, ...]) -> None:
    """An error came while the code of functions was exchanged: all have that for these readers."""
    _on[0] = on
    _versions[0] += 1
    _aside.clear()
    for reader in on:
        for name in reader.sets_aside:
            _aside[name] += 1
    for entry in _listed:
        entry.choose_way()
        entry.show()
    CALLS.note_change()


def with_quick_ways(names: Iterable[str]) -> set[str]:
    """Those of the names that quick ways have."""
    return {name for name in names if name in _with_ways}


def quick_entries(names: Iterable[str]) -> set[Entry]:
    """The functions that take quick ways of these ops."""
    return {entry for name in names for entry in _with_ways.get(name, ())}


def set_quick_ways_aside(change: int, names: Iterable[str] = ("",)) -> None:
    """+1: from now on calls pass through the functions of all (or these) ops; -1: no longer."""
    names = {*names}
    with _lock:
        for name in names:
            _aside[name] += change
        for name in names:
            for entry in _with_ways.get(name, ()):
                entry.choose_way()


def _is_aside(names: Iterable[str]) -> bool:
    """Whether the quick ways of one of these ops are set aside."""
    return any([_aside[name] for name in ("", *names)])
