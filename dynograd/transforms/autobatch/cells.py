"""`cell`: a function or module of which one call is one call of the record.

Recording a call costs the same however many ops are inside. What the cell gives (how many tensors, which shapes) is found out once for
each kind of arguments, on stand-ins; a group of calls runs the body once, on all rows together.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from typing import Any

from dynograd import arrays
from dynograd.autograd.modes import MODES
from dynograd.interpreter import TENSORS
from dynograd.interpreter.signatures import standing_before
from dynograd.random_streams import default_generator
from dynograd.tensor import Tensor, wrap
from dynograd.transforms.autobatch.forms import Form, casting, frozen, kind_of, stand_ins
from dynograd.transforms.autobatch.fusing import Fusing, run_chained
from dynograd.transforms.autobatch.pending import Kind, Lazy
from dynograd.transforms.autobatch.recording import OFTEN, Recorder, entry_for, kind_for, outside
from dynograd.transforms.batching.batched import Batched, BatchError, Level, make_batched
from dynograd.transforms.batching.batched import _active as active_vmaps
from dynograd.transforms.batching.places import RowPlaces

__all__ = ["Cell", "cell"]

_new = object.__new__
_NOT_QUICK = (
    KeyError,
    AttributeError,
    TypeError,
    ValueError,
)  # what quick recording raises of calls that it does not know


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
    name = getattr(body, "__qualname__", repr(body)).rpartition("<locals>.")[2]
    return _face(Cell(body, name.removesuffix(".forward"), None))


def _face(made: Cell) -> Any:
    """What stands for a function: the method of a module is a cell for each module."""
    body = made.body
    first = next(iter(getattr(getattr(body, "__code__", None), "co_varnames", ())), None)
    known = dict(own_modes=MODES, own_body=body, own_cell=made, own_not_quick=_NOT_QUICK, own_method=_method)
    found = standing_before(body, _METHOD if first == "self" else _FUNCTION, known)
    if found is None:

        def call(*args: Any, **kwargs: Any) -> Any:
            recorder = MODES.recorder
            if recorder is None:
                return body(*args, **kwargs)
            return made(*args, **kwargs)

        found = functools.wraps(body)(call)
    found.cell = made
    return found


_FUNCTION = """\
    own_recorder = own_modes.recorder
    if own_recorder is None:
        return own_body(ARGS)
    own_quick = own_cell.quick
    if own_quick is not None:
        try:
            return own_quick(own_recorder, ARGS)
        except own_not_quick:
            pass
    return own_cell.record(own_recorder, (ARGS,), {})
"""
_METHOD = """\
    own_recorder = own_modes.recorder
    if own_recorder is None:
        return own_body(ARGS)
    return own_method(own_recorder, own_cell, own_body, ARGS)
"""


def _method(recorder: Recorder, cell: Cell, body: Any, owner: Any, *args: Any) -> Any:
    if hasattr(owner, "_parameters"):
        return call_method(recorder, body, owner, *args)
    return cell.record(recorder, (owner, *args), {})


class Cell:
    """The record's view of a body. `owner` is the module that it is the forward of, or None."""

    not_quick = _NOT_QUICK

    def __init__(self, body: Any, name: str, owner: Any) -> None:
        self.body, self.name, self.owner = body, name, owner
        self.forms: dict[Any, CellForm] = {}
        self.quicks: dict[Any, Any] = {}
        self.quick: Any = None  # records a call whose arguments are nested as the latest ones were

    def __reduce__(self) -> tuple:
        return Cell, (self.body, self.name, self.owner)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        recorder = MODES.recorder
        if recorder is None:
            return self.body(*args, **kwargs)
        quick = self.quick
        if quick is not None and not kwargs:
            try:
                return quick(recorder, *args)
            except _NOT_QUICK:
                pass
        return self.record(recorder, args, kwargs)

    def record(self, recorder: Recorder, args: tuple, kwargs: dict[str, Any]) -> Any:
        """A call that is not in the table yet."""
        leaves: list[Any] = []
        outline = _outline((args, kwargs), leaves)
        why = _refused(leaves) or self.hooked()
        if why is not None:
            recorder.report.note_refused(self.name, why)
            return self.body(*args, **kwargs)
        entries = [entry_for(recorder, one) for one in leaves]
        kinds = tuple([kind_for(one) for one in entries])
        key = (kinds, outline, MODES.grad, self.training(), casting())
        try:
            form = self.forms.get(key)
        except TypeError:
            recorder.report.note_refused(self.name, "its arguments that are no tensors cannot be compared")
            return self.body(*args, **kwargs)
        if form is None:
            place = default_generator.state()  # the trial draws nothing
            with outside():
                form = self.forms[key] = CellForm(self, outline, kinds, MODES.grad)
            default_generator.set_plain_state(place)
        if form.refused is not None:
            recorder.report.note_refused(self.name, form.refused)
            return self.body(*args, **kwargs)
        bucket, rows = recorder.note(form, entries)
        row = bucket.next_row()
        if form.blocks:  # the call's own place in the random stream
            if bucket.by_row is None:
                bucket.by_row = []
            bucket.by_row.append(default_generator.key(form.blocks))
        elif not kwargs and len(rows) == len(entries):
            if form.quick is None:
                form.quick = self.quick_for(outline, form)
            self.quick = form.quick
            adds = [
                one
                for column, (port, _) in zip(bucket.columns, rows, strict=True)
                for one in (column.append, recorder.base_of(port))
            ]
            key = (
                form.quick,
                MODES.grad,
                None if self.owner is None else self.owner.training,
                *[port for port, _ in rows],
            )
            recorder.table[key] = (*adds, bucket.next_row, *bucket.ports)
        made = []
        for port in bucket.ports:
            one = _new(Lazy)
            one.pending, one.row = port, row
            made.append(one)
        return made[0] if form.single else form.pack(made)

    def quick_for(self, outline: Any, form: CellForm) -> Any:
        """One function for all forms whose arguments and results are nested alike."""
        key = outline, form.rebuild
        found = self.quicks.get(key, self)
        if found is self:
            found = self.quicks[key] = quick_of(self, outline, form)
        return found

    def training(self) -> Any:
        """The modes of all modules inside."""
        return None if self.owner is None else tuple([one.training for one in self.owner.modules()])

    def hooked(self) -> str | None:
        """Why the body cannot stand for its modules' calls: somebody listens to them."""
        if self.owner is not None and any([one._hooked for one in self.owner.modules() if one is not self.owner]):
            return "a module inside has hooks, which are called for each example"
        return None


