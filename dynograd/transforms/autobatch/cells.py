"""`cell`: a function or module of which one call is one call of the record.

Recording a call costs the same however many ops are inside. What the cell gives (how many tensors, which shapes) is found out once for
each kind of arguments, on stand-ins; a group of calls runs the body once, on all rows together.
"""

from __future__ import annotations

import functools
from typing import Any

from dynograd import arrays
from dynograd.autograd.modes import MODES
from dynograd.interpreter import TENSORS
from dynograd.tensor import Tensor, wrap
from dynograd.transforms.autobatch.forms import Form, frozen, kind_of, stand_ins
from dynograd.transforms.autobatch.pending import Kind, Lazy
from dynograd.transforms.autobatch.recording import Recorder, entry_for, kind_for, outside
from dynograd.transforms.batching.batched import BatchError, Level, make_batched
from dynograd.transforms.batching.batched import _active as active_vmaps

__all__ = ["Cell", "cell"]

_new = object.__new__


def cell(body: Any) -> Any:
    """Makes calls of `body`, a function or a Module, one call of the record inside `autobatch`.

    The body must do the same ops for all arguments of the same shapes: an `if` on a value, `.item()` and the like end the cell, and its
    ops are recorded one by one (`autobatch.report()` says so). Outside `autobatch` nothing changes. A module is returned itself; as a
    decorator of `forward` it serves all modules of a class.

    >>> @dynograd.cell
    ... def halfway(a, b):
    ...     return (a + b).tanh() / 2
    >>> with dynograd.autobatch():
    ...     found = [halfway(dynograd.ones(2), dynograd.ones(2) * k) for k in range(3)]
    >>> found[0]
    tensor([0.3808, 0.3808])
    """
    if isinstance(body, type):
        raise TypeError(f"cell: expected a function or a module, got the class {body.__name__}. Decorate its forward.")
    if not callable(body):
        raise TypeError(f"cell: expected a function or a module, got {type(body).__name__}.")
    inner = getattr(body, "forward", None)
    if inner is not None and not isinstance(body, type) and hasattr(body, "_parameters"):
        made = Cell(inner, type(body).__name__, body)
        object.__setattr__(body, "forward", made)
        return body
    return functools.wraps(body)(_face(Cell(body, getattr(body, "__name__", repr(body)), None)))


def _face(made: Cell) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        if MODES.recorder is None:
            return made.body(*args, **kwargs)
        return made(*args, **kwargs)

    call.cell = made  # type: ignore[attr-defined]
    return call


class Cell:
    """The record's view of a body. `owner` is the module that it is the forward of, or None."""

    def __init__(self, body: Any, name: str, owner: Any) -> None:
        self.body, self.name, self.owner = body, name, owner
        self.forms: dict[Any, CellForm] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        recorder = MODES.recorder
        if recorder is None:
            return self.body(*args, **kwargs)
        if not kwargs:
            try:
                key = (
                    self,
                    MODES.grad,
                    *[
                        one.pending if type(one) is Lazy else tuple([part.pending for part in one])
                        for one in args
                    ],
                )
                adds, next_row, ports, pack = recorder.table[key]
            except (KeyError, AttributeError, TypeError):
                return self.record(recorder, args, kwargs)
            place = 0
            for one in args:
                if type(one) is Lazy:
                    add, base = adds[place]
                    add(base + one.row)
                    place += 1
                else:
                    for part in one:
                        add, base = adds[place]
                        add(base + part.row)
                        place += 1
            row = next_row()
            if pack is None:
                made = _new(Lazy)
                made.pending, made.row = ports, row
                return made
            found = []
            for port in ports:
                made = _new(Lazy)
                made.pending, made.row = port, row
                found.append(made)
            return pack(found)
        return self.record(recorder, args, kwargs)

    def record(self, recorder: Recorder, args: tuple, kwargs: dict[str, Any]) -> Any:
        """A call that is not in the table yet."""
        leaves: list[Any] = []
        outline = _outline((args, kwargs), leaves)
        why = _refused(leaves)
        if why is not None:
            recorder.report.note_refused(self.name, why)
            return self.body(*args, **kwargs)
        entries = [entry_for(recorder, one) for one in leaves]
        kinds = tuple([kind_for(one) for one in entries])
        training = None if self.owner is None else tuple([one.training for one in self.owner.modules()])
        key = (kinds, outline, MODES.grad, training)
        try:
            form = self.forms.get(key)
        except TypeError:
            recorder.report.note_refused(self.name, "its arguments that are no tensors cannot be compared")
            return self.body(*args, **kwargs)
        if form is None:
            with outside():
                form = self.forms[key] = CellForm(self, outline, kinds, MODES.grad)
        if form.refused is not None:
            recorder.report.note_refused(self.name, form.refused)
            return self.body(*args, **kwargs)
        bucket, lazies = recorder.note(form, entries)
        row = bucket.next_row()
        if not kwargs and all([type(one) is Lazy for one in leaves]) and all(
            [type(one) is Lazy or type(one) is tuple for one in args]
        ):
            parts = [one.pending if type(one) is Lazy else tuple([part.pending for part in one]) for one in args]
            adds = [
                (column.append, recorder.base_of(port))
                for column, (port, _) in zip(bucket.columns, lazies, strict=True)
            ]
            ports = bucket.ports[0] if form.single else bucket.ports
            recorder.table[(self, MODES.grad, *parts)] = (adds, bucket.next_row, ports, None if form.single else form.pack)
        made = []
        for port in bucket.ports:
            one = _new(Lazy)
            one.pending, one.row = port, row
            made.append(one)
        return made[0] if form.single else form.pack(made)


