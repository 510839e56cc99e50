"""Running sums, products and extremes, differences and areas."""

import numpy
import pytest

import dynograd
from tests.ops.harness import BOOL, COMPLEX, FLOATS, INTEGERS, Row, error, generate

nan, inf = float("nan"), float("inf")


def np_cumsum(input, dim, **_):
    return numpy.cumsum(input, dim)


def np_cumprod(input, dim, **_):
    return numpy.cumprod(input, dim)


def np_running(function, better):
    def reference(input, dim):
        rows = numpy.moveaxis(input, dim, -1)
        values, indices = numpy.empty_like(rows), numpy.zeros(rows.shape, int)
        for place in numpy.ndindex(rows.shape[:-1]):
            best = 0
            for k, value in enumerate(rows[place]):
                best = k if better(value, rows[place][best]) else best
                values[place][k], indices[place][k] = rows[place][best], best
        return numpy.moveaxis(values, -1, dim), numpy.moveaxis(indices, -1, dim)

    return reference


def np_logcumsumexp(input, dim):
    return numpy.log(numpy.cumsum(numpy.exp(input), dim))


def np_diff(input, n=1, dim=-1, prepend=None, append=None):
    argument = {key: value for key, value in (("prepend", prepend), ("append", append)) if value is not None}
    return numpy.diff(input, n, dim, **argument)


def np_trapezoid(y, x=None, dx=1.0, dim=-1):
    return numpy.trapezoid(y, x, dx, dim)


def np_cumulative(y, x=None, dx=1.0, dim=-1):
    y = numpy.moveaxis(y, dim, -1)
    steps = dx if x is None else numpy.diff(x)
    return numpy.moveaxis(numpy.cumsum((y[..., 1:] + y[..., :-1]) / 2 * steps, -1), -1, dim)


def widest(name):
    return "int64" if name in INTEGERS + BOOL else name


def zeros_at(*places):
    def args(rng):
        values = rng.uniform(0.5, 2, (3, 5))
        for place in places:
            values[place] = 0
        return [values]

    return args


def scan_errors(name):
    return [
        error(lambda op: op(dynograd.zeros(3), 1), IndexError, name, "out of range", "[-1, 0]", "1"),
        error(lambda op: op(dynograd.zeros(3)), TypeError, name, "dim"),
    ]


