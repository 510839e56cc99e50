"""Slices and elements picked by index vectors and masks."""

import numpy
import pytest

import dynograd
from tests.ops.harness import BOOL, COMPLEX, FLOATS, INTEGERS, Row, error, generate

ALL = FLOATS + INTEGERS + BOOL + COMPLEX
zeros, tensor = dynograd.zeros, dynograd.tensor
NAMED = dynograd.tensor([0, 2])
MASK = numpy.array([[True, False, True], [False, False, True]])


def moved(name, reference, **options):
    """A row of an op that only moves elements: every dtype, unchanged."""
    return Row(name, reference, dtypes=ALL, result="same", **options)


def with_slices(combine):
    def reference(x, dim, index, source, alpha=1):
        created = numpy.moveaxis(x.copy(), dim, 0)
        slices = numpy.moveaxis(numpy.broadcast_to(source, (x.shape[0], len(index), *x.shape[2:])), dim, 0)
        for number, part in zip(index, slices, strict=True):
            created[number] = combine(created[number], alpha * part)
        return numpy.moveaxis(created, 0, dim)

    return reference


def index_reduce(x, dim, index, source, reduce, include_self=True):
    combine = {"prod": numpy.prod, "mean": numpy.mean, "amax": numpy.max, "amin": numpy.min}[reduce]
    created = x.copy()
    for number in set(index.tolist()):
        parts = list(source[:, index == number].swapaxes(0, 1)) + ([x[:, number]] if include_self else [])
        created[:, number] = combine(parts, 0)
    return created


def masked_scatter(x, mask, source):
    created = numpy.array(numpy.broadcast_to(x, numpy.broadcast_shapes(x.shape, mask.shape)))
    full = numpy.broadcast_to(mask, created.shape)
    created[full] = source.reshape(-1)[: full.sum()]
    return created


def put(x, index, source, accumulate=False):
    created = x.reshape(-1).copy()
    if accumulate:
        numpy.add.at(created, index.reshape(-1), source.reshape(-1))
    else:
        created[index.reshape(-1)] = source.reshape(-1)
    return created.reshape(x.shape)


