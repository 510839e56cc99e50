"""Tensors made into one: mixed dtypes, empty ones, and what the messages name."""

import itertools

import numpy
import pytest
import scipy.linalg

import dynograd
from tests.ops.harness import BOOL, COMPLEX, FLOATS, INTEGERS, Row, error, generate
from tests.support.few_calls import few_or_many_calls  # noqa: F401

ALL = FLOATS + INTEGERS + BOOL + COMPLEX
zeros = dynograd.zeros


def moved(name, reference, **options):
    """A row of an op that only moves elements: every dtype, unchanged."""
    return Row(name, reference, dtypes=ALL, result="same", **options)


ROWS = [
    moved(
        "cat",
        lambda xs, dim: numpy.concatenate(xs, dim),
        shapes=[[(2, 3), (1, 3), (4, 3)]],
        kwargs={"dim": -2},
        errors=[
            error(lambda op: op([]), ValueError, "expected a non-empty list of Tensors"),
            error(
                lambda op: op([zeros(2, 3), zeros(2, 4)]),
                RuntimeError,
                "Sizes of tensors must match except in dimension 0. Expected size 3 but got size 4",
                "number 1",
            ),
            error(lambda op: op([zeros(2), zeros(2, 3)]), RuntimeError, "same number of dimensions", "1 and 2"),
            error(lambda op: op([zeros(()), zeros(2)]), RuntimeError, "zero-dimensional tensor (at position 0)"),
            error(lambda op: op([zeros(2), zeros(2)], 1), IndexError, "cat", "[-1, 0]", "1"),
            error(lambda op: op(zeros(2, 2)), TypeError, "must be tuple of Tensors, not Tensor"),
            error(lambda op: op([zeros(2), 3]), TypeError, "must be Tensor, not int"),
        ],
    ),
    moved("cat", lambda xs: numpy.concatenate(xs), shapes=[[(0,), (2,), (0,)]], ones=False, id="empty"),
    moved("concat", lambda xs, dim: numpy.concatenate(xs, dim), shapes=[[(2, 1), (2, 3)]], kwargs={"dim": 1}),
    moved("concatenate", lambda xs, axis: numpy.concatenate(xs, axis), shapes=[[(2, 1), (2, 3)]], kwargs={"axis": 1}),
    moved(
        "stack",
        lambda xs, dim: numpy.stack(xs, dim),
        shapes=[[(2, 3), (2, 3)]],
        kwargs={"dim": -2},
        errors=[
            error(lambda op: op([]), RuntimeError, "stack expects a non-empty TensorList"),
            error(
                lambda op: op([zeros(2), zeros(3)]), RuntimeError, "[2] at entry 0 and [3] at entry 1", "pad_sequence"
            ),
            error(lambda op: op([zeros(2), zeros(2)], 2), IndexError, "stack", "[-2, 1]", "2"),
        ],
    ),
    Row("stack", lambda xs: numpy.stack(xs), shapes=[[(), ()]], id="0-d"),
    moved(
        "hstack",
        numpy.hstack,
        shapes=[[(2, 1), (2, 3)]],
        errors=[error(lambda op: op([]), RuntimeError, "hstack expects a non-empty TensorList")],
    ),
    moved("hstack", numpy.hstack, shapes=[[(2,), ()]], id="vectors"),
    moved("vstack", numpy.vstack, shapes=[[(3,), (2, 3)]], ones=False),
    moved("row_stack", numpy.vstack, shapes=[[(3,), (3,)]]),
    moved("dstack", numpy.dstack, shapes=[[(2, 3), (2, 3)]]),
    moved("column_stack", numpy.column_stack, shapes=[[(2,), (2, 3)]], ones=False),
    Row("column_stack", lambda xs: numpy.array([xs]), shapes=[[(), ()]], id="0-d"),
    moved(
        "block_diag",
        lambda *xs: scipy.linalg.block_diag(*xs),
        shapes=[(2, 3), (3,), ()],
        errors=[
            error(lambda op: op(zeros(1), zeros(1, 2, 3)), RuntimeError, "2 or fewer dimensions", "Input 1 has 3"),
            error(lambda op: op(), RuntimeError, "at least one tensor"),
        ],
    ),
    moved(
        "meshgrid",
        lambda *xs, indexing: numpy.meshgrid(*xs, indexing=indexing),
        shapes=[(2,), (3,), (1,)],
        kwargs={"indexing": "xy"},
        errors=[
            error(lambda op: op(), RuntimeError, "non-empty TensorList"),
            error(lambda op: op(zeros(2), indexing="yx"), RuntimeError, 'one of "xy" or "ij"', "'yx'"),
            error(lambda op: op(zeros(2, 2)), RuntimeError, "Expected scalar or 1D tensor", "(2, 2)"),
            error(lambda op: op(zeros(2), dynograd.arange(2)), RuntimeError, "same dtype", "float32", "int64"),
        ],
    ),
    moved("meshgrid", lambda *xs: numpy.meshgrid(*xs, indexing="ij"), shapes=[(2,), (3,)], id="ij"),
    moved(
        "cartesian_prod",
        lambda *xs: numpy.array(list(itertools.product(*xs))).reshape(-1, len(xs)),
        shapes=[(2,), (3,)],
        errors=[error(lambda op: op(zeros(2, 2)), RuntimeError, "Expect a 1D vector", "(2, 2)")],
    ),
    moved("cartesian_prod", lambda x: x, shapes=[(2,)], id="one"),
    moved(
        "combinations",
        lambda x, r: numpy.array(list(itertools.combinations(x, r))).reshape(-1, r),
        shapes=[(4,)],
        kwargs={"r": 3},
        ones=False,
        errors=[
            error(lambda op: op(zeros(2, 2)), RuntimeError, "Expect a 1D vector", "(2, 2)"),
            error(lambda op: op(zeros(2), -1), RuntimeError, "non-negative number", "r=-1"),
        ],
    ),
    moved("combinations", lambda x, r: x.reshape(-1, 1), shapes=[(4,)], kwargs={"r": 1}, id="each alone"),
    moved("combinations", lambda x, r: x[:0], shapes=[(4,)], kwargs={"r": 0}, id="none"),
    moved(
        "combinations",
        lambda x, with_replacement: numpy.array(list(itertools.combinations_with_replacement(x, 2))).reshape(-1, 2),
        shapes=[(3,)],
        kwargs={"with_replacement": True},
        id="replacement",
    ),
]
test_rows = generate(ROWS)


