"""Sorting and selecting along one dim."""

import numpy
import pytest

import dynograd
from dynograd.errors import InplaceError
from tests.ops.harness import BOOL, FLOATS, INTEGERS, Row, error, generate

nan, inf = float("nan"), float("inf")
ORDERED = FLOATS + INTEGERS
BOTH = ("same", "int64")


def np_argsort(input, dim=-1, descending=False, stable=False):
    if not descending:
        return numpy.argsort(input, dim, kind="stable")
    backwards = numpy.flip(input, dim)
    return input.shape[dim] - 1 - numpy.flip(numpy.argsort(backwards, dim, kind="stable"), dim)


def np_sort(input, dim=-1, descending=False, stable=False):
    index = np_argsort(input, dim, descending)
    return numpy.take_along_axis(input, index, dim), index


def np_topk(input, k, dim=-1, largest=True, sorted=True):
    index = np_argsort(input, dim, largest).take(range(k), dim)
    if not sorted:
        index = numpy.sort(index, dim)
    return numpy.take_along_axis(input, index, dim), index


def np_kthvalue(input, k, dim=-1, keepdim=False):
    index = np_argsort(input, dim).take([k - 1], dim)
    values = numpy.take_along_axis(input, index, dim)
    first = (input == values).argmax(dim, keepdims=True)
    return (values, first) if keepdim else (values.squeeze(dim), first.squeeze(dim))


def with_same(name):
    return name


def chosen(k, *shape):
    return lambda rng: [rng.normal(size=shape), k]


ROWS = [
    *[
        Row("sort", np_sort, shapes=[(2, 3, 4)], kwargs=kwargs, id=str(kwargs), dtypes=ORDERED, result=BOTH)
        for kwargs in ({}, {"dim": 0}, {"dim": 1, "descending": True}, {"descending": True, "stable": True})
    ],
    Row("sort", np_sort, shapes=[(3, 200)], id="long", dtypes=ORDERED + ("int8",), result=BOTH, second=False),
    Row(
        "sort",
        np_sort,
        shapes=[(200, 3)],
        kwargs={"dim": 0, "descending": True},
        id="long-descending",
        dtypes=ORDERED,
        result=BOTH,
        second=False,
    ),
    Row("sort", np_sort, shapes=[(7,)], dtypes=BOOL, result=("bool", "int64"), grad=False, id="bool"),
    Row(
        "sort",
        lambda x: (x, numpy.array(0)),
        shapes=[()],
        result=BOTH,
        empty=False,
        id="scalar",
        errors=[
            error(lambda op: op(dynograd.zeros(3), 1), IndexError, "sort", "out of range", "[-1, 0]"),
            error(lambda op: op(dynograd.tensor([1j])), RuntimeError, "sort", "complex", "abs()"),
        ],
    ),
    *[
        Row("argsort", np_argsort, shapes=[(3, 80)], kwargs=kwargs, id=str(kwargs), dtypes=ORDERED, result="int64")
        for kwargs in ({}, {"dim": 0}, {"descending": True})
    ],
    Row(
        "argsort",
        None,
        shapes=[()],
        result="int64",
        id="errors",
        errors=[error(lambda op: op(dynograd.zeros(3), 1), IndexError, "argsort")],
    ),
    Row("msort", lambda x: numpy.sort(x, 0), shapes=[(3, 4)], dtypes=ORDERED, result=with_same),
    *[
        Row(
            "topk",
            np_topk,
            args=chosen(k, *shape),
            kwargs=kwargs,
            id=f"{k}-{shape}-{kwargs}",
            dtypes=ORDERED,
            result=BOTH,
            second=len(shape) < 3,
        )
        for k, shape, kwargs in [
            (2, (5,), {}),
            (3, (2, 5), {"dim": 0 - 1, "largest": False}),
            (2, (3, 2, 4), {"dim": 0}),
            (2, (3, 5), {"sorted": False}),
            (5, (5,), {}),
            (0, (5,), {}),
        ]
    ],
    *[
        Row(
            "topk",
            np_topk,
            args=chosen(k, *shape),
            kwargs=kwargs,
            id=f"{k}-{shape}-{kwargs}",
            dtypes=ORDERED,
            result=BOTH,
            grad=False,
        )
        for k, shape, kwargs in [
            (1, (3, 300), {}),
            (7, (300, 3), {"dim": 0}),
            (7, (2, 3, 300), {"largest": False}),
            (7, (3, 300), {"sorted": False}),
            (0, (3, 300), {}),
        ]
    ],
    Row(
        "topk",
        lambda x, k: (x, numpy.array(0)),
        args=lambda rng: [numpy.array(0.7), 1],
        result=BOTH,
        id="scalar",
        errors=[
            error(
                lambda op: op(dynograd.zeros(3), 4),
                RuntimeError,
                "topk",
                "selected index k out of range",
                "k=4",
                "size 3",
            ),
            error(lambda op: op(dynograd.zeros(3), -1), RuntimeError, "topk", "k=-1"),
            error(lambda op: op(dynograd.zeros(3), 1, 1), IndexError, "topk", "out of range"),
        ],
    ),
    *[
        Row(
            "kthvalue",
            np_kthvalue,
            args=chosen(k, 3, 5),
            kwargs=kwargs,
            id=f"{k}-{kwargs}",
            dtypes=ORDERED,
            result=BOTH,
        )
        for k, kwargs in [(1, {}), (3, {"dim": 0}), (5, {"keepdim": True})]
    ],
    *[
        Row(
            "kthvalue",
            np_kthvalue,
            args=chosen(2, 2, 3, 4),
            kwargs={"dim": dim, "keepdim": keepdim},
            id=f"3d-{dim}-{keepdim}",
            result=BOTH,
            second=False,
        )
        for dim in (0, 1)
        for keepdim in (False, True)
    ],
    Row(
        "kthvalue",
        lambda x, k: (x, numpy.array(0)),
        args=lambda rng: [numpy.array(0.7), 1],
        result=BOTH,
        id="scalar",
        errors=[
            error(
                lambda op: op(dynograd.zeros(3), 0),
                RuntimeError,
                "kthvalue",
                "selected number k out of range",
                "k=0",
                "1 to 3",
            ),
            error(lambda op: op(dynograd.zeros(3), 4), RuntimeError, "kthvalue", "k=4"),
        ],
    ),
]
test_rows = generate(ROWS)