ROWS = [
    *[
        Row(
            name,
            reference,
            shapes=[(2, 3, 4)],
            kwargs={"dim": dim},
            id=str(dim),
            dtypes=FLOATS + INTEGERS + BOOL + COMPLEX,
            result=widest,
            inplace=False,
        )
        for name, reference in (("cumsum", np_cumsum), ("cumprod", np_cumprod))
        for dim in (0, 1, -1)
    ],
    Row(
        "cumsum", np_cumsum, shapes=[(70, 3, 50)], kwargs={"dim": 0}, grad=False, inplace=False, id="rows", tolerance=10
    ),
    Row(
        "cumsum",
        np_cumsum,
        shapes=[(3, 20, 700)],
        kwargs={"dim": 1},
        grad=False,
        inplace=False,
        id="middle",
        tolerance=10,
    ),
    Row(
        "cumsum",
        lambda x, axis: x.cumsum(axis),
        shapes=[(2, 3)],
        kwargs={"axis": 1},
        id="axis",
        errors=scan_errors("cumsum"),
    ),
    Row(
        "cumsum",
        np_cumsum,
        shapes=[(2, 3)],
        kwargs={"dim": 1, "dtype": dynograd.float64},
        result="float64",
        inplace=False,
        id="dtype",
    ),
    Row("cumsum", lambda x, dim: x, shapes=[()], kwargs={"dim": 0}, empty=False, id="scalar"),
    Row(
        "cumprod",
        np_cumprod,
        args=zeros_at((0, 1)),
        kwargs={"dim": 1},
        id="zero",
        covers=["sum_onwards", "recurrence", "behind_one", "reversed_along"],
        errors=scan_errors("cumprod"),
    ),
    Row("cumprod", np_cumprod, args=zeros_at((0, 0), (0, 3), (1, 4), (2, 1), (2, 2)), kwargs={"dim": 1}, id="zeros"),
    Row("cumprod", np_cumprod, args=zeros_at((0, 0), (1, 0), (2, 3)), kwargs={"dim": 0}, id="zeros-0"),
    Row("cumprod", lambda x, dim: x, shapes=[()], kwargs={"dim": 0}, empty=False, id="scalar"),
    *[
        Row(
            name,
            np_running(None, better),
            shapes=[(2, 3, 4)],
            kwargs={"dim": dim},
            id=str(dim),
            dtypes=FLOATS + INTEGERS,
            result=("same", "int64"),
        )
        for name, better in (("cummax", lambda a, b: a >= b), ("cummin", lambda a, b: a <= b))
        for dim in (0, -1)
    ],
    *[
        Row(
            name,
            lambda x, dim: (x, numpy.array(0)),
            shapes=[()],
            kwargs={"dim": 0},
            result=("same", "int64"),
            empty=False,
            id="scalar",
            errors=scan_errors(name),
        )
        for name in ("cummax", "cummin")
    ],
    *[
        Row("logcumsumexp", np_logcumsumexp, shapes=[(2, 3, 4)], kwargs={"dim": dim}, id=str(dim), tolerance=4)
        for dim in (0, -1)
    ],
    Row(
        "logcumsumexp",
        np_logcumsumexp,
        shapes=[(3,)],
        kwargs={"dim": 0},
        dtypes=INTEGERS,
        result="float32",
        grad=False,
        id="integers",
    ),
    Row(
        "logcumsumexp",
        lambda x, dim: x,
        shapes=[()],
        kwargs={"dim": 0},
        empty=False,
        id="scalar",
        errors=scan_errors("logcumsumexp"),
    ),
    *[
        Row(
            "diff",
            np_diff,
            shapes=[(4, 5)],
            kwargs=kwargs,
            id=str(kwargs),
            dtypes=FLOATS + ("int64",),
            result=lambda name: name,
            empty=False,
            second=kwargs.get("n") != 7,
        )
        for kwargs in ({}, {"n": 2}, {"dim": 0}, {"n": 0}, {"n": 7})
    ],
    Row(
        "diff",
        np_diff,
        shapes=[(2, 3)],
        kwargs=lambda rng: {"prepend": rng.normal(size=(2, 1)), "append": rng.normal(size=(2, 2))},
        empty=False,
        ones=False,
        id="more",
    ),
    Row(
        "diff",
        np_diff,
        shapes=[(5,)],
        dtypes=BOOL,
        result="bool",
        grad=False,
        id="bool",
        errors=[
            error(lambda op: op(dynograd.tensor(1.0)), RuntimeError, "diff", "at least one-dimensional"),
            error(lambda op: op(dynograd.zeros(3), -1), RuntimeError, "diff", "non-negative", "-1"),
        ],
    ),
    *[
        Row(name, reference, id=title, **options)
        for name, reference in (
            ("trapezoid", np_trapezoid),
            ("trapz", np_trapezoid),
            ("cumulative_trapezoid", np_cumulative),
        )
        for title, options in {
            "plain": dict(shapes=[(3, 4)]),
            "dx": dict(shapes=[(3, 4)], kwargs={"dx": 0.5, "dim": 0}),
            "x": dict(shapes=[(3, 4), (4,)]),
            "integers": dict(shapes=[(4,)], dtypes=("int64",), result="float32", grad=False),
        }.items()
    ],
    Row(
        "trapezoid",
        np_trapezoid,
        shapes=[(3, 4), (3, 4)],
        id="full-x",
        errors=[
            error(
                lambda op: op(dynograd.zeros(2, 3), dynograd.zeros(2)),
                RuntimeError,
                "trapezoid",
                "one `x` value for each sample",
                "(2,)",
                "(2, 3)",
            ),
            error(lambda op: op(dynograd.zeros(3), dynograd.zeros(3), dx=1.0), TypeError, "trapezoid", "both x and dx"),
            error(lambda op: op(dynograd.tensor([True])), RuntimeError, "trapezoid", "bool"),
        ],
    ),
]
test_rows = generate(ROWS)


def gradient(function, values):
    x = dynograd.tensor(values, dtype=dynograd.float64, requires_grad=True)
    (g,) = dynograd.autograd.grad(function(x).sum(), x)
    return g.tolist()


