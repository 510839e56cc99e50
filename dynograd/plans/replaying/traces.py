"""Traces: one walk of a step is watched by Python's profiler, so that it is known what the step does beside ops on tensors.

It is a pure step, which may be replayed, if nobody reads a value, nothing that Python keeps is changed, and each tensor that comes from outside is an
argument, stands where it stood, or is made anew by a function that is known (`zeros`, `randn`). Draws of random numbers and writes in place
into tensors from outside are noted, and repeated by each replay.
"""

from __future__ import annotations

import inspect
import io
import itertools
import random
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy

from dynograd import arrays
from dynograd.arrays import ndarray
from dynograd.autograd.modes import MODES
from dynograd.autograd.nodes import line_text, place_of
from dynograd.autograd.writes import version
from dynograd.base.garbage import paused
from dynograd.base.random_streams import Generator, default_generator
from dynograd.nn.module import Module
from dynograd.nn.utils import clip_grad
from dynograd.optim.optimizer import Optimizer
from dynograd.plans.handed import Handed
from dynograd.plans.memory import is_part_of_any
from dynograd.plans.replaying.arguments import form_of
from dynograd.plans.replaying.notes import (
    Again,
    Call,
    Check,
    Moment,
    Write,
    bound_arguments,
    code_of,
    count_of_arguments,
    described,
    first_argument,
    frames_above,
    global_names,
    has_gradients,
    has_tensors,
    method_of,
)
from dynograd.plans.replaying.places import PLAIN, Places, is_library
from dynograd.plans.walks import Walk
from dynograd.plans.writes.created import as_created
from dynograd.tensor import creation, inplace, randomness
from dynograd.tensor.tensor import Tensor
from dynograd.transforms.autobatch.record.pending_arrays import _ABOUT_SHAPES

__all__ = ["Trace"]

_CONSTANT: tuple[str, ...] = (
    "tensor",
    "scalar_tensor",
    "zeros",
    "ones",
    "full",
    "zeros_like",
    "ones_like",
    "full_like",
    "arange",
)
_CONSTANT += ("linspace", "logspace", "eye")
_RANDOM = ("rand", "randn", "rand_like", "randn_like", "randint", "randint_like", "randperm", "normal")
_READS: tuple[str, ...] = (
    "item",
    "tolist",
    "numpy",
    "is_nonzero",
    "equal",
    "allclose",
    "data_ptr",
    "__bool__",
    "__float__",
    "__int__",
)
_READS += ("__index__", "__complex__", "__array__", "__dlpack__", "__repr__", "__format__", "__contains__")
_VIEWS_OF_ARRAYS = ("reshape", "view", "transpose")  # methods of NumPy that look at no values
_WALKS = "dynograd.plans."  # modules that copy what comes into a plan
_OUTER_STATE = {"time", "random", "secrets", "posix", "nt", "select", "_socket", "_random"}  # modules of functions in C
_LOOKED_UP = {"getattr", "vars", "setattr", "delattr"}
_QUESTIONS = {*_ABOUT_SHAPES, "in_one_pass"}  # kernels that look at shapes, dtypes and strides
_FAR = 8  # frames between a read and the write that it is for