@pytest.mark.parametrize("size", [10, 200])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8", "bool"])
@pytest.mark.parametrize("descending", [False, True])
def test_equals_keep_their_order(size, dtype, descending):
    values = numpy.random.default_rng(0).integers(0, 2 if dtype == "bool" else 4, (3, size))
    x = dynograd.tensor(values).to(getattr(dynograd, dtype))
    expected, index = np_sort(values, 1, descending)
    result = x.sort(1, descending)
    numpy.testing.assert_array_equal(result.indices.array, index)
    numpy.testing.assert_array_equal(result.values.long().array, expected)


@pytest.mark.parametrize("size", [10, 200])
@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bfloat16"])
def test_topk_takes_the_first_of_equals(size, largest, dtype):
    values = numpy.random.default_rng(1).integers(0, 9, (4, size))
    values[0] = 7
    result = dynograd.tensor(values).to(getattr(dynograd, dtype)).topk(3, largest=largest)
    numpy.testing.assert_array_equal(result.indices.array, np_topk(values, 3, -1, largest)[1])


@pytest.mark.parametrize("size", [8, 100])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_nan_counts_as_the_largest(size, dtype):
    x = dynograd.zeros(size)
    x[1], x[2], x[3], x[4] = nan, inf, -inf, -nan
    x = x.to(getattr(dynograd, dtype))
    ascending = x.sort()
    assert ascending.indices[-3:].tolist() == [2, 1, 4] and ascending.indices[0].item() == 3
    assert x.sort(descending=True).indices[:3].tolist() == [1, 4, 2]
    assert x.topk(3).indices.tolist() == [1, 4, 2]
    assert x.topk(1, largest=False).indices.tolist() == [3]
    assert x.kthvalue(size).values.isnan() and x.kthvalue(size).indices.item() == 1


@pytest.mark.parametrize("size", [4, 100])
def test_zeros_of_both_signs_are_equal(size):
    x = dynograd.tensor([0.0, -0.0] * (size // 2))
    assert x.argsort().tolist() == list(range(size))
    assert x.argsort(descending=True).tolist() == list(range(size))


def test_extreme_integers_sort():
    low, high = -(2**31), 2**31 - 1
    x = dynograd.tensor([high, 0, low, -1] * 20, dtype=dynograd.int32)
    assert x.sort().values.tolist() == [low] * 20 + [-1] * 20 + [0] * 20 + [high] * 20


def test_sorting_nothing():
    assert dynograd.zeros(0, 3).sort(0).values.shape == (0, 3)
    assert dynograd.zeros(2, 0).sort(1).indices.shape == (2, 0)
    assert dynograd.zeros(0, 300).topk(2).values.shape == (0, 2)


def test_sort_gives_a_named_result():
    result = dynograd.tensor([2.0, 1.0]).sort()
    assert result.values.tolist() == [1, 2] and result.indices.tolist() == [1, 0]
    assert type(result).__name__ == "sort" and not result.indices.requires_grad


@pytest.mark.parametrize("kind", ["uint16", "uint32", "uint64"])
@pytest.mark.parametrize("size", [20, 3000])
def test_unsigned_integers_up_to_their_largest(kind, size):
    top = numpy.iinfo(kind).max
    x = numpy.random.default_rng(0).integers(0, top, size, kind, endpoint=True)
    x[[1, 5, 7]] = top, 0, top // 2 + 1
    argument, ordered = dynograd.tensor(x), numpy.sort(x)
    for descending in (False, True):
        values, index = argument.sort(descending=descending)
        assert values.numpy().dtype == x.dtype and (values.numpy() == (ordered[::-1] if descending else ordered)).all()
        assert (x[index.numpy()] == values.numpy()).all()
    assert argument.topk(3).values.tolist() == ordered[:-4:-1].tolist() and argument.max() == top
    assert argument.kthvalue(5).values.item() == ordered[4] and argument.unique().tolist() == numpy.unique(x).tolist()


WITH_PLACES = {
    "topk": lambda x: x.topk(2),
    "sort": lambda x: x.sort(),
    "kthvalue": lambda x: x.kthvalue(2, keepdim=True),
    "max": lambda x: x.max(1),
    "min": lambda x: x.min(1),
    "median": lambda x: x.median(1),
    "mode": lambda x: x.mode(1),
    "cummax": lambda x: x.cummax(1),
}


@pytest.mark.parametrize("name", WITH_PLACES)
def test_values_found_may_be_written_in_place(name):
    x = dynograd.tensor([[1.0, 3.0, 2.0]], requires_grad=True)
    (expected,) = dynograd.autograd.grad(WITH_PLACES[name](x)[0].sum(), x)
    values, _ = WITH_PLACES[name](x)
    values *= 2
    values.sum().backward()
    assert x.grad.tolist() == (2 * expected).tolist()
    result = WITH_PLACES[name](x)
    result[1].zero_()
    with pytest.raises(InplaceError, match="modified by an inplace operation: its output"):
        result[0].sum().backward()
