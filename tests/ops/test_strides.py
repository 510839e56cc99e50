"""Views with strides of their own: overlapping windows, diagonals, raw strides."""

import numpy
import pytest

import dynograd
from tests.ops.harness import BOOL, COMPLEX, FLOATS, INTEGERS, Row, error, generate

ALL = FLOATS + INTEGERS + BOOL + COMPLEX
zeros = dynograd.zeros


def moved(name, reference, **options):
    """A row of an op that only moves elements: every dtype, unchanged."""
    return Row(name, reference, dtypes=ALL, result="same", **options)


def fill(g, shape, offset, dim1, dim2):
    created = numpy.zeros(shape, g.dtype)
    for index in numpy.ndindex(*g.shape):
        kept = list(index[:-1])
        row, column = index[-1] + max(0, -offset), index[-1] + max(0, offset)
        for dim, number in sorted([(dim1, row), (dim2, column)]):
            kept.insert(dim, number)
        created[tuple(kept)] = g[index]
    return created


def put(x, src, offset, dim1, dim2):
    kept = 1 - fill(numpy.ones(src.shape), x.shape, offset, dim1, dim2)
    return numpy.where(kept != 0, x, fill(src, x.shape, offset, dim1, dim2))


def windows(x, dimension, size, step):
    count = (x.shape[dimension] - size) // step + 1
    parts = [x.take(range(number * step, number * step + size), dimension) for number in range(count)]
    return numpy.stack([numpy.moveaxis(part, dimension, -1) for part in parts], dimension)


def strided(x, size, stride, storage_offset=0):
    flat = numpy.ascontiguousarray(x).reshape(-1)
    created = numpy.empty(size, x.dtype)
    for index in numpy.ndindex(*size):
        created[index] = flat[storage_offset + sum(a * b for a, b in zip(index, stride, strict=True))]
    return created


def placed(x, src, size, stride, storage_offset):
    created = numpy.ascontiguousarray(x).reshape(-1).copy()
    for index in numpy.ndindex(*size):
        created[storage_offset + sum(a * b for a, b in zip(index, stride, strict=True))] = src[index]
    return created.reshape(x.shape)


ROWS = [
    moved(
        "diagonal",
        numpy.diagonal,
        args=lambda rng: [rng.normal(size=(3, 4, 2)), 1],
        covers=["diagonal_backward"],
        errors=[
            error(
                lambda op: op(zeros(2, 2), 0, 1, -1), RuntimeError, "diagonal dimensions cannot be identical", "1", "-1"
            ),
            error(lambda op: op(zeros(2, 2), 0, 0, 2), IndexError, "diagonal", "2"),
            error(lambda op: op(zeros(2)), IndexError, "diagonal"),
        ],
    ),
    moved("diagonal", numpy.diagonal, args=lambda rng: [rng.normal(size=(3, 4, 2)), -1, 2, 0], id="dims"),
    moved(
        "diagonal",
        lambda x, offset: numpy.zeros((2, 0)),
        args=lambda rng: [rng.normal(size=(3, 3, 2)), 5],
        grad=False,
        id="outside",
    ),
    moved(
        "diagonal_scatter",
        put,
        args=lambda rng: [rng.normal(size=(3, 4, 2)), rng.normal(size=(3, 2)), -1, 1, 2],
        covers=["diagonal_put"],
        strided=True,
        errors=[error(lambda op: op(zeros(2, 2), zeros(3)), RuntimeError, "diagonal_scatter", "(2,)", "(3,)")],
    ),
    moved(
        "unfold",
        windows,
        args=lambda rng: [rng.normal(size=(2, 7)), 1, 3, 2],
        method="unfold",
        covers=["unfold_backward"],
        function=lambda x, *rest: x.unfold(*rest),
        errors=[
            error(
                lambda op: op(zeros(2, 4), 1, 5, 1),
                RuntimeError,
                "maximum size for tensor at dimension 1 is 4 but size is 5",
            ),
            error(lambda op: op(zeros(4), 0, 2, 0), RuntimeError, "step is 0 but must be > 0"),
        ],
    ),
    moved(
        "unfold",
        windows,
        args=lambda rng: [rng.normal(size=(5, 2)), 0, 2, 2],
        function=lambda x, *rest: x.unfold(*rest),
        id="apart",
    ),
    Row(
        "unfold",
        lambda x, *rest: x.reshape(1),
        args=lambda rng: [rng.normal(size=()), 0, 1, 1],
        function=lambda x, *rest: x.unfold(*rest),
        id="0-d",
    ),
    moved(
        "as_strided",
        strided,
        args=lambda rng: [rng.normal(size=(3, 4)), (2, 3), (2, 1), 1],
        strided=False,
        errors=[
            error(lambda op: op(zeros(4), (2,), (1, 1)), RuntimeError, "mismatch in length of strides and shape"),
            error(lambda op: op(zeros(4), (5,), (1,)), RuntimeError, "out of bounds for storage of 4 elements", "[5]"),
            error(lambda op: op(zeros(4), (2,), (1,), 3), RuntimeError, "out of bounds", "offset 3"),
            error(lambda op: op(zeros(4), (2,), (-1,), 3), RuntimeError, "negative", "(-1,)"),
        ],
    ),
    moved(
        "as_strided_scatter",
        placed,
        args=lambda rng: [rng.normal(size=(3, 4)), rng.normal(size=(2, 3)), (2, 3), (5, 2), 1],
        strided=False,
        errors=[
            error(lambda op: op(zeros(4), zeros(3), (2,), (1,)), RuntimeError, "as_strided_scatter", "(2,)", "(3,)"),
            error(lambda op: op(zeros(4), zeros(2), (2,), (4,)), RuntimeError, "out of bounds for storage of 4"),
        ],
    ),
]
test_rows = generate(ROWS)


def test_as_strided_of_a_view_reads_the_memory_behind_it():
    x = dynograd.arange(24.0).view(2, 3, 4).requires_grad_()
    view = x.transpose(0, 2)[1:, :, 1:]
    created = view.as_strided((2, 3), (1, 2))
    assert created.tolist() == [[13, 15, 17], [14, 16, 18]]
    created.sum().backward()
    reached = numpy.zeros((2, 3, 4))
    reached.reshape(-1)[[13, 14, 15, 17, 18]] = 1  # element 16 lies in the memory, but not in the view
    assert x.grad.tolist() == reached.tolist()


@pytest.mark.parametrize("spoiled", [False, True])
def test_as_strided_of_memory_that_is_not_in_order_or_empty(spoiled):
    if spoiled:  # what has been asked before is known
        zeros(4).as_strided((2,), (1,))
    x = dynograd.arange(16.0).view(4, 4)
    assert x[::2, 1::2].as_strided((2,), (1,)).tolist() == [1, 2]
    assert x.T[1:].as_strided((2,), (1,)).tolist() == [1, 2]
    with pytest.raises(RuntimeError, match="out of bounds for storage of 0 elements"):
        zeros(2, 0).as_strided((2,), (1,))


def test_as_strided_twice_differentiates():
    x = dynograd.arange(4.0, requires_grad=True)
    created = x.as_strided((3, 2), (1, 1))
    (g,) = dynograd.autograd.grad((created**3).sum(), x, create_graph=True)
    g.sum().backward()
    assert x.grad.tolist() == [0, 12, 24, 18]


@pytest.mark.parametrize("offset", [-3, -1, 0, 2, 4, 7])
def test_diagonals_are_writable_views(offset):
    x = zeros(3, 4)
    x.diagonal(offset).add_(1)
    assert x.tolist() == numpy.eye(3, 4, offset).tolist()
