"""The parameters of what a graph calls: arguments with their defaults filled in."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from dynograd.nn.module import Module

__all__ = ["ArgsKwargsPair", "get_signature_for_torch_op", "normalize_function", "normalize_module"]


class ArgsKwargsPair(NamedTuple):
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def get_signature_for_torch_op(op: Callable, return_schemas: bool = False) -> list | tuple | None:
    """The signatures of a function as a list; None for those that have none."""
    try:
        signatures = [inspect.signature(op)]
    except (TypeError, ValueError):
        return (None, None) if return_schemas else None
    return (signatures, None) if return_schemas else signatures


def normalize_function(
    target: Callable,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    arg_types: tuple[Any, ...] | None = None,
    kwarg_types: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """The arguments of a call of a function, defaults filled in; None where its parameters are not known, or not met.

    >>> from dynograd.fx.operator_schemas import normalize_function
    >>> normalize_function(dynograd.nn.functional.relu, (1,), normalize_to_only_use_kwargs=True)
    ArgsKwargsPair(args=(), kwargs={'input': 1, 'inplace': False})
    """
    signatures = get_signature_for_torch_op(target)
    if not signatures:
        return None
    return _normalized(signatures[0], args, kwargs or {}, normalize_to_only_use_kwargs)


def normalize_module(
    root: Module,
    target: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """The arguments of a call of a module in `root`, defaults filled in.

    Raises:
        RuntimeError: there is none at that path.
    """
    try:
        module = root.get_submodule(target)
    except AttributeError as error:
        raise RuntimeError(
            f"Tried to normalize node with target {target} but root did not have that target!"
        ) from error
    signature = inspect.signature(module.forward)
    return _normalized(signature, args, kwargs or {}, normalize_to_only_use_kwargs)


def _normalized(
    signature: inspect.Signature, args: tuple, kwargs: dict[str, Any], as_kwargs: bool
) -> ArgsKwargsPair | None:
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return None
    bound.apply_defaults()
    if not as_kwargs:
        return ArgsKwargsPair(bound.args, bound.kwargs)
    if any([parameter.kind is inspect.Parameter.VAR_POSITIONAL for parameter in signature.parameters.values()]):
        return ArgsKwargsPair(bound.args, bound.kwargs)
    return ArgsKwargsPair((), dict(bound.arguments))
