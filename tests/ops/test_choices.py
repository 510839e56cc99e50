"""where, masked_fill and clamp."""

import numpy
import pytest

import dynograd
from dynograd import tensor
from tests.ops.harness import BOOL, COMPLEX, FLOATS, INTEGERS, Row, error, generate

ALL = FLOATS + INTEGERS + BOOL + COMPLEX
REAL = FLOATS + INTEGERS
INF, NAN = float("inf"), float("nan")
mask = tensor([True, False])


def three(rng):
    return [rng.uniform(size=(3, 4)) > 0.5, rng.normal(size=(3, 4)), rng.normal(size=(3, 4))]


def bounds(rng, shape):
    return rng.uniform(0.2, 1, shape)


def clip(x, min=None, max=None):
    lower = x if min is None else numpy.maximum(x, min)
    return lower if max is None else numpy.minimum(lower, max)


ROWS = [
    Row(
        "where",
        numpy.where,
        args=three,
        dtypes=ALL,
        result="same",
        errors=[
            error(lambda op: op(tensor([1, 0]), 1, 2), RuntimeError, "where", "boolean", "int64", "condition != 0"),
            error(lambda op: op(mask, 1), TypeError, "where", "one of input and other"),
            error(lambda op: op(mask, tensor([1.0, 2.0, 3.0]), 0), RuntimeError, "where", "(2,)", "(3,)"),
        ],
    ),
    Row(
        "where",
        numpy.where,
        args=lambda rng: [rng.uniform(size=(3, 1)) > 0.5, rng.normal(size=(4,)), rng.normal(size=(2, 1, 1))],
        result="same",
        id="broadcast",
    ),
    Row("where", numpy.where, args=lambda rng: [*three(rng)[:2], 0.5], result="same", id="number"),
    Row(
        "where", lambda x: numpy.nonzero(x), args=lambda rng: [three(rng)[0]], result="int64", grad=False, id="indices"
    ),
    Row(
        "where_of",
        lambda x, condition, y: numpy.where(condition, x, y),
        args=lambda rng: [three(rng)[i] for i in (1, 0, 2)],
        result="same",
        method="where",
    ),
    Row(
        "fill",
        lambda x, value: numpy.full_like(x, value),
        args=lambda rng: [three(rng)[1], 2],
        dtypes=REAL,
        result="same",
    ),
    Row(
        "fill",
        lambda x, value: numpy.full_like(x, value),
        args=lambda rng: [three(rng)[1], numpy.array(0.5)],
        result="same",
        id="tensor",
    ),
    Row(
        "masked_fill",
        lambda x, m, value: numpy.where(m, value, x),
        args=lambda rng: [three(rng)[1], three(rng)[0], 2],
        dtypes=REAL,
        result="same",
        errors=[
            error(
                lambda op: op(tensor([1, 2]), tensor([1, 0]), 3),
                RuntimeError,
                "masked_fill",
                "boolean",
                "int64",
                ".bool()",
            ),
            error(
                lambda op: op(tensor([1.0, 2.0]), mask, tensor([1.0])), RuntimeError, "0-dimensional", "(1,)", "where"
            ),
            error(lambda op: op(tensor([1], dtype=dynograd.uint8), tensor([True]), 300), RuntimeError, "300", "uint8"),
            error(lambda op: op(tensor([1.0]), tensor([True]), 1j), RuntimeError, "1j", "complex"),
        ],
    ),
    Row(
        "masked_fill",
        lambda x, m, value: numpy.where(m, value, x),
        args=lambda rng: [three(rng)[1], three(rng)[0], numpy.array(0.5)],
        result="same",
        id="tensor",
    ),
    *[
        Row(
            "clamp",
            clip,
            shapes=[(3, 4)],
            kwargs=limits,
            avoid=[-0.5, 1.0],
            dtypes=REAL,
            id=str(limits),
            covers=["within"],
            result="same",
        )
        for limits in ({"min": -0.5, "max": 1.0}, {"min": -0.5}, {"max": 1.0}, {"min": 1.0, "max": -0.5})
        if all(isinstance(limit, float) for limit in limits.values())
    ],
    Row(
        "clamp",
        clip,
        shapes=[(3, 4)],
        kwargs={"min": -1, "max": 1},
        avoid=[-1.0, 1.0],
        dtypes=FLOATS + ("int64", "int32"),
        result="same",
        errors=[error(lambda op: op(mask), RuntimeError, "At least one of 'min' or 'max' must not be None")],
    ),
    Row("clamp", clip, shapes=[(3, 4)] * 3, domain=[(-2, 2), (-1, 0), (0, 1)], covers=["clamp_between"], id="tensors"),
    Row("clamp", clip, shapes=[(3, 4), (4,)], id="lower tensor"),
    Row("clamp_min", numpy.maximum, shapes=[(3, 4), (3, 4)], broadcast=True, dtypes=REAL),
    Row("clamp_max", numpy.minimum, shapes=[(3, 4), (3, 4)], broadcast=True, dtypes=REAL),
    Row("clip", clip, shapes=[(3, 4)], kwargs={"min": -0.5, "max": 1.0}, avoid=[-0.5, 1.0]),
]
for row in ROWS:
    if row.id and row.id.startswith("{"):
        row.dtypes = FLOATS
test_rows = generate(ROWS)


