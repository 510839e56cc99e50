"""Where values are, which there are and how often."""

import math

import numpy
import pytest

import dynograd
from tests.ops.harness import BOOL, COMPLEX, FLOATS, INTEGERS, Row, error, generate
from tests.support.few_calls import few_or_many_calls  # noqa: F401

zeros, tensor = dynograd.zeros, dynograd.tensor
NUMBERS = FLOATS + INTEGERS


def looked_up(name, reference, **options):
    """A row of an op whose result has no gradient."""
    options.setdefault("dtypes", NUMBERS)
    options.setdefault("result", "int64")
    return Row(name, reference, grad=False, **options)


def whole(rng, shape=(3, 4)):
    """Floats among which values repeat."""
    return rng.integers(-2, 3, shape).astype(float)


def unique(x, return_inverse, return_counts, dim=None):
    values, inverse, counts = numpy.unique(x, return_inverse=True, return_counts=True, axis=dim)
    return values, inverse.reshape(x.shape if dim is None else -1), counts


def consecutive(x, return_inverse, return_counts, dim=None):
    rows = list(x.reshape(-1) if dim is None else numpy.moveaxis(x, dim, 0))
    kept, inverse, counts = [], [], []
    for row in rows:
        if not kept or not numpy.array_equal(kept[-1], row):
            kept.append(row)
            counts.append(0)
        counts[-1] += 1
        inverse.append(len(kept) - 1)
    values = numpy.array(kept) if dim is None else numpy.moveaxis(numpy.array(kept), 0, dim)
    return values, numpy.array(inverse).reshape(x.shape if dim is None else -1), numpy.array(counts)


ALL_THREE = {"return_inverse": True, "return_counts": True}

