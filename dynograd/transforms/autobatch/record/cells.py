"""`cell`: a function or module of which one call is one call of the record.

Recording a call costs the same however many ops are inside. What the cell gives (how many tensors, which shapes) is found out once for
each kind of arguments, on stand-ins; a group of calls runs the body once, on all rows together.
"""

from __future__ import annotations

import functools
import types
from typing import Any

from dynograd.autograd.modes import MODES
from dynograd.base.random_streams import default_generator
from dynograd.interpreter import TENSORS
from dynograd.interpreter.recorded_methods import (
    CELLS,
    NOT_QUICK,
    READY,
    Cells,
    Ready,
    recorded_whole,
)
from dynograd.interpreter.signatures import standing_before
from dynograd.ops.readers import CALLS
from dynograd.ops.row import USUAL
from dynograd.transforms.autobatch.record.cell_forms import CellForm
from dynograd.transforms.autobatch.record.forms import casting
from dynograd.transforms.autobatch.record.layer_calls import layer_of
from dynograd.transforms.autobatch.record.new_calls import entry_for, kind_for
from dynograd.transforms.autobatch.record.outlines import outline_of
from dynograd.transforms.autobatch.record.pending import Lazy
from dynograd.transforms.autobatch.record.quick_calls import enter, quick_of
from dynograd.transforms.autobatch.record.recorder import Recorder, outside
from dynograd.transforms.autobatch.record.watching import watched
from dynograd.transforms.batching.batched import _active as active_vmaps

_new = object.__new__


def cell(body: Any) -> Any:
    """Makes calls of `body`, a function or a Module, one call of the record inside `autobatch`.

    The body must do the same ops for all arguments of the same shapes: an `if` on a value, `.item()` and the like end the cell, and its
    ops are recorded one by one (`autobatch.report()` says so). Outside `autobatch` nothing changes. A module is returned itself; as a
    decorator of `forward`, or of any other method, it serves all modules of a class.

    Args:
        body: a function of tensors, a method (as a decorator), or a Module.
    Returns:
        A function in its place; the module itself.
    Source: Looks et al., Deep learning with dynamic computation graphs, 2017 (arXiv:1702.02181), whose blocks are written out.

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
    if inner is not None and hasattr(body, "_parameters"):
        if type(getattr(inner, "__self__", inner)) is not Cell:
            object.__setattr__(body, "forward", Cell(inner, type(body).__name__, body).forward)
            CALLS.note_change()
        return body
    cell = Cell(body, _name_of(body), None)
    if isinstance(body, types.FunctionType):
        body.cell = cell  # type: ignore[attr-defined]
        first = next(iter(body.__code__.co_varnames), None)
        if first == "self":
            return recorded_whole(body)
    known = dict(own_modes=MODES, own_state=CALLS, own_cell=cell, own_body=body, own_not_quick=NOT_QUICK)
    face = standing_before(body, _FUNCTION, known)
    if face is None:

        def call(*args: Any, **kwargs: Any) -> Any:
            return cell(*args, **kwargs)

        face = functools.wraps(body)(call)
    face.cell = cell
    return face


_FUNCTION = """\
    if not own_state.scopes:
        return own_body(ARGS)
    try:
        return own_cell.quick(ARGS)
    except own_not_quick:
        pass
    own_recorder = own_modes.recorder
    if own_recorder is None:
        return own_body(ARGS)
    return own_cell.record(own_recorder, [ARGS], {})
"""
# A method of Cell, with the parameters of the method that it is for.
_BOUND = """\
    if not own_state.scopes:
        return FIRST.body(ARGS_AFTER_FIRST)
    try:
        return FIRST.quick(ARGS_AFTER_FIRST)
    except own_not_quick:
        pass
    own_recorder = own_modes.recorder
    if own_recorder is None:
        return FIRST.body(ARGS_AFTER_FIRST)
    return FIRST.record(own_recorder, [ARGS_AFTER_FIRST], {})
