"""Views: values and errors of every form, and that memory is shared where PyTorch shares it."""

import numpy
import pytest

import dynograd
from tests.ops.harness import BOOL, COMPLEX, FLOATS, INTEGERS, Row, error, generate

ALL = FLOATS + INTEGERS + BOOL + COMPLEX


zeros = dynograd.zeros


def moved(name, reference, **options):
    """A row of an op that only moves elements: every dtype, unchanged."""
    return Row(name, reference, dtypes=ALL, result="same", **options)


ROWS = [
    moved(
        "reshape",
        lambda x, shape: x.reshape(shape),
        shapes=[(3, 4)],
        kwargs={"shape": (2, -1)},
        ones=False,
        empty=False,
        errors=[
            error(lambda op: op(zeros(2, 3), (4, -1)), RuntimeError, "reshape", "[4, -1]", "6"),
            error(lambda op: op(zeros(2, 3), (5,)), RuntimeError, "shape '[5]' is invalid for input of size 6"),
            error(lambda op: op(zeros(2, 3), (-1, -1)), RuntimeError, "only one dimension can be inferred"),
            error(lambda op: op(zeros(2, 3), (-2, 3)), RuntimeError, "invalid shape", "-2"),
            error(lambda op: op(zeros(0, 3), (0, -1)), RuntimeError, "cannot infer -1"),
            error(lambda op: op(zeros(2, 3), 2.0, 3), TypeError, "reshape", "2.0"),
        ],
    ),
    moved("reshape", lambda x, shape: x.reshape(shape), shapes=[(1, 1)], kwargs={"shape": ()}, empty=False, id="0-d"),
    moved(
        "view",
        lambda x, size: x.reshape(size),
        shapes=[(3, 4)],
        kwargs={"size": (-1, 6)},
        ones=False,
        empty=False,
        strided=False,
        errors=[
            error(
                lambda op: op(zeros(2, 3).t(), (6,)),
                RuntimeError,
                "view size is not compatible",
                "(3, 2)",
                "(1, 3)",
                "(6,)",
                ".reshape(...)",
            ),
            error(lambda op: op(zeros(2, 3), 4), RuntimeError, "shape '[4]' is invalid for input of size 6"),
            error(lambda op: op(zeros(3, dtype=dynograd.float16), dynograd.float32), RuntimeError, "divisible by 2"),
            error(lambda op: op(zeros(()), dynograd.float64), RuntimeError, "self.dim() cannot be 0"),
        ],
    ),
    Row(
        "view",
        lambda x, dtype: x.astype(numpy.float32).view(numpy.int32),
        shapes=[(3, 4)],
        kwargs={"dtype": dynograd.int32},
        dtypes=("float32",),
        result="int32",
        grad=False,
        empty=False,
        id="dtype",
        covers=["view_as_dtype"],
    ),
    moved("view_as", lambda x, y: x.reshape(y.shape), shapes=[(3, 4), (2, 6)], strided=False, ones=[[(1, 1), (1,)]]),
    moved("reshape_as", lambda x, y: x.reshape(y.shape), shapes=[(3, 4), (2, 6)], ones=[[(1, 1), (1,)]]),
    moved(
        "flatten",
        lambda x, start_dim: x.reshape(x.shape[0], -1) if x.size else x.reshape(0, 12),
        shapes=[(2, 3, 4)],
        kwargs={"start_dim": 1},
        errors=[
            error(lambda op: op(zeros(2, 3), 1, 0), RuntimeError, "start_dim 1 cannot come after end_dim 0"),
            error(lambda op: op(zeros(2, 3), 2), IndexError, "flatten", "[-2, 1]", "2"),
        ],
    ),
    moved("flatten", lambda x: x.reshape(1), shapes=[()], id="0-d"),
    moved("flatten", lambda x, a, b: x.reshape(6, 4), args=lambda rng: [rng.normal(size=(2, 3, 4)), 0, 1], id="middle"),
    moved("ravel", lambda x: x.ravel(), shapes=[(2, 3)], scalars=True),
    moved(
        "unflatten",
        lambda x, dim, sizes: x.reshape(3, 2, 2),
        args=lambda rng: [rng.normal(size=(3, 4)), -1, (2, -1)],
        errors=[
            error(lambda op: op(zeros(2, 4), 1, (3, 2)), RuntimeError, "[3, 2]", "don't multiply up to", "dim 1 (4)"),
            error(lambda op: op(zeros(2, 4), 1, ()), RuntimeError, "sizes must be non-empty"),
            error(lambda op: op(zeros(()), 0, (1,)), IndexError, "no dimensions"),
        ],
    ),
    moved(
        "squeeze",
        lambda x: x.squeeze(),
        shapes=[(1, 3, 1, 2)],
        errors=[error(lambda op: op(zeros(1, 2), 2), IndexError, "squeeze", "[-2, 1]", "2")],
    ),
    moved("squeeze", lambda x, dim: x[:, 0], args=lambda rng: [rng.normal(size=(3, 1, 1)), 1], id="dim"),
    moved("squeeze", lambda x, dim: x, args=lambda rng: [rng.normal(size=(3, 1)), 0], id="kept"),
    moved("squeeze", lambda x, dim: x[0, :, 0], args=lambda rng: [rng.normal(size=(1, 3, 1)), (0, 1, -1)], id="dims"),
    moved(
        "squeeze",
        lambda x, *dims: x[0, :, :, 0],
        args=lambda rng: [rng.normal(size=(1, 1, 3, 1)), 0, -1],
        id="dims one by one",
        errors=[error(lambda op: op(zeros(1, 1), 0, "a"), TypeError, "squeeze", "dim must be an int", "'a'")],
    ),
    moved(
        "unsqueeze",
        lambda x, dim: numpy.expand_dims(x, dim),
        shapes=[(3, 2)],
        kwargs={"dim": -2},
        errors=[error(lambda op: op(zeros(1, 2), 3), IndexError, "unsqueeze", "[-3, 2]", "3")],
    ),
    moved("unsqueeze", lambda x, dim: x[None], shapes=[()], kwargs={"dim": 0}, id="0-d"),
    moved(
        "permute",
        lambda x, dims: x.transpose(dims),
        shapes=[(2, 3, 4)],
        kwargs={"dims": (2, 0, -2)},
        errors=[
            error(lambda op: op(zeros(2, 3), (0,)), RuntimeError, "permute", "has 2", "(0,)"),
            error(lambda op: op(zeros(2, 3), (0, 0)), RuntimeError, "duplicate dims are not allowed"),
            error(lambda op: op(zeros(2, 3), (0, 2)), IndexError, "permute", "2"),
        ],
    ),
    moved(
        "transpose",
        lambda x, a, b: x.swapaxes(a, b),
        args=lambda rng: [rng.normal(size=(2, 3, 4)), 0, -1],
        errors=[
            error(lambda op: op(zeros(2, 3), 0, 2), IndexError, "transpose", "[-2, 1]", "2"),
            error(lambda op: op(zeros(2, 3), "a", 0), TypeError, "transpose", "'a'"),
        ],
    ),
    moved("transpose", lambda x, a, b: x, args=lambda rng: [numpy.array(1.5), 0, -1], id="0-d"),
    moved("atleast_1d", numpy.atleast_1d, shapes=[()], method=False),
    moved("atleast_2d", numpy.atleast_2d, shapes=[(3,)], method=False),
    moved("atleast_3d", numpy.atleast_3d, shapes=[(3, 2)], method=False),
    moved("atleast_3d", numpy.atleast_3d, shapes=[(3,)], method=False, id="vector"),
    moved(
        "atleast_2d",
        lambda xs: [numpy.atleast_2d(x) for x in xs],
        shapes=[[(), (2,), (2, 3)]],
        method=False,
        id="list",
    ),
]
test_rows = generate(ROWS)


