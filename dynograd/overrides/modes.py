"""Modes: contexts that take over every function called in them, on plain tensors too."""

from __future__ import annotations

from typing import Any, Self

from dynograd.interpreter.override_protocol import STATE
from dynograd.overrides.guards import modes

__all__ = ["BaseTorchFunctionMode", "TorchFunctionMode"]


class TorchFunctionMode:
    """A context in which `__torch_function__(func, types, args, kwargs)` of a subclass is called in the place of every function.

    That holds for functions on tensors, methods and attributes of tensors, and functions that make tensors, in this thread. Inside
    `__torch_function__` the mode is off. Modes nest; the innermost is asked first, and what it calls is seen by the next.

    >>> class Counting(dynograd.overrides.TorchFunctionMode):
    ...     calls = 0
    ...     def __torch_function__(self, func, types, args=(), kwargs=None):
    ...         self.calls += 1
    ...         return func(*args, **(kwargs or {}))
    >>> with Counting() as counting:
    ...     x = dynograd.zeros(2) + 1
    >>> counting.calls
    2
    """

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        raise NotImplementedError(f"{type(self).__name__}: a TorchFunctionMode defines __torch_function__.")

    def __enter__(self) -> Any:
        modes.turn_on()
        STATE.modes = [*STATE.modes, self]
        return self

    def __exit__(self, *error: Any) -> None:
        STATE.modes = STATE.modes[:-1]
        modes.turn_off()

    @classmethod
    def push(cls, *args: object, **kwargs: object) -> Self:
        """A new instance, to be entered (PyTorch's older spelling).

        Args:
            *args, **kwargs: for the class.
        Returns:
            The instance.
        """
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that calls each function as it is.

    >>> with dynograd.overrides.BaseTorchFunctionMode():
    ...     x = tensor([1.0]) + 1
    """

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        return func(*args, **(kwargs or {}))