ROWS = [
    moved(
        "index_select",
        lambda x, dim, index: x.take(index, dim),
        args=lambda rng: [rng.normal(size=(2, 3, 4)), -2, numpy.array([2, 0, 2])],
        errors=[
            error(
                lambda op: op(zeros(2), 0, NAMED),
                IndexError,
                "index 2 is out of bounds for dimension 0 with size 2",
                "[1]",
            ),
            error(
                lambda op: op(zeros(0, 2), 1, NAMED), IndexError, "index 2 is out of bounds for dimension 1 with size 2"
            ),
            error(lambda op: op(zeros(2), 0, NAMED - 1), IndexError, "index -1 is out of bounds", "0 to 1"),
            error(lambda op: op(zeros(2), 0, NAMED[None]), IndexError, "Index is supposed to be a vector", "(1, 2)"),
            error(lambda op: op(zeros(2), 0, zeros(2)), RuntimeError, "Expected dtype int32 or int64", "float32"),
            error(lambda op: op(zeros(2), 0, [0]), TypeError, "must be Tensor, not list"),
            error(lambda op: op(zeros(2), 1, NAMED), IndexError, "index_select", "[-1, 0]"),
        ],
    ),
    moved(
        "index_select",
        lambda x, dim, index: x[:, 1:2],
        args=lambda rng: [rng.normal(size=(2, 3)), 1, numpy.array(1)],
        id="0-d index",
    ),
    Row("index_select", lambda x, dim, index: x, args=lambda rng: [rng.normal(size=()), 0, numpy.array([0])], id="0-d"),
    Row(
        "index_add",
        with_slices(numpy.add),
        args=lambda rng: [rng.normal(size=(2, 3, 4)), 1, numpy.array([2, 0, 2]), rng.normal(size=(2, 3, 4))],
        dtypes=FLOATS + INTEGERS + COMPLEX,
        result="same",
        errors=[
            error(lambda op: op(zeros(2), 0, NAMED, zeros(2)), IndexError, "index_add: index 2 is out of bounds"),
            error(lambda op: op(zeros(4), 0, NAMED, zeros(3)), IndexError, "Number of indices (2)", "(2,)", "(3,)"),
            error(lambda op: op(zeros(4), 0, NAMED, NAMED), RuntimeError, "same dtype", "float32", "int64"),
        ],
    ),
    Row(
        "index_add",
        with_slices(numpy.add),
        args=lambda rng: [rng.normal(size=(2, 3)), 1, numpy.array([2, 0]), rng.normal(size=(2, 2))],
        kwargs={"alpha": -2.5},
        id="alpha",
    ),
    moved(
        "index_copy",
        with_slices(lambda old, new: new),
        args=lambda rng: [rng.normal(size=(2, 3, 4)), 1, numpy.array([2, 0]), rng.normal(size=(2, 2, 4))],
        errors=[
            error(lambda op: op(zeros(3), 0, NAMED - 1, zeros(2)), IndexError, "index_copy: index -1 is out of bounds"),
            error(lambda op: op(zeros(3), 0, NAMED, zeros(1)), IndexError, "index_copy", "(2,)", "(1,)"),
        ],
    ),
    Row(
        "index_fill",
        with_slices(lambda old, new: new),
        args=lambda rng: [rng.normal(size=(2, 3)), 1, numpy.array([-1, 0]), 2.5],
        errors=[
            error(lambda op: op(zeros(2), 0, NAMED, 1), IndexError, "index_fill: index 2 is out of bounds"),
            error(
                lambda op: op(zeros(3), 0, NAMED, zeros(2)), RuntimeError, "0-dimensional value tensor", "1 dimension"
            ),
        ],
    ),
    Row(
        "index_fill",
        with_slices(lambda old, new: new),
        args=lambda rng: [rng.normal(size=(2, 3)), 1, numpy.array([1, 0]), rng.normal(size=())],
        id="tensor",
    ),
    *[
        Row(
            "index_reduce",
            index_reduce,
            args=lambda rng, reduce=reduce: [
                rng.normal(size=(2, 4)),
                1,
                numpy.array([2, 0, 2]),
                rng.normal(size=(2, 3)),
                reduce,
            ],
            kwargs={"include_self": include_self},
            tolerance=4,
            id=f"{reduce}-{include_self}",
        )
        for reduce, include_self in (("prod", True), ("mean", False), ("amax", True), ("amin", False))
    ],
    Row(
        "index_reduce",
        lambda x, dim, index, source, reduce: numpy.maximum(x, source),
        args=lambda rng: [rng.normal(size=(2,)), 0, numpy.array([0, 1]), rng.normal(size=(2,)), "amax"],
        id="vector",
        errors=[
            error(lambda op: op(zeros(3), 0, NAMED, zeros(2), "sum"), RuntimeError, "prod, mean, amax or amin", "sum")
        ],
    ),
    moved(
        "masked_select",
        lambda x, mask: x[mask],
        args=lambda rng: [rng.normal(size=(2, 3)), MASK],
        errors=[
            error(lambda op: op(zeros(2), NAMED), RuntimeError, "expected BoolTensor for mask", "int64"),
            error(lambda op: op(zeros(3), tensor([True, False])), RuntimeError, "masked_select", "(3,)", "(2,)"),
        ],
    ),
    moved(
        "masked_select",
        lambda x, mask: numpy.broadcast_to(x, (2, 3))[mask],
        args=lambda rng: [rng.normal(size=(1, 3)), MASK],
        id="stretched",
    ),
    moved(
        "masked_scatter",
        masked_scatter,
        args=lambda rng: [rng.normal(size=(2, 3)), MASK, rng.normal(size=(2, 2))],
        errors=[
            error(
                lambda op: op(zeros(2), tensor([True, True]), zeros(1)),
                RuntimeError,
                "source < number of ones in mask",
                "1",
                "2",
            ),
            error(
                lambda op: op(zeros(2), tensor([True, True]), NAMED), RuntimeError, "same dtypes", "float32", "int64"
            ),
            error(lambda op: op(zeros(2), NAMED, zeros(2)), RuntimeError, "expected BoolTensor"),
        ],
    ),
    moved(
        "masked_scatter",
        masked_scatter,
        args=lambda rng: [rng.normal(size=(3,)), MASK, rng.normal(size=(5,))],
        inplace=False,
        id="stretched",
    ),
    moved(
        "take",
        lambda x, index: x.reshape(-1)[index],
        args=lambda rng: [rng.normal(size=(2, 3)), numpy.array([[0, -1], [3, 0]])],
        errors=[
            error(lambda op: op(zeros(2), NAMED), IndexError, "out of range", "index 2", "2 elements"),
            error(lambda op: op(zeros(2), zeros(2)), RuntimeError, "Expected a long tensor for index", "float32"),
        ],
    ),
    moved(
        "put",
        put,
        args=lambda rng: [rng.normal(size=(2, 3)), numpy.array([[0], [-1]]), rng.normal(size=2)],
        errors=[
            error(lambda op: op(zeros(2), NAMED, zeros(2)), IndexError, "put: out of range", "index 2"),
            error(lambda op: op(zeros(4), NAMED, zeros(3)), IndexError, "same number of elements as index", "3", "2"),
            error(lambda op: op(zeros(4), NAMED, NAMED), RuntimeError, "same dtype", "int64"),
        ],
    ),
    Row(
        "put",
        put,
        args=lambda rng: [rng.normal(size=(2, 3)), numpy.array([0, 0, 5]), rng.normal(size=3), True],
        id="added",
    ),
]
test_rows = generate(ROWS)


