"""Picking, writing and adding at an index on the GPU, against the CPU twins; and what happens to indices that are outside."""

from __future__ import annotations

import ml_dtypes
import numpy
import pytest

import dynograd
from dynograd.cuda import driver
from dynograd.errors import IndexRangeError
from dynograd.kernels.build import determinism, faults_cuda
from dynograd.kernels.index import embeddings_cuda, indexing_cpu, indexing_cuda, scatters_cuda
from dynograd.ops.index.indexing import Advanced
from tests.gpu.twins import compared, near, on_device
from tests.gpu.values import numbers

bfloat16 = numpy.dtype(ml_dtypes.bfloat16)
KINDS = ["float32", "bool", bfloat16]
FULL = slice(None)


@pytest.fixture(params=[False, True], ids=["any order", "deterministic"])
def deterministic(request):
    determinism.use_deterministic_algorithms(request.param)
    yield request.param
    determinism.use_deterministic_algorithms(False)


@pytest.fixture(autouse=True)
def no_faults_left():
    yield
    faults_cuda.check()


def some(shape, kind):
    return (numbers(0, shape) * 3).astype(kind) if kind != "bool" else numbers(0, shape) > 0


def places(shape, size, seed=1):
    return numpy.random.default_rng(seed).integers(0, size, shape)


# --- an index for each element ---------------------------------------------------------------------------------------------


ALONG_ROWS = [
    ((4, 5), 1, (4, 3)),
    ((4, 5), 0, (6, 5)),
    ((3, 4, 2), 1, (3, 5, 2)),
    ((3, 4, 2), 2, (2, 3, 4)),
    ((5,), 0, (7,)),
    ((4, 5), 1, (0, 3)),
]


@pytest.mark.parametrize(("shape", "dim", "picked"), ALONG_ROWS, ids=str)
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_along_a_dim(shape, dim, picked, kind, deterministic):
    x, index = some(shape, kind), places(picked, shape[dim])
    src = some(picked, kind)
    compared("scatters", "gather", x, dim, index)
    if kind == "bool":
        return
    compared("scatters", "gather_backward", src, dim, index, shape)
    compared("scatters", "scatter_add", x, dim, index, src)
    for reduce in ("prod", "amax", "amin"):
        for include in (True, False):
            compared("scatters", "scatter_reduce", x, dim, index, src, reduce, include)


@pytest.mark.parametrize(("shape", "dim"), [((1 << 40, 3, 6), 2), ((1 << 40, 6, 3), 1)])
def test_gather_copies_no_expanded_line(shape, dim):
    line, index = some((6,), "float32"), places((2, 3, 2), 6)
    x = dynograd.tensor(line, device="cuda")
    expanded = (x[:, None] if dim == 1 else x).expand(shape)
    assert expanded.gather(dim, dynograd.tensor(index, device="cuda")).tolist() == line[index].tolist()


@pytest.mark.parametrize("kind", ["float32", "complex64", "complex128", "uint8"])
def test_written_along_a_dim(kind, deterministic):
    x, src = some((4, 6), kind), some((4, 3), kind) + numpy.asarray(1).astype(kind)
    index = numpy.argsort(numbers(2, (4, 6)), 1)[:, :3]  # no place twice
    for value in (src, 2):
        result = scatters_cuda.scatter(on_device(x), 1, on_device(index), on_device(value))
        expected = x.copy()
        numpy.put_along_axis(expected, index, numpy.asarray(value, kind), 1)
        numpy.testing.assert_array_equal(result.numpy(), expected)
    smaller = scatters_cuda.scatter(on_device(x), 1, on_device(index[:2]), on_device(src[:2])).numpy()
    expected = x.copy()
    numpy.put_along_axis(expected[:2], index[:2], src[:2], 1)
    numpy.testing.assert_array_equal(smaller, expected)
    gathered = scatters_cuda.gather(on_device(x), 1, on_device(index)).numpy()
    numpy.testing.assert_array_equal(gathered, numpy.take_along_axis(x, index, 1))


