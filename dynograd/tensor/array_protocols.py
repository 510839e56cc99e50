"""What other array libraries ask of a tensor: its namespace in the array API standard, and a move to a device in the standard's words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynograd.tensor.tensor import Tensor

__all__ = ["install_protocols"]

_namespace: list[Callable[[], Any]] = []
VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")


def array_namespace(self: Tensor, /, *, api_version: str | None = None) -> Any:
    """`dynograd.array_api`, the array API standard's functions over tensors.

    Raises:
        ValueError: a version of the standard that it does not have.
    """
    if api_version is not None and api_version not in VERSIONS:
        raise ValueError(
            f"__array_namespace__: array API version {api_version!r} is not supported; expected one of {', '.join(VERSIONS)}."
        )
    return _namespace[0]()


def to_device(self: Tensor, device: Any, /, *, stream: Any = None) -> Tensor:
    """The tensor in the memory of `device`; itself when it lies there.

    Raises:
        ValueError: a `stream`, which dynograd takes from `dynograd.cuda.stream` instead.
    """
    if stream is not None:
        raise ValueError(f"to_device: got stream={stream!r}. Use `with dynograd.cuda.stream(...)` around the call.")
    return self.to(device)


# NumPy's functions that a tensor answers itself -> its method: names of the protocol, of which two differ.
_REDUCTIONS = {"amax": "amax", "amin": "amin", "all": "all", "any": "any", "max": "amax", "mean": "mean", "min": "amin"}
_REDUCTIONS |= {"prod": "prod", "std": "std", "sum": "sum", "var": "var"}


def array_function(self: Tensor, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """What a function of NumPy makes of a tensor: reductions are the tensor's own, ragged or not; others go on as NumPy has them.

    >>> import numpy
    >>> numpy.sum(dynograd.ragged_tensor([[1.0, 2.0], [3.0]]))
    tensor(6.)
    """
    arguments = {name: value for name, value in kwargs.items() if value is not None}
    name = _REDUCTIONS.get(function.__name__)
    if (
        name is None
        or len(args) > 2
        or not isinstance(args[0], Tensor)
        or not arguments.keys() <= _OPTIONS[name in _SPREADS]
    ):
        return function._implementation(*args, **kwargs)
    axis = args[1] if len(args) > 1 else arguments.pop("axis", None)
    options = {
        {"keepdims": "keepdim", "ddof": "correction"}.get(word, word): value for word, value in arguments.items()
    }
    if name in _SPREADS:
        options.setdefault("correction", 0)
    if axis is not None:
        options["dim"] = axis
    elif not options.get("keepdim"):
        options.pop("keepdim", None)
    return getattr(args[0], name)(**options)


_SPREADS = ("std", "var")
_OPTIONS = ({"axis", "dtype", "keepdims"}, {"axis", "keepdims", "ddof"})


def install_protocols(namespace: Callable[[], Any]) -> None:
    """Puts `__array_namespace__` and `to_device` on Tensor. `namespace` gives the module, which is a higher layer and loaded when asked for."""
    _namespace[:] = [namespace]
    Tensor.__array_namespace__ = array_namespace  # type: ignore[assignment, method-assign]
    Tensor.__array_function__ = array_function  # type: ignore[assignment, method-assign]
    Tensor.to_device = to_device  # type: ignore[assignment, method-assign]
