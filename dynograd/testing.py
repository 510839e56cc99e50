"""`assert_close`, with PyTorch's tolerances for each dtype."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dynograd.base import dtypes, layouts
from dynograd.base.dtypes import dtype
from dynograd.base.hints import DeviceLike
from dynograd.base.shapes import as_shape
from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.ops.elementwise.comparisons import isclose
from dynograd.tensor.creation import as_tensor
from dynograd.tensor.randomness import rand, randint
from dynograd.tensor.tensor import Tensor

__path__: list[str] = []  # there are modules below it (`compat.faces`)
__all__ = ["assert_allclose", "assert_close", "make_tensor"]

_TOLERANCES = {"float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7)}
_TOLERANCES |= {"complex64": (1.3e-6, 1e-5), "complex128": (1e-7, 1e-7)}


def assert_close(
    actual: object,
    expected: object,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Passes when |actual - expected| <= atol + rtol |expected| everywhere; lists, tuples and dicts are compared by parts.

    Args:
        actual, expected: tensors, arrays, numbers, or lists, tuples and dicts of them.
        allow_subclasses: False asks for the same type.
        rtol, atol: the tolerances, both or neither; by default those of the dtype (1.3e-6 and 1e-5 for float32, 0 for integers).
        equal_nan: NaN equals NaN.
        check_device, check_dtype, check_layout, check_stride: what else must agree. Sparse tensors are compared by their parts, those of
            two layouts as dense ones.
        msg: the message instead, or a function from the message to another one.
    Raises:
        AssertionError: they differ; the message says how many elements and where most.
        TypeError: their types cannot be compared.

    >>> dynograd.testing.assert_close(tensor([1.0, 2.0]), tensor([1.0, 2.0 + 1e-7]))
    """
    if (rtol is None) != (atol is None):
        raise ValueError(
            f"rtol and atol must both be specified or both be unspecified, but got rtol={rtol} and atol={atol}."
        )
    if not _are_comparable(actual, expected, allow_subclasses):
        kind = AssertionError if actual is None or expected is None else TypeError
        raise kind(
            f"assert_close: no comparison of {type(actual).__name__} and {type(expected).__name__}: expected equal types."
        )
    options = (rtol, atol, equal_nan, check_device, check_dtype, check_stride, check_layout)
    wrong = _difference(actual, expected, "", options)
    if wrong is None:
        return
    raise AssertionError(msg(wrong) if callable(msg) else msg if msg is not None else wrong)


def assert_allclose(
    actual: object,
    expected: object,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str | Callable[[str], str] | None = "",
) -> None:
    """`assert_close` that looks neither at dtypes nor at devices (old name).

    Args:
        actual, expected: tensors, arrays or numbers.
        rtol, atol: as in `assert_close`.
        equal_nan: NaN equals NaN.
        msg: the message instead.
    Raises:
        AssertionError: they differ.

    >>> dynograd.testing.assert_allclose(tensor([1.0]), tensor([1.0], dtype=dynograd.float64))
    """
    options = {"check_device": False, "check_dtype": False, "check_stride": False}
    actual, expected = (value if isinstance(value, Tensor) else as_tensor(value) for value in (actual, expected))
    assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, msg=msg or None, **options)


def _are_comparable(actual: Any, expected: Any, allow_subclasses: bool) -> bool:
    for kind in ((int, float, complex), Mapping):
        if isinstance(actual, kind) and isinstance(expected, kind):
            return True
    if all([isinstance(value, Sequence) and not isinstance(value, str) for value in (actual, expected)]):
        return True
    if not allow_subclasses:
        return type(actual) is type(expected)
    return isinstance(actual, type(expected)) or isinstance(expected, type(actual))


def _difference(actual: Any, expected: Any, place: str, options: tuple) -> str | None:
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if set(actual) != set(expected):
            return f"The keys of the mappings do not match{place}: {sorted(map(str, actual))} != {sorted(map(str, expected))}"
        parts = [(actual[key], expected[key], f"[{key!r}]") for key in actual]
    elif isinstance(actual, Sequence) and isinstance(expected, Sequence) and not isinstance(actual, str):
        if len(actual) != len(expected):
            return f"The length of the sequences mismatch{place}: {len(actual)} != {len(expected)}"
        parts = [(left, right, f"[{number}]") for number, (left, right) in enumerate(zip(actual, expected))]
    elif actual is None or expected is None or isinstance(actual, (str, bool)):
        return None if actual == expected else f"Expected {expected!r} but got {actual!r}{place}."
    else:
        return _of_tensors(actual, expected, place, *options)
    for left, right, where in parts:
        wrong = _difference(left, right, f"{place}{where}" if place else f" at item {where}", options)
        if wrong:
            return wrong
    return None