def _nesting(outline: Any) -> Any:
    """What of an argument's outline quick recording knows: a tensor is 1, a tuple of n tensors (n,), None 0; None for anything else."""
    if outline is _PLACE:
        return 1
    if outline[0] is None:
        return 0 if outline[2].value is None else None
    if outline[0] is tuple and all([one is _PLACE for one in outline[1]]):
        return (len(outline[1]),)
    return None


def quick_of(cell: Cell, outline: Any, form: CellForm) -> Any:
    """`quick(recorder, *args)`: records a call that is in the table, and raises one of `_NOT_QUICK` for any other.

    `form` is one of those that it is for: their arguments and results are nested as in `outline` and `form.rebuild`.
    """
    nestings = [_nesting(one) for one in outline[1][0][1]]
    if None in nestings:
        return None
    names = [f"a{place}" for place in range(len(nestings))]
    lines, leaves = [f"def quick(recorder, {', '.join(names)}):"], []
    for name, nesting in zip(names, nestings, strict=True):
        if nesting == 1:
            leaves.append(name)
            continue
        if nesting == 0:
            lines += [f"    if {name} is not None:", "        raise TypeError"]
            continue
        parts = [f"{name}_{number}" for number in range(nesting[0])]
        lines += [f"    if type({name}) is not tuple:", "        raise TypeError", f"    {', '.join(parts)}, = {name}"]
        leaves += parts
    for leaf in leaves:
        lines += [
            f"    if type({leaf}) is Lazy:",
            f"        p_{leaf} = {leaf}.pending",
            f"        r_{leaf} = {leaf}.row",
            f"    elif type({leaf}) in TENSORS:",
            f"        p_{leaf}, r_{leaf} = recorder.entry_of({leaf})",
            "    else:",
            "        raise TypeError",
        ]
    ports = [f"out{number}" for number in range(len(form.kinds))]
    training = "None" if cell.owner is None else 'held["training"]'
    entry = [one for leaf in leaves for one in (f"add_{leaf}", f"base_{leaf}")]
    key = f"(me, MODES.grad, {training}, {', '.join(f'p_{leaf}' for leaf in leaves)})"
    lines += [
        f"    found = recorder.table.get({key})",
        "    if found is None:",
        f"        found = extend(recorder, {key})",
        f"    {', '.join([*entry, 'next_row', *ports])} = found",
        *[f"    add_{leaf}(base_{leaf} + r_{leaf})" for leaf in leaves],
        "    row = next_row()",
        f"    if row & {OFTEN} == {OFTEN}:",
        "        recorder.check_size()",
    ]
    for number, port in enumerate(ports):
        lines += [f"    made{number} = new(Lazy)", f"    made{number}.pending = {port}", f"    made{number}.row = row"]
    made = ", ".join(f"made{number}" for number in range(len(ports)))
    flat = not form.single and form.rebuild[0] is tuple and all([one is _PLACE for one in form.rebuild[1]])
    lines.append(
        f"    return {made}" if form.single else f"    return ({made},)" if flat else f"    return pack([{made}])"
    )

    def extend(recorder: Recorder, key: tuple) -> tuple:
        """The table's entry for operands of other ports, where their kinds have a form already."""
        entries = [(port, 0) for port in key[3:]]
        kinds = tuple([port.kind for port in key[3:]])
        alike = (*key[:3], kinds)
        form = recorder.table.get(alike)
        if form is None:
            seen = tuple([kind_for(one) for one in entries])
            form = cell.forms.get((seen, outline, key[1], cell.training(), casting()))
            if form is None or form.quick is not space["me"]:
                raise KeyError
            recorder.table[alike] = form
        bucket = recorder.bucket_for(form, entries)
        adds = [
            one
            for column, (port, _) in zip(bucket.columns, entries, strict=True)
            for one in (column.append, recorder.base_of(port))
        ]
        made = recorder.table[key] = (*adds, bucket.next_row, *bucket.ports)
        return made

    space: dict[str, Any] = dict(
        extend=extend,
        Lazy=Lazy,
        TENSORS=TENSORS,
        MODES=MODES,
        new=_new,
        held=getattr(cell.owner, "__dict__", None),
        pack=form.pack,
    )
    exec(compile("\n".join(lines) + "\n", f"<dynograd autobatch cell {cell.name}>", "exec"), space)
    space["me"] = space["quick"]
    return space["quick"]


