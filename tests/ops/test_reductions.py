"""Sums, means, products, truth and logsumexp over dims."""

import numpy
import pytest
from scipy.special import logsumexp as scipy_logsumexp

import dynograd
from tests.ops.harness import BOOL, COMPLEX, FLOATS, INTEGERS, Row, error, generate

nan, inf = float("nan"), float("inf")


def reduction(function):
    """The NumPy function with PyTorch's argument names."""

    def reference(input, dim=None, keepdim=False, **other):
        return function(input, axis=dim, keepdims=keepdim)

    return reference


def np_sum_to_size(input, *size):
    lead = input.ndim - len(size)
    summed = input.sum(tuple(range(lead)))
    dims = tuple(place for place, element in enumerate(size) if element == 1)
    return summed.sum(dims, keepdims=True)


def np_prod(input, dim=None, keepdim=False):
    return numpy.prod(input, axis=dim, keepdims=keepdim)


def with_nan(rng):
    values = rng.normal(size=(3, 4))
    values[0, 1] = values[2, 3] = nan
    return [values]


def with_zeros(*places):
    def args(rng):
        values = rng.uniform(0.5, 2, (3, 4))
        for place in places:
            values[place] = 0
        return [values]

    return args


def widest(name):
    return "int64" if name in INTEGERS + BOOL else name


def truth(name):
    return "uint8" if name == "uint8" else "bool"


EVERY = FLOATS + INTEGERS + BOOL + COMPLEX
DIMS = [
    {},
    {"dim": 0},
    {"dim": -1, "keepdim": True},
    {"dim": (0, -1)},
    {"dim": (1,), "keepdim": True},
    {"dim": ()},
    {"keepdim": True},
]


def rows_over_dims(name, reference, shapes=((2, 3, 4),), dims=DIMS, **options):
    created = []
    for kwargs in dims:
        title = ",".join(f"{key}={value}" for key, value in kwargs.items()) or "all"
        expected = {**kwargs, "dim": None} if kwargs.get("dim") == () else kwargs

        def compare(input, wanted=expected, **_):
            return reference(input, **wanted)

        created.append(Row(name, compare, shapes=list(shapes), kwargs=kwargs, id=title, **options))
    return created


