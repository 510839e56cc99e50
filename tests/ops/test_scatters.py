"""Reading and writing along one dim with an index of the result's shape."""

import numpy
import pytest

import dynograd
from tests.ops.harness import BOOL, COMPLEX, FLOATS, INTEGERS, Row, error, generate
from tests.support.few_calls import few_or_many_calls  # noqa: F401

ALL = FLOATS + INTEGERS + BOOL + COMPLEX
zeros, tensor = dynograd.zeros, dynograd.tensor
NAMED = dynograd.tensor([[0, 2]])
REDUCTIONS = {"sum": numpy.sum, "prod": numpy.prod, "mean": numpy.mean, "amax": numpy.max, "amin": numpy.min}


def moved(name, reference, **options):
    """A row of an op that only moves elements: every dtype, unchanged."""
    return Row(name, reference, dtypes=ALL, result="same", **options)


def places(dim, index):
    """(place in the index, place in the tensor) of each element."""
    for where in numpy.ndindex(*index.shape):
        there = list(where)
        there[dim] = int(index[where])
        yield where, tuple(there)


def gather(x, dim, index):
    created = numpy.empty(index.shape, x.dtype)
    for where, there in places(dim, index):
        created[where] = x[there]
    return created


def scatter(x, dim, index, src):
    created = x.copy()
    for where, there in places(dim, index):
        created[there] = src[where] if numpy.ndim(src) else src
    return created


def scatter_reduce(x, dim, index, src, reduce, include_self=True):
    kept = {}
    for where, there in places(dim, index):
        kept.setdefault(there, [x[there]] if include_self else []).append(src[where])
    created = x.copy()
    for there, values in kept.items():
        created[there] = REDUCTIONS[reduce](values)
    return created


def scatter_add(x, dim, index, src):
    return scatter_reduce(x, dim, index, src, "sum")


def apart(rng):
    """Indices that name no place twice."""
    return numpy.stack([rng.permutation(5)[:3] for _ in range(2)])


