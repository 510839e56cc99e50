"""Thread-local modes: whether the tape records, whether it is watched for NaN, and the context managers that switch them."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable
from typing import Any, Self, TypeVar, cast, overload

from dynograd.autograd.nodes import remember_line
from dynograd.base import stubs

__all__ = [
    "detect_anomaly",
    "enable_grad",
    "inference_mode",
    "is_anomaly_enabled",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
]


class Modes(threading.local):
    """`grad` is 0 (not recording), 1 (recording) or 2 (recording, and each new node is shown to `watchers`)."""

    grad = 1
    anomaly = False
    check_nan = True
    inference = False
    recorder: Any = None
    """What takes calls of ops down instead of running them: an `autobatch` scope of this thread."""
    plan: Any = None
    """What notes a step for `compile`, or compares it with its record."""
    sequences: Any = None
    """What recorders on this thread ask for the sequences of ops that they know: a compiled function's scopes."""
    closures: Any = None
    """What compiles the closures of optimizers on this thread: those of a compiled function."""
    running: Any = None
    """The recorder whose groups run on this thread now."""
    task: Any = None
    """The backward pass that is running on this thread."""
    honest = False
    """Whether `honest_where` is on."""
    below_autograd = 0
    """How many operators of a program's own (`library`) are running below their gradients."""
    watchers: tuple[Callable[[Any], None], ...] = ()
    """Called with each node when it is recorded: anomaly mode, hooks of saved tensors, `honest_where`."""


MODES = Modes()


def is_grad_enabled() -> bool:
    """Whether ops record the tape on this thread.

    Returns:
        True or False.

    >>> with dynograd.no_grad():
    ...     dynograd.is_grad_enabled()
    False
    """
    return MODES.grad != 0


def is_inference_mode_enabled() -> bool:
    """Whether this thread is inside `inference_mode`.

    Returns:
        True or False.

    >>> with dynograd.inference_mode():
    ...     dynograd.is_inference_mode_enabled()
    True
    """
    return MODES.inference