ROWS = [
    *rows_over_dims("sum", reduction(numpy.sum), dtypes=EVERY, result=widest, scalars=False),
    Row("sum", lambda x, axis: x.sum(axis), shapes=[(2, 3)], kwargs={"axis": 1}, id="axis"),
    Row(
        "sum",
        lambda x, axis, keepdims: x.sum(axis, keepdims=keepdims),
        shapes=[(2, 3)],
        kwargs={"axis": 1, "keepdims": True},
        id="names",
    ),
    Row(
        "sum", lambda x, **_: x.sum(), shapes=[(2, 3)], kwargs={"dtype": dynograd.float64}, result="float64", id="dtype"
    ),
    Row("sum", lambda x: x.sum(), shapes=[(70, 1000)], grad=False, id="large", empty=False, ones=False),
    Row(
        "sum",
        lambda x, dim: x.sum(dim),
        shapes=[(70, 1000)],
        kwargs={"dim": 1},
        grad=False,
        id="large-rows",
        empty=False,
    ),
    Row(
        "sum",
        lambda x: x.sum(),
        shapes=[()],
        id="scalar",
        empty=False,
        errors=[
            error(lambda op: op(dynograd.zeros(3), 3), IndexError, "sum", "dim", "out of range", "[-1, 0]", "3"),
            error(lambda op: op(dynograd.zeros(3), (0, 0)), RuntimeError, "sum", "twice", "(0, 0)"),
            error(lambda op: op(dynograd.zeros(3), "a"), TypeError, "sum", "dim must be an int", "'a'"),
        ],
    ),
    *rows_over_dims("mean", reduction(numpy.mean), dtypes=FLOATS + COMPLEX, empty=False),
    Row("mean", lambda x: x.mean(), shapes=[(70, 1000)], grad=False, id="large", empty=False, ones=False),
    Row(
        "mean",
        lambda x, dim: x.mean(dim),
        shapes=[(70, 10, 100)],
        kwargs={"dim": (1, 2)},
        grad=False,
        id="large-rows",
        empty=False,
    ),
    Row(
        "mean",
        lambda x, **_: x.mean(),
        shapes=[(2, 3)],
        kwargs={"dtype": dynograd.float64},
        dtypes=FLOATS + INTEGERS,
        result="float64",
        empty=False,
        id="dtype",
        errors=[error(lambda op: op(dynograd.arange(3)), RuntimeError, "mean", "dtype", "int64", "float()")],
    ),
    Row(
        "nansum",
        lambda x, dim: numpy.nansum(x, dim),
        args=with_nan,
        kwargs={"dim": 1},
        jvp=False,
        grad=False,
        covers=["not_nan"],
    ),
    Row(
        "nansum",
        lambda x, **_: numpy.nansum(x),
        shapes=[(3, 4)],
        dtypes=FLOATS + INTEGERS,
        result=widest,
        covers=["zero_nan"],
        id="all",
    ),
    Row("nanmean", lambda x, dim: numpy.nanmean(x, dim), args=with_nan, kwargs={"dim": 1}, grad=False, jvp=False),
    Row(
        "nanmean",
        lambda x, dim, keepdim: x.mean(dim, keepdims=keepdim),
        shapes=[(3, 4)],
        kwargs={"dim": 0, "keepdim": True},
        empty=False,
        id="keepdim",
        errors=[error(lambda op: op(dynograd.arange(3)), RuntimeError, "nanmean", "floating point", "int64")],
    ),
    Row(
        "sum_to_size",
        np_sum_to_size,
        args=lambda rng: [rng.normal(size=(2, 3, 4)), 3, 1],
        covers=["sum_to"],
        errors=[
            error(
                lambda op: op(dynograd.zeros(2, 3), (3, 3)),
                RuntimeError,
                "sum_to_size",
                "(3, 3)",
                "(2, 3)",
                "expandable",
            )
        ],
    ),
    Row("sum_to_size", lambda x, *_: x, args=lambda rng: [rng.normal(size=(2, 3)), 2, 3], id="same"),
    Row("count_nonzero", lambda x: numpy.count_nonzero(x), shapes=[(3, 4)], dtypes=EVERY, result="int64"),
    Row(
        "count_nonzero",
        lambda x, dim: numpy.count_nonzero(x, dim),
        shapes=[(3, 4)],
        kwargs={"dim": (0,)},
        result="int64",
        id="dim",
    ),
    Row(
        "count_nonzero",
        lambda x, *dims: numpy.count_nonzero(x, dims),
        args=lambda rng: [rng.integers(0, 2, (3, 4, 2)), 2, 0],
        result="int64",
        id="dims one by one",
    ),
    *rows_over_dims(
        "prod",
        np_prod,
        dims=[{}, {"dim": 0}, {"dim": -1, "keepdim": True}, {"keepdim": True}],
        dtypes=EVERY,
        result=widest,
    ),
    Row("prod", np_prod, args=with_zeros((0, 1)), id="one-zero"),
    Row("prod", np_prod, args=with_zeros((0, 1)), kwargs={"dim": 1}, id="zero-in-a-row"),
    Row("prod", np_prod, args=with_zeros((0, 1), (0, 3), (1, 0)), kwargs={"dim": 1}, id="two-zeros"),
    Row(
        "prod", np_prod, args=with_zeros((0, 1), (0, 3), (0, 2)), kwargs={"dim": 0, "keepdim": True}, id="zeros-keepdim"
    ),
    Row(
        "prod",
        lambda x, **_: x.prod(),
        shapes=[(2, 3)],
        kwargs={"dtype": dynograd.float64},
        result="float64",
        id="dtype",
    ),
    Row(
        "prod",
        np_prod,
        shapes=[()],
        id="scalar",
        errors=[
            error(lambda op: op(dynograd.zeros(2, 3), (0, 1)), TypeError, "prod", "int", "(0, 1)"),
            error(lambda op: op(dynograd.zeros(2, 3), 2), IndexError, "prod", "out of range", "2"),
        ],
    ),
    *rows_over_dims(
        "any", reduction(numpy.any), dims=[dim for dim in DIMS if dim.get("dim") != ()], dtypes=EVERY, result=truth
    ),
    *rows_over_dims(
        "all", reduction(numpy.all), dims=[dim for dim in DIMS if dim.get("dim") != ()], dtypes=EVERY, result=truth
    ),
    *rows_over_dims(
        "logsumexp",
        lambda x, dim, keepdim=False: scipy_logsumexp(x, axis=dim, keepdims=keepdim),
        dims=[{"dim": 1}, {"dim": (0, 2), "keepdim": True}, {"dim": -1, "keepdim": True}],
        empty=False,
        covers=["exp_difference"],
    ),
    Row(
        "logsumexp",
        lambda x, dim: scipy_logsumexp(x, dim),
        shapes=[(3, 4)],
        kwargs={"dim": 0},
        dtypes=INTEGERS,
        result="float32",
        empty=False,
        id="integers",
        errors=[error(lambda op: op(dynograd.zeros(2, 3), 2), IndexError, "logsumexp", "out of range", "2")],
    ),
]
test_rows = generate(ROWS)


def gradient(function, *values):
    x = dynograd.tensor(*values, dtype=dynograd.float64, requires_grad=True)
    (g,) = dynograd.autograd.grad(function(x).sum(), x)
    return g.tolist()


def test_sum_of_booleans_counts():
    assert dynograd.tensor([True, False, True]).sum().item() == 2
    assert dynograd.tensor([True, False, True]).sum().dtype is dynograd.int64


