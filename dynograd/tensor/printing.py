"""How tensors print: character by character as in PyTorch.

Numbers of one tensor share a style, chosen from the finite nonzero ones that will be seen: whole (`1.`), fixed (`0.5000`) or scientific.
Large tensors show their edges, long rows are broken at the line width, and what cannot be read off the numbers (dtype, device, gradient)
follows as suffixes. Works on arrays; `Tensor.__repr__` passes the suffixes in.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy

from dynograd.arrays import Array
from dynograd.base import dtypes

__all__ = ["get_printoptions", "printoptions", "set_printoptions"]


@dataclass
class _Options:
    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_PROFILES = {
    "default": _Options(),
    "short": _Options(precision=2, edgeitems=2),
    "full": _Options(threshold=math.inf),
}
_options = _Options()


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Changes how tensors print, until the next call; what is None stays, except `sci_mode`.

    Args:
        precision: digits behind the point (4).
        threshold: tensors with more elements show only their edges (1000).
        edgeitems: how many items of each edge they show (3).
        linewidth: characters in a line (80).
        profile: "default", "short" or "full": all of the above at once; the other arguments then change single ones.
        sci_mode: scientific notation always or never; None lets the values decide, and is what a call without it sets.
    Raises:
        ValueError: there is no such profile.

    >>> dynograd.set_printoptions(precision=2)
    >>> tensor([1.12345])
    tensor([1.12])
    >>> dynograd.set_printoptions(profile="default")
    """
    global _options
    chosen = _options
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(f"set_printoptions: profile {profile!r} is unknown. Use one of {', '.join(_PROFILES)}.")
        chosen = _PROFILES[profile]
    options: dict[str, Any] = dict(precision=precision, threshold=threshold, edgeitems=edgeitems, linewidth=linewidth)
    _options = replace(
        chosen, **{name: value for name, value in options.items() if value is not None}, sci_mode=sci_mode
    )


def get_printoptions() -> dict[str, Any]:
    """The options in force, as keyword arguments for `set_printoptions`.

    >>> dynograd.get_printoptions()["linewidth"]
    80
    """
    return asdict(_options)


@contextmanager
def printoptions(**options: Any) -> Iterator[None]:
    """`set_printoptions` for the length of a with block.

    Args:
        options: as in `set_printoptions`.

    >>> with dynograd.printoptions(precision=1):
    ...     print(tensor([0.25]))
    tensor([0.2])
    """
    before = get_printoptions()
    set_printoptions(**options)
    try:
        yield
    finally:
        set_printoptions(**before)


def dtype_suffix(dtype: dtypes.dtype, size: int) -> str | None:
    """What a tensor of `size` elements prints as its dtype, or None where its numbers say it (with none or unknown ones, pass 0)."""
    default = dtypes.get_default_dtype()
    told = (default, dtypes.default_complex(), dtypes.int64, dtypes.bool) if size else (default,)
    return None if dtype in told else repr(dtype)


def format_tensor(
    array: Any,
    *,
    dtype_suffix: str | None = None,
    device_suffix: str | None = None,
    requires_grad: bool = False,
    grad_fn_name: str | None = None,
    prefix: str = "tensor(",
    contents: str | None = None,
    size: Sequence[int] | None = None,
    tangent: str | None = None,
    edge: int | None = None,
) -> str:
    """The text of a tensor. Each suffix is given as it is to stand behind its `=`, None for none.

    Args:
        array: a NumPy array, bfloat16 of ml_dtypes included; not read when `contents` is given.
        dtype_suffix: such as `dynograd.float64`.
        device_suffix: such as `'cuda:0'`, with its quotes.
        requires_grad: prints `requires_grad=True` where there is no `grad_fn_name`.
        grad_fn_name: such as `<MulBackward0>`.
        prefix: what opens it; the lines below are indented by its length.
        contents: printed instead of numbers, such as `...` for a tensor without memory.
        size: printed too. Arrays without elements print theirs by themselves unless it is (0,).
        tangent: the text of a dual tensor's tangent.
        edge: how many items of each edge are shown; None leaves it to the options.

    >>> format_tensor(numpy.array([0.5, 2.0]), dtype_suffix="dynograd.float64")
    'tensor([0.5000, 2.0000], dtype=dynograd.float64)'
    """
    indent = len(prefix)
    if contents is None:
        numbers_tell_it = array.ndim == 1 if array.size == 0 else _options.edgeitems > 0
        if size is None and not numbers_tell_it:
            size = array.shape
        contents = _contents(array, indent, edge)
    if grad_fn_name is not None:
        requires_grad = False
    suffixes = {
        "device": device_suffix,
        "size": None if size is None else str(tuple(size)),
        "dtype": dtype_suffix,
        "grad_fn": grad_fn_name,
        "requires_grad": "True" if requires_grad else None,
        "tangent": tangent,
    }
    return with_suffixes(
        prefix + contents, {name: suffix for name, suffix in suffixes.items() if suffix is not None}, indent
    )