def test_in_place_forms_write_into_views():
    x = zeros(3, 2)
    x[:, 1].index_add_(0, tensor([0, 2, 0]), tensor([1.0, 2.0, 3.0]))
    x.t()[0].index_fill_(0, tensor([1]), 7.0)
    assert x.tolist() == [[0, 4], [7, 0], [0, 2]]


def test_masked_select_of_numbers():
    assert dynograd.masked_select(tensor(3.0), tensor(True)).tolist() == [3.0]
    assert dynograd.masked_select(tensor(3.0), tensor(False)).tolist() == []
    assert tensor(3.0).masked_scatter(tensor(True), tensor([5.0])).tolist() == 5.0


def test_index_select_and_indexing_agree():
    x = dynograd.arange(24).view(2, 3, 4)
    assert x.index_select(1, NAMED).tolist() == x[:, NAMED].tolist()
    assert x.take(NAMED).tolist() == x.view(-1)[NAMED].tolist()


@pytest.mark.parametrize("rows", [3, 5000])
@pytest.mark.parametrize(
    "fill", [dynograd.index_fill, dynograd.Tensor.index_fill_, dynograd.compile(dynograd.index_fill)]
)
def test_a_number_keeps_its_digits_in_float64(rows, fill):
    assert fill(dynograd.zeros(rows, dtype=dynograd.float64), 0, dynograd.tensor([1]), 0.2)[1].item() == 0.2


def test_an_index_twice_fills_with_one_value():
    value = dynograd.tensor(2.0, requires_grad=True)
    filled = dynograd.index_fill(dynograd.zeros(3), 0, dynograd.tensor([0, -3, 2]), value)
    (filled * dynograd.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert filled.tolist() == [2.0, 0.0, 2.0]
    assert value.grad.item() == 101.0


def test_index_reduce_of_a_number_in_place():
    x = dynograd.tensor(2.0, requires_grad=True)
    source = dynograd.tensor([3.0], requires_grad=True)
    value = x.clone()
    value.index_reduce_(0, dynograd.tensor([0]), source[0], "prod")
    value.backward()
    assert (value.item(), x.grad.item(), source.grad.tolist()) == (6.0, 3.0, [2.0])


@pytest.mark.parametrize("value", [2j, dynograd.tensor(2j)])
@pytest.mark.parametrize("dtype", [dynograd.float32, dynograd.int64, dynograd.bool])
def test_index_fill_keeps_numbers_real(value, dtype):
    with pytest.raises(RuntimeError, match=f"index_fill: value .*2.*j.* is complex and does not fit into {dtype}"):
        dynograd.zeros(2, dtype=dtype).index_fill(0, dynograd.tensor([0]), value)


def test_index_add_of_integers_takes_the_whole_part_of_alpha():
    x = zeros(3, dtype=dynograd.uint8)
    result = x.index_add(0, tensor([0, 2, 0]), tensor([1, 2, 3], dtype=dynograd.uint8), alpha=2.5)
    assert result.dtype is dynograd.uint8 and result.tolist() == [8, 0, 4]


@pytest.mark.parametrize(
    "alpha, expected", [(True, [True, False, True]), (2, [True, False, True]), (False, [False] * 3)]
)
def test_index_add_of_bools_takes_alpha_as_a_bool(alpha, expected):
    result = zeros(3, dtype=dynograd.bool).index_add(0, tensor([0, 2]), tensor([True, True]), alpha=alpha)
    assert result.dtype is dynograd.bool and result.tolist() == expected