ROWS = [
    moved(
        "gather",
        gather,
        args=lambda rng: [rng.normal(size=(3, 4)), 1, rng.integers(0, 4, (2, 5))],
        covers=["gather_backward"],
        errors=[
            error(
                lambda op: op(zeros(1, 4), 1, NAMED + 3),
                IndexError,
                "index 5 is out of bounds for dimension 1 with size 4",
                "[0, 1]",
            ),
            error(lambda op: op(zeros(1, 4), 1, NAMED - 1), IndexError, "index -1 is out of bounds for dimension 1"),
            error(lambda op: op(zeros(4), 0, NAMED), RuntimeError, "same number of dimensions", "2", "1"),
            error(lambda op: op(zeros(1, 1), 0, NAMED * 0), RuntimeError, "dimension 1", "[1, 2]", "[1, 1]"),
            error(
                lambda op: op(zeros(1, 4), 1, zeros(1, 2)),
                RuntimeError,
                "Expected dtype int32/int64 for index",
                "float32",
            ),
            error(lambda op: op(zeros(1, 4), 2, NAMED), IndexError, "gather", "2"),
            error(lambda op: op(zeros(1, 4), 1, [[0]]), TypeError, "gather", "list"),
        ],
    ),
    moved(
        "gather", gather, args=lambda rng: [rng.normal(size=(2, 3, 4)), 0, rng.integers(0, 2, (3, 2, 4))], id="first"
    ),
    Row("gather", lambda x, dim, index: x, args=lambda rng: [rng.normal(size=()), 0, numpy.array(0)], id="0-d"),
    Row("gather", lambda x, dim, index: x[1], args=lambda rng: [rng.normal(size=4), 0, numpy.array(1)], id="0-d index"),
    moved(
        "gather",
        gather,
        args=lambda rng: [rng.normal(size=(2, 3)), 1, numpy.zeros((2, 0), int)],
        grad=False,
        id="empty",
    ),
    moved(
        "take_along_dim",
        lambda x, index, dim: numpy.take_along_axis(x, index, dim),
        args=lambda rng: [rng.normal(size=(3, 4)), rng.integers(-4, 4, (1, 5)), -1],
        errors=[
            error(lambda op: op(zeros(2, 3), NAMED[0], 0), RuntimeError, "same number of dimensions", "2", "1"),
            error(lambda op: op(zeros(2, 3), zeros(2, 3), 0), RuntimeError, "should be Long", "float32"),
            error(
                lambda op: op(zeros(1, 2), NAMED, 1), IndexError, "index 2 is out of bounds for dimension 1 with size 2"
            ),
        ],
    ),
    moved(
        "take_along_dim",
        lambda x, index: x.reshape(-1)[index.reshape(-1)],
        args=lambda rng: [rng.normal(size=(3, 4)), rng.integers(0, 12, (2, 2))],
        id="flat",
    ),
    moved(
        "scatter",
        scatter,
        args=lambda rng: [rng.normal(size=(2, 5)), 1, apart(rng), rng.normal(size=(2, 3))],
        errors=[
            error(
                lambda op: op(zeros(1, 2), 1, NAMED, 1.0),
                IndexError,
                "index 2 is out of bounds for dimension 1 with size 2",
            ),
            error(lambda op: op(zeros(1, 4), 1, NAMED, NAMED), RuntimeError, "self.dtype to be equal to src.dtype"),
            error(
                lambda op: op(zeros(1, 4), 1, NAMED, zeros(1, 1)),
                RuntimeError,
                "[1, 2]",
                "[1, 4]",
                "no larger size than src [1, 1]",
            ),
            error(
                lambda op: op(zeros(1, 4), 1, NAMED, 1.0, reduce="mean"),
                RuntimeError,
                "either add or multiply",
                "'mean'",
            ),
            error(lambda op: op(zeros(1, 4), 1, NAMED), TypeError, "scatter", "src", "value"),
        ],
    ),
    Row(
        "scatter",
        scatter,
        args=lambda rng: [rng.normal(size=(2, 5)), -1, apart(rng), 2.0],
        covers=["scatter_number"],
        id="number",
    ),
    Row(
        "scatter",
        lambda x, dim, index, value: scatter(x, dim, index, value),
        args=lambda rng: [rng.normal(size=(2, 5)), 1, apart(rng)],
        kwargs={"value": 3},
        id="value",
    ),
    Row(
        "scatter",
        lambda x, dim, index, src, reduce: scatter_add(x, dim, index, src),
        args=lambda rng: [rng.normal(size=(2, 5)), 1, rng.integers(0, 5, (2, 6)), rng.normal(size=(2, 6))],
        kwargs={"reduce": "add"},
        id="add",
    ),
    Row(
        "scatter",
        lambda x, dim, index, src, reduce: scatter_reduce(x, dim, index, src, "prod"),
        args=lambda rng: [rng.normal(size=(2, 5)), 1, rng.integers(0, 5, (2, 6)), rng.normal(size=(2, 6))],
        kwargs={"reduce": "multiply"},
        tolerance=4,
        id="multiply",
    ),
    Row(
        "scatter_add",
        scatter_add,
        args=lambda rng: [rng.normal(size=(3, 4)), 0, rng.integers(0, 3, (5, 2)), rng.normal(size=(6, 4))],
        dtypes=FLOATS + INTEGERS + COMPLEX,
        result="same",
        errors=[
            error(
                lambda op: op(zeros(1, 2), 1, NAMED, zeros(1, 2)), IndexError, "scatter_add: index 2 is out of bounds"
            )
        ],
    ),
    Row(
        "scatter_add",
        lambda x, dim, index, src: x + src,
        args=lambda rng: [rng.normal(size=()), 0, numpy.array(0), rng.normal(size=())],
        id="0-d",
    ),
    *[
        Row(
            name,
            lambda x, dim, index, src, compute=compute: compute(x, dim, index[None], src[None]),
            args=lambda rng: [rng.normal(size=4), 0, numpy.array(2), rng.normal(size=())],
            id="0-d index",
        )
        for name, compute in (("scatter", scatter), ("scatter_add", scatter_add))
    ],
    *[
        Row(
            "scatter_reduce",
            scatter_reduce,
            args=lambda rng, reduce=reduce: [
                rng.normal(size=(4, 3)),
                0,
                rng.integers(0, 3, (5, 3)),
                rng.normal(size=(5, 3)),
                reduce,
            ],
            kwargs={"include_self": include_self},
            covers=["ties", "ones_of"],
            tolerance=4,
            id=f"{reduce}-{'with' if include_self else 'without'}-self",
        )
        for reduce in REDUCTIONS
        for include_self in (True, False)
    ],
    Row(
        "scatter_reduce",
        lambda x, dim, index, src, reduce: scatter_reduce(x, dim, index, src, reduce),
        args=lambda rng: [numpy.arange(4), 0, rng.integers(0, 4, 6), numpy.arange(6) * 10, "amax"],
        grad=False,
        dtypes=("int64",),
        id="integers",
        errors=[
            error(
                lambda op: op(zeros(1, 4), 1, NAMED, zeros(1, 2), "max"),
                RuntimeError,
                "sum, prod, mean, amax or amin",
                "max",
            )
        ],
    ),
]
test_rows = generate(ROWS)


