"""Norms and distances."""

import numpy
import pytest
from scipy.spatial.distance import cdist as scipy_cdist
from scipy.spatial.distance import pdist as scipy_pdist

import dynograd
from tests.ops.harness import Row, error, generate

inf, nan = float("inf"), float("nan")


def np_norm(input, p="fro", dim=None, keepdim=False, dtype=None):
    p = 2 if p in ("fro", None) else p
    size = numpy.abs(input)
    if p in (inf, -inf):
        return (size.max if p > 0 else size.min)(axis=dim, keepdims=keepdim)
    if p == 0:
        return (size != 0).sum(axis=dim, keepdims=keepdim)
    return (size**p).sum(axis=dim, keepdims=keepdim) ** (1 / p)


def np_renorm(input, p, dim, maxnorm):
    dims = tuple(place for place in range(input.ndim) if place != dim % input.ndim)
    sizes = np_norm(input, p, dims, True)
    return numpy.where(sizes > maxnorm, input * maxnorm / (sizes + 1e-7), input)


def np_cdist(x1, x2, p=2.0, compute_mode=None):
    return scipy_cdist(x1, x2, "minkowski", p=p) if p else (x1[:, None] != x2[None]).sum(-1)


def points(*shapes):
    return {"args": lambda rng: [rng.normal(size=shape) for shape in shapes]}


def np_pdist(x, p=2.0):
    return scipy_pdist(x, "minkowski", p=p) if len(x) > 1 else numpy.zeros(0)


ROWS = [
    *[
        Row(
            "pdist",
            np_pdist,
            shapes=[(4, 3)],
            kwargs={"p": p},
            empty=[[(0, 3)], [(1, 3)]],
            tolerance=4,
            id=None if p == 2 else f"p={p}",
            errors=[
                error(lambda op: op(dynograd.ones(2, 3, 4)), RuntimeError, "2D", "(2, 3, 4)"),
                error(lambda op: op(dynograd.ones(2, 3), -1), RuntimeError, "non-negative", "-1"),
            ],
        )
        for p in (2.0, 1.0, 3.0, float("inf"))
    ],
    *[
        Row(
            "norm",
            np_norm,
            shapes=[(2, 3, 4)],
            kwargs={"p": p, "dim": dim, "keepdim": keepdim},
            avoid=[0.0],
            id=f"{p}-{dim}-{keepdim}",
            empty=False,
            tolerance=4,
            covers=["vector_norm", "absolute_power", "signed_power"],
        )
        for p, dim, keepdim in [
            ("fro", None, False),
            (2, 1, False),
            (2, -1, True),
            (1, (0, 2), False),
            (3, 1, True),
            (2.5, None, False),
            (0.5, -1, False),
            (-1, 0, False),
            (inf, 1, False),
            (-inf, (0, 1), True),
            (0, 2, False),
        ]
    ],
    Row("norm", np_norm, shapes=[()], avoid=[0.0], empty=False, id="scalar"),
    Row(
        "norm",
        lambda x: (abs(x) ** 2).sum() ** 0.5,
        shapes=[(3, 4)],
        dtypes=("complex64", "complex128"),
        result=lambda n: {"complex64": "float32", "complex128": "float64"}[n],
        grad=False,
        id="complex",
    ),
    Row("norm", np_norm, shapes=[(40, 2000)], kwargs={"dim": 1}, grad=False, empty=False, id="large-rows"),
    Row(
        "norm",
        np_norm,
        shapes=[(3,)],
        kwargs={"dtype": dynograd.float64},
        dtypes=("float32", "int64"),
        result="float64",
        avoid=[0.0],
        id="dtype",
        errors=[
            error(lambda op: op(dynograd.arange(3)), RuntimeError, "norm", "floating point", "int64", "float()"),
            error(lambda op: op(dynograd.zeros(0), inf), RuntimeError, "norm", "inf norm", "empty", "(0,)"),
            error(lambda op: op(dynograd.zeros(2, 0), -1, 1), RuntimeError, "norm", "-1 norm", "empty"),
            error(lambda op: op(dynograd.zeros(3), "nuc"), RuntimeError, "norm", "at least 2 dimensions", "(3,)"),
            error(lambda op: op(dynograd.zeros(3), "zz"), RuntimeError, "norm", "'zz'", "'nuc'"),
            error(lambda op: op(dynograd.zeros(3), 2, 1), IndexError, "norm", "out of range"),
        ],
    ),
    Row("dist", lambda x, y, p=2: np_norm(x - y, p), shapes=[(3, 4), (4,)]),
    Row("dist", lambda x, y, p=2: np_norm(x - y, p), shapes=[(3,), (3,)], kwargs={"p": 1}, id="one"),
    Row(
        "renorm",
        np_renorm,
        args=lambda rng: [rng.normal(size=(3, 4)), 2, 0, 1.5],
        errors=[
            error(lambda op: op(dynograd.zeros(3), 2, 0, 1.0), RuntimeError, "renorm", "at least 2 dimensions", "(3,)")
        ],
    ),
    Row("renorm", np_renorm, args=lambda rng: [rng.normal(size=(2, 3, 4)), 1, -1, 2.0], id="p-1"),
    *[
        Row("cdist", np_cdist, **points((3, 4), (5, 4)), kwargs={"p": p}, id=f"p={p}", tolerance=4)
        for p in (2.0, 1.0, 3.5, inf)
    ],
    Row("cdist", np_cdist, **points((3, 4), (5, 4)), kwargs={"p": 0.0}, id="p=0", grad=False),
    Row(
        "cdist",
        np_cdist,
        **points((30, 4), (5, 4)),
        id="product",
        dtypes=("float32", "float64"),
        tolerance={"float32": (1e-4, 1e-3), "float64": (1e-9, 1e-7)},
    ),
    Row(
        "cdist",
        lambda x, y: numpy.stack([[np_cdist(a, b) for b in y[0]] for a in x[:, 0]]),
        **points((2, 1, 3, 4), (1, 2, 5, 4)),
        id="batches",
        errors=[
            error(
                lambda op: op(dynograd.zeros(2, 3), dynograd.zeros(2, 4)),
                RuntimeError,
                "cdist",
                "same number of columns",
                "(2, 3)",
                "(2, 4)",
            ),
            error(
                lambda op: op(dynograd.zeros(3), dynograd.zeros(2, 3)), RuntimeError, "cdist", "at least 2 dimensions"
            ),
            error(
                lambda op: op(dynograd.zeros(2, 3), dynograd.zeros(2, 3), p=-1),
                RuntimeError,
                "cdist",
                "non-negative",
                "-1",
            ),
            error(
                lambda op: op(dynograd.zeros(2, 3), dynograd.zeros(2, 3), compute_mode="a"),
                ValueError,
                "cdist",
                "compute_mode",
                "a",
            ),
        ],
    ),
]
test_rows = generate(ROWS)


