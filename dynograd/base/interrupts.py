"""Contexts that Ctrl-C leaves off, whenever it comes."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Generic, TypeVar

__all__ = ["InterruptSafe"]

Entered = TypeVar("Entered")


class InterruptSafe(Generic[Entered]):
    """A context of which an interrupt or a MemoryError amid its beginning or its end leaves nothing on.

    Python looks for signals when a function begins, and behind each call. So `_leave` is called again where it is interrupted, and must be able to
    begin anew wherever that was; it also ends what `_enter` has only half begun.
    """

    __slots__ = ()

    @abstractmethod
    def _enter(self) -> Entered:
        """Begins it; what `with` gives."""

    @abstractmethod
    def _leave(self) -> None:
        """Ends what of it has begun and not ended yet."""

    def __enter__(self) -> Entered:
        try:
            return self._enter()
        except BaseException:
            self._leave()
            raise

    def __exit__(self, *error: Any) -> None:
        try:
            self._leave()
        except BaseException:
            self._leave()
            raise