def test_of_several_writes_the_last_stays_with_deterministic_algorithms():
    determinism.use_deterministic_algorithms(True)
    try:
        compared("scatters", "scatter", numbers(0, (3, 4)), 1, places((3, 9), 4), numbers(1, (3, 9)))
        index = places((12,), 4)
        compared("indexing", "index_put_forward", numbers(0, (4, 3)), numbers(1, (12, 3)), [index], (0,), False,
                 given=[on_device(numbers(0, (4, 3))), on_device(numbers(1, (12, 3))), [on_device(index)], (0,), False])  # fmt: skip
    finally:
        determinism.use_deterministic_algorithms(False)


@pytest.mark.parametrize("kind", ["float32", "int64"])
def test_nan_wins_a_maximum(kind):
    x, src = some((6,), kind), some((9,), kind)
    if kind == "float32":
        src[[2, 5]] = numpy.nan
    for reduce in ("amax", "amin"):
        compared("scatters", "scatter_reduce", x, 0, places((9,), 6), src, reduce, True)


def test_an_expanded_index_is_one_index_for_slices(deterministic):
    index = numpy.broadcast_to(places((3,), 5)[:, None], (3, 4))
    x = numbers(0, (5, 4))
    argument = on_device(numpy.array(index[:, 0])).reshape((3, 1)).broadcast_to((3, 4))
    compared("scatters", "gather", x, 0, index, given=[on_device(x), 0, argument])
    src = numbers(1, (3, 4))
    compared("scatters", "scatter_add", x, 0, index, src, given=[on_device(x), 0, argument, on_device(src)])


def test_ties_and_wrapped():
    compared("scatters", "ties", numpy.float32([1, 2, 3]), numpy.float32([1, 0, 3]))
    compared("scatters", "wrapped", numpy.array([-1, 0, 2, -3]), 3)


# --- advanced indices ------------------------------------------------------------------------------------------------------


def mask_of(shape, seed=3):
    return numbers(seed, shape) > 0


INDEX_ROWS = [
    ((5, 4), lambda: ([places((3,), 5)], (0,))),
    ((5, 4), lambda: ([places((2, 3), 4) - 4], (FULL, 0))),
    ((5, 4, 3), lambda: ([places((6,), 4)], (FULL, 0))),
    ((5, 4), lambda: ([places((3,), 5), places((3,), 4, 2)], (0, 1))),
    ((5, 4, 3), lambda: ([places((3, 1), 5), places((2,), 3, 2)], (0, FULL, 1))),
    ((2, 5, 4, 3), lambda: ([places((3, 1), 5), places((1, 2), 4, 2)], (FULL, 0, 1))),
    ((5, 4), lambda: ([mask_of((5,))], (0,))),
    ((5, 4), lambda: ([mask_of((5, 4))], (0,))),
    ((5, 4, 3), lambda: ([mask_of((4, 3))], (FULL, 0))),
    ((5, 4, 3), lambda: ([numpy.zeros(4, bool)], (FULL, 0))),
    ((2, 3, 4), lambda: ([mask_of((2, 3)), numpy.array([1])], (0, 1))),
    ((5, 4), lambda: ([places((0,), 5)], (0,))),
    ((6,), lambda: ([places((2, 2), 6).astype("int32")], (0,))),
]


@pytest.mark.parametrize(("shape", "index"), INDEX_ROWS)
@pytest.mark.parametrize("kind", ["float32", "complex128"], ids=str)
def test_advanced(shape, index, kind, deterministic):
    indices, template = index()
    x = some(shape, kind)
    there = [on_device(index) for index in indices]
    expected = indexing_cpu.index_forward(x, indices, template)
    picked = indexing_cuda.index_forward(on_device(x), there, template)
    numpy.testing.assert_array_equal(picked.numpy(), expected)
    turned = numpy.ascontiguousarray(x.T).T
    numpy.testing.assert_array_equal(indexing_cuda.index_forward(on_device(turned), there, template).numpy(), expected)
    assert indexing_cuda.result_shape(shape, there, template) == expected.shape
    if kind == "complex128":
        return
    g = (numbers(4, expected.shape) * 3).astype(kind)
    near(
        indexing_cuda.index_backward(on_device(g), there, template, shape),
        indexing_cpu.index_backward(g, indices, template, shape),
    )
    result = indexing_cuda.index_put_forward(on_device(x), on_device(g), there, template, True)
    near(result, indexing_cpu.index_put_forward(x, g, indices, template, True))
    result = indexing_cuda.index_put_forward(on_device(x), 0, there, template, False)
    near(result, indexing_cpu.index_put_forward(x, 0, indices, template, False))
    for target, mine in ((x.copy(), on_device(x)), (turned.copy("K"), on_device(turned))):
        value = numpy.asarray(numpy.asarray(2).astype(kind))
        indexing_cpu.index_assign(target, Advanced(None, indices, template), value)
        indexing_cuda.index_assign(mine, Advanced(None, there, template), on_device(value))
        near(mine, target)


