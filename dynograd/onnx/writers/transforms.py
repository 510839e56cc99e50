"""Fourier transforms: ONNX's DFT, one dim after the other, of numbers whose two parts lie in a last dim."""

from __future__ import annotations

from collections.abc import Sequence

import numpy

from dynograd.arrays import ndarray
from dynograd.onnx.writers.calls import Call, writer

__all__: list[str] = []

_END = 2**62


@writer("fft_complex")
def complex_transform(call: Call) -> str:
    rank = call.rank()
    dims, is_inverse = [dim % rank for dim in call.static("dims")], bool(call.static("inverse"))
    name = _scaled(call, _transformed(call, _beside(call), dims, is_inverse), dims, is_inverse)
    return call.builder.joined(*_apart(call, name, rank))


@writer("fft_half")
def half_transform(call: Call) -> str:
    rank = call.rank()
    dims = [dim % rank for dim in call.static("dims")]
    name = _scaled(call, _transformed(call, _beside(call), dims, False), dims, False)
    ends = call.builder.number([size // 2 + 1 for size in call.dims(dims[-1])])
    half = call.node("Slice", [name, call.ints(0), ends, call.ints(dims[-1])])
    return call.builder.joined(*_apart(call, half, rank))


@writer("fft_from_half")
def from_half(call: Call) -> str:
    """The last dim is made whole, by the conjugates of what it has, in the order of decreasing places."""
    rank = call.rank()
    dims, counts = [dim % rank for dim in call.static("dims")], call.each("n")
    name = _transformed(call, _beside(call), dims[:-1], True)
    last = call.ints(dims[-1])
    begin, end = call.builder.number([(count - 1) // 2 for count in counts]), call.ints(0)
    turned = call.node("Slice", [name, begin, end, last, call.ints(-1)])
    signs = call.constant(numpy.array([1, -1], call.dtype))
    whole = call.node("Concat", [name, call.node("Mul", [turned, signs])], axis=dims[-1])
    name = _scaled(call, _transformed(call, whole, dims[-1:], True), dims, True)
    return _apart(call, name, rank)[0]


def _beside(call: Call) -> str:
    """The input with its parts in a new last dim."""
    rank, value = call.rank(), call.arguments["input"]
    if call.dtype_of("input").kind != "c":
        name = call.unsqueeze(call.input("input"), rank)
        return call.node("Concat", [name, call.node("Mul", [name, call.constant(0, call.dtype_of("input"))])], axis=-1)
    if isinstance(value, ndarray):
        raise call.refused("of a constant")
    return call.node("Concat", [call.unsqueeze(part, rank) for part in call.builder.parts(value)], axis=-1)


def _apart(call: Call, name: str, rank: int) -> list[str]:
    return [call.node("Gather", [name, call.constant(place, numpy.int64)], axis=rank) for place in (0, 1)]


def _transformed(call: Call, name: str, dims: Sequence[int], is_inverse: bool) -> str:
    options = {"inverse": 1} if is_inverse else {}
    for dim in dims:
        if call.builder.opset < 20:
            name = call.node("DFT", [name], axis=dim, **options)
        else:
            name = call.node("DFT", [name, "", call.constant(dim, numpy.int64)], **options)
    return name


def _scaled(call: Call, name: str, dims: Sequence[int], is_inverse: bool) -> str:
    """Times what `norm` asks for, which is 1 / n of an inverse of ONNX already."""
    norm = call.static("norm")
    if norm == "backward":
        return name
    shapes = call.result_shapes() if call.op_name == "fft_from_half" else call.shapes()
    counts = [int(numpy.prod([shape[dim] for dim in dims])) for shape in shapes]
    count = call.cast(call.builder.scalar(counts), _real_kind(call))
    factor = count if norm == "forward" else call.node("Sqrt", [count])
    return call.node("Mul" if is_inverse else "Div", [name, factor])


def _real_kind(call: Call) -> numpy.dtype[numpy.generic]:
    return numpy.dtype(numpy.float64 if call.dtype.itemsize == 16 or call.dtype == numpy.float64 else numpy.float32)
