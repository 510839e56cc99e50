"""Sums of products over named dims."""

import numpy
import pytest

import dynograd
from tests.ops.harness import COMPLEX, FLOATS, Row, error, generate

CONTRACTIONS = {
    "ij,jk->ik": [(2, 3), (3, 4)],
    "ij,jk": [(2, 3), (3, 4)],
    "ji,jk->ki": [(3, 2), (3, 4)],
    "ij->ji": [(2, 3)],
    "ij->": [(2, 3)],
    "ijk->j": [(2, 3, 4)],
    "i,j->ij": [(2,), (3,)],
    "i,i": [(3,), (3,)],
    "ij,ij->ij": [(2, 3), (2, 3)],
    "bi,bi->b": [(2, 3), (2, 3)],
    "bhid,bhjd->bhij": [(2, 2, 3, 4), (2, 2, 2, 4)],
    "bihd,bjhd->bhij": [(2, 3, 2, 4), (2, 2, 2, 4)],
    "bhij,bjhd->bihd": [(2, 2, 3, 2), (2, 2, 2, 4)],
    "ab,cd->": [(2, 3), (2, 2)],
    "ab,bc->a": [(2, 3), (3, 4)],
    "ii": [(3, 3)],
    "ii->i": [(3, 3)],
    "iji->j": [(2, 3, 2)],
    "iii->i": [(2, 2, 2)],
    "iij,jk->ik": [(2, 2, 3), (3, 2)],
    "bn,anm,bm->ba": [(2, 3), (2, 3, 4), (2, 4)],
    "i,i,i->i": [(3,), (3,), (3,)],
    "ij,jk,kl,lm->im": [(2, 3), (3, 2), (2, 4), (4, 2)],
    "...ij,...jk->...ik": [(2, 1, 2, 3), (2, 3, 2)],
    "...,...": [(2, 3), (3,)],
    "i...,j...->ij...": [(2, 3), (3, 3)],
    "i...->...": [(2, 3, 4)],
    "...i->i...": [(2, 3, 4)],
    ",i->i": [(), (3,)],
    " b i , b j -> b i j ": [(2, 3), (2, 4)],
    "aB,Ba->Ba": [(2, 3), (3, 2)],
}


def np_einsum(equation, *operands):
    return numpy.einsum(equation.replace(" ", ""), *operands)


def operands(equation, shapes):
    return lambda rng: [equation, *[rng.normal(size=shape) for shape in shapes]]


def einsum_error(equation, *shapes_and_words):
    shapes = [word for word in shapes_and_words if isinstance(word, tuple)]
    words = [word for word in shapes_and_words if isinstance(word, str)]
    return error(
        lambda op: op(equation, *[dynograd.zeros(shape) for shape in shapes]), RuntimeError, "einsum", equation, *words
    )


def np_bilinear(x, y, weight, bias=None):
    result = numpy.einsum("...i,kij,...j->...k", x, weight, y)
    return result if bias is None else result + bias