@pytest.mark.parametrize("zeros_among", [0, 1, 2])
def test_product_gradient_with_zeros_among_the_factors(zeros_among):
    src = dynograd.tensor([2.0, 3.0, 5.0], requires_grad=True)
    with dynograd.no_grad():
        src[:zeros_among] = 0.0
    x = dynograd.tensor([7.0, 1.0], requires_grad=True)
    x.scatter_reduce(0, dynograd.tensor([0, 0, 0]), src, "prod")[0].backward()
    values = [7.0, *src.tolist()]
    expected = [numpy.prod(values[:k] + values[k + 1 :]) for k in range(4)]
    assert [x.grad[0].item(), *src.grad.tolist()] == expected


def test_a_maximum_shared_by_several_shares_its_gradient():
    src = dynograd.tensor([1.0, 4.0, 4.0], requires_grad=True)
    x = dynograd.tensor([4.0, 9.0], requires_grad=True)
    x.scatter_reduce(0, dynograd.tensor([0, 0, 0]), src, "amax").sum().backward()
    assert x.grad.tolist() == pytest.approx([1 / 3, 1])
    assert src.grad.tolist() == pytest.approx([0, 1 / 3, 1 / 3])


def test_means_of_integers_are_rounded_down():
    created = dynograd.tensor([0, 0]).scatter_reduce(0, dynograd.tensor([0, 0, 1]), dynograd.tensor([3, 4, -1]), "mean")
    assert created.tolist() == [2, -1]


def test_infinite_gradients_do_not_leak_into_overwritten_places():
    x = zeros(2, requires_grad=True)
    created = x.scatter(0, dynograd.tensor([0]), 1.0)
    created.backward(dynograd.full((2,), float("inf")))
    assert x.grad.tolist() == [0, float("inf")]


def test_half_types_add_up_in_float32():
    ones = dynograd.ones(4096, dtype=dynograd.float16)
    index = dynograd.zeros(4096, dtype=dynograd.int64)
    assert dynograd.zeros(1, dtype=dynograd.float16).scatter_add(0, index, ones).item() == 4096


def test_of_several_writes_to_one_place_the_last_one_stays():
    created = zeros(2).scatter(0, dynograd.tensor([1, 1, 1]), dynograd.tensor([1.0, 2.0, 3.0]))
    assert created.tolist() == [0, 3]


def test_gather_from_a_transposed_tensor():
    x = dynograd.arange(12).view(3, 4).t()
    assert x.gather(1, dynograd.tensor([[2], [0], [1], [2]])).tolist() == [[8], [1], [6], [11]]


FAR = 1 << 40  # a copy of so many elements fits in no memory
EXPANDED = {
    "one line": (lambda x: x.expand(FAR, 4, 3), lambda x, *at: x[at[2]]),
    "of lines": (lambda x: x[:, None, None].expand(3, FAR, 3), lambda x, *at: x[at[0]]),
    "cut": (lambda x: x.expand(FAR, 3)[:, 1:, None].expand(FAR, 2, 3), lambda x, *at: x[1:][at[1]]),
}


@pytest.mark.parametrize("case", EXPANDED)
@pytest.mark.parametrize("count", [1, 5000])
def test_gather_copies_no_expanded_tensor(case, count):
    expand, value = EXPANDED[case]
    x, index = dynograd.tensor([5, 3, 8]), numpy.arange(2 * count).reshape(2, 1, count) % 3
    expected = value(x.numpy(), numpy.arange(2)[:, None, None], numpy.zeros((1, 1, 1), int), index)
    assert (expand(x).gather(2, tensor(index)).numpy() == expected).all()
    with pytest.raises(IndexError, match="gather.*7 is out of bounds for dimension 2 with size 3"):
        expand(x).gather(2, tensor(index + 7))