class CellForm(Form):
    """A cell on arguments of given kinds."""

    __slots__ = ("cell", "outline", "rebuild")

    def __init__(self, cell: Cell, outline: Any, kinds: tuple[Kind, ...], grad: int) -> None:
        super().__init__(cell, {}, grad)
        self.cell, self.outline = cell, outline
        self.label = f"cell {cell.name}"
        if len(active_vmaps.levels):
            self.refused = "it is inside vmap"
            return
        with Level(2, "error") as level:
            given = [
                make_batched(level, wrap(arrays.to_device(_twice(one), one.device))) for one in kinds
            ]
            for one, kind in zip(given, kinds, strict=True):
                one.inner._requires_grad = kind.grad
            try:
                args, kwargs = _filled(outline, iter(given))
                result = cell.body(*args, **kwargs)
            except BatchError as error:
                self.refused = f"control flow depends on values ({str(error).partition('.')[0].removeprefix('vmap: ')})"
                return
            except Exception as error:
                self.refused = f"a trial on stand-ins failed ({type(error).__name__}: {str(error)[:80]})"
                return
            leaves: list[Any] = []
            self.rebuild = _outline(result, leaves)
            if not leaves or _count_others(self.rebuild):
                self.refused = "its result is not made of tensors only"
                return
            found = []
            for one in leaves:
                inner = getattr(one, "inner", None)
                kind = kind_of(one if inner is None else inner)
                shape = kind.shape if inner is None else kind.shape[1:]
                found.append(Kind.of(shape, kind.dtype, kind.grad, kind.device))
            self.kinds = tuple(found)
        self.single = isinstance(result, Tensor)
        self.pack = self._packed

    def _packed(self, parts: list[Any]) -> Any:
        return _filled(self.rebuild, iter(parts))

    def computed(self, operands: list[tuple[Any, bool]], size: int) -> tuple[Any, bool]:
        """The body on all rows at once; `operands` as `executing.operand` gives them. And whether there are several rows."""
        if size == 1:
            args, kwargs = _filled(self.outline, iter([value for value, _ in operands]))
            return self._flat(self.cell.body(*args, **kwargs)), False
        with Level(size, "error") as level:
            given = [make_batched(level, value) if stacked else value for value, stacked in operands]
            args, kwargs = _filled(self.outline, iter(given))
            return self._flat(self.cell.body(*args, **kwargs)), True

    def _flat(self, result: Any) -> Any:
        if self.single:
            return result
        leaves: list[Any] = []
        _outline(result, leaves)
        return tuple(leaves)


def _twice(kind: Kind) -> Any:
    return stand_ins(Kind.of((2, *kind.shape), kind.dtype, kind.grad, kind.device))


def _refused(leaves: list[Any]) -> str | None:
    for one in leaves:
        if type(one) is not Lazy and type(one) not in TENSORS:
            return f"an argument is a {type(one).__name__}"
    if MODES.grad > 1:
        return "someone watches the tape (anomaly mode, hooks of saved tensors)"
    if active_vmaps.levels:
        return "it is inside vmap"
    return None if leaves else "no argument is a tensor"


# --- arguments ---------------------------------------------------------------------------------------------------------------------


class _Place:
    def __repr__(self) -> str:
        return "*"


_PLACE = _Place()


def _outline(tree: Any, leaves: list[Any]) -> Any:
    """`tree` with a mark in place of each tensor, as something that can be compared; the tensors go to `leaves`."""
    if isinstance(tree, Tensor):
        leaves.append(tree)
        return _PLACE
    kind = type(tree)
    if kind is tuple or kind is list:
        return kind, tuple([_outline(one, leaves) for one in tree])
    if kind is dict:
        return kind, tuple([(key, _outline(one, leaves)) for key, one in tree.items()])
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return kind, tuple([_outline(one, leaves) for one in tree])
    return None, frozen(tree), _Held(tree)


class _Held:
    """A value beside what it is compared by."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: Any) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


def _filled(outline: Any, leaves: Any) -> Any:
    """The tree again, with the next of `leaves` at each mark."""
    if outline is _PLACE:
        return next(leaves)
    kind = outline[0]
    if kind is None:
        return outline[2].value
    if kind is dict:
        return {key: _filled(one, leaves) for key, one in outline[1]}
    parts = [_filled(one, leaves) for one in outline[1]]
    return kind(*parts) if hasattr(kind, "_fields") else parts if kind is list else tuple(parts)


def _count_others(outline: Any) -> int:
    if outline is _PLACE:
        return 0
    if outline[0] is None:
        return 1
    return sum([_count_others(one[1] if outline[0] is dict else one) for one in outline[1]])
