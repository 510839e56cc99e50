"""PyTorch's protocol `__torch_function__`: classes and modes that take functions over (`torch.overrides`).

>>> class Metres(dynograd.Tensor):
...     pass
>>> type(Metres([1.0, 2.0]).sum() * 2).__name__
'Metres'
"""

from __future__ import annotations

import functools
import types
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.errors import user_level
from dynograd.interpreter.override_protocol import STATE, dispatch, is_overriding, name_of, overriding_among
from dynograd.interpreter.overriding import keeps_type
from dynograd.overrides.modes import BaseTorchFunctionMode, TorchFunctionMode
from dynograd.overrides.tables import SPACES, functions_of, methods, module_of, properties
from dynograd.tensor.tensor import Tensor

__all__ = [
    "BaseTorchFunctionMode",
    "TorchFunctionMode",
    "enable_reentrant_dispatch",
    "get_default_nowrap_functions",
    "get_ignored_functions",
    "get_overridable_functions",
    "get_testing_overrides",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "redispatch_function",
    "resolve_name",
    "wrap_torch_function",
]


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether one of these is of a type that takes functions over, or a mode does.

    Args:
        relevant_args: any objects.
    Returns:
        True or False.

    >>> dynograd.overrides.has_torch_function((tensor([1.0]), 2))
    False
    """
    if STATE.modes and not STATE.modes_off:
        return True
    return not STATE.off and any([is_overriding(type(argument)) for argument in relevant_args])


def has_torch_function_unary(relevant_arg: object) -> bool:
    """`has_torch_function` of one value.

    Args:
        relevant_arg: any object.
    Returns:
        True or False.

    >>> dynograd.overrides.has_torch_function_unary(tensor([1.0]))
    False
    """
    return has_torch_function((relevant_arg,))


def has_torch_function_variadic(*relevant_args: object) -> bool:
    """`has_torch_function` of several values.

    Args:
        *relevant_args: any objects.
    Returns:
        True or False.

    >>> dynograd.overrides.has_torch_function_variadic(tensor([1.0]), 2)
    False
    """
    return has_torch_function(relevant_args)


def handle_torch_function(public_api: Callable, relevant_args: Iterable[Any], *args: object, **kwargs: object) -> Any:
    """What the mode or the types among `relevant_args` make of `public_api(*args, **kwargs)`; the type of a subclass is asked first.

    Args:
        public_api: the function, as users call it.
        relevant_args: those of its arguments that may be of such types.
        *args, **kwargs: all of its arguments.
    Returns:
        What the mode or type returned.
    Raises:
        TypeError: all of them declined.

    >>> class Shape:
    ...     def __init__(self, *sizes):
    ...         self.sizes = sizes
    ...     @classmethod
    ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
    ...         return f"{func.__name__} of {args[0].sizes}"
    >>> def area(x):
    ...     if dynograd.overrides.has_torch_function_unary(x):
    ...         return dynograd.overrides.handle_torch_function(area, (x,), x)
    ...     return x.prod()
    >>> area(Shape(2, 3)), dynograd.sum(Shape(4))
    ('area of (2, 3)', 'sum of (4,)')
    """
    result = overriding_among(relevant_args)
    if not result and not STATE.modes:
        raise TypeError(
            f"handle_torch_function: none of the arguments of {name_of(public_api)} has a __torch_function__ "
            f"({', '.join([type(argument).__name__ for argument in relevant_args])}). Ask has_torch_function first."
        )
    return dispatch(public_api, result, args, kwargs)


redispatch_function = handle_torch_function


def wrap_torch_function(dispatcher: Callable) -> Callable:
    """A decorator of functions that can be taken over: `dispatcher`, called with the same arguments, gives those that matter.

    Args:
        dispatcher: a function of the same arguments that gives a tuple.
    Returns:
        A decorator.

    >>> @dynograd.overrides.wrap_torch_function(lambda x: (x,))
    ... def double(x):
    ...     return 2 * x
    >>> double(tensor(3))
    tensor(6)
    """

    def decorate(function: Callable) -> Callable:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapped

    return decorate


def is_tensor_like(inp: object) -> bool:
    """Whether it is a tensor, or of a type with `__torch_function__`.

    Args:
        inp: any object.
    Returns:
        True or False.

    >>> dynograd.overrides.is_tensor_like(tensor(1)), dynograd.overrides.is_tensor_like([1])
    (True, False)
    """
    return isinstance(inp, Tensor) or hasattr(inp, "__torch_function__")


@functools.cache
def get_overridable_functions() -> dict[Any, list[Callable]]:
    """Where -> the functions there that types can take over.

    Returns:
        A dict from a module or class to a list of functions.

    >>> dynograd.mean in dynograd.overrides.get_overridable_functions()[dynograd]
    True
    """
    result: dict[Any, list[Callable]] = {
        module_of(space): list(functions_of(space, of_tensors=True).values()) for space in SPACES
    }
    result[Tensor] = [*methods().values(), *[function.__get__ for function in properties().values()]]
    return result


@functools.cache
def get_ignored_functions() -> set[Callable]:
    """Functions that types cannot take over, most of which take no tensor (modes see those too).

    Returns:
        A set.

    >>> dynograd.is_grad_enabled in dynograd.overrides.get_ignored_functions()
    True
    """
    result = set()
    for space in SPACES:
        of_tensors = functions_of(space, of_tensors=True)
        result |= {function for name, function in functions_of(space).items() if name not in of_tensors}
    return result


@functools.cache
def get_testing_overrides() -> dict[Callable, Callable]:
    """For each function that can be taken over, one with the same parameters that gives -1.

    Returns:
        A dict.

    >>> dynograd.overrides.get_testing_overrides()[dynograd.exp](tensor(1.0))
    -1
    """

    def standing_for(function: Callable) -> Callable:
        def stand_in(*args: Any, **kwargs: Any) -> int:
            return -1

        return functools.wraps(function)(stand_in) if isinstance(function, types.FunctionType) else stand_in

    return {function: standing_for(function) for listed in get_overridable_functions().values() for function in listed}


def get_default_nowrap_functions() -> set[Callable]:
    """Functions whose results Tensor's own `__torch_function__` leaves of the type they are, such as `Tensor.grad.__get__`.

    Returns:
        A set.

    >>> dynograd.Tensor.grad.__get__ in dynograd.overrides.get_default_nowrap_functions()
    True
    """
    return keeps_type()


def is_tensor_method_or_property(func: Callable) -> bool:
    """Whether `func` is a method of Tensor, or reads or writes an attribute of it.

    Args:
        func: a function.
    Returns:
        True or False.

    >>> dynograd.overrides.is_tensor_method_or_property(dynograd.Tensor.shape.__get__)
    True
    """
    return func in _members() or getattr(func, "__name__", "") in ("__get__", "__set__")


@functools.cache
def _members() -> set[Any]:
    return set(get_overridable_functions()[Tensor])


def resolve_name(f: Callable) -> str | None:
    """The name by which users know a function; None for one that is not ours.

    Args:
        f: a function.
    Returns:
        A text or None.

    >>> dynograd.overrides.resolve_name(dynograd.mean), dynograd.overrides.resolve_name(dynograd.Tensor.shape.__get__)
    ('dynograd.mean', 'dynograd.Tensor.shape.__get__')
    """
    get_overridable_functions(), get_ignored_functions()  # whoever is asked for them names them
    name = name_of(f)
    return name if name.startswith("dynograd.") else None


class enable_reentrant_dispatch:
    """A context for PyTorch's `__torch_dispatch__`, which is not here: there is nothing to enable, and a warning says so.

    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"), dynograd.overrides.enable_reentrant_dispatch():
    ...     x = tensor([1.0]) + 1
    """

    def __enter__(self) -> None:
        warnings.warn(
            "enable_reentrant_dispatch does nothing: there is no __torch_dispatch__ here.", stacklevel=user_level()
        )

    def __exit__(self, *error: Any) -> None:
        pass


_show_plainly(globals())