class Trace:
    """What a step does while it is walked. `reason` says why it cannot be replayed, if so, and `line` where.

    Args:
        walk: that is about to begin.
        modes: of the process and thread before it.
    """

    def __init__(self, walk: Walk, modes: tuple[Any, ...]) -> None:
        self.walk, self.modes = walk, modes
        self.reason = self.line = ""
        self.places = Places()
        self.arguments: list[Any] = []  # tensors
        self.codes: set[types.CodeType] = set()  # of the program's functions that were run
        self.names: set[str] = set()  # that they know
        self.calls: dict[int, tuple[Any, Call]] = {}  # by the id of what they have made
        self.draws: list[tuple[str, Any]] = []  # in order: ("key", (count, key)) or ("call", call)
        self.writes: list[Write] = []
        self.checks: list[Check] = []
        self.again: list[Again] = []
        self.without: list[tuple[Moment, list[Any]]] = []  # leaves without a gradient
        self._notes = itertools.count()
        self.numbers: dict[int, int] = {}  # of recorded tensors, by id, as the function ends
        self.references: list[int] = []  # to them, by others than the record
        self._open: list[tuple[Any, Any]] = []  # frames that make tensors, with what they are called with
        self._checked: list[Any] = []  # arrays from outside whose values are checked
        self._last_frame: Any = None  # that has written in place
        self._clipping: Any = None  # a function that changes gradients, with its other arguments
        self._listed: Any = None  # the tensors whose gradients they are
        self._aside: Any = None  # a frame of the walk's own, in which nothing is the program's
        self._handlers: dict[types.CodeType, Callable[[Any], None]] = {}
        self._enter()

    def _now(self) -> Moment:
        return Moment(self.walk.at.number, next(self._notes))

    def _enter(self) -> None:
        handlers = self._handlers
        for name in _READS:
            for owner in (Tensor, sys.modules["dynograd"]):
                if (code := code_of(getattr(owner, name, None))) is not None:
                    handlers[code] = self._read
        for module, names in ((creation, _CONSTANT), (randomness, _RANDOM)):
            for name in names:
                function = inspect.unwrap(getattr(module, name))
                handlers[function.__code__] = self._makes(function, names is _RANDOM)
        for function in (clip_grad.clip_grad_norm_, clip_grad.clip_grad_value_):
            handlers[function.__code__] = self._changes_gradients(function)
        handlers[inplace._as_tensor.__code__] = self._makes_of_number
        handlers[as_created.__code__] = self._takes_in
        for function, handler in (
            (Walk.read, self._read_recorded),
            (Walk.number_of, self._read_number),
            (Walk.met_unknown, self._met_unknown),
            (version, self._read_version),
            (Walk.before_lending, lambda frame: self.refuse("NumPy gets the memory of a tensor", frame)),
            (Walk.before_flag, lambda frame: self.refuse("requires_grad of a tensor changes", frame)),
            (Walk.before_write, self._write),
            (arrays.checked_later, self._check),
            (Walk.step, self._step),
            (vars(Tensor)["grad"].fset, self._give_gradient),
            (Optimizer.zero_grad, self._clear),
            (Module.zero_grad, self._clear),
            (Generator.key, self._key),
            (Generator.manual_seed, lambda frame: self.refuse("random numbers are seeded", frame)),
            (Generator.set_plain_state, lambda frame: self.refuse("random numbers are seeded", frame)),
        ):
            handlers[function.__code__] = handler
        for own in (Walk.catch_up, Walk.own, Walk.leave, Walk.backward, Walk._go_to, Walk._matches):
            handlers[own.__code__] = self._set_aside

    def refuse(self, reason: str, frame: Any = None) -> None:
        if not self.reason:
            self.reason, self.line = reason, "" if frame is None else line_text(place_of(frame))

    def run(self, function: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> list[Any]:
        """What the function gives, alone in a list, so that nobody else has it."""
        form_of((args, kwargs), self.arguments, [])
        self.places.note(function, getattr(function, "__name__", "the function"))
        states = random.getstate(), numpy.random.get_state(legacy=False)
        try:
            with paused():  # what the collector calls is nothing of the program's
                sys.setprofile(self._event)
                box = [function(*args, **kwargs)]
                sys.setprofile(None)
        finally:
            sys.setprofile(None)
            self._open, self._aside, self._last_frame = [], None, None
        walk = self.walk
        self.numbers = {id(walk.handed[number]): number for number in range(len(walk.handed))}
        self.references = [walk.references_to(number) for number in range(len(walk.handed))]
        for number in walk.read_numbers:  # steps do not refer to what was read
            self.references[number] += len(walk.uses[number])
        if repr((random.getstate(), numpy.random.get_state(legacy=False))) != repr(states):
            self.refuse("it draws random numbers of Python or NumPy")
        return box

    # --- events -----------------------------------------------------------------------------------------------------------------

    def _event(self, frame: Any, event: str, arg: Any) -> None:
        if self._aside is not None:
            if event == "return":
                if frame.f_code is clip_grad._listed.__code__:
                    self._listed = arg
                if frame is self._aside:
                    self._aside = None
                    if self._clipping is not None:
                        self._clipped(arg)
            return
        if event == "call":
            code = frame.f_code
            handler = self._handlers.get(code)
            if handler is not None:
                handler(frame)
            elif not self._open:
                self._enter_function(frame, code)
        elif event == "return":
            if self._open and frame is self._open[-1][0]:
                self._made(*self._open.pop(), arg)
        elif event == "c_call":
            self._call_in_c(frame, arg)

    def _set_aside(self, frame: Any) -> None:
        self._aside = frame

    def _enter_function(self, frame: Any, code: Any) -> None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("dynograd.kernels."):
            if code.co_argcount and code.co_name not in _QUESTIONS:
                self._enter_kernel(frame, code)
        elif is_library(module):
            if module.startswith(("dynograd.nn.", "dynograd.optim.")):
                self._know(code)
            if code.co_name == "forward" and code.co_varnames[:1] == ("self",):
                self.places.note(frame.f_locals.get("self"), type(frame.f_locals.get("self")).__name__)
        else:
            self._enter_own(frame, code)

    def _enter_kernel(self, frame: Any, code: Any) -> None:
        """A kernel computes at once: with tensors from outside it may only check their values, or write in place."""
        for name in code.co_varnames[: count_of_arguments(code)]:
            value = frame.f_locals.get(name)
            for array in value if type(value) is tuple else (value,):
                if type(array) is ndarray and self._is_from_outside(array) and not self._is_known_use(frame, array):
                    self.refuse("a value of a tensor from outside is read", frame)

    def _is_known_use(self, frame: Any, array: Any) -> bool:
        if is_part_of_any(array, self._checked):
            return True
        return any([outer is self._last_frame for outer in itertools.islice(frames_above(frame), _FAR)])

    def _enter_own(self, frame: Any, code: Any) -> None:
        """A function of the program."""
        if code not in self.codes:
            self.codes.add(code)
            self._know(code)
            self.places.note_names(frame.f_globals, global_names(code), code.co_names)
        if code.co_argcount or code.co_kwonlyargcount or code.co_flags & inspect.CO_VARARGS:
            values = frame.f_locals
            for name in code.co_varnames[: count_of_arguments(code)]:
                value = values.get(name)
                for part in value if type(value) is tuple else (value,):
                    self._note_argument(part, name, code)

    def _know(self, code: Any) -> None:
        self.names.update(code.co_names)
        self.names.update([constant for constant in code.co_consts if type(constant) is str])

    def _note_argument(self, value: Any, name: str, code: Any) -> None:
        """Objects, which may hold settings; what holds values of this step is of this step itself."""
        if isinstance(value, (Tensor, list, tuple, dict, set, *PLAIN)):
            return
        attributes = getattr(value, "__dict__", {})
        if isinstance(value, Module) or not any([isinstance(content, Handed) for content in attributes.values()]):
            self.places.note(value, name, 0, code.co_names)

    def _call_in_c(self, frame: Any, function: Any) -> None:
        owner = getattr(function, "__self__", None)
        if type(owner) is ndarray:
            views = function.__name__ in _VIEWS_OF_ARRAYS or frame.f_globals.get("__name__", "").startswith(_WALKS)
            if not views and self._is_from_outside(owner) and not self._is_known_use(frame, owner):
                self.refuse("a value of a tensor from outside is read", frame)
            return
        if is_library(frame.f_globals.get("__name__", "")):
            return
        name = getattr(function, "__name__", "")
        if name in ("print", "input", "open") or (name == "write" and isinstance(owner, io.IOBase)):
            self.refuse(f"it calls {name}()", frame)
        elif getattr(function, "__module__", None) in _OUTER_STATE or type(owner).__module__ in _OUTER_STATE:
            self.refuse(f"it calls {name}(), which gives something else each time", frame)
        elif name in _LOOKED_UP:
            code = frame.f_code
            if not any([type(constant) is str for constant in code.co_consts[1:]]):
                self.refuse(f"it calls {name}() with a name that is made as it runs", frame)

    def _is_from_outside(self, array: Any) -> bool:
        if MODES.plan is not self.walk:
            return False
        path = self.walk.path
        known = [outside.array for outside in path.staying]
        known += [tensor.array for tensor in (*self.walk.bound.values(), *self.arguments)]
        return is_part_of_any(array, known)

    # --- reads ------------------------------------------------------------------------------------------------------------------

    def _read(self, frame: Any) -> None:
        if not self._open:
            self.refuse("a value is read", frame)

    def _read_recorded(self, frame: Any) -> None:
        if self._open:  # of a tensor like this one
            return
        above = list(itertools.islice(frames_above(frame), _FAR))
        if any([outer.f_code.co_name == "computed" and outer.f_locals.get("name") in _QUESTIONS for outer in above]):
            return
        codes = [outer.f_code for outer in above]
        if Walk.settled.__code__ not in codes and Handed.__dynograd_write__.__code__ not in codes:
            self.refuse("a value is read", frame)

    def _check(self, frame: Any) -> None:
        array, check = frame.f_locals["array"], frame.f_locals["check"]
        if self._open:
            return
        if type(array) is ndarray:
            self._checked.append(array)
            numbers = [
                number
                for number, tensor in enumerate(self.walk.handed)
                if type(tensor) is not Handed and tensor.array is array
            ]
            where = ("value", numbers[0]) if numbers else ("array", array)
            self.checks.append(Check(self._now(), check, where))
        elif type(owner := getattr(array, "owner", None)) is Handed:
            self.checks.append(Check(self._now(), check, ("value", owner.value.number)))
            self._set_aside(frame)

    def _read_number(self, frame: Any) -> None:
        if frame.f_back.f_code not in (Walk.read.__code__, Walk._settled.__code__) and not self._open:
            self.refuse("a value is read", frame)

    def _read_version(self, frame: Any) -> None:
        asks = frame.f_back.f_code in (Walk.version_of.__code__, vars(Tensor)["_version"].fget.__code__)
        if asks and not self._open and self._is_from_outside(frame.f_locals["array"]):
            self.refuse("it asks how often a tensor was written", frame)

    def _give_gradient(self, frame: Any) -> None:
        if frame.f_locals["value"] is not None:
            self.refuse("it gives a tensor another gradient", frame)

    def _met_unknown(self, frame: Any) -> None:
        self.refuse(f"{frame.f_locals['op'].name}, whose result depends on values", frame)

    # --- tensors that are made of numbers ---------------------------------------------------------------------------------------

    def _makes(self, function: Any, draws: bool) -> Callable[[Any], None]:
        signature = inspect.signature(function)

        def handle(frame: Any) -> None:
            args: list[Any] = []
            kwargs: dict[str, Any] = {}
            values = dict(frame.f_locals)
            for name, parameter in signature.parameters.items():
                if parameter.kind is parameter.VAR_POSITIONAL:
                    args += values[name]
                elif parameter.kind is parameter.VAR_KEYWORD:
                    kwargs |= values[name]
                elif parameter.kind is parameter.KEYWORD_ONLY or any(
                    [other.kind is parameter.VAR_POSITIONAL for other in signature.parameters.values()]
                ):
                    kwargs[name] = values[name]
                else:
                    args.append(values[name])
            like = function.__name__.endswith("_like")
            if like:
                args[0:1] = [self._stand_in(tensor) for tensor in args[0:1]]
                kwargs |= {"input": self._stand_in(kwargs["input"])} if "input" in kwargs else {}
            known = not has_tensors([*args[like:], *[kwargs[name] for name in kwargs if name != "input"]])
            call = Call(function, tuple(args), kwargs, draws) if known else None
            self._open.append((frame, call))

        return handle

    def _makes_of_number(self, frame: Any) -> None:
        value = frame.f_locals["value"]
        call = Call(inplace._as_tensor, (value,), {}, False) if isinstance(value, (bool, int, float, complex)) else None
        self._open.append((frame, call))

    def _takes_in(self, frame: Any) -> None:
        """What the step has created gets a history: the record has a tensor of the same numbers."""
        tensor = frame.f_locals["target"]
        _, call = self.calls.pop(id(tensor), (None, None))
        is_plain = call is not None and not call.draws and not version(tensor.array)
        self._open.append((frame, call if is_plain else None))

    def _stand_in(self, tensor: Any) -> Tensor:
        """A tensor of the same shape, dtype and layout."""
        recorded = isinstance(tensor, Handed)
        return Tensor.wrap(numpy.empty_like(self.walk.path.arrays[tensor.value.number] if recorded else tensor.array))

    def _made(self, frame: Any, call: Call | None, result: Any) -> None:
        if self._open or call is None or type(result) is not Tensor or result._requires_grad:
            return
        if call.kwargs.get("generator") is not None or call.kwargs.get("out") is not None:
            return
        self.calls[id(result)] = result, call
        if call.draws:
            self.draws.append(("call", call))

    def _key(self, frame: Any) -> None:
        if frame.f_locals["self"] is not default_generator:
            self.refuse("it draws from a generator of its own", frame)
        elif not self._open:
            count = frame.f_locals["count"]
            self.draws.append(("key", (count, default_generator.state())))

    def _step(self, frame: Any) -> None:
        self._note_gradients()
        self._set_aside(frame)

    def _note_gradients(self) -> None:
        without = [leaf for leaf, _ in self.places.gradients if leaf._grad is None]
        self.without.append((self._now(), without))

    def _clear(self, frame: Any) -> None:
        if not frame.f_locals["set_to_none"]:
            self.refuse("gradients are filled with zeros in place", frame)

    def _changes_gradients(self, function: Callable[..., Any]) -> Callable[[Any], None]:
        def handle(frame: Any) -> None:
            names = inspect.signature(function).parameters
            self._note_gradients()
            self._clipping = function, {name: frame.f_locals[name] for name in names if name != "parameters"}
            self._set_aside(frame)

        return handle

    def _clipped(self, result: Any) -> None:
        (function, kwargs), self._clipping = self._clipping, None
        if has_tensors(list(kwargs.values())):
            self.refuse(f"{function.__name__} is called with a number that is a tensor")
        self.again.append(Again(self._now(), function, self._listed, kwargs, result))

    # --- writes -----------------------------------------------------------------------------------------------------------------

    def _write(self, frame: Any) -> None:
        target = frame.f_locals["tensor"]
        if isinstance(target, Handed):
            return  # the walk ends
        outermost = None
        for outer in frames_above(frame):
            code = outer.f_code
            if code.co_name == "before_rebinding":
                self.refuse("a tensor is given other memory", frame)
                return
            if first_argument(outer) is target:
                if method_of(outer) is not None and is_library(outer.f_globals.get("__name__", "")):
                    outermost = outer
            elif outermost is not None and code.co_name not in ("ask", "_other_write"):
                break
        if outermost is None:
            self.refuse("a write in place that is not known", frame)
            return
        method: Any = method_of(outermost)
        if self.writes and self.writes[-1].target is target and self._last_frame is outermost:
            return  # the same write asks several times
        self._last_frame = outermost
        bound = bound_arguments(outermost)
        if MODES.grad and (target._requires_grad or has_gradients([*bound[0], *bound[1].values()])):
            self.refuse("a write in place that has a gradient", frame)
        elif id(target) in self.calls:
            self.refuse("a tensor that the step has made of numbers is written in place", frame)
        else:
            numbers = {id(tensor): number for number, tensor in enumerate(self.walk.handed)}
            args = tuple([described(value, numbers) for value in bound[0]])
            kwargs = {name: described(value, numbers) for name, value in bound[1].items()}
            self.writes.append(Write(self._now(), target, method, args, kwargs))
