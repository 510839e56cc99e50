"""Parts along one dim: sizes of every kind of split, and writes into parts."""

import numpy
import pytest

import dynograd
from tests.ops.harness import BOOL, COMPLEX, FLOATS, INTEGERS, Row, error, generate

ALL = FLOATS + INTEGERS + BOOL + COMPLEX
zeros = dynograd.zeros


def moved(name, reference, **options):
    """A row of an op that only moves elements: every dtype, unchanged."""
    return Row(name, reference, dtypes=ALL, result="same", **options)


def at(x, dim, index):
    """The NumPy index `index` along `dim`."""
    return x[(*(slice(None),) * (dim % x.ndim), index)]


def put(x, value, dim, index):
    created = x.copy()
    created[(*(slice(None),) * (dim % x.ndim), index)] = value
    return created


def cut(x, sizes, dim):
    return numpy.split(x, numpy.cumsum(sizes)[:-1], dim)


ROWS = [
    moved(
        "unbind",
        lambda x, dim: [at(x, dim, number) for number in range(x.shape[dim])],
        shapes=[(2, 3)],
        kwargs={"dim": 1},
        errors=[
            error(lambda op: op(zeros(())), IndexError, "Dimension specified as 0 but tensor has no dimensions"),
            error(lambda op: op(zeros(2), 1), IndexError, "unbind", "[-1, 0]", "1"),
        ],
    ),
    moved("unbind", lambda x: list(x), shapes=[(3, 2)], empty=False, id="first"),
    moved(
        "split_with_sizes",
        cut,
        args=lambda rng: [rng.normal(size=(5, 2)), (2, 3), 0],
        errors=[
            error(lambda op: op(zeros(4), (1, 2)), RuntimeError, "split_sizes", "sum exactly to 4", "[1, 2]"),
            error(lambda op: op(zeros(4), (5, -1)), RuntimeError, "split_sizes", "[5, -1]"),
        ],
    ),
    moved(
        "split",
        lambda x, size, dim: cut(x, [3, 1], dim),
        args=lambda rng: [rng.normal(size=(2, 4)), 3, -1],
        errors=[
            error(lambda op: op(zeros(4), 0), RuntimeError, "split_size can only be 0 if dimension size is 0", "4"),
            error(lambda op: op(zeros(4), -1), RuntimeError, "split expects split_size be non-negative", "-1"),
            error(lambda op: op(zeros(()), 1), RuntimeError, "split expects at least a 1-dimensional tensor"),
        ],
    ),
    moved("split", lambda x, sizes: cut(x, sizes, 0), args=lambda rng: [rng.normal(size=(4, 2)), [1, 3]], id="sizes"),
    moved("split", lambda x, size: [x], args=lambda rng: [rng.normal(size=(4, 2)), 9], id="whole"),
    moved(
        "chunk",
        lambda x, chunks, dim: cut(x, [2, 2, 1], dim),
        args=lambda rng: [rng.normal(size=(2, 5)), 3, 1],
        errors=[
            error(lambda op: op(zeros(4), 0), RuntimeError, "chunk expects `chunks` to be greater than 0, got: 0"),
            error(lambda op: op(zeros(()), 2), RuntimeError, "chunk expects at least a 1-dimensional tensor"),
        ],
    ),
    moved("chunk", lambda x, chunks: cut(x, [1, 1], 0), args=lambda rng: [rng.normal(size=(2, 2)), 5], id="fewer"),
    moved("chunk", lambda x, chunks: [x, x], args=lambda rng: [rng.normal(size=(0, 2)), 2], grad=False, id="nothing"),
    moved("unsafe_chunk", lambda x, chunks: cut(x, [1, 1], 0), args=lambda rng: [rng.normal(size=(2, 2)), 5]),
    moved("unsafe_split", lambda x, sizes: cut(x, sizes, 0), args=lambda rng: [rng.normal(size=(4, 2)), [1, 3]]),
    moved("unsafe_split_with_sizes", cut, args=lambda rng: [rng.normal(size=(5, 2)), (2, 3), 0]),
    moved(
        "tensor_split",
        lambda x, sections, dim: numpy.array_split(x, sections, dim),
        args=lambda rng: [rng.normal(size=(2, 5)), 3, 1],
        errors=[
            error(lambda op: op(zeros(4), 0), RuntimeError, "number of sections must be larger than 0, got 0"),
            error(lambda op: op(zeros(()), 2), RuntimeError, "tensor_split"),
        ],
    ),
    moved(
        "tensor_split",
        lambda x, indices: numpy.array_split(x, indices),
        args=lambda rng: [rng.normal(size=(5, 2)), (1, -2)],
        id="indices",
    ),
    moved(
        "tensor_split",
        lambda x, indices: numpy.array_split(x, list(indices)),
        args=lambda rng: [rng.normal(size=(5, 2)), numpy.array([-4, 3])],
        id="tensor",
    ),
    moved(
        "hsplit",
        lambda x, parts: numpy.hsplit(x, parts),
        args=lambda rng: [rng.normal(size=(2, 4)), 2],
        errors=[
            error(lambda op: op(zeros(4), 3), RuntimeError, "hsplit", "dimension 0", "4 is not divisible", "3"),
            error(lambda op: op(zeros(()), 1), RuntimeError, "requires a tensor with at least 1 dimension"),
        ],
    ),
    moved("hsplit", numpy.hsplit, args=lambda rng: [rng.normal(size=(4,)), [1, 2]], id="indices"),
    moved(
        "vsplit",
        numpy.vsplit,
        args=lambda rng: [rng.normal(size=(4, 2)), 2],
        errors=[error(lambda op: op(zeros(4), 2), RuntimeError, "vsplit requires a tensor with at least 2 dimension")],
    ),
    moved("dsplit", numpy.dsplit, args=lambda rng: [rng.normal(size=(1, 2, 4)), [1]]),
    moved(
        "narrow",
        lambda x, dim, start, length: x[:, 1:3],
        args=lambda rng: [rng.normal(size=(2, 4)), 1, -3, 2],
        covers=["basic_index", "basic_fill"],
        errors=[
            error(lambda op: op(zeros(4), 0, 3, 3), RuntimeError, "start (3) + length (3) exceeds dimension size (4)"),
            error(lambda op: op(zeros(4), 0, 5, 0), IndexError, "[-4, 4]", "5"),
            error(lambda op: op(zeros(4), 0, 0, -1), RuntimeError, "narrow", "negative"),
            error(lambda op: op(zeros(()), 0, 0, 1), RuntimeError, "narrow"),
        ],
    ),
    moved(
        "select",
        lambda x, dim, index: x[:, -1],
        args=lambda rng: [rng.normal(size=(2, 4)), 1, -1],
        errors=[
            error(lambda op: op(zeros(2, 4), 1, 4), IndexError, "index 4 out of range", "[2, 4]", "dimension 1"),
            error(lambda op: op(zeros(()), 0, 0), IndexError, "cannot be applied to a 0-dim tensor"),
        ],
    ),
    moved(
        "select_scatter",
        lambda x, value, dim, index: put(x, value, dim, index),
        args=lambda rng: [rng.normal(size=(2, 4)), rng.normal(size=2), 1, -2],
        covers=["basic_put"],
        errors=[error(lambda op: op(zeros(2, 4), zeros(3), 0, 1), RuntimeError, "select_scatter", "(4,)", "(3,)")],
    ),
    moved(
        "slice_scatter",
        lambda x, value, dim, start, end, step: put(x, value, dim, slice(start, end, step)),
        args=lambda rng: [rng.normal(size=(2, 5)), rng.normal(size=(2, 2)), -1, 1, 5, 2],
        errors=[
            error(lambda op: op(zeros(5), zeros(3), 0, 1, 3), RuntimeError, "slice_scatter", "(2,)", "(3,)"),
            error(lambda op: op(zeros(5), zeros(3), 0, 1, 3, 0), RuntimeError, "step must be positive, got 0"),
        ],
    ),
]
test_rows = generate(ROWS)


