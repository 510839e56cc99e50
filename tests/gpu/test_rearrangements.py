"""Views, copies, joins, other orders and new patterned arrays on the GPU, against the CPU twins."""

from __future__ import annotations

import ml_dtypes
import numpy
import pytest

from dynograd.base.devices import device
from dynograd.kernels.layout import creation_cpu, creation_cuda, joins_cpu, joins_cuda, views_cpu, views_cuda
from dynograd.kernels.linalg import triangles_cpu, triangles_cuda
from dynograd.kernels.optim import packing_cuda
from tests.gpu.twins import compared, near, on_device
from tests.gpu.values import numbers

bfloat16 = numpy.dtype(ml_dtypes.bfloat16)
KINDS = ["float32", "float64", "int64", "uint8", "bool", bfloat16]
CUDA = device("cuda", 0)


def some(shape, kind="float32", seed=0):
    return (numbers(seed, shape) * 3).astype(kind)


# --- joins -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*KINDS, "complex128"], ids=str)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_cat(kind, dim):
    for sizes in ((3, 0, 2), (1,) * 11, (4,)):
        parts = [some((2, 3, 4), kind, seed)[:, :, :] for seed in range(len(sizes))]
        parts = [
            numpy.ascontiguousarray(element.take(range(size % element.shape[dim] or 1), dim))
            if size
            else element.take([], dim)
            for element, size in zip(parts, sizes, strict=True)
        ]
        result = joins_cuda.cat([on_device(part) for part in parts], dim)
        numpy.testing.assert_array_equal(result.numpy(), joins_cpu.cat(parts, dim))


def test_cat_of_strided_arrays_and_of_others_shapes():
    parts = [some((3, 4)).T, some((2, 3), "float32", 1)]
    numpy.testing.assert_array_equal(
        joins_cuda.cat([on_device(part) for part in parts], 0).numpy(), numpy.concatenate(parts)
    )
    with pytest.raises(ValueError, match=r"except dim 0 must match exactly, got \(2, 3\) and \(2, 4\)"):
        joins_cuda.cat([on_device(some((2, 3))), on_device(some((2, 4)))], 0)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_stack(dim):
    parts = [some((3, 2), "float32", seed) for seed in range(9)]
    result = joins_cuda.stack([on_device(part) for part in parts], dim)
    numpy.testing.assert_array_equal(result.numpy(), joins_cpu.stack(parts, dim))


def test_stack_of_numbers():
    parts = [numpy.asarray(some((), "float32", seed)) for seed in range(3)]
    numpy.testing.assert_array_equal(
        joins_cuda.stack([on_device(part) for part in parts], 0).numpy(), joins_cpu.stack(parts, 0)
    )


# --- orders ----------------------------------------------------------------------------------------------------------------


REARRANGED = [
    ("flip", ((0,),)),
    ("flip", ((0, 2),)),
    ("roll", ((1,), (1,))),
    ("roll", ((-5, 2), (0, 2))),
    ("roll", ((1, 2), (1, 1))),
    ("repeat", ((2, 1, 3),)),
    ("repeat", ((0, 1, 3),)),
    ("repeat_rows", (3, 1)),
    ("repeat_rows", (numpy.array([2, 0, 1]), 1)),
]


@pytest.mark.parametrize(("name", "arguments"), REARRANGED, ids=str)
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_rearranged(name, arguments, kind):
    compared("rearrangements", name, some((2, 3, 4), kind), *arguments)


@pytest.mark.parametrize("kind", ["float32", "float64", "int64", bfloat16], ids=str)
def test_sums_of_repeated(kind):
    g = some((4, 6, 4), kind)
    compared("rearrangements", "repeat_backward", g, (2, 3, 4), (2, 2, 1))
    compared("rearrangements", "sum_equal_runs", g, 2, 1, 3)
    for counts in ([2, 0, 3, 1], [6], [0, 0, 6]):
        compared("rearrangements", "sum_runs", g, numpy.array(counts), 1)