def test_picking_slices_copies_no_expanded_tensor():
    assert dynograd.tensor(4).expand(FAR).index_select(0, dynograd.tensor([FAR - 1, 0])).tolist() == [4, 4]
    x = dynograd.tensor([5, 3]).expand(FAR, 2)
    assert x.index_select(0, dynograd.tensor([FAR - 1, 0])).tolist() == [[5, 3], [5, 3]]
    with pytest.raises(IndexError, match="index_select.*-1 is out of bounds"):
        x.index_select(0, dynograd.tensor([-1]))


def test_take_along_dim_of_one_row_for_all():
    index = numpy.random.default_rng(0).integers(0, 7, (400, 300, 2))
    row = dynograd.arange(7) * 3
    assert (dynograd.take_along_dim(row[None, None], tensor(index), 2).numpy() == index * 3).all()


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("dtype", [dynograd.float32, dynograd.float64, dynograd.int64])
def test_compiled_kernels_for_large_indices_agree(dim, dtype):
    rng = numpy.random.default_rng(dim)
    shape, expected = [9, 15, 17], [9, 15, 17]
    expected[dim] = 30
    expected[0] = max(expected[0] - 1, 1) if dim else expected[0]
    index = rng.integers(0, shape[dim], expected)
    x, src = rng.integers(-9, 9, shape).astype(float), rng.integers(-9, 9, expected).astype(float)
    ours = [tensor(x, dtype=dtype), dim, tensor(index)]
    values = tensor(src, dtype=dtype)
    assert ours[0].gather(dim, ours[2]).tolist() == gather(x, dim, index).tolist()
    assert ours[0].scatter_add(*ours[1:], values).tolist() == scatter_add(x, dim, index, src).tolist()
    assert ours[0].scatter(*ours[1:], values).tolist() == scatter(x, dim, index, src).tolist()
    assert ours[0].scatter(*ours[1:], 5).tolist() == scatter(x, dim, index, 5).tolist()


def test_scatter_reduce_of_a_number_in_place():
    x = dynograd.tensor(2.0, requires_grad=True)
    value = x.clone()
    value.scatter_reduce_(0, dynograd.tensor(0), dynograd.tensor(3.0), "amax")
    value.backward()
    assert (value.item(), x.grad.item()) == (3.0, 0.0)


REDUCED = [f"scatter_reduce {name}" for name in ("sum", "mean", "prod", "amax", "amin")]


@pytest.mark.parametrize(
    "name", ["gather", "scatter", "scatter_add", "scatter_", "scatter_add_", "put_", "scatter_reduce_ prod", *REDUCED]
)
@pytest.mark.parametrize("sizes", [[(40000,)] * 2, [(200, 200)] * 2, [(200, 300), (200, 200)]], ids=str)
@pytest.mark.parametrize("wrong", [40000, -1])
def test_an_index_of_many_that_is_outside_is_named(name, sizes, wrong):
    """Large indices are checked by the kernels that read them."""
    shape, expected = sizes
    x, index = zeros(*shape), dynograd.zeros(expected, dtype=dynograd.int64)
    name, _, reduce = name.partition(" ")
    wrong = -40000 * 300 if name == "put_" and wrong < 0 else wrong * (300 if name == "put_" else 1)
    index.view(-1)[7] = wrong
    argument = [] if name == "gather" else [zeros(*expected)]
    with pytest.raises(IndexError, match=f"{name.rstrip('_')}: .*index {wrong}.*at position"):
        getattr(x, name)(*([] if name == "put_" else [0]), index, *argument, *([reduce] if reduce else []))


@pytest.mark.parametrize("name", ["scatter", "scatter_add", "scatter_reduce"])
def test_an_index_without_elements_may_have_any_number_of_dims(name):
    x = dynograd.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    options = ("sum",) if name == "scatter_reduce" else ()
    result = getattr(x, name)(0, dynograd.tensor((), dtype=dynograd.int64), dynograd.ones(2, 2), *options)
    result.sum().backward()
    assert result.tolist() == x.tolist() and x.grad.tolist() == [[1, 1], [1, 1]]