def test_parts_that_are_not_used_get_zero_gradient():
    x = dynograd.ones(5, requires_grad=True)
    _, middle, _ = x.split([1, 3, 1])
    (middle * middle[0]).sum().backward()
    assert x.grad.tolist() == [0, 4, 1, 1, 0]


def test_parts_may_be_empty():
    x = dynograd.arange(5.0, requires_grad=True)
    parts = x.split_with_sizes((2, 0, 3))
    assert [len(part) for part in parts] == [2, 0, 3]
    assert [len(part) for part in x.tensor_split((1, 1, 4, 9))] == [1, 0, 3, 1, 0]
    (parts[1].sum() + parts[2].sum()).backward()
    assert x.grad.tolist() == [0, 0, 1, 1, 1]


def test_iterating_over_a_tensor_gives_its_rows():
    x = dynograd.arange(6.0).view(3, 2).requires_grad_()
    total = sum((row * weight).sum() for weight, row in enumerate(x))
    total.backward()
    assert x.grad.tolist() == [[0, 0], [1, 1], [2, 2]]


def test_split_takes_tensors_as_sizes():
    lengths = dynograd.tensor([1, 2])
    assert [part.tolist() for part in dynograd.arange(3).split(tuple(lengths))] == [[0], [1, 2]]
    assert [part.tolist() for part in dynograd.arange(3).split(lengths.tolist())] == [[0], [1, 2]]


def test_writing_into_a_part_reaches_the_whole_and_its_history():
    x = dynograd.ones(4, requires_grad=True)
    y = x * 3
    y.chunk(2)[1].mul_(2)
    y.sum().backward()
    assert y.tolist() == [3, 3, 6, 6]
    assert x.grad.tolist() == [3, 3, 6, 6]


def test_narrow_starts_at_a_whole_number():
    for start, words in ((dynograd.tensor(True), "bool"), (dynograd.tensor([1]), r"\(1,\)")):
        with pytest.raises(RuntimeError, match=f"start must be an int or a 0-dim integral Tensor.*{words}"):
            dynograd.narrow(zeros(4), 0, start, 1)
    assert dynograd.narrow(dynograd.tensor([1, 2, 3]), 0, dynograd.tensor(1), 2).tolist() == [2, 3]


def test_select_and_narrow_take_axis():
    x = dynograd.arange(6).reshape(2, 3)
    assert x.select(axis=1, index=2).tolist() == x.select(1, 2).tolist() == [2, 5]
    assert x.narrow(axis=1, start=1, length=2).tolist() == x.narrow(1, 1, 2).tolist() == [[1, 2], [4, 5]]
    for call in (lambda: x.select(1), lambda: x.select(index=1)):
        with pytest.raises(TypeError, match=r"select\(\) missing required arguments: expected dim and index"):
            call()
    with pytest.raises(TypeError, match=r"narrow\(\) missing required arguments: expected dim, start and length"):
        x.narrow(1, 1)