def call_as_cell(recorder: Recorder, module: Any, forward: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """A call of a module whose class says that its forward is a cell."""
    made = module.__dict__.get("_cell")
    if made is None or made.owner is not module:
        made = Cell(functools.partial(forward, module), type(module).__name__, module)
        object.__setattr__(module, "_cell", made)
    return made(*args, **kwargs)


def call_method(recorder: Recorder, forward: Any, module: Any, *args: Any) -> Any:
    """The same, for one with plain arguments."""
    made = module.__dict__.get("_cell")
    if made is None or made.owner is not module:
        return call_as_cell(recorder, module, forward, args, {})
    if made.quick is not None:
        try:
            return made.quick(recorder, *args)
        except _NOT_QUICK:
            pass
    return made.record(recorder, args, {})


Recorder.call_as_cell, Recorder.call_method = call_as_cell, call_method  # type: ignore[attr-defined]


class CellForm(Form):
    """A cell on arguments of given kinds."""

    __slots__ = ("blocks", "cell", "fusing", "inputs", "outline", "quick", "rebuild")
    run_chained = staticmethod(run_chained)

    def __init__(self, cell: Cell, outline: Any, kinds: tuple[Kind, ...], grad: int) -> None:
        super().__init__(cell, {}, grad)
        self.cell, self.outline, self.quick = cell, outline, None
        self.inputs = kinds
        self.blocks = 0  # how much of the random stream a call draws
        self.label = f"cell {cell.name}{line_of(cell.body)}"
        self.places = [(str(number), None) for number in range(len(kinds))]
        if len(active_vmaps.levels):
            self.refused = "it is inside vmap"
            return
        places = RowPlaces([default_generator.state()] * 2)
        with Level(2, places) as level:  # type: ignore[arg-type]
            given = [make_batched(level, wrap(arrays.to_device(_twice(one), one.device))) for one in kinds]
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
                inside = type(one) is Batched
                kind = kind_of(one.inner if inside else one)
                shape = kind.shape[1:] if inside else kind.shape
                found.append(Kind.of(shape, kind.dtype, kind.grad, kind.device))
            self.kinds = tuple(found)
        self.blocks = places.used
        self.single = isinstance(result, Tensor)
        self.pack = self._packed
        self.fusing = Fusing(self)

    def _packed(self, parts: list[Any]) -> Any:
        return _filled(self.rebuild, iter(parts))

    def arguments(self, given: Any) -> tuple[tuple, dict[str, Any]]:
        """What the body is called with, from the tensors in order."""
        return _filled(self.outline, iter(given))

    def results(self, result: Any) -> list[Any]:
        """The tensors in what the body gave, in order."""
        leaves: list[Any] = []
        _outline(result, leaves)
        return leaves

    def call(self, given: dict[str, Any]) -> Any:
        args, kwargs = self.arguments(given.values())
        result = self.cell.body(*args, **kwargs)
        return result if self.single else tuple(self.results(result))

    def on_rows(self, given: list[Any], count: int) -> list[Any]:
        """The body's results for all calls, op by op, from tensors with one row for each."""
        with Level(count, "error") as level:
            args, kwargs = self.arguments([make_batched(level, one) for one in given])
            return [one.inner if type(one) is Batched else one for one in self.results(self.cell.body(*args, **kwargs))]


def line_of(body: Any) -> str:
    """Where a user's body begins, as " (model.py:12)"; an empty text for the library's own."""
    while isinstance(body, functools.partial):
        body = body.func
    code = getattr(inspect.unwrap(body), "__code__", None)
    if code is None or code.co_filename.startswith(_PACKAGE):
        return ""
    return f" ({os.path.basename(code.co_filename)}:{code.co_firstlineno})"


_PACKAGE = os.path.dirname(sys.modules["dynograd"].__file__ or "") + os.sep


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
        return int(outline[2].value is not None)
    return sum([_count_others(one[1] if outline[0] is dict else one) for one in outline[1]])