@pytest.mark.parametrize("join", [dynograd.cat, dynograd.stack])
def test_mixed_dtypes_are_promoted_and_each_gradient_has_its_own(join):
    x = dynograd.ones(2, requires_grad=True)
    y = dynograd.ones(2, dtype=dynograd.float64, requires_grad=True)
    created = join([x, dynograd.ones(2, dtype=dynograd.int64), y])
    assert created.dtype is dynograd.float64
    created.sum().backward()
    assert x.grad.dtype is dynograd.float32
    assert y.grad.dtype is dynograd.float64


def test_cat_skips_empty_vectors_of_another_rank():
    x = dynograd.ones(2, 3, requires_grad=True)
    nothing = dynograd.zeros(0, requires_grad=True)
    created = dynograd.cat([nothing, x, nothing], 1)
    assert created.shape == (2, 3)
    created.sum().backward()
    assert nothing.grad.shape == (0,)
    assert x.grad.tolist() == [[1] * 3] * 2


def test_meshgrid_takes_numbers():
    element, two = dynograd.meshgrid(dynograd.arange(2), dynograd.tensor(5))
    assert element.tolist() == [[0], [1]]
    assert two.tolist() == [[5], [5]]


def test_the_same_tensor_twice_gets_both_gradients():
    x = dynograd.ones(2, requires_grad=True)
    (dynograd.cat([x, x]) * dynograd.arange(4.0)).sum().backward()
    assert x.grad.tolist() == [2, 4]


def test_cat_and_stack_write_into_out():
    out = zeros(4)
    assert dynograd.cat([dynograd.ones(2), zeros(2)], out=out) is out
    assert out.tolist() == [1, 1, 0, 0]
    rows = zeros(2, 2)
    dynograd.stack([dynograd.ones(2), zeros(2)], out=rows)
    assert rows.tolist() == [[1, 1], [0, 0]]


def test_stack_and_unbind_undo_each_other():
    x = dynograd.arange(24).view(2, 3, 4)
    for dim in range(3):
        assert dynograd.stack(x.unbind(dim), dim).tolist() == x.tolist()
        assert dynograd.cat(x.split(1, dim), dim).tolist() == x.tolist()


class Named(dynograd.Tensor):
    """A subclass that takes functions over."""


JOINS = [
    *(dynograd.cat, dynograd.concat, dynograd.concatenate, dynograd.stack),
    *(dynograd.hstack, dynograd.vstack, dynograd.dstack, dynograd.column_stack),
]


