"""Triangles and diagonals of matrices."""

import numpy

import dynograd
from tests.ops.harness import BOOL, COMPLEX, FLOATS, INTEGERS, Row, error, generate
from tests.support.few_calls import few_or_many_calls  # noqa: F401

ALL = FLOATS + INTEGERS + BOOL + COMPLEX
zeros = dynograd.zeros


def moved(name, reference, **options):
    """A row of an op that only moves elements: every dtype, unchanged."""
    return Row(name, reference, dtypes=ALL, result="same", **options)


def embed(x, offset, dim1, dim2):
    side = x.shape[-1] + abs(offset)
    created = numpy.zeros((*x.shape[:-1], side, side), x.dtype)
    for number in range(x.shape[-1]):
        created[..., number + max(0, -offset), number + max(0, offset)] = x[..., number]
    return numpy.moveaxis(created, (-2, -1), (dim1, dim2))


ROWS = [
    *[
        moved("tril", numpy.tril, args=lambda rng, k=k: [rng.normal(size=(2, 3, 4)), k], id=f"{k}")
        for k in (-4, -1, 1, 5)
    ],
    *[
        moved("triu", numpy.triu, args=lambda rng, k=k: [rng.normal(size=(2, 4, 3)), k], id=f"{k}")
        for k in (-5, -1, 1, 4)
    ],
    moved(
        "tril",
        numpy.tril,
        shapes=[(3, 3)],
        errors=[error(lambda op: op(zeros(3)), RuntimeError, "tril", "at least 2 dimensions", "(3,)")],
    ),
    moved(
        "triu",
        numpy.triu,
        shapes=[(3, 3)],
        errors=[error(lambda op: op(zeros(3)), RuntimeError, "triu", "at least 2 dimensions", "(3,)")],
    ),
    moved("diag", numpy.diag, args=lambda rng: [rng.normal(size=(3,)), -1]),
    moved(
        "diag",
        numpy.diag,
        args=lambda rng: [rng.normal(size=(3, 4)), 1],
        id="matrix",
        errors=[error(lambda op: op(zeros(1, 2, 3)), RuntimeError, "diag: Supports 1D or 2D tensors. Got 3D")],
    ),
    moved(
        "diag_embed",
        embed,
        args=lambda rng: [rng.normal(size=(2, 3)), 1, 0, 2],
        errors=[
            error(lambda op: op(zeros(2), 0, 1, -1), RuntimeError, "diagonal dimensions cannot be identical", "-1"),
            error(lambda op: op(zeros(2), 0, 0, 2), IndexError, "diag_embed", "2"),
            error(lambda op: op(zeros(())), RuntimeError, "diag_embed", "at least 1 dim"),
        ],
    ),
    moved(
        "diag_embed",
        lambda x, k, a, b: embed(x, -k, b, a),
        args=lambda rng: [rng.normal(size=(2, 3)), 1, -1, 0],
        id="swapped",
    ),
    moved("diagflat", numpy.diagflat, args=lambda rng: [rng.normal(size=(2, 2)), -1]),
    Row(
        "tril_indices",
        lambda row, col, offset: numpy.array(numpy.tril_indices(row, offset, col)),
        args=lambda rng: [3, 4, 1],
        dtypes=("float32",),
        result="int64",
        grad=False,
        errors=[error(lambda op: op(-1, 2), RuntimeError, "tril_indices", "negative", "-1")],
    ),
    Row(
        "triu_indices",
        lambda row, col, offset: numpy.array(numpy.triu_indices(row, offset, col)),
        args=lambda rng: [4, 3, -1],
        dtypes=("float32",),
        result="int64",
        grad=False,
    ),
]
test_rows = generate(ROWS)


def test_triangles_drop_infinities_and_nan():
    x = dynograd.full((2, 2), float("nan"))
    assert x.tril().tolist()[0][1] == 0
    assert dynograd.full((2, 2), float("inf")).triu(1).tolist() == [[0, float("inf")], [0, 0]]


def test_triangle_indices_pick_the_triangle():
    x = dynograd.arange(12).view(3, 4)
    rows, columns = dynograd.triu_indices(3, 4, 1)
    assert x[rows, columns].tolist() == [1, 2, 3, 6, 7, 11]
    assert dynograd.tril_indices(2, 2, dtype=dynograd.int32).dtype is dynograd.int32
