"""Norms of vectors and matrices and condition numbers against NumPy."""

from math import inf

import numpy
import pytest

import dynograd
from tests.ops.harness import Row, error, generate
from tests.ops.matrices import COARSE, DOUBLES, NUMBERS, regular

linalg, tensor, zeros, eye = dynograd.linalg, dynograd.tensor, dynograd.zeros, dynograd.eye
ORDERS = ("fro", "nuc", inf, -inf, 1, -1, 2, -2)
REAL = lambda name: {"complex64": "float32", "complex128": "float64"}.get(name, name)  # noqa: E731


def bad(call, kind, *words):
    return error(lambda op: call(), kind, *words)


def row(name, reference, **options):
    return Row(
        name,
        reference,
        **{"dtypes": NUMBERS, "tolerance": COARSE, "method": False, "domain": regular, "empty": False, "result": REAL}
        | options,
    )


ROWS = [
    *[row("linalg_vector_norm", lambda x, ord: numpy.linalg.norm(x.reshape(-1), ord), shapes=[(3, 4)], kwargs={"ord": p}, id=f"{p}", second=p not in (inf, -inf, 0)) for p in (0, 1, 2, 3, 0.5, inf, -inf)],
    row("linalg_vector_norm", lambda x, dim, keepdim: numpy.linalg.norm(x, 2, dim, keepdim), shapes=[(2, 3, 4)], kwargs={"dim": 1, "keepdim": True}, id="dim", errors=[
        bad(lambda: linalg.vector_norm(zeros(2), "fro"), TypeError, "linalg.vector_norm", "must be Number"),
        bad(lambda: linalg.vector_norm(zeros(2).long()), RuntimeError, "linalg.vector_norm: Expected a floating point or complex tensor as input", "int64"),
    ]),
    *[row("linalg_matrix_norm", lambda x, ord: numpy.linalg.norm(x, ord, (-2, -1)), shapes=[(2, 3, 4)], kwargs={"ord": p}, id=f"{p}") for p in ORDERS],
    *[
        row("linalg_matrix_norm", lambda x, ord, dim, keepdim: numpy.linalg.norm(x, ord, dim, keepdim), shapes=[(2, 3, 4)], kwargs={"ord": p, "dim": (2, 0), "keepdim": True}, id=f"dims-{p}")
        for p in ORDERS
    ],
    row("linalg_norm", lambda x: numpy.linalg.norm(x.reshape(-1)), shapes=[(2, 3, 4)], errors=[
        bad(lambda: linalg.norm(zeros(2, 3, 3), 2), RuntimeError, "If dim is not specified but ord is, the input must be 1D or 2D. Got 3D"),
        bad(lambda: linalg.norm(zeros(2), "fro"), RuntimeError, "'fro'", "can only be used with a matrix"),
        bad(lambda: linalg.norm(zeros(2, 2), 2, (0, 1, 0)), RuntimeError, "it must be of length 1 or 2"),
        bad(lambda: linalg.norm(zeros(2, 2), "zz"), RuntimeError, "linalg.matrix_norm: Order zz not supported"),
        bad(lambda: linalg.norm(zeros(2, 2), 2, (0, 0)), RuntimeError, "dims must be different. Got (0, 0)"),
        bad(lambda: linalg.matrix_norm(zeros(2)), RuntimeError, "at least 2 dimensions"),
        bad(lambda: linalg.matrix_norm(zeros(2, 2), dim=0), RuntimeError, "dim must be a 2-tuple of ints. Got 0"),
        bad(lambda: linalg.matrix_norm(zeros(2, 2).long()), RuntimeError, "linalg.matrix_norm", "int64"),
        bad(lambda: linalg.matrix_norm(zeros(2, 2), 3), RuntimeError, "Order 3 not supported"),
    ]),
    row("linalg_norm", lambda x, ord: numpy.linalg.norm(x, ord), shapes=[(3, 4)], kwargs={"ord": 1}, id="matrix"),
    row("linalg_norm", lambda x, ord, dim: numpy.linalg.norm(x, ord, dim), shapes=[(3, 4)], kwargs={"ord": 3, "dim": 0}, id="vector"),
    row("linalg_norm", lambda x, ord: numpy.linalg.norm(x, ord), shapes=[(4,)], domain=(0.3, 2), kwargs={"ord": 3}, id="one"),
    row("norm", lambda x, p: numpy.linalg.norm(x, p), shapes=[(3, 4)], kwargs={"p": "nuc"}, id="nuclear"),
    *[row("linalg_cond", lambda x, p: numpy.stack([numpy.linalg.cond(element, p) for element in x]), shapes=[(2, 3, 3)], kwargs={"p": p}, id=f"{p}") for p in (None, *ORDERS)],
    row("linalg_cond", lambda x: numpy.linalg.cond(x), shapes=[(4, 3)], id="wide", errors=[
        bad(lambda: linalg.cond(eye(2), "x"), RuntimeError, "linalg.cond got an invalid norm type: x"),
        bad(lambda: linalg.cond(zeros(2, 3), 1), RuntimeError, "linalg.cond", "2 by 3 matrices"),
    ]),
    row("linalg_vecdot", lambda x, y: (x.conj() * y).sum(-1), shapes=[(2, 3), (2, 3)], result="same", domain=(-2, 2), errors=[
        bad(lambda: linalg.vecdot(zeros(2).long(), zeros(2)), RuntimeError, "linalg.vecdot", "int64"),
    ]),
    row("linalg_vecdot", lambda x, y, dim: (x * y).sum(dim), shapes=[(2, 3), (1, 3)], kwargs={"dim": 0}, dtypes=DOUBLES, ones=False, id="dim"),
]  # fmt: skip
test_rows = generate(ROWS)


def test_condition_of_singular_matrices():
    assert linalg.cond(zeros(2, 2) + tensor([1.0, 0.0]), 1).item() == inf
    result = linalg.cond(tensor([[[1.0, 0.0], [0.0, 2.0]], [[1.0, 1.0], [1.0, 1.0]]]), "fro")
    assert result.tolist() == [2.5, inf]


@pytest.mark.parametrize("p", [None, *ORDERS])
def test_condition_of_matrices_without_elements_is_zero(p):
    assert linalg.cond(zeros(2, 0, 0), p).tolist() == [0.0, 0.0]
    assert linalg.cond(zeros(0, 2, 2), p).shape == (0,)


def test_dtype_converts_first():
    x = tensor([[3, 4]])
    assert linalg.norm(x, dtype=dynograd.float64).dtype is dynograd.float64
    assert linalg.matrix_norm(x, dtype=dynograd.float64).item() == 5


def test_norms_of_matrices_without_elements():
    for ord, shape in ((1, (3, 0)), (float("inf"), (0, 3)), (2, (0, 5)), ("nuc", (0, 5))):
        assert dynograd.linalg.norm(dynograd.zeros(shape), ord).item() == 0
    with pytest.raises(IndexError, match="amin"):
        dynograd.linalg.norm(dynograd.zeros(3, 0), -1)