ROWS = [
    looked_up("nonzero", lambda x: numpy.argwhere(x), args=lambda rng: [whole(rng)], dtypes=NUMBERS + BOOL + COMPLEX),
    looked_up(
        "nonzero",
        lambda x, as_tuple: numpy.nonzero(x),
        args=lambda rng: [whole(rng)],
        kwargs={"as_tuple": True},
        id="tuple",
    ),
    looked_up("argwhere", numpy.argwhere, args=lambda rng: [whole(rng)]),
    looked_up(
        "nonzero_static",
        lambda x, size, fill_value: numpy.array([[0, 1], [1, 0], [7, 7]]),
        args=lambda rng: [numpy.array([[0, 1], [1, 0]])],
        kwargs={"size": 3, "fill_value": 7},
        errors=[error(lambda op: op(tensor([0]), size=-1), RuntimeError, "size", "-1")],
    ),
    looked_up(
        "unravel_index",
        lambda x, shape: numpy.unravel_index(x, shape),
        args=lambda rng: [rng.integers(0, 24, (2, 3)), (2, 3, 4)],
        dtypes=("float32",),
        result=("int64",) * 3,
        errors=[
            error(lambda op: op(tensor([0.5]), 3), RuntimeError, "integers", "float32"),
            error(lambda op: op(tensor([1]), (2.5,)), TypeError, "sequence of ints", "2.5"),
            error(lambda op: op(tensor([1]), (2, -3)), RuntimeError, "negative", "-3"),
        ],
    ),
    looked_up(
        "nn.functional.one_hot",
        lambda x, num_classes: numpy.eye(num_classes, dtype=int)[x],
        args=lambda rng: [rng.integers(0, 4, (2, 3)), 5],
        dtypes=("float32",),
        function=dynograd.ops.index.lookups.one_hot,
        errors=[
            error(lambda op: op(tensor([0, 3]), 3), RuntimeError, "Class values must be smaller than num_classes", "3"),
            error(lambda op: op(tensor([-1])), RuntimeError, "Class values must be non-negative", "-1"),
            error(lambda op: op(tensor([0.0])), RuntimeError, "LongTensor", "float32"),
            error(lambda op: op(tensor([0]), 0), RuntimeError, "num_classes should be positive, got 0"),
            error(
                lambda op: op(zeros(0, dtype=dynograd.int64)), RuntimeError, "total number of classes from empty tensor"
            ),
        ],
    ),
    looked_up(
        "bincount",
        lambda x, minlength: numpy.bincount(x, minlength=minlength),
        args=lambda rng: [rng.integers(0, 4, 9)],
        kwargs={"minlength": 6},
        dtypes=("float32",),
        errors=[
            error(lambda op: op(tensor([0, -1])), RuntimeError, "1-d non-negative integral inputs", "-1"),
            error(lambda op: op(tensor([[0]])), RuntimeError, "1-d", "(1, 1)"),
            error(lambda op: op(zeros(2)), RuntimeError, "integral", "float32"),
            error(lambda op: op(tensor([0, 1]), zeros(3)), RuntimeError, "same length as input", "(3,)", "(2,)"),
            error(lambda op: op(tensor([0]), None, -1), RuntimeError, "minlength should be >= 0, got -1"),
        ],
    ),
    Row(
        "bincount",
        lambda x, weights: numpy.bincount(x, weights),
        args=lambda rng: [rng.integers(0, 4, 9), rng.normal(size=9)],
        result="same",
        id="weights",
    ),
    looked_up("unique", unique, args=lambda rng: [whole(rng)], kwargs=ALL_THREE, result=("same", "int64", "int64")),
    looked_up(
        "unique",
        unique,
        args=lambda rng: [whole(rng, (6, 2)).clip(0, 1)],
        kwargs=ALL_THREE | {"dim": 0},
        result=("same", "int64", "int64"),
        id="rows",
        errors=[
            error(lambda op: op(zeros(2), dim=1), IndexError, "unique", "1"),
            error(
                lambda op: op(zeros(2, requires_grad=True)).sum().backward(),
                NotImplementedError,
                "unique: the derivative",
                "detach",
            ),
            error(
                lambda op: op(zeros(2, 1, requires_grad=True), dim=0).sum().backward(),
                NotImplementedError,
                "unique: the derivative",
            ),
            error(
                lambda op: dynograd.unique_consecutive(zeros(2, requires_grad=True)).sum().backward(),
                NotImplementedError,
                "unique_consecutive: the derivative",
            ),
            error(lambda op: op(zeros(2, 0), dim=0), RuntimeError, "There are 0 sized dimensions", "(2, 0)"),
        ],
    ),
    looked_up(
        "unique",
        unique,
        args=lambda rng: [whole(rng, (2, 6)).clip(0, 1)],
        kwargs=ALL_THREE | {"dim": -1},
        result=("same", "int64", "int64"),
        id="columns",
    ),
    looked_up(
        "unique_consecutive",
        consecutive,
        args=lambda rng: [whole(rng, (3, 6)).clip(0, 1)],
        kwargs=ALL_THREE,
        result=("same", "int64", "int64"),
    ),
    looked_up(
        "unique_consecutive",
        consecutive,
        args=lambda rng: [whole(rng, (2, 8)).clip(0, 1)],
        kwargs=ALL_THREE | {"dim": 1},
        result=("same", "int64", "int64"),
        id="columns",
    ),
    looked_up(
        "searchsorted",
        lambda rows, x: numpy.searchsorted(rows, x),
        args=lambda rng: [numpy.arange(-2.0, 3.0), whole(rng)],
        errors=[
            error(
                lambda op: op(zeros(2, 2), zeros(2)), RuntimeError, "boundaries tensor [2, 2]", "input value tensor [2]"
            ),
            error(lambda op: op(zeros(()), zeros(2)), RuntimeError, "should have positive dimension"),
            error(lambda op: op(zeros(2), zeros(2), side="middle"), RuntimeError, "'left' or 'right' but got middle"),
            error(lambda op: op(zeros(2), 1.0, side="left", right=True), RuntimeError, "opposites"),
            error(lambda op: op(zeros(2), 1.0, sorter=tensor([0])), RuntimeError, "same size", "[2]", "[1]"),
        ],
    ),
    looked_up(
        "searchsorted",
        lambda rows, x, **options: numpy.array(
            [numpy.searchsorted(a, b, "right") for a, b in zip(rows, x, strict=True)]
        ),
        args=lambda rng: [numpy.sort(whole(rng)), whole(rng, (3, 2))],
        kwargs={"right": True, "out_int32": True},
        result="int32",
        id="rows",
    ),
    looked_up(
        "searchsorted",
        lambda row, x, sorter: numpy.searchsorted(row[sorter], x),
        args=lambda rng: [numpy.array([3.0, 1.0, 2.0]), whole(rng)],
        kwargs={"sorter": numpy.array([1, 2, 0])},
        id="sorter",
    ),
    looked_up(
        "bucketize",
        lambda x, boundaries: numpy.digitize(x, boundaries, right=True),
        args=lambda rng: [whole(rng), numpy.array([0.0, 1.0, 2.0])],
        errors=[
            error(
                lambda op: op(zeros(2), zeros(2, 2)),
                RuntimeError,
                "boundaries tensor must be 1 dimension, but got dim(2)",
            )
        ],
    ),
    looked_up(
        "bucketize",
        lambda x, boundaries, right: numpy.digitize(x, boundaries),
        args=lambda rng: [whole(rng), numpy.array([0.0, 1.0, 2.0])],
        kwargs={"right": True},
        id="right",
    ),
    looked_up("isin", numpy.isin, args=lambda rng: [whole(rng), numpy.array([1.0, -2.0])], result="bool"),
    looked_up(
        "isin",
        lambda x, tested, invert: numpy.isin(x, tested, invert=True),
        args=lambda rng: [whole(rng), 1.0],
        kwargs={"invert": True},
        dtypes=FLOATS,
        result="bool",
        id="number",
    ),
]
test_rows = generate(ROWS)


def test_unique_gives_one_tensor_or_a_tuple():
    x = tensor([3, 1, 3])
    assert x.unique().tolist() == [1, 3]
    values, counts = x.unique(return_counts=True)
    assert (values.tolist(), counts.tolist()) == ([1, 3], [1, 2])
    assert tensor(5).unique().tolist() == [5]