def test_scans_of_half_precision_are_accumulated_in_float32():
    assert dynograd.ones(3000, dtype=dynograd.bfloat16).cumsum(0)[-1].item() == pytest.approx(3000, rel=0.01)


@pytest.mark.parametrize(("name", "expected"), [("cummax", [0, 1, 1, 1]), ("cummin", [0, 1, 1, 1])])
def test_nan_stays_to_the_end(name, expected):
    values, indices = getattr(dynograd.tensor([1.0, nan, 2.0, 0.0]), name)(0)
    assert values.isnan().tolist() == [False, True, True, True]
    assert indices.tolist() == expected


def test_the_last_of_equals_gets_the_gradient_of_cummax():
    assert dynograd.tensor([1.0, 3.0, 3.0, 2.0]).cummax(0).indices.tolist() == [0, 1, 2, 2]
    assert gradient(lambda x: x.cummax(0).values, [1.0, 3.0, 3.0, 2.0]) == [1, 1, 2, 0]


def test_logcumsumexp_of_masked_and_large_numbers():
    x = dynograd.tensor([-inf, -inf, 0.0, 1000.0])
    assert x.logcumsumexp(0).tolist() == [-inf, -inf, 0.0, 1000.0]
    assert gradient(lambda x: x.logcumsumexp(0), [-inf, -inf, 0.0, 1000.0]) == [0, 0, 1, 1]


def test_cumprod_in_place():
    x = dynograd.tensor([1.0, 2.0, 3.0])
    assert x.cumprod_(0) is x and x.tolist() == [1, 2, 6]
    assert x.cumsum_(0) is x and x.tolist() == [1, 3, 9]


def test_third_derivative_of_cumprod_at_zeros():
    x = dynograd.tensor([0.0, 0.0, 2.0], dtype=dynograd.float64, requires_grad=True)
    (first,) = dynograd.autograd.grad(x.cumprod(0).sum(), x, create_graph=True)
    assert first.tolist() == [1, 0, 0]
    (second,) = dynograd.autograd.grad(first[0], x, create_graph=True)
    assert second.tolist() == [0, 3, 0]
    (third,) = dynograd.autograd.grad(second[1], x)
    assert third.tolist() == [0, 0, 1]


def test_long_cumprod_gradient_is_the_same_with_and_without_zeros():
    values = numpy.random.default_rng(0).uniform(0.9, 1.1, 300)
    whole = numpy.array(gradient(lambda x: x.cumprod(0), values.tolist()))
    head = numpy.array(gradient(lambda x: x.cumprod(0), [*values[:200].tolist(), 0.0, *values[201:].tolist()]))
    expected = numpy.array(gradient(lambda x: x.cumprod(0), values[:200].tolist()))
    numpy.testing.assert_allclose(head[:200], expected, rtol=1e-12)
    assert head[200] > 0 and not head[201:].any() and whole.all()


@pytest.mark.parametrize("size", [0, 1, 2, 5, 9])
def test_logcumsumexp_of_complex_numbers(size):
    rng = numpy.random.default_rng(0)
    x = rng.normal(size=(size, 3)) + 1j * rng.normal(size=(size, 3))
    result = dynograd.logcumsumexp(dynograd.tensor(x), 0)
    numpy.testing.assert_allclose(numpy.exp(result.numpy()), numpy.cumsum(numpy.exp(x), 0), rtol=1e-10)
    if size:
        assert dynograd.autograd.gradcheck(
            lambda one: dynograd.logcumsumexp(one, 0), dynograd.tensor(x, requires_grad=True)
        )


@pytest.mark.parametrize("size", [30, 1000, 20_000])
@pytest.mark.parametrize("name", ["cumsum", "cumprod", "logcumsumexp"])
def test_errors_of_float32_do_not_add_up(name, size):
    x = 1 - numpy.linspace(1e-4, 2e-2, size, dtype="float32") / max(size // 1000, 1)
    accumulate = {"cumsum": numpy.add, "cumprod": numpy.multiply, "logcumsumexp": numpy.logaddexp}[name].accumulate
    expected = accumulate(x.astype("float64"))
    assert numpy.abs(getattr(dynograd.tensor(x), name)(0).numpy() / expected - 1).max() < 6e-8
