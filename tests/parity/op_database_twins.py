"""torch's functions and values, and their twins in dynograd.

A function's twin is found by its name; a wrapper that PyTorch's tests wrote (`lambda x: torch.polygamma(2, x)`) is run with dynograd
in the place of `torch`.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import torch
from torch.testing._internal import common_utils, opinfo
from torch.testing._internal.common_device_type import toleranceOverride

import dynograd

__all__ = ["Missing", "converted", "differences", "of_torch", "seedless", "tolerance_of", "twin"]


Tolerance = dict[torch.dtype, tuple[float, float]]  # rtol, atol

# What samples of PyTorch's databases cost: at each, a traceback is kept for every kind of card whose seed waits for it; and at the first,
# all frames are read in search of a test of PyTorch's.
for _kind_of_card in (torch.cuda, torch.xpu, torch.mtia):
    _kind_of_card.manual_seed_all = lambda seed: None
for _module in (common_utils, opinfo.core):
    _module.extract_test_fn = lambda: None


class Missing(Exception):
    """dynograd has no function of this name."""


@functools.cache
def _names_of_torch() -> dict[int, str]:
    """Where the public functions of torch are found: id -> dotted name."""
    places = ["nn.functional", "linalg", "fft", "special", "signal.windows", "masked", "Tensor", ""]
    result: dict[int, str] = {}
    for place in places:
        home = _at(torch, place)
        for name in dir(home):
            with contextlib.suppress(Exception):
                value = getattr(home, name)
                if callable(value) and not isinstance(value, type):
                    result[id(value)] = f"{place}.{name}".strip(".")
    return result


def _at(library: Any, path: str) -> Any:
    for part in path.split(".") if path else ():
        library = getattr(library, part)
    return library


def twin(value: Any, hint: str = "") -> Any:
    """What stands in dynograd for a function, module, dtype or constant of torch; wrappers are rebuilt around twins."""
    with contextlib.suppress(AttributeError):
        if hint and _at(torch, hint) == value:
            return _in_dynograd(hint)
    if isinstance(value, types.ModuleType):
        return _in_dynograd(value.__name__.partition(".")[2]) if value.__name__.split(".")[0] == "torch" else value
    if isinstance(value, functools.partial):
        return functools.partial(
            twin(value.func), *map(twin, value.args), **{k: twin(v) for k, v in value.keywords.items()}
        )
    if id(value) in _names_of_torch():
        return _in_dynograd(_names_of_torch()[id(value)])
    if isinstance(value, types.FunctionType) and value.__name__ == "wrapper_set_seed":
        return _without_seed
    if isinstance(value, types.FunctionType) and value.__module__.startswith("torch.testing"):
        return rebound(value, twin)
    if isinstance(value, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return _in_dynograd(f"ops.{value.__module__.rpartition('.')[2]}.{value.__name__}")
    if isinstance(value, (torch.dtype, torch.device, torch.layout, torch.memory_format)):
        return converted(value, {})
    return dynograd.Tensor if value is torch.Tensor else value


def _in_dynograd(path: str) -> Any:
    try:
        return _at(
            dynograd, {"_segment_reduce": "segment_reduce"}.get(path, path.removeprefix("torch."))
        )  # PyTorch has both names
    except (AttributeError, ImportError):
        raise Missing(f"dynograd.{path} is missing") from None


class _Library:
    """`torch` in a wrapper's code: names that dynograd lacks are missing, not errors."""

    def __getattr__(self, name: str) -> Any:
        return _in_dynograd(name)


def rebound(function: Any, translated: Callable[[Any], Any]) -> Any:
    """A Python function of PyTorch's tests whose globals and closure are translated."""
    names = set(_global_names(function.__code__))
    space = {name: translated(function.__globals__[name]) for name in names & set(function.__globals__)}
    if "torch" in space and translated is twin:
        space["torch"] = _Library()
    if "wrapper_set_seed" in space:
        space["wrapper_set_seed"] = _without_seed
    cells = tuple(types.CellType(translated(cell.cell_contents)) for cell in function.__closure__ or ())
    created = types.FunctionType(
        function.__code__, {"__builtins__": builtins} | space, function.__name__, function.__defaults__, cells
    )
    created.__kwdefaults__ = function.__kwdefaults__
    return created


