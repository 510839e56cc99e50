"""Products of compressed rows with dense matrices, and the parallel form of their kernels."""

import numpy
import pytest

import dynograd
from dynograd.kernels.build import threads
from tests.ops.harness import COMPLEX, FLOATS, Row, error, generate

CROW = numpy.array([0, 2, 2, 5, 6])
COL = numpy.array([2, 0, 1, 2, 1, 0])  # unsorted, one place twice, an empty row
ROW = numpy.array([0, 0, 2, 2, 2, 3])


def matrix(values, columns=3):
    created = numpy.zeros((4, columns), values.dtype)
    numpy.add.at(created, (ROW, COL), values)
    return created


def np_product(values, crow, col, dense):
    return matrix(values) @ dense


def np_transposed(values, crow, col, dense, columns):
    return matrix(values, columns).T @ dense


def np_sampled(input, other, crow, col):
    return (input @ other.T)[ROW, COL]


values = dynograd.ones(6)
crow, col = dynograd.tensor(CROW), dynograd.tensor(COL)
wide = dynograd.ones(3, 2)

ROWS = [
    Row(
        "sparse_product",
        np_product,
        args=lambda rng: [rng.normal(size=6), CROW, COL, rng.normal(size=(3, 5))],
        dtypes=FLOATS + COMPLEX,
        errors=[
            error(
                lambda op: op(values, crow, col, wide.double()), TypeError, "sparse_product", "same dtype", "float64"
            ),
            error(lambda op: op(values, crow, col[:5], wide), ValueError, "sparse_product", "(6,)", "(5,)"),
            error(lambda op: op(values, crow, col, wide[0]), ValueError, "sparse_product", "(C, K)", "(2,)"),
            error(lambda op: op(values, crow.float(), col, wide), TypeError, "crow and col are integers", "float32"),
            error(lambda op: op(values, crow, col + 2, wide), IndexError, "sparse", "4", "size 3"),
            error(lambda op: op(values, crow, col - 1, wide), IndexError, "sparse", "-1", "size 3"),
        ],
    ),
    Row(
        "sparse_transposed_product",
        np_transposed,
        args=lambda rng: [rng.normal(size=6), CROW, COL, rng.normal(size=(4, 5)), 3],
        dtypes=FLOATS + COMPLEX,
        errors=[
            error(
                lambda op: op(values, crow, col, wide, 3), ValueError, "sparse_transposed_product", "(4, K)", "(3, 2)"
            ),
            error(lambda op: op(values, crow, col, dynograd.ones(4, 2), 2), IndexError, "sparse", "2", "size 2"),
        ],
    ),
    Row(
        "sparse_sampled",
        np_sampled,
        args=lambda rng: [rng.normal(size=(4, 5)), rng.normal(size=(3, 5)), CROW, COL],
        dtypes=FLOATS + COMPLEX,
        errors=[
            error(lambda op: op(wide, wide, crow, col), ValueError, "sparse_sampled", "(4, K)", "(3, 2)"),
            error(lambda op: op(dynograd.ones(4, 2), wide.double(), crow, col), TypeError, "same dtype", "float64"),
        ],
    ),
]
test_rows = generate(ROWS)


@pytest.mark.parametrize("columns", [0, 1, 7, 64])
def test_parts_give_the_same_bits(columns):
    rng = numpy.random.default_rng(columns)
    lengths = rng.integers(0, 40, 3000)
    starts = dynograd.tensor(numpy.concatenate([[0], lengths.cumsum()]))
    places = dynograd.tensor(rng.integers(0, 500, lengths.sum()))
    entries = dynograd.tensor(rng.normal(size=lengths.sum()).astype(numpy.float32))
    dense = dynograd.tensor(rng.normal(size=(500, columns)).astype(numpy.float32))
    tall = dynograd.tensor(rng.normal(size=(3000, columns)).astype(numpy.float32))

    def everything():
        return [
            dynograd.sparse_product(entries, starts, places, dense).numpy(),
            dynograd.sparse_transposed_product(entries, starts, places, tall, 500).numpy(),
            dynograd.sparse_sampled(tall, dense, starts, places).numpy(),
        ]

    before = threads.get_num_threads()
    try:
        threads.set_num_threads(1)
        alone = everything()
        threads.set_num_threads(2)
        together = everything()
    finally:
        threads.set_num_threads(before)
    for element, two in zip(alone, together, strict=True):
        numpy.testing.assert_array_equal(element, two)