def _of_tensors(
    actual: Any,
    expected: Any,
    place: str,
    rtol: Any,
    atol: Any,
    equal_nan: bool,
    device: bool,
    dtype: bool,
    stride: bool,
    layout: bool,
) -> str | None:
    scalar = not isinstance(actual, Tensor)
    if scalar:
        wide = dtypes.complex128 if isinstance(actual, complex) or isinstance(expected, complex) else dtypes.float64
        actual, expected = (as_tensor(number, dtype=wide) for number in (actual, expected))
    a, b = actual.detach(), expected.detach()
    if a.shape != b.shape:
        return f"The values for attribute 'shape' do not match{place}: {a.shape} != {b.shape}."
    for name, is_compared in (("device", device), ("dtype", dtype)):
        if is_compared and getattr(a, name) != getattr(b, name):
            return f"The values for attribute '{name}' do not match{place}: {getattr(a, name)} != {getattr(b, name)}."
    if layout and a.layout != b.layout:
        return f"The values for attribute 'layout' do not match{place}: {a.layout} != {b.layout}."
    if {a.layout, b.layout} != {layouts.strided}:
        options = (rtol, atol, equal_nan, device, dtype, False, layout)
        for (name, left), (_, right) in zip(_parts(a, a.layout != b.layout), _parts(b, a.layout != b.layout)):
            wrong = _difference(left, right, f" in the {name}{place}", options)
            if wrong:
                return wrong
        return None
    if stride and a.stride() != b.stride():
        return f"The values for attribute 'stride()' do not match{place}: {a.stride()} != {b.stride()}."
    if rtol is None:
        tolerances = [_TOLERANCES.get(tensor.dtype.name, (0.0, 0.0)) for tensor in (a, b)]
        rtol, atol = (max(pair) for pair in zip(*tolerances))
    kind = dtypes.promote_types(a.dtype, b.dtype)
    kind = dtypes.int64 if kind is dtypes.bool else kind
    a, b = a.cpu().to(kind), b.cpu().to(kind)
    close = isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)
    if bool(close.all()):
        return None
    away = (a - b).abs().to(dtypes.float64).masked_fill(close, -1.0)
    worst = int(away.argmax())
    index, rest = [], worst
    for size in reversed(a.shape):
        rest, place_in_dim = divmod(rest, size)
        index.insert(0, place_in_dim)
    count, bad = a.numel(), int((~close).sum())
    if scalar:
        return f"Scalars are not close{place}!\n\nExpected {b.item()} but got {a.item()} (allowed: {atol} absolute, {rtol} relative)."
    return (
        f"Tensor-likes are not close{place}!\n\nMismatched elements: {bad} / {count} ({100 * bad / count:.1f}%)\n"
        f"Greatest absolute difference: {float(away.max())} at index {tuple(index)}: got {a.flatten()[worst].item()}, "
        f"expected {b.flatten()[worst].item()} (allowed: {atol} absolute, {rtol} relative)"
    )


def _parts(tensor: Any, as_dense: bool) -> list[tuple[str, Any]]:
    """What there is to compare of a tensor that is no rectangle of numbers."""
    if tensor.layout is layouts.jagged:
        return [("values", tensor.values())]
    if as_dense or tensor.layout is layouts.strided:
        return [("elements", tensor if tensor.layout is layouts.strided else tensor.to_dense())]
    if tensor.layout is layouts.sparse_coo:
        tensor = tensor.coalesce()
        names = ["indices", "values"]
    else:
        names = (
            ["crow_indices", "col_indices"] if tensor.layout is layouts.sparse_csr else ["ccol_indices", "row_indices"]
        )
        names.append("values")
    return [(name, getattr(tensor, name)()) for name in names]


def make_tensor(
    *shape: Any,
    dtype: dtype,
    device: DeviceLike,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: object = None,
) -> Tensor:
    """A tensor of uniform random numbers from `low` (included) to `high`, for tests.

    Without bounds floating and complex numbers lie between -9 and 9, integers too (unsigned ones from 0), and bools are either.

    Args:
        *shape: sizes, or one tuple of them.
        dtype, device: of the tensor.
        low, high: the bounds.
        requires_grad: whether it gets a gradient.
        noncontiguous: elements lie apart in memory.
        exclude_zero: zeros are replaced by the smallest positive number of the dtype (1 for integers).
        memory_format: the order of the dims in memory.
    Returns:
        A tensor of this shape.

    >>> dynograd.testing.make_tensor((2, 3), dtype=dynograd.int64, device="cpu", low=0, high=5).shape
    dynograd.Size([2, 3])
    """
    kind = dtypes.as_dtype(dtype)
    sizes = as_shape("make_tensor", shape)
    if low is not None and high is not None and low >= high:
        raise ValueError(f"make_tensor: low must be smaller than high, got low={low} and high={high}.")
    drawn = (*sizes[:-1], 2 * sizes[-1]) if noncontiguous and sizes else sizes
    if kind is dtypes.bool:
        tensor = randint(0, 2, drawn, device=device).to(kind)
    elif kind.category == dtypes.INTEGER:
        first = (-9 if kind.is_signed else 0) if low is None else math.ceil(low)
        tensor = randint(first, max(10 if high is None else math.ceil(high), first + 1), drawn, device=device).to(kind)
    else:
        start, end = -9.0 if low is None else low, 9.0 if high is None else high
        real = dtypes.float64 if kind in (dtypes.float64, dtypes.complex128) else dtypes.float32
        tensor = start + (end - start) * rand(*drawn, dtype=real, device=device)
        if kind.category == dtypes.COMPLEX:
            tensor = tensor + 1j * (start + (end - start) * rand(*drawn, dtype=real, device=device))
        tensor = tensor.to(kind)
    if exclude_zero:
        least = 1 if kind.category <= dtypes.INTEGER else dtypes.finfo(kind).tiny
        tensor = tensor.masked_fill(tensor == 0, least)
    if memory_format is not None:
        tensor = tensor.contiguous(memory_format=memory_format)
    if noncontiguous and sizes:
        tensor = tensor[..., ::2]
    return tensor.requires_grad_() if requires_grad else tensor


_show_plainly(globals())