def _without_seed(function: Any, *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


def _global_names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _global_names(constant)


def seedless(value: Any) -> Any:
    """The torch function of an entry, without the fixed seed that some have."""
    if isinstance(value, types.FunctionType) and value.__module__.startswith("torch.testing"):
        return rebound(value, seedless)
    return value


def converted(value: Any, met: dict[int, Any]) -> Any:
    """A value of torch in dynograd: equal strides, dtype, requires_grad; a tensor met twice stays one."""
    if isinstance(value, torch.Tensor):
        if id(value) not in met:
            met[id(value)] = _tensor(value, met)
        return met[id(value)]
    if isinstance(value, torch.Size):
        return tuple(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return tuple(converted(element, met) for element in value)
    if isinstance(value, (list, tuple)):
        return type(value)(converted(element, met) for element in value)
    if isinstance(value, dict):
        return {key: converted(element, met) for key, element in value.items()}
    if isinstance(value, slice):
        return slice(*(converted(element, met) for element in (value.start, value.stop, value.step)))
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
        return _in_dynograd(str(value).removeprefix("torch."))
    if isinstance(value, torch.device):
        return str(value)
    if isinstance(value, torch.nn.Module):
        created = _in_dynograd(f"nn.{type(value).__name__}")()
        vars(created).update(
            {name: element for name, element in vars(value).items() if isinstance(element, (int, float))}
        )
        return created
    if callable(value) and (
        id(value) in _names_of_torch() or getattr(value, "__module__", "").startswith("torch.testing")
    ):
        return twin(value)
    return value


def _tensor(value: torch.Tensor, met: dict[int, Any]) -> Any:
    if value.layout in (torch.sparse_csr, torch.sparse_csc, torch.sparse_coo):
        return _sparse(value)
    if value.layout is not torch.strided:
        raise Missing(f"tensors of layout {value.layout} are missing")
    plain = value.detach().resolve_conj().resolve_neg()
    if plain.dtype is torch.bfloat16 or "float8" in str(plain.dtype):
        bits = torch.int16 if plain.itemsize == 2 else torch.uint8
        created = converted(plain.view(bits), {}).view(_in_dynograd(str(plain.dtype).removeprefix("torch.")))
    elif plain.dtype is torch.complex32:
        created = dynograd.tensor(plain.to(torch.float32).numpy()).to(
            _in_dynograd(str(plain.dtype).removeprefix("torch."))
        )
    elif plain.device.type == "meta" or not plain.numel() or (plain.is_contiguous() and _is_whole(plain)):
        created = dynograd.from_numpy(numpy.array(plain.numpy()))
    else:
        whole = torch.as_strided(plain, (plain.untyped_storage().nbytes() // plain.itemsize,), (1,), 0)
        kept = dynograd.from_numpy(numpy.array(whole.numpy()))
        if (
            not value.is_conj() and not value.is_neg()
        ):  # tensors in one memory stay in one; a resolved one is a copy that goes
            kept = met.setdefault(hash((plain.untyped_storage().data_ptr(), plain.dtype)), kept)
        created = (kept.clone() if value.requires_grad else kept).as_strided(
            tuple(plain.shape), plain.stride(), plain.storage_offset()
        )
    return created.requires_grad_(value.requires_grad) if value.requires_grad else created


def _sparse(value: torch.Tensor) -> Any:
    plain = value.detach()
    if plain.layout is torch.sparse_coo:
        parts = (plain._indices(), plain._values())
        make = dynograd.sparse_coo_tensor
    elif plain.layout is torch.sparse_csr:
        parts, make = (plain.crow_indices(), plain.col_indices(), plain.values()), dynograd.sparse_csr_tensor
    else:
        parts, make = (plain.ccol_indices(), plain.row_indices(), plain.values()), dynograd.sparse_csc_tensor
    created = make(*[converted(part, {}) for part in parts], tuple(value.shape))
    return created.requires_grad_() if value.requires_grad else created


def _is_whole(value: torch.Tensor) -> bool:
    return value.untyped_storage().nbytes() == value.numel() * value.itemsize


def of_torch(value: Any) -> torch.Tensor:
    array = value.detach().resolve_conj().array if hasattr(value, "resolve_conj") else value.detach().array
    if array.dtype.kind == "V" and array.dtype.itemsize == 2:
        return torch.from_numpy(numpy.array(array).view(numpy.int16)).view(torch.bfloat16)
    if array.dtype.name.startswith("float8"):
        return torch.from_numpy(numpy.array(array).view(numpy.uint8)).view(getattr(torch, array.dtype.name))
    return torch.from_numpy(numpy.array(array))


def differences(got: Any, wanted: Any, tolerance: Tolerance, values: bool = True) -> str:
    """What distinguishes a result from torch's, or nothing."""
    if isinstance(wanted, torch.Tensor) and wanted.layout is not torch.strided:
        if str(getattr(got, "layout", None)).split(".")[-1] != str(wanted.layout).split(".")[-1]:
            return f"layout {getattr(got, 'layout', None)} instead of {wanted.layout}"
        got, wanted = got.to_dense(), wanted.to_dense()
    if isinstance(wanted, torch.Tensor):
        if not isinstance(got, dynograd.Tensor):
            return f"{type(got).__name__} instead of a tensor"
        if tuple(got.shape) != tuple(wanted.shape):
            return f"shape {tuple(got.shape)} instead of {tuple(wanted.shape)}"
        if str(got.dtype).split(".")[-1] != str(wanted.dtype).split(".")[-1]:
            return f"dtype {got.dtype} instead of {wanted.dtype}"
        if not values:
            return ""
        rtol, atol = tolerance.get(wanted.dtype, (0, 0))
        try:
            torch.testing.assert_close(
                of_torch(got),
                wanted.detach().resolve_conj().resolve_neg(),
                rtol=rtol,
                atol=atol,
                equal_nan=True,
                check_stride=False,
            )
        except AssertionError as error:
            return "values: " + " ".join(str(error).split())[:300]
        return ""
    if isinstance(wanted, (list, tuple)):
        if not isinstance(got, (list, tuple)) or len(got) != len(wanted):
            return (
                f"{type(got).__name__} {len(got) if hasattr(got, '__len__') else ''} instead of {len(wanted)} results"
            )
        return next(filter(None, (differences(*pair, tolerance, values) for pair in zip(got, wanted, strict=True))), "")
    if isinstance(wanted, (torch.dtype, torch.device)):
        return "" if str(got).split(".")[-1] == str(wanted).split(".")[-1] else f"{got} instead of {wanted}"
    if isinstance(wanted, (float, complex)) and isinstance(got, (int, float, complex)):
        return (
            ""
            if not values or numpy.allclose(got, wanted, 1e-5, 1e-6, equal_nan=True)
            else f"{got} instead of {wanted}"
        )
    return "" if not values or got == wanted else f"{got!r} instead of {wanted!r}"


def tolerance_of(entry: Any) -> Tolerance:
    """For each dtype of results, the widest tolerance that PyTorch's own tests give an entry."""
    result = dict.fromkeys((torch.float64, torch.complex128), (1e-07, 1e-07))
    result |= dict.fromkeys((torch.float32, torch.complex64), (1e-05, 2e-05))
    result |= {torch.float16: (2e-3, 1e-4), torch.complex32: (2e-3, 1e-4), torch.bfloat16: (2e-2, 1e-3)}
    for decorator in entry.decorators or ():
        for element in getattr(decorator, "decorators", [decorator]):
            if isinstance(element, toleranceOverride):
                for dtype, wide in element.d.items():
                    rtol, atol = result.get(dtype, (0, 0))
                    result[dtype] = max(rtol, wide.rtol), max(atol, wide.atol)
    return result