def test_values_are_broadcast():
    x, index, row = numbers(0, (5, 4)), numpy.array([3, 1]), numbers(1, (1, 4))
    expected = indexing_cpu.index_put_forward(x, row, [index], (0,), False)
    near(indexing_cuda.index_put_forward(on_device(x), on_device(row), [on_device(index)], (0,), False), expected)
    with pytest.raises(ValueError, match="broadcast"):
        indexing_cuda.index_put_forward(on_device(x), on_device(numbers(1, (3, 4))), [on_device(index)], (0,), False)


RAW_ROWS = [
    numpy.array([2, 0]),
    [1, 1, -1],
    (FULL, numpy.array([2, 0])),
    (1, numpy.array([2, 0])),
    (slice(1, 4), numpy.array([2, 0, 1])),
    (Ellipsis, numpy.array([2, 0]), FULL),
    (None, numpy.array([2, 0])),
    (numpy.array([2, 0]), slice(0, 2), numpy.array([1, 2])),
    numpy.arange(4) > 1,
]


@pytest.mark.parametrize("index", RAW_ROWS, ids=str)
def test_any_index_of_an_array(index):
    x = numbers(0, (4, 3, 3))
    there = tuple(map(on_device, index)) if isinstance(index, tuple) else on_device(index)
    picked = on_device(x)[there]
    numpy.testing.assert_array_equal(picked.numpy(), x[index])
    mine, value = on_device(x), numbers(1, picked.shape)
    mine[there] = on_device(value)
    if not isinstance(index, list):  # no place twice
        x[index] = value
        numpy.testing.assert_array_equal(mine.numpy(), x)
    mine[there] = 3.0
    x[index] = 3.0
    numpy.testing.assert_array_equal(mine[there].numpy(), x[index])


def test_too_many_indices():
    with pytest.raises(IndexError, match="too many indices: array is 1-dimensional, but 2 were indexed"):
        indexing_cuda.index(on_device(numbers(0, (3,))), (on_device(numpy.array([0])), 1))


def test_basic_index():
    g, x = numbers(0, (2, 3)), numbers(1, (4, 3))
    compared("indexing", "basic_fill", g, (4, 3), (slice(1, 3), Ellipsis))
    compared("indexing", "basic_put", x, g, (slice(0, 4, 2), Ellipsis))
    compared("indexing", "basic_put", x, 0, (1, Ellipsis))
    assert indexing_cuda.count_true(on_device(mask_of((70, 70)))) == mask_of((70, 70)).sum()


# --- embeddings ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["float32", "float64", bfloat16, "float16"], ids=str)
@pytest.mark.parametrize("columns", [1, 3, 40])
def test_embedding(kind, columns, deterministic):
    weight, indices = numbers(0, (6, columns)).astype(kind), places((2, 5), 6)
    compared("embeddings", "embedding_forward", weight, indices)
    g = numbers(1, (2, 5, columns)).astype(kind)
    for padding in (None, 0, 4):
        compared("embeddings", "embedding_backward", g, indices, 6, padding)


def test_rows_that_start_between_words():
    weight = numbers(0, (7, 2))
    shifted = on_device(weight).reshape(-1)[1:13].reshape((6, 2))
    result = embeddings_cuda.embedding_forward(shifted, on_device(numpy.array([5, 0])))
    numpy.testing.assert_array_equal(result.numpy(), weight.reshape(-1)[1:13].reshape(6, 2)[[5, 0]])


# --- indices outside their range -------------------------------------------------------------------------------------------