def test_sum_keeps_a_small_integer_dtype_that_is_asked_for():
    total = dynograd.tensor([200, 100], dtype=dynograd.uint8).sum(dtype=dynograd.uint8)
    assert total.dtype is dynograd.uint8 and total.item() == 44


def test_sums_of_half_precision_are_accumulated_in_float32():
    assert dynograd.full((4096,), 1.0, dtype=dynograd.bfloat16).sum().item() == 4096
    assert dynograd.full((3, 4096), 0.1, dtype=dynograd.float16).mean(1).tolist() == [pytest.approx(0.1, abs=1e-4)] * 3


def test_large_sums_pass_nan_and_infinity_on():
    x = dynograd.zeros(70, 1000)
    x[3, 5], x[4, 5] = nan, inf
    rows = x.sum(1)
    assert rows[3].item() != rows[3].item() and rows[4].item() == inf and rows[5].item() == 0
    assert x.sum().item() != x.sum().item()


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_reductions_of_nothing(shape):
    x = dynograd.zeros(shape)
    assert x.sum().item() == 0
    assert x.prod().item() == 1
    assert x.mean().item() != x.mean().item()
    assert not x.any() and x.all()
    assert dynograd.logsumexp(x, tuple(range(x.ndim))).item() == -inf


def test_mean_over_an_empty_dim_is_nan_without_a_warning():
    assert dynograd.zeros(2, 0).mean(1).isnan().tolist() == [True, True]


def test_any_without_dims_looks_at_each_element():
    for none in ((), []):
        assert dynograd.any(dynograd.tensor([[0.0, nan]]), dim=none).tolist() == [[False, True]]
        assert dynograd.all(dynograd.tensor([[0, 2]]), dim=none).tolist() == [[False, True]]


def test_any_of_uint8_stays_uint8():
    result = dynograd.tensor([0, 3], dtype=dynograd.uint8).any()
    assert result.dtype is dynograd.uint8 and result.item() == 1


def test_logsumexp_of_all_masked_rows():
    x = [[-inf, -inf], [0.0, -inf]]
    assert dynograd.tensor(x).logsumexp(1).tolist() == [-inf, 0.0]
    assert gradient(lambda x: x.logsumexp(1), x) == [[0.0, 0.0], [1.0, 0.0]]


def test_logsumexp_of_large_and_infinite_numbers():
    assert dynograd.tensor([1e4, 1e4], dtype=dynograd.float64).logsumexp(0).item() == pytest.approx(1e4 + numpy.log(2))
    assert dynograd.tensor([inf, 0.0]).logsumexp(0).item() == inf
    assert dynograd.zeros(2, 0).logsumexp(1).tolist() == [-inf, -inf]


def test_nansum_gives_nan_no_gradient():
    assert gradient(lambda x: x.nansum(), [1.0, nan, 2.0]) == [1.0, 0.0, 1.0]
    assert gradient(lambda x: x.nanmean(), [1.0, nan, 2.0]) == [0.5, 0.0, 0.5]
    assert dynograd.tensor([nan, nan]).nanmean().isnan()


def test_third_derivative_of_prod_at_zeros():
    x = dynograd.tensor([0.0, 2.0, 0.0, 3.0], dtype=dynograd.float64, requires_grad=True)
    (first,) = dynograd.autograd.grad(x.prod(), x, create_graph=True)
    assert first.tolist() == [0.0] * 4
    (second,) = dynograd.autograd.grad(first[0], x, create_graph=True)
    assert second.tolist() == [0.0, 0.0, 6.0, 0.0]
    (third,) = dynograd.autograd.grad(second[2], x)
    assert third.tolist() == [0.0, 3.0, 0.0, 2.0]


def test_gradient_of_a_mean_keeps_bfloat16():
    x = dynograd.ones(4, dtype=dynograd.bfloat16, requires_grad=True)
    x.mean().backward()
    assert x.grad.dtype is dynograd.bfloat16 and x.grad.tolist() == [0.25] * 4


def test_sum_to_size_counts_booleans():
    x = dynograd.tensor([[True, True], [False, True]])
    assert x.sum_to_size(2).dtype == x.sum_to_size(()).dtype == dynograd.int64
    assert x.sum_to_size(1, 2).tolist() == [[1, 2]]
    assert x.sum_to_size(2, 2).dtype == dynograd.bool


def test_logsumexp_of_complex_numbers():
    rng = numpy.random.default_rng(0)
    parts = dynograd.tensor(rng.normal(size=(2, 3, 4)) * 5).requires_grad_()
    x = dynograd.complex(*parts)
    wide = x.detach().numpy()
    for dim in (0, (0, 1)):
        numpy.testing.assert_allclose(dynograd.logsumexp(x, dim).detach().numpy(), numpy.log(numpy.exp(wide).sum(dim)))
    assert dynograd.autograd.gradcheck(
        lambda one: dynograd.view_as_real(dynograd.logsumexp(dynograd.complex(*one), 1, keepdim=True)), [parts]
    )
    assert dynograd.logsumexp(x + 1000, 0).isfinite().all()
