"""The page of what is neither function nor class: dtypes, layouts, memory formats and numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import dynograd
from dynograd.base.dtypes import WITHOUT_TENSORS

PAGE = "api/constants"
_KINDS = {
    "is_floating_point": "Floating-point numbers",
    "is_complex": "Complex numbers",
    "is_signed": "Integers",
}
_NAMED = "Names without tensors"
_LAYOUTS = {
    "strided": "Of a dense tensor: every element lies in memory, dims a fixed stride apart.",
    "jagged": "Of a `RaggedTensor`: rows of different lengths behind one another.",
    "sparse_coo": "Of a `SparseTensor` that keeps the index of each element.",
    "sparse_csr": "Of a `SparseTensor` whose indices are compressed by rows.",
    "sparse_csc": "Of a `SparseTensor` whose indices are compressed by columns.",
}
_FORMATS = {
    "contiguous_format": "Row by row: the last dim is the densest.",
    "channels_last": "Images (N, C, H, W) with the channels of a pixel beside each other.",
    "channels_last_3d": "Volumes (N, C, D, H, W) with the channels of a voxel beside each other.",
    "preserve_format": "As the input has it.",
}
_NUMBERS = {
    "pi": "The circumference of a circle of diameter 1.",
    "e": "The base of the natural logarithm.",
    "inf": "Infinity, above every number.",
    "nan": "Not a number: equal to nothing, itself included.",
    "newaxis": "None: in an index, a new dim of size 1.",
}


def names() -> list[str]:
    """Every name that the page describes."""
    return [*_dtype_names(), *_LAYOUTS, *_FORMATS, *_NUMBERS]


def page() -> Iterator[str]:
    yield "# dtypes and constants\n"
    yield (
        "The dtype of a tensor says what its elements are: `x.dtype`, `dynograd.zeros(3, dtype=dynograd.float64)`, `x.to(dynograd.int64)`. `dynograd.finfo` "
        "and `dynograd.iinfo` tell of ranges, `dynograd.promote_types` what two dtypes become together, `dynograd.set_default_dtype` what Python's floats "
        "become.\n"
    )
    for title in [*_KINDS.values(), "Truth values", _NAMED]:
        yield f"## {title}\n"
        for dtype, others in _dtypes().items():
            if _kind(dtype) == title:
                yield from _entry(others[0], _about_dtype(dtype, others[1:]))
    for title, table in (("Layouts", _LAYOUTS), ("Memory formats", _FORMATS), ("Numbers", _NUMBERS)):
        yield f"## {title}\n"
        for name, about in table.items():
            value = getattr(dynograd, name)
            yield from _entry(name, f"{about} `{value!r}`" if type(value) is float else about)


def _entry(name: str, about: str) -> Iterator[str]:
    yield f":::{{py:data}} dynograd.{name}\n{about}\n:::\n"


def _dtypes() -> dict[Any, list[str]]:
    """Each dtype with its names, its own first."""
    result: dict[Any, list[str]] = {}
    for name in dynograd.__all__:
        value = getattr(dynograd, name)
        if isinstance(value, dynograd.dtype):
            result.setdefault(value, []).append(name)
    return {
        value: sorted(result[value], key=lambda name: f"dynograd.{name}" != repr(value))
        for value in sorted(result, key=lambda dtype: (dtype.itemsize, repr(dtype)))
    }


def _dtype_names() -> list[str]:
    return [name for all_names in _dtypes().values() for name in all_names]


def _kind(dtype: Any) -> str:
    if dtype.name in WITHOUT_TENSORS:
        return _NAMED
    if dtype is dynograd.bool:
        return "Truth values"
    if dtype.is_floating_point or dtype.is_complex:
        return _KINDS["is_complex" if dtype.is_complex else "is_floating_point"]
    return _KINDS["is_signed"]


def _about_dtype(dtype: Any, others: list[str]) -> str:
    bits = f"{8 * dtype.itemsize} bits"
    if dtype.name in WITHOUT_TENSORS:
        about = f"PyTorch's name, for programs that compare with it; {dtype.way_out}"
    elif dtype.is_floating_point:
        limits = dynograd.finfo(dtype)
        about = f"{bits}, up to {limits.max:.5g}; 1 and the next number are {limits.eps:.3g} apart."
    elif dtype.is_complex:
        about = f"{bits}, half of them for the imaginary part."
    elif dtype is dynograd.bool:
        about = "True or False, one byte each."
    else:
        limits = dynograd.iinfo(dtype)
        about = f"{bits}, from {limits.min} to {limits.max}."
    return about + (f" Also {', '.join([f'`dynograd.{name}`' for name in others])}." if others else "")