def kernels_have_run():
    """Waits for a card without looking at what its kernels have reported."""
    device = driver.get("test")
    if not driver.is_emulated():
        device.api.cuCtxSynchronize()


def test_outside_is_left_out_and_reported_with_the_ops_name():
    weight, indices = numbers(0, (4, 3)), numpy.array([1, 7, 2])
    assert indexing_cuda.out_of_range(on_device(indices), 0, 4, "embedding", True) is None
    picked = embeddings_cuda.embedding_forward(on_device(weight), on_device(indices))
    kernels_have_run()
    with pytest.raises(
        IndexRangeError, match=r"embedding: index 7 is out of bounds .* valid are 0 to 3.*DYNOGRAD_CUDA_SYNC=1"
    ):
        faults_cuda.check()
    faults_cuda.check()  # once
    numpy.testing.assert_array_equal(picked.numpy(), [weight[1], [0, 0, 0], weight[2]])


OUTSIDE = [
    ("gather", lambda x, i: scatters_cuda.gather(x, 0, i)),
    ("scatter_add", lambda x, i: scatters_cuda.scatter_add(x, 0, i, i.astype("float32"))),
    ("scatter", lambda x, i: scatters_cuda.scatter(x, 0, i, 1.0)),
    ("scatter_reduce", lambda x, i: scatters_cuda.scatter_reduce(x, 0, i, i.astype("float32"), "amax", True)),
    ("index", lambda x, i: indexing_cuda.index_forward(x, [i], (0,))),
    ("index", lambda x, i: indexing_cuda.index_backward(i.astype("float32"), [i], (0,), (4,))),
    ("index_put", lambda x, i: indexing_cuda.index_put_forward(x, 1.0, [i], (0,), False)),
    ("check", lambda x, i: indexing_cuda.out_of_range(i, -4, 4, "check")),
]


@pytest.mark.parametrize(("name", "call"), OUTSIDE)
@pytest.mark.parametrize("value", [4, -5 - (1 << 40)])
def test_every_kernel_leaves_out_what_is_outside(name, call, value, deterministic):
    call(on_device(numbers(0, (4,))), on_device(numpy.array([1, value])))
    kernels_have_run()
    with pytest.raises(IndexRangeError, match=rf"{name}: index {value} is out of bounds"):
        faults_cuda.check(0)


def test_found_by_the_next_kernel_that_uses_an_index():
    x, index = on_device(numbers(0, (4,))), on_device(numpy.array([9]))
    indexing_cuda.index_forward(x, [index], (0,))
    kernels_have_run()
    with pytest.raises(IndexRangeError, match="index 9"):
        indexing_cuda.index_forward(x, [on_device(numpy.array([1]))], (0,))


def test_at_once_when_asked(monkeypatch):
    monkeypatch.setenv("DYNOGRAD_CUDA_SYNC", "1")
    index = on_device(numpy.array([[1, 2], [9, 0]]))
    assert indexing_cuda.out_of_range(index, 0, 4, "gather", True) == (9, (1, 0))
    assert indexing_cuda.out_of_range(index, 0, 10, "gather", True) is None
    with pytest.raises(IndexRangeError, match="index 9"):
        indexing_cuda.index_forward(on_device(numbers(0, (4,))), [index], (0,))


def test_lines_of_several_tiles():
    weight, indices = numbers(0, (3, 1030)), numpy.array([2, 0])
    compared("embeddings", "embedding_forward", weight, indices)
    compared("embeddings", "embedding_backward", numbers(1, (2, 1030)), indices, 3, None)


@pytest.mark.parametrize("kind", ["float64", "float16", "uint8", "int16"])
def test_other_dtypes(kind, deterministic):
    x, index, src = some((4, 5), kind), places((4, 3), 5), some((4, 3), kind)
    compared("scatters", "scatter_add", x, 1, index, src)
    compared("scatters", "gather_backward", src, 1, index, (4, 5))
    compared("embeddings", "embedding_forward", x, index % 4)


def test_waiting_for_the_device_reports():
    x, index = on_device(numbers(0, (4,))), on_device(numpy.array([9]))
    picked = indexing_cuda.index_forward(x, [index], (0,))
    with pytest.raises(IndexRangeError, match="index 9"):
        picked.numpy()
    assert picked.numpy() == 0
