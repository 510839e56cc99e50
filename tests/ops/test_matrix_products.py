"""Products of matrices added to a tensor, chains and powers of matrices, cross products and traces."""

from functools import reduce

import numpy
import pytest

import dynograd
from tests.ops.harness import COMPLEX, FLOATS, INTEGERS, Row, error, generate


def added(product):
    def reference(input, one, two, beta=1, alpha=1):
        return beta * input + alpha * product(one, two)

    return reference


def np_chain(*matrices):
    return reduce(numpy.matmul, matrices)


def np_power(input, n):
    return numpy.linalg.matrix_power(input, n)


def np_cross(input, other, dim=None):
    return numpy.cross(input, other, axis=-1 if dim is None else dim)


def zeros(*shapes):
    return [dynograd.zeros(shape) for shape in shapes]


ADDED = {
    "addmm": (numpy.matmul, [(2, 4), (2, 3), (3, 4)], [(4,), (2, 3), (3, 4)]),
    "addmv": (numpy.matmul, [(2,), (2, 3), (3,)], [(1,), (2, 3), (3,)]),
    "addr": (numpy.outer, [(2, 3), (2,), (3,)], [(3,), (2,), (3,)]),
    "baddbmm": (numpy.matmul, [(2, 3, 4), (2, 3, 2), (2, 2, 4)], [(3, 1), (2, 3, 2), (2, 2, 4)]),
    "addbmm": (lambda a, b: (a @ b).sum(0), [(3, 4), (2, 3, 2), (2, 2, 4)], [(4,), (2, 3, 2), (2, 2, 4)]),
}
ROWS = [
    *[
        Row(
            name,
            added(product),
            shapes=shapes,
            kwargs=kwargs,
            id=f"{title}-{kwargs}",
            covers=["scaled"],
            inplace=None if title == "full" else False,
            tolerance=4,
            ones=False,
            empty=False,
        )
        for name, (product, full, stretched) in ADDED.items()
        for title, shapes, kwargs in [
            ("full", full, {}),
            ("full", full, {"beta": 0.5, "alpha": 2}),
            ("stretched", stretched, {}),
        ]
    ],
    Row(
        "addmm",
        added(numpy.matmul),
        shapes=[(2, 2)] * 3,
        dtypes=("int64", *COMPLEX),
        result=lambda name: name,
        grad=False,
        empty=False,
        id="dtypes",
        errors=[
            error(lambda op: op(*zeros((3,), (2, 3), (3, 4))), RuntimeError, "addmm", "(3,)", "(2, 4)"),
            error(lambda op: op(*zeros((1, 2, 4), (2, 3), (3, 4))), RuntimeError, "addmm", "(1, 2, 4)"),
            error(lambda op: op(*zeros((4,), (2, 3), (4, 4))), RuntimeError, "2x3", "4x4"),
            error(lambda op: op(*zeros((4,), (2, 2, 3), (3, 4))), RuntimeError, "mm", "2-D", "(2, 2, 3)"),
        ],
    ),
    Row(
        "addr",
        added(numpy.outer),
        shapes=[(2, 2), (2,), (2,)],
        id="errors",
        errors=[
            error(lambda op: op(*zeros((2, 2), (2, 2), (2,))), RuntimeError, "addr", "1-D", "(2, 2)"),
            error(
                lambda op: op(*zeros((2, 2), (2,), (2,)), beta=True),
                RuntimeError,
                "Boolean beta only supported",
                "float32",
            ),
            error(
                lambda op: op(*[x.long() for x in zeros((2, 2), (2,), (2,))], alpha=1.5),
                RuntimeError,
                "argument alpha must not",
                "1.5",
                "int64",
            ),
        ],
    ),
    Row(
        "addbmm",
        added(ADDED["addbmm"][0]),
        shapes=[(2, 2), (2, 2, 2), (2, 2, 2)],
        id="errors",
        errors=[
            error(lambda op: op(*zeros((2, 2), (3, 2, 2), (2, 2, 2))), RuntimeError, "addbmm", "(3, 2, 2)", "(2, 2, 2)")
        ],
    ),
    Row("chain_matmul", np_chain, shapes=[(2, 3), (3, 4), (4, 1), (1, 2)], tolerance=4),
    Row(
        "chain_matmul",
        np_chain,
        shapes=[(2, 3)],
        id="one",
        errors=[
            error(lambda op: op(), RuntimeError, "chain_matmul", "one or more"),
            error(
                lambda op: op(*zeros((2, 3), (4, 5))),
                RuntimeError,
                "chain_matmul",
                "tensors 0 and 1",
                "(2, 3)",
                "(4, 5)",
            ),
        ],
    ),
    *[
        Row(
            "matrix_power",
            np_power,
            args=lambda rng, n=n: [rng.normal(size=(2, 3, 3)), n],
            id=str(n),
            tolerance=10,
            second=n < 4,
        )
        for n in (1, 2, 3, 6)
    ],
    Row(
        "matrix_power",
        np_power,
        args=lambda rng: [rng.normal(size=(2, 3, 3)), 0],
        grad=False,
        id="0",
        covers=["identity_like"],
        errors=[error(lambda op: op(dynograd.zeros(2, 3), 2), RuntimeError, "matrix_power", "square", "(2, 3)")],
    ),
    Row(
        "trace",
        numpy.trace,
        shapes=[(3, 4)],
        dtypes=FLOATS + INTEGERS,
        result=lambda name: "int64" if name in INTEGERS else name,
        errors=[error(lambda op: op(dynograd.zeros(3)), RuntimeError, "trace", "matrix", "(3,)")],
    ),
    Row(
        "cross",
        np_cross,
        shapes=[(2, 3), (2, 3)],
        dtypes=("int64", *FLOATS, *COMPLEX),
        result=lambda name: name,
        empty=False,
        ones=False,
        tolerance=4,
    ),
    Row(
        "cross",
        np_cross,
        shapes=[(3, 4), (3, 1)],
        kwargs={"dim": 0},
        empty=False,
        ones=False,
        id="stretched",
        tolerance=4,
    ),
    Row(
        "cross",
        np_cross,
        shapes=[(2, 2, 3), (1, 2, 3)],
        kwargs={"dim": -1},
        empty=False,
        ones=False,
        id="last",
        tolerance=4,
        errors=[
            error(lambda op: op(*zeros((2, 4), (2, 4))), IndexError, "cross", "no dimension of size 3", "(2, 4)"),
            error(lambda op: op(*zeros((2, 4), (2, 4)), dim=1), RuntimeError, "cross", "must have length 3", "(2, 4)"),
            error(
                lambda op: op(*zeros((2, 3), (3,))),
                RuntimeError,
                "cross",
                "same number of dimensions",
                "(2, 3)",
                "(3,)",
            ),
        ],
    ),
]
test_rows = generate(ROWS)