# --- views -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [-3, -1, 0, 2, 9])
def test_diagonals(offset):
    x = some((3, 2, 4))
    _, expected = compared("views", "diagonal", x, offset, 0, 2)
    compared("views", "diagonal_fill", expected, (3, 2, 4), offset, 0, 2)
    compared("views", "diagonal_put", x, numpy.ones_like(expected), offset, 0, -1)


@pytest.mark.parametrize(("size", "step"), [(3, 1), (2, 2), (2, 3), (4, 3)])
@pytest.mark.parametrize("kind", ["float32", "int64", bfloat16, "complex64"], ids=str)
def test_windows(size, step, kind):
    x = some((2, 9, 3), kind)
    expected = views_cpu.unfold_forward(x, 1, size, step)
    result = views_cuda.unfold_forward(on_device(x), 1, size, step)
    numpy.testing.assert_array_equal(result.numpy(), expected)
    g = some(expected.shape, kind)
    created = views_cuda.unfold_backward(on_device(g), x.shape, 1, size, step).numpy()
    numpy.testing.assert_allclose(
        created.astype("complex128"),
        views_cpu.unfold_backward(g, x.shape, 1, size, step).astype("complex128"),
        rtol=1e-6,
        atol=1e-6,
    )


def test_other_views():
    x = some((4, 6))
    compared("views", "as_strided", x, (3, 2), (1, 7), 2)
    compared("views", "view_as_dtype", x, numpy.dtype("int32"))
    compared("views", "view_as_dtype", x, numpy.dtype("int16"))
    compared("views", "reshaped_copy", x.T, (8, 3))
    compared("copies", "copied", x.T)
    places = views_cuda.memory_places((4, 6), (6, 1), (3, 2), (1, 7), 2, on_device(x))
    for result, expected in zip(places, views_cpu.memory_places((4, 6), (6, 1), (3, 2), (1, 7), 2), strict=True):
        near(result, expected)


def test_complex_numbers_as_pairs():
    x = some((3, 2), "complex64")
    x.imag = 1
    pairs = packing_cuda.real_view(on_device(x))
    numpy.testing.assert_array_equal(pairs.numpy(), x[..., None].view("float32"))


# --- triangles and new arrays ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("diagonal", [-9, -1, 0, 2, 9])
@pytest.mark.parametrize("kind", ["float32", "bool", "int16", "complex128"])
def test_triangles(diagonal, kind):
    for name in ("tril", "triu"):
        for shape in ((3, 5), (2, 4, 3)):
            x = some(shape, kind)
            result = getattr(triangles_cuda, name)(on_device(x), diagonal)
            numpy.testing.assert_array_equal(result.numpy(), getattr(triangles_cpu, name)(x, diagonal))


def test_triangle_indices():
    for lower in (True, False):
        near(triangles_cuda.triangle_indices(4, 3, 1, lower, CUDA), triangles_cpu.triangle_indices(4, 3, 1, lower))


CREATED = [
    ("arange", (3, 2, 7, "int64")),
    ("arange", (-3, 2, 7, "float32")),
    ("arange", (0.5, 0.1, 1100, "float32")),
    ("arange", (0.5, 0.1, 30, "float64")),
    ("arange", (0, 1, 5, bfloat16)),
    ("arange", (0, 1, 0, "int64")),
    ("linspace", (0, 1, 7, "float32")),
    ("linspace", (-1.5, 2.25, 1, "float64")),
    ("linspace", (-1.5, 2.25, 33, "float16")),
    ("linspace", (0, 10, 4, "int64")),
    ("linspace", (0, 1j, 4, "complex64")),
    ("eye", (3, 3, "float32")),
    ("eye", (2, 5, "int64")),
    ("eye", (5, 2, bfloat16)),
    ("eye", (0, 2, "float32")),
]


@pytest.mark.parametrize(("name", "arguments"), CREATED, ids=str)
def test_created(name, arguments):
    *numbers_given, kind = arguments
    expected = getattr(creation_cpu, name)(*numbers_given, numpy.dtype(kind))
    result = getattr(creation_cuda, name)(*numbers_given, numpy.dtype(kind), device=CUDA).numpy()
    assert result.dtype == expected.dtype
    numpy.testing.assert_array_equal(result, expected)


def test_orthogonal():
    compared("creation", "orthogonal", some((4, 3)))