@pytest.mark.parametrize("join", JOINS)
def test_joins_at_once_and_the_long_way_agree(join):
    """Mixed dtypes, memory orders, parameters and what is no tensor go another way than plain small tensors."""
    reference = {"cat": numpy.concatenate, "concat": numpy.concatenate}.get(join.__name__) or getattr(
        numpy, join.__name__
    )
    for shape in ((4,), (2, 3, 4), (2, 3, 4, 5)):
        listed = [dynograd.randn(shape) for _ in range(3)]
        assert join(listed).tolist() == reference([each.numpy() for each in listed]).tolist()
    element, two = numpy.arange(6.0, dtype=numpy.float32).reshape(2, 3), numpy.ones((2, 3), numpy.float32)
    plain = [dynograd.from_numpy(element), dynograd.from_numpy(two)]
    expected = reference([element, two])
    large = [dynograd.ones(400, 300), dynograd.zeros(400, 300)]
    for listed in (
        plain,
        tuple(plain),
        [dynograd.nn.Parameter(plain[0]), plain[1]],
        [plain[0].t().contiguous().t(), plain[1]],
    ):
        created = join(listed)
        assert type(created) is dynograd.Tensor and created.is_contiguous() and created._base is None
        assert created.tolist() == expected.tolist() and created.dtype is dynograd.float32
    assert join(large).shape == reference([each.numpy() for each in large]).shape
    assert join([plain[0], plain[1].long()]).dtype is join([plain[1].long(), plain[0]]).dtype is dynograd.float32
    assert join([plain[0].double(), plain[1].long()]).dtype is dynograd.float64
    assert join([plain[0].half(), plain[1].bfloat16()]).dtype is dynograd.float32
    outline = join([plain[0].to("meta"), plain[1].to("meta")])
    assert outline.is_meta and outline.shape == join(plain[:2]).shape
    with pytest.raises(RuntimeError, match="on device 'meta' have no values"):
        join([plain[0], plain[1].to("meta")])
    assert type(join([Named(plain[0]), plain[1]])) is Named
    with pytest.raises(TypeError, match=r"must be (tuple of Tensors|Tensor), not"):
        join([plain[0], 3.0])
    with pytest.raises((ValueError, RuntimeError), match="non-empty"):
        join([])


@pytest.mark.parametrize("join", JOINS)
def test_joins_at_once_are_recorded(join):
    element, two = dynograd.ones(2, 3, requires_grad=True), dynograd.ones(2, 3, dtype=dynograd.float32)
    created = join([two, element])
    assert created.requires_grad and type(created.grad_fn).__name__ == (
        "StackBackward0" if join is dynograd.stack else "CatBackward0"
    )
    (created * dynograd.arange(12.0).view(created.shape)).sum().backward()
    assert element.grad is not None and two.grad is None
    assert float(element.grad.sum()) == float(sum([float(at) for at in element.grad.reshape(-1)])) > 0
    assert join([element, two]).requires_grad and join([two, element, two]).requires_grad
    with dynograd.no_grad():
        assert not join([element, two]).requires_grad
    assert not join([element.detach().long(), element.detach().long()]).requires_grad


def test_dims_of_joins_are_checked_on_every_way():
    element = dynograd.zeros(2, 3)
    for wrong in (2, -3):
        with pytest.raises(IndexError, match="Dimension out of range"):
            dynograd.cat([element, element], wrong)
    with pytest.raises(TypeError, match="argument 'dim' must be an int, not NoneType"):
        dynograd.cat([element, element], None)
    assert dynograd.cat([element, element], axis=1).shape == (2, 6)
    with pytest.raises(RuntimeError, match="equal size"):
        dynograd.stack([element, dynograd.zeros(3, 2)])
    assert dynograd.cat([dynograd.zeros(0), element]).shape == (2, 3)


@pytest.mark.parametrize("sizes", list(itertools.product([0, 1, 2], repeat=3)))
def test_joins_of_what_is_partly_empty(sizes):
    for dim in range(3):
        listed = [numpy.ones([*sizes[:dim], own, *sizes[dim + 1 :]]) for own in (0, 2, 0, sizes[dim])]
        tensors = [dynograd.from_numpy(element) for element in listed]
        assert dynograd.cat(tensors, dim).shape == numpy.concatenate(listed, dim).shape
        assert dynograd.cat(tensors[::-1], dim).shape == numpy.concatenate(listed, dim).shape
    same = dynograd.zeros(sizes)
    assert dynograd.stack([same, same], 1).shape == (sizes[0], 2, *sizes[1:])


def test_nothing_behind_nothing():
    assert dynograd.cat([dynograd.zeros(0), dynograd.zeros(0)], -1).shape == (0,)
    with pytest.raises(dynograd.errors.DimError, match=r"^cat: Dimension out of range .*\[-1, 0\], but got 1"):
        dynograd.cat([dynograd.zeros(0), dynograd.zeros(0)], 1)


@pytest.mark.parametrize("name", ["stack", "cat", "hstack", "vstack", "dstack", "column_stack"])
def test_a_tensor_is_no_list_of_tensors(name):
    with pytest.raises(TypeError, match=rf"{name}\(\): argument 'tensors' must be tuple of Tensors, not Tensor"):
        getattr(dynograd, name)(dynograd.ones(3, 2))
