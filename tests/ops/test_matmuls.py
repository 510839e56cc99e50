"""Matrix products: every form of broadcasting, the named special cases, and `linear`."""

import numpy
import pytest

import dynograd
from tests.ops.harness import COMPLEX, FLOATS, INTEGERS, Row, error, generate

EVERY = FLOATS + INTEGERS[:2] + COMPLEX


def same(name):
    return name


def np_linear(input, weight, bias=None):
    out = input @ weight.T
    return out if bias is None else out + bias


def zeros(*shapes):
    return [dynograd.zeros(shape) for shape in shapes]


BROADCASTS = [
    ([(2, 3), (3, 4)], "matrices"),
    ([(3,), (3,)], "vectors"),
    ([(3,), (3, 4)], "row"),
    ([(2, 3), (3,)], "column"),
    ([(5, 2, 3), (3, 4)], "batch-matrix"),
    ([(2, 3), (5, 3, 4)], "matrix-batch"),
    ([(5, 2, 3), (5, 3, 4)], "batches"),
    ([(5, 2, 3), (1, 3, 4)], "batch-one"),
    ([(2, 1, 2, 3), (3, 3, 2)], "two-batches"),
    ([(3,), (5, 3, 4)], "row-batch"),
    ([(5, 2, 3), (3,)], "batch-column"),
    ([(2, 5, 2, 3), (3,)], "batches-column"),
]
ROWS = [
    *[
        Row(
            "matmul",
            numpy.matmul,
            shapes=shapes,
            id=title,
            dtypes=EVERY,
            result=same,
            empty=False,
            ones=False,
            tolerance=4,
        )
        for shapes, title in BROADCASTS
    ],
    Row(
        "matmul",
        numpy.matmul,
        shapes=[(1, 1), (1, 1)],
        id="one",
        empty=[
            [(0, 3), (3, 2)],
            [(2, 0), (0, 3)],
            [(2, 3), (3, 0)],
            [(0, 2, 3), (3, 4)],
            [(2, 2, 0), (0, 3)],
            [(2, 2, 0), (2, 0, 3)],
            [(0,), (0,)],
        ],
        errors=[
            error(
                lambda op: op(*zeros((2, 3), (4, 5))),
                RuntimeError,
                "matmul",
                "mat1 and mat2 shapes cannot be multiplied",
                "2x3",
                "4x5",
                "3 columns",
                "4 rows",
            ),
            error(lambda op: op(*zeros((3,), (4,))), RuntimeError, "matmul", "(3,)", "(4,)"),
            error(
                lambda op: op(*zeros((2, 2, 3), (3, 3, 4))),
                RuntimeError,
                "matmul",
                "do not broadcast",
                "(2, 2, 3)",
                "(3, 3, 4)",
            ),
            error(lambda op: op(*zeros((), (3,))), RuntimeError, "matmul", "at least 1D", "0D", "1D"),
            error(
                lambda op: op(dynograd.zeros(2, 2), dynograd.zeros(2, 2, dtype=dynograd.float64)),
                RuntimeError,
                "matmul",
                "same dtype",
                "float32",
                "float64",
            ),
            error(lambda op: op(dynograd.zeros(2, 2), 3), TypeError, "matmul", "other", "int"),
        ],
    ),
    Row(
        "mm",
        numpy.matmul,
        shapes=[(2, 3), (3, 4)],
        ones=False,
        errors=[
            error(lambda op: op(*zeros((2, 2, 3), (3, 4))), RuntimeError, "mm", "2-D", "(2, 2, 3)", "matmul"),
            error(lambda op: op(*zeros((2, 3), (3,))), RuntimeError, "mm", "2-D", "(3,)"),
        ],
    ),
    Row(
        "bmm",
        numpy.matmul,
        shapes=[(2, 2, 3), (2, 3, 4)],
        ones=False,
        errors=[
            error(lambda op: op(*zeros((2, 3), (3, 4))), RuntimeError, "bmm", "3-D", "(2, 3)"),
            error(
                lambda op: op(*zeros((2, 2, 3), (3, 3, 4))),
                RuntimeError,
                "bmm",
                "batches of the same size",
                "(2, 2, 3)",
                "(3, 3, 4)",
            ),
        ],
    ),
    Row(
        "mv",
        numpy.matmul,
        shapes=[(2, 3), (3,)],
        ones=False,
        errors=[error(lambda op: op(*zeros((2, 3), (3, 1))), RuntimeError, "mv", "1-D", "(3, 1)")],
    ),
    Row(
        "dot",
        numpy.dot,
        shapes=[(3,), (3,)],
        dtypes=EVERY,
        result=same,
        errors=[error(lambda op: op(*zeros((2, 3), (3,))), RuntimeError, "dot", "1-D", "(2, 3)")],
    ),
    *[
        Row(
            "nn.functional.linear",
            np_linear,
            shapes=shapes,
            id=title,
            empty=False,
            ones=False,
            method=False,
            tolerance=4,
        )
        for shapes, title in [
            ([(2, 3), (4, 3), (4,)], "rows"),
            ([(2, 3), (4, 3)], "no-bias"),
            ([(3,), (4, 3), (4,)], "vector"),
            ([(2, 5, 3), (4, 3), (4,)], "batch"),
            ([(2, 5, 2, 3), (4, 3)], "batches"),
            ([(5, 3), (3,)], "vector-weight"),
            ([(2, 3), (4, 3), (1,)], "one-bias"),
            ([(5, 2, 3), (4, 3), (2, 1)], "bias-of-rows"),
            ([(5, 3), (3,), (5,)], "vector-weight-bias-of-rows"),
        ]
    ],
    Row(
        "nn.functional.linear",
        np_linear,
        shapes=[(1, 1), (1, 1), (1,)],
        id="errors",
        empty=[
            [(0, 3), (4, 3), (4,)],
            [(2, 0), (4, 0), (4,)],
            [(2, 3, 0), (4, 0), (4,)],
            [(2, 0, 3), (4, 3), (4,)],
            [(2, 3), (0, 3), (0,)],
        ],
        method=False,
        errors=[
            error(
                lambda op: op(*zeros((8, 20, 512), (10, 256))),
                RuntimeError,
                "linear",
                "512 features",
                "(8, 20, 512)",
                "wants 256",
                "(10, 256)",
                "Linear(512, 10)",
            ),
            error(
                lambda op: op(dynograd.zeros(2, 3), dynograd.zeros(4, 3, dtype=dynograd.float64)),
                RuntimeError,
                "linear",
                "same dtype",
                "float64",
            ),
            error(
                lambda op: op(*zeros((2, 3), (4, 3)), dynograd.zeros(4, dtype=dynograd.float64)),
                RuntimeError,
                "linear",
                "same dtype",
            ),
        ],
    ),
]
test_rows = generate(ROWS)


