"""Largest and smallest elements, and where they are."""

import numpy
import pytest

import dynograd
from tests.ops.harness import BOOL, FLOATS, INTEGERS, Row, error, generate

nan, inf = float("nan"), float("inf")
ORDERED = FLOATS + INTEGERS


def np_max(input, dim, keepdim=False):
    return input.max(dim, keepdims=keepdim), input.argmax(dim, keepdims=keepdim)


def np_min(input, dim, keepdim=False):
    return input.min(dim, keepdims=keepdim), input.argmin(dim, keepdims=keepdim)


def np_amax(input, dim=None, keepdim=False):
    return input.max(None if dim == () else dim, keepdims=keepdim)


def np_amin(input, dim=None, keepdim=False):
    return input.min(None if dim == () else dim, keepdims=keepdim)


def np_argmax(input, dim=None, keepdim=False):
    return input.argmax(dim, keepdims=keepdim)


def np_argmin(input, dim=None, keepdim=False):
    return input.argmin(dim, keepdims=keepdim)


def np_aminmax(input, dim=None, keepdim=False):
    return input.min(dim, keepdims=keepdim), input.max(dim, keepdims=keepdim)


def empty_errors(who):
    return [
        error(
            lambda op: op(dynograd.zeros(0)),
            RuntimeError,
            who,
            "Expected reduction dim to be specified for input.numel() == 0",
            "'dim'",
        ),
        error(
            lambda op: op(dynograd.zeros(2, 0), dim=1),
            IndexError,
            who,
            "Expected reduction dim 1 to have non-zero size",
            "(2, 0)",
        ),
        error(lambda op: op(dynograd.zeros(2), dim=1), IndexError, who, "out of range", "[-1, 0]", "1"),
    ]


ROWS = [
    *[
        Row(
            name,
            reference,
            shapes=[(2, 3, 4)],
            kwargs=kwargs,
            id=str(kwargs),
            empty=False,
            dtypes=ORDERED,
            result=lambda name: name,
        )
        for name, reference in (("amax", np_amax), ("amin", np_amin))
        for kwargs in ({}, {"dim": 0}, {"dim": (0, -1), "keepdim": True}, {"dim": ()}, {"keepdim": True})
    ],
    Row(
        "amax",
        np_amax,
        shapes=[(2, 3)],
        dtypes=BOOL,
        result="bool",
        grad=False,
        empty=False,
        id="bool",
        errors=empty_errors("amax"),
    ),
    Row("amin", np_amin, shapes=[()], empty=False, id="scalar", covers=["tie_shares"], errors=empty_errors("amin")),
    *[
        Row(
            name,
            reference,
            shapes=[(2, 3, 4)],
            kwargs=kwargs,
            id=str(kwargs),
            empty=False,
            dtypes=ORDERED,
            result=("same", "int64"),
        )
        for name, reference in (("max", np_max), ("min", np_min))
        for kwargs in ({"dim": 0}, {"dim": -1, "keepdim": True}, {"dim": 1})
    ],
    Row(
        "max",
        np_amax,
        shapes=[(2, 3)],
        dtypes=ORDERED,
        result="same",
        empty=False,
        id="all",
        errors=empty_errors("max"),
    ),
    Row(
        "min",
        np_amin,
        shapes=[(2, 3)],
        dtypes=ORDERED,
        result="same",
        empty=False,
        id="all",
        errors=empty_errors("min"),
    ),
    Row(
        "max",
        numpy.maximum,
        shapes=[(2, 3), (3,)],
        dtypes=ORDERED,
        result="same",
        id="other",
        errors=[
            error(
                lambda op: op(dynograd.zeros(2, 3), (0, 1)),
                TypeError,
                "max",
                "dim must be an int or a Tensor",
                "(0, 1)",
                "amax",
            ),
            error(lambda op: op(dynograd.zeros(2), dynograd.zeros(3)), RuntimeError, "maximum", "(2,)", "(3,)"),
        ],
    ),
    Row(
        "min",
        lambda x, other: numpy.minimum(x, other),
        args=lambda rng: [rng.normal(size=3)],
        kwargs=lambda rng: {"other": rng.normal(size=3)},
        id="other",
    ),
    Row(
        "max",
        lambda x, axis, keepdims: np_max(x, axis, keepdims),
        shapes=[(2, 3)],
        kwargs={"axis": 1, "keepdims": True},
        result=("same", "int64"),
        empty=False,
        id="names",
    ),
    Row(
        "max",
        lambda x, dim: (x, numpy.array(0)),
        shapes=[()],
        kwargs={"dim": 0},
        result=("same", "int64"),
        empty=False,
        id="scalar",
    ),
    *[
        Row(
            name,
            reference,
            shapes=[(2, 3, 4)],
            kwargs=kwargs,
            id=str(kwargs),
            empty=False,
            dtypes=ORDERED,
            result="int64",
        )
        for name, reference in (("argmax", np_argmax), ("argmin", np_argmin))
        for kwargs in ({}, {"dim": 1}, {"dim": -1, "keepdim": True}, {"keepdim": True})
    ],
    *[
        Row(
            name,
            None,
            shapes=[()],
            result="int64",
            id="errors",
            empty=False,
            errors=[
                error(lambda op: op(dynograd.zeros(0)), IndexError, name, "numel() == 0", "'dim'"),
                error(lambda op: op(dynograd.zeros(2, 0), 1), IndexError, name, "non-zero size"),
                error(lambda op: op(dynograd.tensor([1j])), RuntimeError, name, "complex", "abs()"),
            ],
        )
        for name in ("argmax", "argmin")
    ],
    *[
        Row(
            "aminmax",
            np_aminmax,
            shapes=[(3, 4)],
            kwargs=kwargs,
            id=str(kwargs),
            empty=False,
            dtypes=ORDERED,
            result=("same", "same"),
        )
        for kwargs in ({}, {"dim": 1}, {"dim": 0, "keepdim": True})
    ],
]
test_rows = generate(ROWS)