def shares_memory(one, other):
    return numpy.shares_memory(one.array, other.array)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.view(6, 4),
        lambda x: x.reshape(-1),
        lambda x: x.flatten(),
        lambda x: x.unsqueeze(1),
        lambda x: x.squeeze(),
        lambda x: x.transpose(0, 2),
        lambda x: x.permute(2, 0, 1),
        lambda x: x.view(dynograd.int32),
        lambda x: x.T.mT,
        lambda x: x.unflatten(2, (2, 2)),
        lambda x: x[0],
        lambda x: x[0, 0, 0],
        lambda x: x[..., 1:],
        lambda x: x.narrow(1, 0, 2),
        lambda x: x.select(2, 1),
        lambda x: x.diagonal(),
        lambda x: x.unfold(2, 2, 1),
        lambda x: x.as_strided((2, 2), (1, 1)),
        lambda x: x.split(2, 1)[1],
        lambda x: x.chunk(2)[1],
        lambda x: x.unbind(1)[2],
        lambda x: x.expand(5, 2, 3, 4),
        lambda x: x.movedim(0, 2),
    ],
)
@pytest.mark.filterwarnings("ignore:x.T on a tensor")
def test_views_share_memory_and_writes_reach_the_base(view):
    x = zeros(2, 3, 4)
    created = view(x)
    assert shares_memory(created, x)
    created.fill_(1)
    assert (x.array != 0).any()