def test_the_side_not_chosen_has_gradient_exactly_zero():
    x = tensor([0.0, 4.0], requires_grad=True)
    result = dynograd.where(x > 0, x, 0.0)
    (slope,) = dynograd.autograd.grad(result.sum(), x)
    assert slope.tolist() == [0.0, 1.0]
    y = tensor([INF, NAN], requires_grad=True)
    dynograd.where(tensor([True, True]), x, y).backward(tensor([INF, NAN]))
    assert y.grad.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("input", "other", "kind"),
    [
        (1, 2, "int64"),
        (1.0, 2, "float32"),
        (True, 2, "int64"),
        (tensor([1, 2]), 1.5, "float32"),
        (tensor([1.0, 2.0]).half(), 3.0, "float16"),
        (tensor([1.0, 2.0]).half(), tensor(3.0), "float16"),
        (tensor([1, 2]), tensor([1.0, 2.0]).double(), "float64"),
    ],
)
def test_where_promotes_numbers_and_tensors(input, other, kind):
    assert dynograd.where(mask, input, other).dtype is getattr(dynograd, kind)


def test_uint8_stands_for_a_condition():
    assert dynograd.where(tensor([1, 0], dtype=dynograd.uint8), 1, 2).tolist() == [1, 2]


def test_large_masks_go_the_compiled_way():
    rng = numpy.random.default_rng(0)
    x = dynograd.from_numpy(rng.normal(size=(90, 80)).astype(numpy.float32)).requires_grad_()
    fill = tensor(-1.5, requires_grad=True)
    chosen = dynograd.from_numpy(rng.uniform(size=(90, 1)) > 0.5)
    result = x.masked_fill(chosen, fill)
    numpy.testing.assert_array_equal(
        result.detach().array, numpy.where(chosen.array, numpy.float32(-1.5), x.detach().array)
    )
    result.sum().backward()
    numpy.testing.assert_array_equal(x.grad.array, numpy.broadcast_to(~chosen.array, (90, 80)))
    assert fill.grad.item() == 80 * chosen.array.sum()


def test_masked_fill_keeps_the_dtype():
    assert tensor([1, 2]).masked_fill(mask, 1.9).tolist() == [1, 2]
    assert tensor([1.0, 2.0]).half().masked_fill(mask, -INF).dtype is dynograd.float16
    assert tensor([True, False]).masked_fill(mask, 0).tolist() == [False, False]
    x = tensor([1.0, 2.0])
    assert x.masked_fill_(mask, 9) is x and x.tolist() == [9.0, 2.0]


def test_clamp_of_integers_and_bools():
    assert dynograd.clamp(tensor([1, 2, 3]), 1.5).dtype is dynograd.float32
    assert dynograd.clamp(tensor([True, False]), 0, 1).dtype is dynograd.int64
    small = tensor([5, 200], dtype=dynograd.uint8)
    assert small.clamp(-1, 300).tolist() == [5, 200] and small.clamp(-1, 100).tolist() == [5, 100]


def test_clamp_beside_a_number_takes_a_tensor_without_dims_as_one():
    x = tensor([0.0, 2.0, 4.0], requires_grad=True)
    result = x.clamp(1, tensor(3, dtype=dynograd.int32))
    result.sum().backward()
    assert result.tolist() == [1, 2, 3] and result.dtype is dynograd.float32 and x.grad.tolist() == [0, 1, 0]
    assert dynograd.clip(tensor([0, 4]), tensor(1.5), 3).tolist() == [1.5, 3.0]
    assert tensor([0.0, 4.0]).clamp_(tensor(1), 3).tolist() == [1, 3]
    with pytest.raises(TypeError, match="two numbers or two Tensors, got int and Tensor"):
        tensor([1.0]).clamp(0, tensor(2.0, requires_grad=True))


def test_clamp_and_nan():
    x = tensor([0.0, 1.0, 2.0, NAN], requires_grad=True)
    result = x.clamp(0, 1)
    assert result[:3].tolist() == [0.0, 1.0, 1.0] and result[3].isnan().item()
    result.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0, 0.0, 0.0]
    assert dynograd.clamp(x, NAN, 1.0).isnan().all()


def test_gradients_of_bounds():
    x, low, high = (
        tensor([0.0, 5.0, 2.0, 2.0], requires_grad=True),
        tensor([1.0], requires_grad=True),
        tensor(3.0, requires_grad=True),
    )
    x.clamp(low, high).sum().backward()
    assert x.grad.tolist() == [0.0, 0.0, 1.0, 1.0] and low.grad.tolist() == [1.0] and high.grad.item() == 1.0


def test_masked_fill_keeps_numbers_real():
    with pytest.raises(RuntimeError, match="complex.*int64"):
        tensor([1, 2]).masked_fill(tensor([True, False]), tensor(1j))
    for value in (2j, tensor(2j)):
        assert tensor([False, False]).masked_fill(tensor([True, False]), value).tolist() == [True, False]


@pytest.mark.parametrize("limits", [{"min": 1j}, {"max": 1 + 0j}])
def test_clamp_compares_real_numbers(limits):
    with pytest.raises(
        RuntimeError, match="clamp: the bounds .*j.* cannot be compared with dynograd.float32. Give real"
    ):
        dynograd.ones(2).clamp(**limits)


@pytest.mark.parametrize("function", ["masked_fill", "softmax", "renorm"])
def test_results_of_transposed_inputs_are_row_major(function):
    x = dynograd.arange(6.0).reshape(2, 3).t()
    calls = {
        "masked_fill": lambda: x.masked_fill(x > 2, 0.0),
        "softmax": lambda: dynograd.softmax(x, 1, dtype=dynograd.float64),
        "renorm": lambda: x.renorm(2, 0, 1.0),
    }
    created = calls[function]()
    assert created.view(-1).tolist() == created.flatten().tolist()
