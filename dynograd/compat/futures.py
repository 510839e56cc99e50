"""`torch.futures`: a result that comes later, and work on several of them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["Future", "collect_all", "wait_all"]

T = TypeVar("T")
_LOG = logging.getLogger(__name__)


class Future(Generic[T]):
    """A value that another thread, or a callback, sets later.

    Args:
        devices: kept for compatibility.

    >>> future = dynograd.futures.Future()
    >>> doubled = future.then(lambda done: 2 * done.value())
    >>> future.set_result(3)
    >>> doubled.wait()
    6
    """

    def __init__(self, *, devices: object = None) -> None:
        self._set = threading.Event()
        self._lock = threading.Lock()
        self._value: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[tuple[Callable[[Future], Any], Future | None]] = []

    def done(self) -> bool:
        """Whether there is a result, or an error."""
        return self._set.is_set()

    def wait(self) -> T:
        """The result, once it is there; an error is raised."""
        self._set.wait()
        if self._error is not None:
            raise self._error
        return self._value

    def value(self) -> T:
        """The result.

        Raises:
            RuntimeError: it is not there yet.
        """
        if not self.done():
            raise RuntimeError("Future.value: the result is not there yet. Use wait().")
        return self.wait()

    def set_result(self, result: T) -> None:
        """Sets the result and runs the callbacks.

        Args:
            result: any object.
        """
        self._finish(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Sets an error, which `wait` raises.

        Args:
            result: the error.
        """
        if not isinstance(result, BaseException):
            raise TypeError(f"Future.set_exception: expected an exception, got {type(result).__name__} ({result!r}).")
        self._finish(None, result)

    def _finish(self, value: Any, error: BaseException | None) -> None:
        with self._lock:
            if self._set.is_set():
                raise RuntimeError("Future: the result was set before. A future is set once; make another.")
            self._value, self._error = value, error
            self._set.set()
            waiting, self._callbacks = self._callbacks, []
        for callback, following in waiting:
            self._run(callback, following)

    def _run(self, callback: Callable[[Future], Any], following: Future | None) -> None:
        """Calls it. Its error goes to the future that follows, or is logged: the thread that sets the result is not the one to handle it."""
        try:
            result = callback(self)
        except BaseException as error:
            if following is not None:
                following.set_exception(error)
            elif isinstance(error, Exception):
                _LOG.error(
                    "Future: an error in a callback is ignored. Use then() for a future that has it.", exc_info=error
                )
            else:
                raise
        else:
            if following is not None:
                following.set_result(result)

    def _when_done(self, callback: Callable[[Future], Any], following: Future | None) -> None:
        with self._lock:
            if not self._set.is_set():
                self._callbacks.append((callback, following))
                return
        self._run(callback, following)

    def add_done_callback(self, callback: Callable[[Future], Any]) -> None:
        """Runs `callback(self)` when the result is there; at once if it is. Its errors are logged and no more.

        Args:
            callback: a function of the future.
        """
        self._when_done(callback, None)

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """A future of what `callback(self)` gives when this one's result is there.

        Args:
            callback: a function of the future.
        Returns:
            A `Future`.
        """
        following: Future = Future()
        self._when_done(callback, following)
        return following


def collect_all(futures: list[Future]) -> Future[list[Future]]:
    """A future of the list of these futures, set when all of them are.

    Args:
        futures: a list.
    Returns:
        A `Future`.

    >>> one, two = dynograd.futures.Future(), dynograd.futures.Future()
    >>> both = dynograd.futures.collect_all([one, two])
    >>> one.set_result(1)
    >>> two.set_result(2)
    >>> [future.value() for future in both.wait()]
    [1, 2]
    """
    every: Future[list[Future]] = Future()
    left = [len(futures)]
    lock = threading.Lock()

    def one_less(_: Future) -> None:
        with lock:
            left[0] -= 1
            last = not left[0]
        if last:
            every.set_result(futures)

    if not futures:
        every.set_result(futures)
    for future in futures:
        future.add_done_callback(one_less)
    return every


def wait_all(futures: list[Future]) -> list[Any]:
    """The results of all, in order; the first error is raised.

    Args:
        futures: a list.
    Returns:
        A list.

    >>> future = dynograd.futures.Future()
    >>> future.set_result(3)
    >>> dynograd.futures.wait_all([future])
    [3]
    """
    return [future.wait() for future in collect_all(futures).wait()]
