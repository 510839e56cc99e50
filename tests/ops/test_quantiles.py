"""Medians, modes and quantiles."""

import numpy
import pytest

import dynograd
from tests.ops.harness import FLOATS, INTEGERS, Row, error, generate

nan = float("nan")
BOTH = ("same", "int64")


def np_median(input, dim=None, keepdim=False):
    if dim is None:
        return numpy.sort(input.reshape(-1))[(input.size - 1) // 2]
    values = numpy.sort(input, dim).take([(input.shape[dim] - 1) // 2], dim)
    index = (input == values).argmax(dim, keepdims=True)
    return (values, index) if keepdim else (values.squeeze(dim), index.squeeze(dim))


def np_mode(input, dim=-1, keepdim=False):
    rows = numpy.moveaxis(input, dim, -1)
    values, index = numpy.empty(rows.shape[:-1], input.dtype), numpy.zeros(rows.shape[:-1], int)
    for place in numpy.ndindex(values.shape):
        result, counts = numpy.unique(rows[place], return_counts=True)
        values[place] = result[counts.argmax()]
        index[place] = numpy.flatnonzero(rows[place] == values[place])[-1]
    return (numpy.expand_dims(values, dim), numpy.expand_dims(index, dim)) if keepdim else (values, index)


def np_quantile(function):
    def reference(input, q, dim=None, keepdim=False, interpolation="linear"):
        return function(input, q, dim, keepdims=keepdim, method=interpolation)

    return reference


def repeated(*shape):
    return lambda rng: [rng.integers(0, 3, shape).astype(float)]


def with_nan(q):
    def args(rng):
        values = rng.normal(size=(3, 5))
        values[0, 1] = values[2, 0] = values[2, 3] = nan
        return [values, q]

    return args


ROWS = [
    *[
        Row(
            "median",
            np_median,
            shapes=[(3, 4)],
            kwargs=kwargs,
            id=str(kwargs),
            empty=False,
            dtypes=FLOATS + INTEGERS,
            result=BOTH if kwargs else lambda name: name,
        )
        for kwargs in ({}, {"dim": 0}, {"dim": -1, "keepdim": True})
    ],
    Row(
        "median",
        lambda x, dim: (x, numpy.array(0)),
        shapes=[()],
        kwargs={"dim": 0},
        result=BOTH,
        empty=False,
        id="scalar",
        covers=["median_of_all"],
    ),
    *[
        Row(
            name,
            reference,
            shapes=[(2, 3, 4)],
            kwargs={"dim": dim, "keepdim": keepdim},
            id=f"3d-{dim}-{keepdim}",
            empty=False,
            result=BOTH,
            second=False,
        )
        for name, reference in (("median", np_median), ("mode", np_mode))
        for dim in (0, 1)
        for keepdim in (False, True)
    ],
    Row(
        "nanmedian",
        np_median,
        shapes=[(2, 5)],
        kwargs={"dim": 1},
        empty=False,
        result=BOTH,
        errors=[
            error(lambda op: op(dynograd.zeros(2, 0), 1), IndexError, "nanmedian", "non-zero size", "(2, 0)"),
            error(lambda op: op(dynograd.tensor([1j]), 0), RuntimeError, "nanmedian", "complex"),
        ],
    ),
    *[
        Row(
            "mode",
            np_mode,
            args=repeated(4, 6),
            kwargs=kwargs,
            id=f"repeated-{kwargs}",
            dtypes=FLOATS + ("int64",),
            result=BOTH,
            grad=False,
        )
        for kwargs in ({}, {"dim": 0}, {"keepdim": True})
    ],
    *[
        Row("mode", np_mode, shapes=[(3, 4)], kwargs=kwargs, id=str(kwargs), empty=False, result=BOTH)
        for kwargs in ({}, {"dim": 0}, {"keepdim": True})
    ],
    Row(
        "mode",
        lambda x: (x, numpy.array(0)),
        shapes=[()],
        result=BOTH,
        empty=False,
        id="scalar",
        errors=[error(lambda op: op(dynograd.zeros(0)), IndexError, "mode", "non-zero size")],
    ),
    *[
        Row(
            "quantile",
            np_quantile(numpy.quantile),
            args=lambda rng: [rng.normal(size=(3, 5)), 0.3],
            kwargs=kwargs,
            id=str(kwargs),
            dtypes=FLOATS[:2],
        )
        for kwargs in [
            {},
            {"dim": 1},
            {"dim": 0, "keepdim": True},
            {"keepdim": True},
            *[{"dim": 1, "interpolation": way} for way in ("lower", "higher", "midpoint", "nearest")],
        ]
    ],
    *[
        Row(
            "quantile",
            np_quantile(numpy.quantile),
            args=lambda rng: [rng.normal(size=(3, 5)), numpy.array([0.1, 0.9, 0.55])],
            kwargs=kwargs,
            id=f"several-{kwargs}",
            dtypes=FLOATS[:2],
        )
        for kwargs in ({}, {"dim": 1}, {"dim": 0, "keepdim": True})
    ],
    Row(
        "quantile",
        lambda x, q: x,
        args=lambda rng: [numpy.array(0.7), 0.4],
        dtypes=FLOATS[:2],
        id="scalar",
        covers=["whole_places"],
        errors=[
            error(lambda op: op(dynograd.zeros(3), 1.5), ValueError, "quantile", "range [0, 1]", "1.5"),
            error(lambda op: op(dynograd.arange(3), 0.5), RuntimeError, "quantile", "float or double", "int64"),
            error(lambda op: op(dynograd.zeros(0), 0.5), RuntimeError, "quantile", "non-empty", "(0,)"),
            error(
                lambda op: op(dynograd.zeros(3), 0.5, interpolation="cubic"),
                RuntimeError,
                "quantile",
                "cubic",
                "midpoint",
            ),
            error(
                lambda op: op(dynograd.zeros(3), dynograd.zeros(1, 1)),
                RuntimeError,
                "quantile",
                "scalar or 1D",
                "(1, 1)",
            ),
            error(
                lambda op: op(dynograd.zeros(3), dynograd.zeros(1, dtype=dynograd.float64)),
                RuntimeError,
                "quantile",
                "same dtype",
            ),
        ],
    ),
    Row(
        "nanquantile",
        np_quantile(numpy.nanquantile),
        args=with_nan(0.3),
        kwargs={"dim": 1},
        dtypes=FLOATS[:2],
        grad=False,
        jvp=False,
        strided=False,
    ),
    Row(
        "nanquantile",
        np_quantile(numpy.nanquantile),
        args=with_nan(numpy.array([0.25, 0.7])),
        grad=False,
        jvp=False,
        dtypes=FLOATS[:2],
        strided=False,
        id="several",
    ),
]
test_rows = generate(ROWS)


def gradient(function, values):
    x = dynograd.tensor(values, dtype=dynograd.float64, requires_grad=True)
    (g,) = dynograd.autograd.grad(function(x).sum(), x)
    return g.tolist()


def test_median_takes_the_lower_of_two():
    assert dynograd.tensor([4.0, 1.0, 3.0, 2.0]).median().item() == 2
    assert gradient(lambda x: x.median(), [4.0, 1.0, 2.0, 2.0]) == [0, 0, 0.5, 0.5]
    assert gradient(lambda x: x.median(0).values, [4.0, 1.0, 2.0, 2.0]) == [0, 0, 1, 0]


def test_nan_wins_in_median_and_is_left_out_of_nanmedian():
    x = dynograd.tensor([[1.0, nan, 3.0, nan], [1.0, 2.0, 3.0, 4.0], [nan] * 4])
    values, indices = x.median(1)
    assert values.isnan().tolist() == [True, False, True] and indices.tolist() == [1, 1, 0]
    values, indices = x.nanmedian(1)
    assert values[:2].tolist() == [1, 2] and values[2].isnan() and indices.tolist() == [0, 1, 0]
    assert x.median().isnan() and x.nanmedian().item() == 2


def test_median_of_nothing_is_nan():
    assert dynograd.zeros(0).median().isnan()


def test_mode_of_ties_is_the_smallest_at_its_last_place():
    values, indices = dynograd.tensor([[2, 1, 2, 1, 3], [5, 5, 4, 4, 6]]).mode()
    assert values.tolist() == [1, 4] and indices.tolist() == [3, 3]
    assert gradient(lambda x: x.mode(0).values, [3.0, 1.0, 1.0]) == [0, 0, 1]


def test_quantile_of_rows_with_nan():
    x = dynograd.tensor([[1.0, nan, 3.0], [1.0, 2.0, 3.0]])
    result = x.quantile(dynograd.tensor([0.0, 0.5]), 1)
    assert result.isnan().tolist() == [[True, False], [True, False]] and result[:, 1].tolist() == [1, 2]
    assert dynograd.tensor([nan, nan]).nanquantile(0.5).isnan()


def test_gradient_of_a_quantile_is_shared_by_its_neighbours():
    assert gradient(lambda x: x.quantile(0.25), [4.0, 0.0, 2.0]) == [0, 0.5, 0.5]


def test_quantile_is_differentiable_in_q():
    q = dynograd.tensor([0.25], dtype=dynograd.float64, requires_grad=True)
    dynograd.tensor([0.0, 4.0, 5.0], dtype=dynograd.float64).quantile(q).sum().backward()
    assert q.grad.tolist() == [pytest.approx(8.0)]