def test_reshape_copies_only_when_strides_do_not_allow_a_view():
    x = dynograd.arange(6.0).view(2, 3)
    flat = x.t().reshape(6)
    assert not shares_memory(flat, x)
    flat.fill_(9.0)
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert shares_memory(x.t().reshape(3, 2, 1), x)


def test_writing_into_a_copying_reshape_leaves_the_source_and_its_gradient_alone():
    x = dynograd.ones(2, 3, requires_grad=True)
    y = x * 2
    flat = y.t().reshape(6)
    flat.mul_(10)
    (y.sum() + flat.sum()).backward()
    assert x.grad.tolist() == [[22.0] * 3] * 2


def test_a_write_through_a_chain_of_views_has_the_right_gradient():
    x = dynograd.ones(2, 3, requires_grad=True)
    y = x * 1
    y.t()[1].view(2, 1).mul_(5)
    y.sum().backward()
    assert x.grad.tolist() == [[1, 5, 1], [1, 5, 1]]


def test_sizes_are_given_in_every_form():
    x = dynograd.arange(6)
    for created in (
        x.view(2, 3),
        x.view((2, 3)),
        x.view([2, 3]),
        x.view(size=(2, 3)),
        x.view(dynograd.Size([2, 3])),
        x.view(dynograd.tensor(2), -1),
        x.reshape(shape=(2, 3)),
    ):
        assert created.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_view_of_bytes():
    x = dynograd.tensor([1, 256], dtype=dynograd.int16)
    assert x.view(dynograd.uint8).tolist() == [1, 0, 0, 1]
    assert x.view(dynograd.uint8).view(dynograd.int16).tolist() == [1, 256]


def test_numbers_with_two_dimensions_below_zero_are_not_taken_for_minus_one():
    with pytest.raises(RuntimeError, match="invalid shape"):
        zeros(6).view(-2, -3)


def test_sizes_may_be_whole_numbers_of_numpy():
    x = dynograd.arange(6)
    for sizes in ((numpy.int64(2), 3), ((numpy.int32(2), numpy.int64(3)),), (2, dynograd.tensor(3))):
        assert x.view(*sizes).tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("x", [dynograd.ones(4, 5)[:, 1], dynograd.ones(100, 100)[:, 1:2], dynograd.ones(4, 5).t()])
def test_ravel_is_contiguous(x):
    assert x.ravel().is_contiguous() and x.ravel().shape == (x.numel(),)


def test_views_of_other_widths_need_their_last_dim_in_one_piece():
    x = dynograd.arange(24, dtype=dynograd.uint8).reshape(2, 3, 4).transpose(0, 1)
    wide = x.view(dynograd.int32)
    numpy.testing.assert_array_equal(wide.numpy(), x.numpy().view(numpy.int32))
    assert wide.stride() == (1, 3, 1) and wide.data_ptr() == x.data_ptr()
    assert wide[:, :1].view(dynograd.int16).shape == (3, 1, 2)
    for wrong in (x.transpose(1, 2), x.reshape(-1)[1:9], x[..., :3]):
        with pytest.raises(ValueError, match="divisible by 4 and the last dimension contiguous"):
            wrong.view(dynograd.int32)