def with_suffixes(text: str, suffixes: dict[str, Any], indent: int, new_line: bool = False) -> str:
    """The text followed by `name=value, ...)`, on new lines where one becomes too long, and first if so wanted.

    >>> with_suffixes("tensor([1., 2.]", {"size": (2,)}, 7)
    'tensor([1., 2.], size=(2,))'
    """
    column = len(text) - text.rfind("\n") + 1
    for name, value in suffixes.items():
        suffix = f"{name}={value}"
        if new_line or column + len(suffix) + 2 > _options.linewidth:
            new_line = False
            text += ",\n" + " " * indent + suffix
            column = indent + len(suffix)
        else:
            text += ", " + suffix
            column += len(suffix) + 2
    return text + ")"


class _Style:
    """How the numbers of one tensor are written: their notation and the width they are padded to."""

    def __init__(self, seen: numpy.ndarray) -> None:
        self.width = 1
        if seen.dtype.kind != "f":
            self.pattern, self.mark = "{}", ""
            self.width = max([len(str(value)) for value in seen.ravel().tolist()], default=1)
            return
        numbers = seen[numpy.isfinite(seen) & (seen != 0)].astype(numpy.float64)
        whole = bool((numbers == numpy.ceil(numbers)).all())
        if numbers.size and _is_scientific(numpy.abs(numbers)):
            self.pattern, self.mark = f"{{:.{_options.precision}e}}", ""
        elif whole:
            self.pattern, self.mark = "{:.0f}", "."
        else:
            self.pattern, self.mark = f"{{:.{_options.precision}f}}", ""
        # As in PyTorch only these count: zeros, nan and inf alone have width 1, which decides where their rows break.
        self.width = max([len(self.written(value)) for value in numbers.tolist()], default=1)

    def written(self, value: Any) -> str:
        text = self.pattern.format(value)
        return text + self.mark if self.mark and math.isfinite(value) else text

    def __call__(self, value: Any) -> str:
        return self.written(value).rjust(self.width)


class _ComplexStyle:
    """Real and imaginary part, each in the style of its kind; only the real part is padded."""

    def __init__(self, seen: numpy.ndarray) -> None:
        self.real, self.imag = _Style(seen.real), _Style(seen.imag)
        self.width = self.real.width + self.imag.width + 1

    def __call__(self, value: complex) -> str:
        imag = self.imag.written(value.imag)
        return f"{self.real(value.real)}{'' if imag.startswith('-') else '+'}{imag}j"


def _is_scientific(magnitudes: numpy.ndarray) -> bool:
    if _options.sci_mode is not None:
        return _options.sci_mode
    least, most = float(magnitudes.min()), float(magnitudes.max())
    return most / least > 1000.0 or most > 1e8 or least < 1e-4


def _contents(array: Any, indent: int, edge: int | None = None) -> str:
    if array.size == 0:
        return "[]"
    if array.dtype.kind == "V":
        array = array.astype(numpy.float32)
    if edge is None:
        edge = _options.edgeitems if array.size > _options.threshold else array.size
    seen = array
    for axis in range(array.ndim):
        seen = _ends(seen, edge, axis)
    style = _ComplexStyle(seen) if array.dtype.kind == "c" else _Style(seen)
    return style(array.item()) if array.ndim == 0 else _nested(array, indent, edge, style)


def _ends(array: Any, edge: int, axis: int) -> Array:
    """The array without what lies between the first and the last `edge` items of a dimension."""
    length = array.shape[axis]
    return array if length <= 2 * edge else numpy.take(array, [*range(edge), *range(length - edge, length)], axis)


def _nested(array: Any, indent: int, edge: int, style: Any) -> str:
    shown = _ends(array, edge, 0)
    if array.ndim > 1:
        parts = [_nested(part, indent + 1, edge, style) for part in shown]
        dots, separator = "...", "," + "\n" * (array.ndim - 1) + " " * (indent + 1)
    else:
        parts = [style(value) for value in shown.tolist()]
        dots, separator = " ..." if edge else "...", ",\n" + " " * (indent + 1)
    if len(shown) < len(array):
        parts.insert(edge, dots)
    if array.ndim == 1:
        in_a_line = max(1, (_options.linewidth - indent) // (style.width + 2))
        parts = [", ".join(parts[i : i + in_a_line]) for i in range(0, len(parts), in_a_line)]
    return "[" + separator.join(parts) + "]"
