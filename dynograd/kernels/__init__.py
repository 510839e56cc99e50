"""Kernels by family, name and backend: `kernel("softmaxes", "softmax_forward", x)` is `softmax_forward` in `norm/softmaxes_cpu.py`.

A kernel computes on the arrays it is given. It checks nothing (the op has), allocates only its result and knows no gradients.
A backend's file is imported on the first use of one of its kernels. Each folder's `__init__.py` says what lives there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from inspect import signature
from os import listdir, scandir
from types import ModuleType
from typing import Any

from numpy import generic

from dynograd.arrays import backend_of, copy, cuda_arrays, meta_arrays, ndarray
from dynograd.base.devices import cpu, device
from dynograd.cuda import driver

_found: dict[tuple[str, str, type], Callable[..., Any]] = {}
# The slot of the table of ops, for backends that make their elementwise kernels of formulas: `forward(name)`, `backward(name)`
# give (operands, statics, trees, truths, promotion) or None; `names()`.
op_formulas: list[Any] = []


def kernel(family: str, name: str, like: Any) -> Callable[..., Any]:
    """The kernel `name` of `family` for the backend of the array `like`, or for a device: a GPU's kernels that make arrays
    take it as the keyword `device`.
    """
    try:
        return _found[family, name, int if like is cpu else type(like)]
    except KeyError:
        if type(like) is device:
            if like.type == "cuda":
                return partial(kernel(family, name, _any_cuda_array), device=like)
            if like.type == "meta":
                return _without_values(family, name)
            return kernel(family, name, 0)
        chosen = getattr(type(like), "__dynograd_kernel__", None)
        if chosen is not None:  # a stand-in for an array, without values
            return chosen(family, name)
        return _load(family, name, type(like), backend_of(like))


class KernelOfType(dict[type, Callable[..., Any]]):
    """`kernel` of one family and name by the type of the array, `SPREAD[type(g)](g, ...)`: for what is called most, one look-up."""

    def __init__(self, family: str, name: str) -> None:
        self.family, self.name = family, name

    def __missing__(self, kind: type) -> Callable[..., Any]:
        like = kind(0) if issubclass(kind, (ndarray, generic)) else object.__new__(kind)
        function = self[kind] = kernel(self.family, self.name, like)
        return function


def module_of(stem: str) -> ModuleType:
    """The module of that name, in whichever folder it lies.

    Raises:
        ModuleNotFoundError: there is none.
    """
    rooms = _rooms()
    if stem not in rooms:
        raise ModuleNotFoundError(f"kernels: there is no {stem}.py", name=f"dynograd.kernels.{stem}")
    return import_module(f"dynograd.kernels.{rooms[stem]}.{stem}")


@cache
def _rooms() -> dict[str, str]:
    """The folder of each module."""
    return {
        file.removesuffix(".py"): room.name
        for room in scandir(__path__[0])
        if room.is_dir()
        for file in listdir(room.path)
        if file.endswith(".py")
    }


_SIZED_BY_VALUES = ("lookups.nonzero", "lookups.unique", "lookups.unique_consecutive", "indexing.count_true")
"""Kernels of which the values, and not the shapes alone, say how large the results are."""


def _without_values(family: str, name: str) -> Callable[..., Any]:
    """A kernel that makes arrays, for the device "meta": random ones are not drawn."""
    function = kernel(family, name, 0)
    taken = signature(function)

    def made(*args: Any, **kwargs: Any) -> Any:
        bound = taken.bind(*args, **kwargs).arguments
        if family == "random" and {"shape", "dtype"} <= set(bound):
            return meta_arrays.empty(bound["shape"], bound["dtype"])
        return meta_arrays.like(function(*args, **kwargs))

    return made


def _load(family: str, name: str, array_type: type, backend: str) -> Callable[..., Any]:
    if backend == "meta":
        if name == "copied":
            return copy
        if f"{family}.{name}" in _SIZED_BY_VALUES:
            raise meta_arrays.no_values(name)
        by_formula = getattr(module_of(f"{family}_meta"), name, None) if f"{family}_meta" in _rooms() else None
        if by_formula is not None:
            result = _found[family, name, array_type] = by_formula
            return result
        outline = meta_arrays.elementwise if family == "elementwise" else meta_arrays.outlined
        if f"{family}.{name}" in ("indexing.index_forward", "indexing.result_shape"):
            outline = meta_arrays.outlined_without_masks
        function = _found[family, name, array_type] = outline(kernel(family, name, 0))
        return function
    if backend == "cuda":
        from dynograd.kernels.build.through_host_cuda import FAMILIES, through_host

        if family in FAMILIES:
            result = _found[family, name, array_type] = through_host(name, kernel(family, name, 0))
            return result
    try:
        result = getattr(module_of(f"{family}_{backend}"), name)
    except (ModuleNotFoundError, AttributeError) as error:
        if isinstance(error, ModuleNotFoundError) and not str(error.name).startswith("dynograd."):
            raise  # a package that the backend needs
        raise NotImplementedError(f"{name} has no {backend} kernel; x.cpu() works.") from None
    if backend == "cuda" and family not in (
        "elementwise",
        "optimizers",
        "recurrent",
    ):  # these take arrays of the CPU too
        result = _on_one_device(family, name, result)
    _found[family, name, array_type] = result
    return result


def _on_one_device(family: str, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel of a GPU: arrays of the CPU beside others are an error, complex numbers go to the CPU's kernel."""
    from dynograd.kernels.build.through_host_cuda import NoComplexKernelError, through_host

    of_complex: list[Callable[..., Any]] = []

    def checked(*args: Any, **kwargs: Any) -> Any:
        for argument in args:
            if type(argument) is cuda_arrays.ndarray:
                raise cuda_arrays.mixed_devices(name, *args)
            if type(argument) is list and any([type(each) is cuda_arrays.ndarray for each in argument]):
                raise cuda_arrays.mixed_devices(name, *argument)
        try:
            return function(*args, **kwargs)
        except NoComplexKernelError:
            if not of_complex:
                of_complex.append(through_host(name, kernel(family, name, 0)))
            return of_complex[0](*args, **kwargs)

    checked.__name__, checked.__doc__ = name, function.__doc__
    return checked


_any_cuda_array = object.__new__(cuda_arrays.CudaArray)
cuda_arrays._loader[0] = lambda: module_of("operations_cuda")


def _take_users_kernels() -> None:
    from dynograd.kernels.build import user_kernels_cuda

    user_kernels_cuda.install()


driver.at_first_use.append(_take_users_kernels)