def test_beta_zero_leaves_nan_out():
    x = dynograd.full((2, 2), float("nan"))
    assert dynograd.addmm(x, dynograd.ones(2, 2), dynograd.ones(2, 2), beta=0).tolist() == [[2.0, 2.0]] * 2


def test_chain_takes_the_cheapest_order():
    from dynograd.ops.matmul.matrix_products import _splits

    assert _splits([10, 1000, 2, 50]) == {(0, 1): 0, (1, 2): 1, (0, 2): 1}
    assert _splits([50, 2, 1000, 10])[0, 2] == 0


def test_cross_takes_the_first_dim_of_size_three():
    x = dynograd.eye(3)
    assert dynograd.cross(x, x.roll(1, 0) if hasattr(x, "roll") else x[[2, 0, 1]]).shape == (3, 3)
    y = dynograd.zeros(3, 2)
    y[0] = 1
    z = dynograd.zeros(3, 2)
    z[1] = 1
    assert dynograd.cross(y, z).tolist() == [[0, 0], [0, 0], [1, 1]]


def test_the_first_power_is_a_new_tensor():
    x = dynograd.eye(2)
    y = dynograd.matrix_power(x, 1)
    y[0, 0] = 5
    assert x[0, 0].item() == 1


def test_negative_powers_invert():
    if not hasattr(dynograd, "inverse"):
        with pytest.raises(RuntimeError, match="n=-1"):
            dynograd.matrix_power(dynograd.eye(2), -1)
        return
    x = dynograd.tensor([[2.0, 0.0], [0.0, 4.0]])
    assert dynograd.matrix_power(x, -2).tolist() == [[0.25, 0], [0, 0.0625]]


def test_gradients_with_complex_factors():
    rng = numpy.random.default_rng(0)
    inputs = [dynograd.tensor(rng.normal(size=(2, *shape))).requires_grad_() for shape in ((2, 4), (2, 3), (3, 4))]

    def parts(*all):
        return dynograd.view_as_real(
            dynograd.addmm(*[dynograd.complex(*element) for element in all], alpha=2 + 1j, beta=1 - 3j)
        )

    assert dynograd.autograd.gradcheck(parts, inputs)


def test_the_power_zero_has_a_gradient_of_zero():
    x = dynograd.tensor([[2.0, float("nan")], [0.0, 1.0]], requires_grad=True)
    result = dynograd.matrix_power(x, 0)
    result.sum().backward()
    assert result.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert x.grad.tolist() == [[0.0, 0.0], [0.0, 0.0]]