def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on: see `detect_anomaly`.

    Returns:
        True or False.

    >>> dynograd.is_anomaly_enabled()
    False
    """
    return MODES.anomaly


def recording() -> int:
    """What `MODES.grad` is while ops are recorded."""
    return 2 if MODES.watchers else 1


def show(node: Any) -> None:
    """Shows a new node to all who watch; called when `MODES.grad` is 2."""
    for watcher in MODES.watchers:
        watcher(node)


def watch(watcher: Callable[[Any], None], first: bool = False) -> None:
    """From now on `watcher` sees each node that is recorded on this thread, after (or before) the others."""
    MODES.watchers = (watcher, *MODES.watchers) if first else (*MODES.watchers, watcher)
    if MODES.grad:  # both together: nothing is called between, where an interrupt could come
        MODES.grad = 2


def unwatch(watcher: Callable[[Any], None]) -> None:
    """Takes away the latest such `watcher`."""
    watchers = list(MODES.watchers)
    for place in reversed(range(len(watchers))):
        if watchers[place] is watcher:
            del watchers[place]
            break
    left, grad = tuple(watchers), 2 if watchers else 1
    MODES.watchers = left  # both together: nothing is called between, where an interrupt could come
    if MODES.grad:
        MODES.grad = grad


F = TypeVar("F", bound=Callable[..., Any])


class _Mode:
    """A context manager that is a decorator too, also of generator functions, which switch it at each step."""

    def __call__(self, orig_func: F) -> F:
        if inspect.isclass(orig_func):
            raise TypeError(f"{type(self).__name__}: decorate a function, not the class {orig_func.__name__}.")
        if inspect.isgeneratorfunction(orig_func):

            @functools.wraps(orig_func)
            def generate(*args: Any, **kwargs: Any) -> Any:
                generator = orig_func(*args, **kwargs)
                step: Callable[[Any], Any] = generator.send
                message: Any = None
                try:
                    while True:
                        with self.clone():
                            value = step(message)
                        try:
                            step, message = generator.send, (yield value)
                        except GeneratorExit:
                            with self.clone():
                                generator.close()
                            raise
                        except BaseException as error:
                            step, message = generator.throw, error
                except StopIteration as stop:
                    return stop.value

            return cast(F, generate)

        @functools.wraps(orig_func)
        def call(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return orig_func(*args, **kwargs)

        return cast(F, call)

    def clone(self) -> Any:
        """A new context manager of the same mode.

        Returns:
            Another one.
        """
        return type(self)()

    def __enter__(self) -> Any:
        raise NotImplementedError

    def __exit__(self, *error: Any) -> None:
        raise NotImplementedError


class no_grad(_Mode):
    """Ops inside do not record the tape: results have `requires_grad=False`, and nothing is kept for backward.

    A context manager and a decorator, of this thread.

    Args:
        orig_func: a function to decorate (`@no_grad`); as a context manager nothing.

    >>> x = tensor([1.0], requires_grad=True)
    >>> with dynograd.no_grad():
    ...     (x * 2).requires_grad
    False
    """

    @overload
    def __new__(cls, orig_func: F) -> F: ...  # type: ignore[misc]
    @overload
    def __new__(cls, orig_func: None = None) -> Self: ...
    def __new__(cls, orig_func: Any = None) -> Any:
        mode = super().__new__(cls)
        return mode if orig_func is None else mode(orig_func)

    def __enter__(self) -> None:
        self.previous = MODES.grad
        MODES.grad = 0

    def __exit__(self, *error: Any) -> None:
        MODES.grad = self.previous


class enable_grad(_Mode):
    """Ops inside record the tape, also within `no_grad`. A context manager and a decorator, of this thread.

    Args:
        orig_func: a function to decorate (`@enable_grad`); as a context manager nothing.

    >>> x = tensor([1.0], requires_grad=True)
    >>> with dynograd.no_grad(), dynograd.enable_grad():
    ...     (x * 2).requires_grad
    True
    """

    @overload
    def __new__(cls, orig_func: F) -> F: ...  # type: ignore[misc]
    @overload
    def __new__(cls, orig_func: None = None) -> Self: ...
    def __new__(cls, orig_func: Any = None) -> Any:
        mode = super().__new__(cls)
        return mode if orig_func is None else mode(orig_func)

    def __enter__(self) -> None:
        self.previous = MODES.grad
        MODES.grad = recording()

    def __exit__(self, *error: Any) -> None:
        MODES.grad = self.previous


class set_grad_enabled(_Mode):
    """Turns recording on or off, at once; as a context manager it puts the old state back on exit.

    Args:
        mode: whether ops record the tape.

    >>> x = tensor([1.0], requires_grad=True)
    >>> with dynograd.set_grad_enabled(False):
    ...     (x * 2).requires_grad
    False
    """

    def __init__(self, mode: bool) -> None:
        self.previous = MODES.grad
        self.mode = bool(mode)
        MODES.grad = recording() if mode else 0

    def __call__(self, orig_func: F) -> F:
        MODES.grad = self.previous
        return super().__call__(orig_func)

    def clone(self) -> Any:
        """A new context manager of the same mode.

        Returns:
            A `set_grad_enabled`.
        """
        return set_grad_enabled(self.mode)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        MODES.grad = self.previous


class inference_mode(_Mode):
    """Like `no_grad`, for code whose results never meet autograd again. A context manager and a decorator, of this thread.

    Args:
        mode: False switches it off inside another one; or a function to decorate.

    >>> layer = dynograd.nn.Linear(2, 1)
    >>> with dynograd.inference_mode():
    ...     layer(dynograd.ones(2)).requires_grad
    False
    """

    @overload
    def __new__(cls, mode: F) -> F: ...  # type: ignore[misc]
    @overload
    def __new__(cls, mode: bool = True) -> Self: ...
    def __new__(cls, mode: Any = True) -> Any:
        if callable(mode):
            return cls()(mode)
        return super().__new__(cls)

    def __init__(self, mode: Any = True) -> None:
        self.mode = mode

    def clone(self) -> Any:
        """A new context manager of the same mode.

        Returns:
            An `inference_mode`.
        """
        return inference_mode(self.mode)

    def __enter__(self) -> None:
        self.previous = MODES.grad, MODES.inference
        MODES.grad = 0 if self.mode else recording()
        MODES.inference = bool(self.mode)

    def __exit__(self, *error: Any) -> None:
        MODES.grad, MODES.inference = self.previous


set_multithreading_enabled = stubs.function("autograd.grad_mode.set_multithreading_enabled")


class set_detect_anomaly:
    """Turns anomaly mode on or off, at once: see `detect_anomaly`.

    Args:
        mode: on or off.
        check_nan: stop at the first gradient that is NaN.

    >>> with dynograd.autograd.set_detect_anomaly(True):
    ...     dynograd.is_anomaly_enabled()
    True
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.previous = MODES.anomaly, MODES.check_nan
        _set_anomaly(bool(mode), check_nan)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        _set_anomaly(*self.previous)


def _set_anomaly(mode: bool, check_nan: bool) -> None:
    if mode != MODES.anomaly:
        (watch if mode else unwatch)(remember_line)
    MODES.anomaly, MODES.check_nan = mode, check_nan


class detect_anomaly(set_detect_anomaly):
    """Inside, each op remembers the user's line; backward names it on errors and stops at the first NaN gradient.

    Args:
        check_nan: stop at the first gradient that is NaN.
    Raises:
        GradientError: in `backward`, a gradient is NaN.

    >>> x = tensor([0.0], requires_grad=True)
    >>> with dynograd.autograd.detect_anomaly():
    ...     y = (x / x).sum()
    ...     y.backward()
    Traceback (most recent call last):
    dynograd.errors.GradientError: ...
    """

    def __init__(self, check_nan: bool = True) -> None:
        super().__init__(True, check_nan)