def gradient(function, values):
    x = dynograd.tensor(values, dtype=dynograd.float64, requires_grad=True)
    (g,) = dynograd.autograd.grad(function(x).sum(), x)
    return g.tolist()


def test_ties_share_the_gradient_of_amax_evenly():
    assert gradient(lambda x: x.amax(1), [[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]]) == [[0, 0.5, 0.5], [1 / 3] * 3]
    assert gradient(lambda x: x.max(), [[1.0, 3.0], [3.0, 3.0]]) == [[0, 1 / 3], [1 / 3, 1 / 3]]
    assert gradient(lambda x: x.amin((0, 1)), [[1.0, 3.0], [1.0, 3.0]]) == [[0.5, 0], [0.5, 0]]


def test_the_index_of_ties_is_the_first_and_gets_the_gradient_of_max():
    assert dynograd.tensor([1.0, 3.0, 3.0]).max(0).indices.item() == 1
    assert dynograd.tensor([1, 1, 3]).argmin().item() == 0
    assert gradient(lambda x: x.max(0).values, [1.0, 3.0, 3.0]) == [0, 1, 0]
    assert gradient(lambda x: x.min(dim=0, keepdim=True)[0], [1.0, 3.0, 1.0]) == [1, 0, 0]


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_nan_wins(name, dtype):
    x = dynograd.tensor([[1.0, nan, 3.0, nan]], dtype=getattr(dynograd, dtype))
    values, indices = getattr(x, name)(1)
    assert values.isnan().all() and indices.tolist() == [1]
    assert getattr(x, name)().isnan() and getattr(x, f"a{name}")(1).isnan().all()
    assert getattr(x, f"arg{name}")().item() == 1


def test_results_have_names():
    result = dynograd.tensor([[1.0, 2.0]]).max(dim=1)
    assert result.values.item() == 2 and result.indices.item() == 1
    values, indices = result
    assert values is result.values and indices is result.indices
    assert not indices.requires_grad
    both = dynograd.aminmax(dynograd.tensor([3, 1, 2]))
    assert (both.min.item(), both.max.item()) == (1, 3)


def test_extremes_of_booleans():
    x = dynograd.tensor([[True, False], [False, False]])
    assert x.max().item() is True and x.amin(1).tolist() == [False, False]
    assert x.max(1).indices.tolist() == [0, 0]


def test_results_do_not_share_memory_with_the_input():
    x = dynograd.tensor(3.0)
    values = x.max(0).values
    values += 1
    assert x.item() == 3


@pytest.mark.parametrize("name", ["argmax", "argmin", "amax", "any", "all", "sum"])
def test_a_dim_may_be_a_number_of_numpy(name):
    x = dynograd.tensor([[1.0, 5.0, 2.0], [0.0, 2.0, 7.0]])
    numbered, plain = getattr(x, name)(numpy.int64(1)), getattr(x, name)(1)
    assert numbered.tolist() == plain.tolist()