"""


@functools.lru_cache(maxsize=1000)
def _bound(function: Any) -> Any:
    return standing_before(function, _BOUND, dict(own_modes=MODES, own_state=CALLS, own_not_quick=NOT_QUICK))


class Cell:
    """The record's view of a body. `owner` is the module that it is a method of, or None."""

    row = USUAL  # readers see no op here, but those that it is made of

    def __init__(self, body: Any, name: str, owner: Any) -> None:
        self.body, self.name, self.owner = body, name, owner
        self.forms: dict[Any, CellForm] = {}
        self.quicks: dict[Any, Any] = {}
        self.quick: Any = None  # records a call whose arguments are nested as the latest ones were

    def __reduce__(self) -> tuple:
        return Cell, (self.body, self.name, self.owner)

    @property
    def forward(self) -> Any:
        """What stands for the body: calls of a method with its own parameters are quicker than calls of this object."""
        function = getattr(self.body, "__func__", None)
        face = None
        if function is not None and function.__name__ == "forward" and self.body.__self__ is self.owner:
            face = _bound(function)
        return self if face is None else types.MethodType(face, self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        recorder = MODES.recorder
        if recorder is None:
            return self.body(*args, **kwargs)
        return self.record(recorder, args, kwargs)

    def record(self, recorder: Recorder, args: Any, kwargs: dict[str, Any]) -> Any:
        """A call that is not in the table yet."""
        recorder.between()
        if args and self.owner is None and hasattr(args[0], "_parameters"):
            return call_method(recorder, self.body, args, kwargs)
        if not kwargs:
            for quick in self.quicks.values():  # arguments may be nested in several ways, by turns
                try:
                    return quick(*args)
                except NOT_QUICK:
                    pass
        leaves: list[Any] = []
        outline = outline_of((tuple(args), kwargs), leaves)
        why = _refused(leaves) or self.hooked()
        if why is not None:
            recorder.report.note_refused(self.name, why)
            return self.body(*args, **kwargs)
        entries = [entry_for(recorder, leaf) for leaf in leaves]
        kinds = tuple([kind_for(entry) for entry in entries])
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
            ready = getattr(self.owner, "__dict__", {}).get(READY)
            if ready is not None and ready.quick is not self.quick:
                self.owner.__dict__[READY] = ready_for(recorder, self.owner, ready.change)
            training = None if self.owner is None else self.owner.training
            enter(recorder, bucket, (form.quick, MODES.grad, training, *[port for port, _ in rows]))
        lazies = []
        for port in bucket.ports:
            lazy = _new(Lazy)
            lazy.pending, lazy.row = port, row
            lazies.append(lazy)
        return lazies[0] if form.single else form.pack(lazies)

    def watched(self) -> list[Any] | None:
        """What the body can reach; None where it is too much."""
        return watched(self.body, self.owner)

    def quick_for(self, outline: Any, form: CellForm) -> Any:
        """One function for all forms whose arguments and results are nested alike."""
        key = outline, form.rebuild
        quick = self.quicks.get(key, self)
        if quick is self:
            quick = self.quicks[key] = quick_of(self, outline, form)
        return quick

    def training(self) -> Any:
        """The modes of all modules inside."""
        return None if self.owner is None else tuple([module.training for module in self.owner.modules()])

    def hooked(self) -> str | None:
        """Why the body cannot stand for its modules' calls: somebody listens to them."""
        if self.owner is not None and any(
            [module._hooked for module in self.owner.modules() if module is not self.owner]
        ):
            return "a module inside has hooks, which are called for each example"
        return None


def ready_for(recorder: Recorder, module: Any, change: Any) -> Ready:
    """What a module without hooks notes when it is called inside a scope: it is a cell, or a layer that is one op."""
    attributes = module.__dict__
    own, forward = attributes.get("forward"), type(module).forward
    known = (
        attributes.get(CELLS, {}).get(getattr(forward, "recorded", None))
        if own is None
        else getattr(own, "__self__", None)
    )
    if type(known) is Cell and known.owner is module:
        return Ready(change, forward, known.quick, module)
    quick = layer_of(module) if own is None else None
    return Ready(change) if quick is None else Ready(change, forward, quick, attributes["_parameters"])


def call_method(recorder: Recorder, method: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """A call of a function whose first argument is a module, as if it were a method of it: each module has a cell of its own."""
    owner = args[0] if args else None
    if not hasattr(owner, "_parameters"):
        cell = getattr(method, "cell", None)
        return method(*args, **kwargs) if cell is None else cell.record(recorder, args, kwargs)
    known = owner.__dict__.get(CELLS)
    if known is None:
        known = owner.__dict__[CELLS] = Cells()
    cell = known.get(method)
    if cell is None or cell.owner is not owner:
        kind = type(owner).__name__
        name = kind if method.__name__ == "forward" else _name_of(method)
        cell = known[method] = Cell(functools.partial(method, owner), name, owner)
    return cell.record(recorder, args[1:], kwargs)


def before_change(recorder: Recorder) -> None:
    """Hooks or the mode of some module are about to change: what cells were called for is run first, and then looked at anew."""
    recorder.between()
    if any([type(bucket.form) is CellForm for bucket in recorder.waiting]):
        recorder.flush(None, "a change of a module's hooks or mode")
    recorder.table.clear()


Recorder.call_method, Recorder.before_change, Recorder.ready_for = call_method, before_change, ready_for  # type: ignore[attr-defined]


def _name_of(body: Any) -> str:
    return getattr(body, "__qualname__", repr(body)).rpartition("<locals>.")[2].removesuffix(".forward")


def _refused(leaves: list[Any]) -> str | None:
    for leaf in leaves:
        if type(leaf) is not Lazy and type(leaf) not in TENSORS:
            return f"an argument is a {type(leaf).__name__}"
    if MODES.grad > 1:
        return "someone watches the tape (anomaly mode, hooks of saved tensors)"
    if active_vmaps.levels:
        return "it is inside vmap"
    return None if leaves else "no argument is a tensor"