ROWS = [
    Row(
        "nn.functional.bilinear",
        np_bilinear,
        shapes=[(2, 5, 3), (2, 5, 4), (6, 3, 4), (6,)],
        covers=["bilinear"],
        empty=[[(0, 3), (0, 4), (6, 3, 4), (6,)]],
        ones=[[(1, 1), (1, 1), (1, 1, 1), (1,)]],
        errors=[
            error(
                lambda op: op(dynograd.ones(2, 3), dynograd.ones(3, 4), dynograd.ones(5, 3, 4)),
                RuntimeError,
                "(2, 3)",
                "(3, 4)",
            ),
            error(
                lambda op: op(dynograd.ones(2, 3), dynograd.ones(2, 4), dynograd.ones(5, 4, 4)),
                RuntimeError,
                "(K, 3, 4)",
            ),
            error(
                lambda op: op(dynograd.ones(3), dynograd.ones(4), dynograd.ones(5, 3, 4), dynograd.ones(4)),
                RuntimeError,
                "bias",
                "(4,)",
                "5",
            ),
        ],
    ),
    Row("nn.functional.bilinear", np_bilinear, shapes=[(3,), (4,), (6, 3, 4)], id="vectors", empty=False, ones=False),
    *[
        Row("einsum", np_einsum, args=operands(equation, shapes), id=equation, method=False, tolerance=4)
        for equation, shapes in CONTRACTIONS.items()
    ],
    Row(
        "einsum",
        np_einsum,
        args=operands("ij,jk->ik", [(2, 3), (3, 4)]),
        dtypes=("int64", *COMPLEX),
        result=lambda name: name,
        grad=False,
        id="dtypes",
    ),
    Row(
        "einsum",
        lambda text, x, y: x.sum(1, keepdims=True) * y.sum(0),
        args=operands("ij,jk->ik", [(2, 1), (3, 4)]),
        id="ones-inside",
    ),
    Row("einsum", lambda text, x, y: x * y, args=operands("ij,ij->ij", [(2, 1), (1, 3)]), id="ones-outside"),
    Row(
        "einsum",
        lambda text, xs: numpy.einsum(text, *xs),
        args=lambda rng: ["ij,jk->ik", [rng.normal(size=(2, 3)), rng.normal(size=(3, 2))]],
        id="list",
    ),
    Row(
        "einsum",
        lambda x, one, y, two, out: x @ y,
        args=lambda rng: [rng.normal(size=(2, 3)), [0, 1], rng.normal(size=(3, 2)), [1, 30], [0, 30]],
        method=False,
        id="sublists",
        errors=[
            error(lambda op: op(dynograd.zeros(2), [52]), ValueError, "einsum", "[0, 52)", "52"),
            error(lambda op: op("ij"), RuntimeError, "einsum", "fewer operands", "'ij'"),
            einsum_error("ij,jk", (2, 3), "fewer operands", "(2, 3)"),
            einsum_error("ij", (2, 3), (3, 2), "more operands", "(3, 2)"),
            einsum_error(
                "ij,jk->ik", (2, 3), (4, 5), "subscript j has size 4 for operand 1", "previously seen size 3", "(4, 5)"
            ),
            einsum_error("ijk", (2, 3), "number of subscripts in the equation (3)", "dimensions (2) for operand 0"),
            einsum_error("i", (2, 3), "no ellipsis was given"),
            einsum_error("ij...k", (2, 3), "(3)", "(2)"),
            einsum_error("ij->k", (2, 3), "output subscript k does not appear"),
            einsum_error("ij->ii", (2, 3), "output subscript i appears more than once"),
            einsum_error("i1", (2, 3), "invalid subscript given: '1'"),
            einsum_error("i..j", (2, 3), "invalid subscript given: '.'"),
            einsum_error("ii", (2, 3), "subscript i is repeated for operand 0", "3 != 2"),
        ],
    ),
    *[
        Row(
            "tensordot",
            lambda a, b, dims: numpy.tensordot(a, b, dims),
            args=lambda rng, shapes=shapes, dims=dims: [*[rng.normal(size=s) for s in shapes], dims],
            id=str(dims),
            tolerance=4,
        )
        for shapes, dims in [
            ([(2, 3, 4), (3, 4, 2)], 2),
            ([(2, 3), (3, 2)], 1),
            ([(2,), (3,)], 0),
            ([(2, 3, 4), (4, 3, 2)], ([1, 2], [1, 0])),
            ([(2, 3, 4), (3, 2)], ([-2], [0])),
        ]
    ],
    Row(
        "tensordot",
        lambda a, b, dims: a @ b,
        args=lambda rng: [rng.normal(size=(2, 3)), rng.normal(size=(3, 2))],
        kwargs={"dims": (1, 0)},
        id="ints",
        errors=[
            error(
                lambda op: op(dynograd.zeros(2, 3), dynograd.zeros(4, 5), 1),
                RuntimeError,
                "tensordot",
                "size 3 in dim 1",
                "5",
                "4",
            ),
            error(
                lambda op: op(dynograd.zeros(2, 3), dynograd.zeros(4), 2), RuntimeError, "tensordot", "dims=2", "(4,)"
            ),
            error(
                lambda op: op(dynograd.zeros(2, 3), dynograd.zeros(4), ([0, 1], [0])),
                RuntimeError,
                "tensordot",
                "same length",
            ),
        ],
    ),
    Row("inner", numpy.inner, shapes=[(2, 3), (4, 3)]),
    Row("inner", numpy.inner, shapes=[(3,), (3,)], id="vectors"),
    Row(
        "inner",
        numpy.multiply,
        shapes=[(), (3,)],
        id="number",
        errors=[
            error(
                lambda op: op(dynograd.zeros(2, 3), dynograd.zeros(2)),
                RuntimeError,
                "inner",
                "last dimension must match",
                "(2, 3)",
                "(2,)",
            )
        ],
    ),
    Row(
        "vdot",
        numpy.vdot,
        shapes=[(3,), (3,)],
        dtypes=FLOATS + COMPLEX,
        errors=[error(lambda op: op(dynograd.zeros(2, 3), dynograd.zeros(3)), RuntimeError, "dot", "1-D", "(2, 3)")],
    ),
]
test_rows = generate(ROWS)


def test_einsum_of_the_same_tensor_twice():
    x = dynograd.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    dynograd.einsum("ij,ij->", x, x).backward()
    assert x.grad.tolist() == [[2, 4], [6, 8]]


def test_einsum_with_an_empty_inner_dim_is_zero():
    assert dynograd.einsum("ij,jk->ik", dynograd.zeros(2, 0), dynograd.zeros(0, 3)).tolist() == [[0.0] * 3] * 2


def test_einsum_multiplies_the_cheapest_pair_first():
    x, y, z = dynograd.ones(50, 50), dynograd.ones(50, 50), dynograd.ones(50)
    assert dynograd.einsum("ij,jk,k->i", x, y, z).tolist() == [2500.0] * 50
    from dynograd.ops.matmul.contractions import _cheapest_pair

    assert _cheapest_pair((("i", "j"), ("j", "k"), ("k",)), ((50, 50), (50, 50), (50,)), ("i",)) == (1, 2)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_einsum_refuses_mixed_dtypes(dtype):
    with pytest.raises(RuntimeError, match="same dtype"):
        dynograd.einsum(
            "ij,jk->ik",
            dynograd.zeros(2, 2, dtype=getattr(dynograd, dtype)),
            dynograd.zeros(2, 2, dtype=dynograd.float64),
        )


def test_sums_of_small_integers_keep_their_dtype():
    def ones(*shape):
        return dynograd.ones(*shape, dtype=dynograd.uint8)

    result = dynograd.tensordot(ones(1, 1, 1), ones(2, 1, 2), dims=([0, 1], [2, 0]))
    assert result.dtype is dynograd.uint8 and result.tolist() == [[4]]
    result = dynograd.nn.functional.bilinear(ones(2, 3), ones(2, 3), ones(1, 3, 3))
    assert result.dtype is dynograd.uint8 and result.tolist() == [[9], [9]]