def test_operators_multiply_matrices():
    x, y = dynograd.tensor([[1.0, 2.0]]), dynograd.tensor([[3.0], [4.0]])
    assert (x @ y).tolist() == [[11]] and x.matmul(y).tolist() == [[11]]
    x @= dynograd.eye(2)
    assert x.tolist() == [[1, 2]]


@pytest.mark.parametrize("needs", [(True, False), (False, True)])
def test_only_the_gradients_that_are_wanted_are_computed(needs):
    x, y = dynograd.ones(2, 3), dynograd.ones(3, 4)
    x.requires_grad, y.requires_grad = needs
    (x @ y).sum().backward()
    assert [x.grad is not None, y.grad is not None] == list(needs)


def test_products_in_half_precision_are_accumulated_in_float32():
    x = dynograd.ones(1, 3000, dtype=dynograd.bfloat16)
    assert (x @ x.T).item() == pytest.approx(3000, rel=0.01)


def test_transposed_operands_give_the_same_product():
    x, y = dynograd.randn(4, 3), dynograd.randn(5, 3)
    expected = numpy.einsum("ij,kj->ik", x.array.astype(float), y.array.astype(float))
    numpy.testing.assert_allclose((x @ y.T).array, expected, rtol=1e-5, atol=1e-6)
    numpy.testing.assert_allclose((x.T.contiguous().T @ y.T).array, expected, rtol=1e-5, atol=1e-6)


def test_gradients_of_complex_products_are_conjugated():
    x = dynograd.tensor([[1 + 2j]], requires_grad=True)
    y = dynograd.tensor([[3 - 1j]], requires_grad=True)
    (x @ y).abs().sum().backward()
    product = (1 + 2j) * (3 - 1j)
    unit = product / abs(product)
    assert x.grad.item() == pytest.approx(unit * (3 + 1j))
    assert y.grad.item() == pytest.approx(unit * (1 - 2j))