def gradient(function, values):
    x = dynograd.tensor(values, dtype=dynograd.float64, requires_grad=True)
    (g,) = dynograd.autograd.grad(function(x).sum(), x)
    return g.tolist()


@pytest.mark.parametrize("p", [2, 1, 3, 0.5, 0, inf])
def test_the_gradient_at_zero_is_zero(p):
    assert gradient(lambda x: x.norm(p), [0.0, 0.0]) == [0, 0]


def test_the_gradient_at_a_zero_of_a_norm_below_one_is_zero():
    assert gradient(lambda x: x.norm(0.5), [0.0, 4.0]) == [0, 1]


def test_the_second_derivative_at_zero_is_finite():
    x = dynograd.tensor([[0.0, 0.0], [3.0, 4.0]], dtype=dynograd.float64, requires_grad=True)
    (g,) = dynograd.autograd.grad(x.norm(dim=1).sum(), x, create_graph=True)
    (second,) = dynograd.autograd.grad(g[:, 0].sum(), x)
    assert second.tolist() == [[0, 0], [pytest.approx(16 / 125), pytest.approx(-12 / 125)]]


def test_ties_share_the_gradient_of_the_largest():
    assert gradient(lambda x: x.norm(inf), [3.0, -3.0, 1.0]) == [0.5, -0.5, 0]


def test_distances_between_equal_points_have_no_gradient():
    points = [[1.0, 2.0], [1.0, 2.0], [4.0, 6.0]]
    x = dynograd.tensor(points, requires_grad=True)
    dynograd.cdist(x, x.detach()).sum().backward()
    assert x.grad.isfinite().all()
    assert x.grad[2].tolist() == [pytest.approx(1.2), pytest.approx(1.6)]


def test_direct_distances_are_exact_far_from_zero():
    x = dynograd.full((40, 2), 1e4)
    y = x + dynograd.tensor([0.0, 1.0])
    assert dynograd.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist").tolist() == [[1.0] * 40] * 40


def test_gradient_of_a_complex_norm():
    x = dynograd.tensor([3 + 4j, 0j], dtype=dynograd.complex128, requires_grad=True)
    x.norm().backward()
    assert x.grad.tolist() == [pytest.approx(0.6 + 0.8j), 0]
    x = dynograd.tensor([3 + 4j, 0j], dtype=dynograd.complex128, requires_grad=True)
    x.norm(1).backward()
    assert x.grad.tolist() == [pytest.approx(0.6 + 0.8j), 0]


def test_renorm_leaves_slices_whose_norm_is_nan():
    x = dynograd.tensor([[numpy.nan, 1.0], [3.0, 4.0], [0.3, 0.4]], requires_grad=True)
    expected = numpy.float32([[numpy.nan, 1.0], [0.6, 0.8], [0.3, 0.4]])
    numpy.testing.assert_allclose(x.detach().renorm(2, 0, 1.0).numpy(), expected, rtol=1e-6)
    result = x.renorm(2, 0, 1.0)
    result.sum().backward()
    numpy.testing.assert_allclose(result.detach().numpy(), expected, rtol=1e-6)
    assert x.grad[2].tolist() == [1.0, 1.0]