def test_nonzero_of_numbers():
    assert tensor(2.0).nonzero().shape == (1, 0)
    assert [element.tolist() for element in tensor(2.0).nonzero(as_tuple=True)] == [[0]]
    assert zeros(2, 0).nonzero().shape == (0, 2)


def test_one_hot_finds_the_number_of_classes():
    assert dynograd.nn.functional.one_hot(tensor([[0], [2]])).tolist() == [[[1, 0, 0]], [[0, 0, 1]]]
    assert dynograd.nn.functional.one_hot(zeros(0, dtype=dynograd.int64), 3).shape == (0, 3)


def test_searchsorted_takes_a_number():
    place = dynograd.searchsorted(tensor([1.0, 2.0, 3.0]), 2)
    assert place.item() == 1
    assert place.shape == ()


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (lambda row: dynograd.searchsorted(row, 0.2), 1),
        (lambda row: dynograd.searchsorted(row, 0.2, right=True), 2),
        (lambda row: dynograd.bucketize(0.2, row), 1),
        (lambda row: dynograd.bucketize(2, (row * 10).long()), 1),
        (lambda row: dynograd.searchsorted((row * 10).long(), 1.5), 1),
        (lambda row: dynograd.isin(0.2, row), True),
        (lambda row: dynograd.isin(row, 0.2), [False, True, False]),
        (lambda row: dynograd.isin((row * 10).long(), 0.5), [False, False, False]),
    ],
)
def test_a_number_is_looked_up_with_the_digits_of_the_others(found, expected):
    assert found(tensor([0.0, 0.2, 0.4], dtype=dynograd.float64)).tolist() == expected


def test_integer_weights_count_in_float64():
    assert dynograd.bincount(tensor([0, 1, 1]), tensor([1, 2, 3])).dtype is dynograd.float64


@pytest.mark.parametrize("dtype", [dynograd.float16, dynograd.bfloat16])
def test_half_types_are_looked_up(dtype):
    x = tensor([2.0, 1.0, 2.0], dtype=dtype)
    assert x.unique().dtype is dtype
    assert dynograd.isin(x, tensor([2.0], dtype=dtype)).tolist() == [True, False, True]


def test_slices_without_elements_are_equal():
    values, inverse, counts = dynograd.unique(dynograd.zeros(5, 1, 5), True, True, True, dim=1)
    assert (tuple(values.shape), inverse.tolist(), counts.tolist()) == ((5, 1, 5), [0], [1])


FLOATING = [dynograd.float16, dynograd.bfloat16, dynograd.float32, dynograd.float64, *dynograd.base.dtypes.FLOAT8]


@pytest.mark.parametrize("copies", [1, 60, 5000])
@pytest.mark.parametrize("dtype", FLOATING)
def test_each_nan_is_distinct_and_comes_last(dtype, copies):
    """Small, compiled and long: `copies` of six numbers of which one is NaN."""
    x = tensor([3.0, math.nan, -0.0, 1.0, 0.0, -2.0] * copies).to(dtype)
    values, inverse, counts = x.unique(return_inverse=True, return_counts=True)
    assert values.dtype is dtype
    numpy.testing.assert_array_equal(values.double().numpy(), [-2.0, 0.0, 1.0, 3.0] + [math.nan] * copies)
    assert counts.tolist() == [copies, 2 * copies, copies, copies] + [1] * copies
    numpy.testing.assert_array_equal(values[inverse].double().numpy(), x.double().numpy())
    assert sorted(inverse[1::6].tolist()) == list(range(4, 4 + copies))
    assert x.unique().shape == values.shape
    assert x[:6].unique_consecutive().shape == (6,)


@pytest.mark.parametrize("dtype", FLOATING)
def test_nan_is_sought_and_sorted_as_the_largest(dtype):
    x = tensor([3.0, math.nan, 1.0, math.nan, -2.0]).to(dtype)
    ordered, order = x.sort()
    numpy.testing.assert_array_equal(ordered.double().numpy(), [-2.0, 1.0, 3.0, math.nan, math.nan])
    assert order.tolist() == x.argsort().tolist() == [4, 2, 0, 1, 3]
    numpy.testing.assert_array_equal(x.topk(3)[0].double().numpy(), [math.nan, math.nan, 3.0])
    assert x.kthvalue(3)[0].item() == 3.0 and math.isnan(x.kthvalue(4)[0].item())
    assert math.isnan(x.median().item()) and x.nanmedian().item() == 1.0
    assert dynograd.searchsorted(ordered, x[[0, 2, 4]]).tolist() == [2, 1, 0]
    assert dynograd.isin(x, x).tolist() == [True, False, True, False, True]


def test_complex_numbers_are_nonzero_by_either_part():
    x = tensor([2j, 0j, 1 + 0j, complex(0, math.nan)])
    assert x.nonzero().flatten().tolist() == [0, 2, 3] and dynograd.count_nonzero(x).item() == 3
