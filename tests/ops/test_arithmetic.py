"""Sums, products, quotients, powers, signs, and the larger and smaller of two."""

import operator

import numpy
import pytest

import dynograd
from dynograd import tensor
from tests.ops.harness import BOOL, COMPLEX, FLOATS, INTEGERS, Row, error, generate

REAL = FLOATS + INTEGERS
TWO = [(3, 4), (3, 4)]
ones = dynograd.ones
whole = tensor([4, 7])


def power(x, y):
    return numpy.power(x, y)


def python_power(x, exponent):
    return x.astype(numpy.float64) ** exponent if x.dtype.kind == "i" and exponent % 1 else x**exponent


def trunc_divide(x, y, rounding_mode):
    result = numpy.trunc(x / y)
    return result.astype(numpy.int64) if x.dtype.kind == "i" else result


def floor_quotient(x, y, rounding_mode):
    return numpy.floor_divide(x, y)


def away_from_0(rng, shape):
    """Divisors: distinct from 0 after rounding to integers too."""
    return rng.uniform(1.1, 3, shape) * rng.choice([-1, 1], shape)


ROWS = [
    Row("add", numpy.add, shapes=TWO, broadcast=True, dtypes=REAL + COMPLEX),
    Row(
        "add",
        lambda x, y, alpha: x + alpha * y,
        shapes=TWO,
        kwargs={"alpha": 2},
        dtypes=REAL,
        id="alpha",
        errors=[error(lambda op: op(whole, whole, alpha=0.5), RuntimeError, "add", "alpha", "0.5", ".float()")],
    ),
    Row(
        "sub",
        numpy.subtract,
        shapes=TWO,
        broadcast=True,
        dtypes=FLOATS + ("int64", "int32") + COMPLEX,
        errors=[
            error(lambda op: op(ones(2), ones(3)), RuntimeError, "sub", "(2,)", "(3,)", "reshape"),
            error(lambda op: op(tensor([True]), tensor([True])), RuntimeError, "sub", "bool"),
            error(lambda op: op(ones(2), "x"), TypeError, "sub", "other", "must be Tensor", "str"),
        ],
    ),
    Row("sub", lambda x, y, alpha: x - alpha * y, shapes=TWO, kwargs={"alpha": 0.5}, id="alpha"),
    Row("rsub", lambda x, y, alpha: y - alpha * x, shapes=TWO, kwargs={"alpha": 2}, dtypes=FLOATS + ("int64",)),
    Row("mul", numpy.multiply, shapes=TWO, broadcast=True, dtypes=REAL + BOOL + COMPLEX),
    Row(
        "div",
        numpy.true_divide,
        shapes=TWO,
        domain=[(-2, 2), away_from_0],
        dtypes=REAL + COMPLEX,
        errors=[error(lambda op: op(ones(1), 2, rounding_mode="up"), RuntimeError, "rounding_mode", "'up'", "floor")],
    ),
    Row("div", numpy.true_divide, shapes=TWO, domain=(0.5, 2), broadcast=True, id="broadcast"),
    Row(
        "div",
        trunc_divide,
        shapes=TWO,
        domain=[(-5, 5), away_from_0],
        kwargs={"rounding_mode": "trunc"},
        dtypes=REAL,
        second=False,
        result="same",
        id="trunc",
        covers=["trunc_divide"],
        errors=[error(lambda op: op(whole, 0, rounding_mode="trunc"), RuntimeError, "ZeroDivisionError")],
    ),
    Row(
        "div",
        floor_quotient,
        shapes=TWO,
        domain=[(-5, 5), away_from_0],
        kwargs={"rounding_mode": "floor"},
        dtypes=REAL,
        result="same",
        id="floor",
    ),
    Row(
        "floor_divide",
        numpy.floor_divide,
        shapes=TWO,
        domain=[(-5, 5), away_from_0],
        dtypes=REAL,
        errors=[error(lambda op: op(whole, 0), RuntimeError, "floor_divide", "ZeroDivisionError", "floating-point")],
        covers=["zeroed"],
    ),
    Row("remainder", numpy.remainder, shapes=TWO, domain=[(-5, 5), away_from_0], dtypes=REAL),
    Row("fmod", numpy.fmod, shapes=TWO, domain=[(-5, 5), away_from_0], dtypes=REAL),
    Row("neg", numpy.negative, shapes=[(3, 4)], dtypes=FLOATS + ("int64", "int32") + COMPLEX),
    Row("square", numpy.square, shapes=[(3, 4)], dtypes=FLOATS + ("int64", "int32")),
    Row("reciprocal", lambda x: 1 / x, shapes=[(3, 4)], domain=(0.5, 3), dtypes=FLOATS + COMPLEX),
    Row("abs", numpy.abs, shapes=[(3, 4)], avoid=[0.0], dtypes=REAL),
    Row("sign", numpy.sign, shapes=[(3, 4)], avoid=[0.0], dtypes=REAL),
    Row("sgn", numpy.sign, shapes=[(3, 4)], avoid=[0.0], dtypes=REAL + COMPLEX),
    Row("conj", numpy.conj, shapes=[(3, 4)], dtypes=FLOATS + COMPLEX),
    Row("pow", power, shapes=TWO, domain=(0.3, 2), broadcast=True),
    Row("pow", power, shapes=TWO, domain=(0, 3), dtypes=("int64", "int32"), grad=False, id="integers"),
    *[
        Row(
            "pow",
            lambda x, exponent: x**exponent,
            shapes=[(3, 4)],
            domain=(0.3, 2),
            kwargs={"exponent": number},
            covers=["scalar_power", "half_power"],
            result="same",
            id=f"exponent {number}",
        )
        for number in (0, 0.5, 1, 2, 2.5, 3, -0.5, -1, -2)
    ],
    Row(
        "pow",
        lambda x, exponent: x**exponent,
        shapes=[(3, 4)],
        kwargs={"exponent": 3},
        dtypes=("int64", "int32"),
        grad=False,
        id="number of integers",
        errors=[error(lambda op: op(whole, -1), RuntimeError, "negative integer powers", "-1", ".float()")],
    ),
    Row(
        "float_power",
        lambda x, y: x.astype(numpy.float64) ** y,
        shapes=TWO,
        domain=(0.3, 2),
        dtypes=FLOATS,
        result="float64",
        inplace=False,
    ),
    Row("maximum", numpy.maximum, shapes=TWO, broadcast=True, dtypes=REAL, covers=["ge_half"]),
    Row("minimum", numpy.minimum, shapes=TWO, broadcast=True, dtypes=REAL),
    Row("fmax", numpy.fmax, shapes=TWO, broadcast=True, dtypes=REAL),
    Row("fmin", numpy.fmin, shapes=TWO, broadcast=True, dtypes=REAL),
]
test_rows = generate(ROWS)


@pytest.mark.parametrize("name", ["add", "sub"])
def test_the_old_place_of_alpha(name):
    x, y = tensor([1.0]), tensor([10.0])
    assert getattr(dynograd, name)(x, 0.5, y).item() == getattr(dynograd, name)(x, y, alpha=0.5).item()
    getattr(x, f"{name}_")(0.5, y)
    assert x.item() == {"add": 6.0, "sub": -4.0}[name]


def test_operators_take_numbers_on_both_sides():
    x = tensor([4.0, 2.0], requires_grad=True)
    y = 1 - 8 / x + 2**x - x % 3 + -x // 3
    assert y.tolist() == [12.0, -2.0]
    y.sum().backward()
    numpy.testing.assert_allclose(
        x.grad.array, [8 / 16 + 16 * numpy.log(2) - 1, 8 / 4 + 4 * numpy.log(2) - 1], rtol=1e-6
    )


def test_ties_share_the_gradient_of_maximum_and_minimum():
    for name in ("maximum", "minimum"):
        x, y = (tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
        getattr(dynograd, name)(x, y).sum().backward()
        assert x.grad.tolist() == y.grad.tolist() == [0.5, 0.5]


def test_nan_wins_in_maximum_and_loses_in_fmax():
    x, nan = tensor([1.0]), tensor([float("nan")])
    assert dynograd.maximum(x, nan).isnan().item() and dynograd.minimum(nan, x).isnan().item()
    assert dynograd.fmax(x, nan).item() == dynograd.fmin(nan, x).item() == 1.0


def test_division_of_floats_by_zero_is_infinite():
    x = tensor([1.0, -1.0, 0.0])
    assert (x / 0).tolist()[:2] == [float("inf"), float("-inf")]
    assert (x // 0).tolist()[:2] == [float("inf"), float("-inf")]
    assert (x / 0).isnan().tolist() == [False, False, True]


def test_floor_division_is_exact_where_the_quotient_is_rounded():
    assert (tensor([1.0]) // 0.1).item() == 9.0


def test_integers_to_negative_tensor_powers_round_towards_zero():
    assert dynograd.pow(tensor([2, 1, -1, -2]), tensor([-1, -5, -3, -2])).tolist() == [0, 1, -1, 0]


@pytest.mark.parametrize("exponent", [0.5, 1, 1.5, 2, -0.5])
def test_the_result_of_a_power_may_be_written_to(exponent):
    x = dynograd.tensor([4.0, 9.0], requires_grad=True)
    result = x**exponent
    result[0] = 0
    result.sum().backward()
    numpy.testing.assert_allclose(x.grad.numpy(), [0, exponent * 9.0 ** (exponent - 1)], rtol=1e-6)


def test_powers_of_zero_have_finite_gradients():
    x, y = tensor([0.0, 0.0, 0.0], requires_grad=True), tensor([0.0, 1.0, 2.0], requires_grad=True)
    (x**y).sum().backward()
    assert x.grad.tolist() == [0.0, 1.0, 0.0] and y.grad.tolist() == [0.0, 0.0, 0.0]


def test_the_sign_of_nan_is_zero():
    x = tensor([float("nan")], requires_grad=True)
    assert dynograd.sign(x).item() == 0.0
    x.abs().backward()
    assert x.grad.item() == 0.0


def test_a_step_has_gradient_zero_even_for_infinite_gradients():
    x = tensor([1.5], requires_grad=True)
    x.floor().backward(tensor([float("inf")]))
    assert x.grad.item() == 0.0


def test_half_gradients_are_computed_in_float32_and_rounded_once():
    x = tensor([1.0, 1.001, 3.0]).half().requires_grad_()
    (x * x * 0.1).tanh().sum().backward()
    wide = x.detach().double().requires_grad_()
    (wide * wide * 0.1).tanh().sum().backward()
    numpy.testing.assert_allclose(x.grad.array.astype(float), wide.grad.array, rtol=2e-3)
    assert x.grad.dtype is dynograd.float16


def test_a_number_keeps_the_dtype_and_a_wider_kind_changes_it():
    for kind in (dynograd.float16, dynograd.bfloat16, dynograd.float64, dynograd.int32):
        assert (ones(2, dtype=kind) * 2).dtype is kind
    assert (tensor([1]) + 0.5).dtype is dynograd.float32
    assert (tensor(1, dtype=dynograd.int32) & 3).dtype is dynograd.int32
    assert (ones(2, dtype=dynograd.float16) + tensor(1.0)).dtype is dynograd.float16


def test_float_power_of_complex_numbers():
    result = dynograd.float_power(dynograd.tensor([1j], dtype=dynograd.complex64), 2)
    assert result.dtype == dynograd.complex128
    assert abs(result.item() + 1) < 1e-12


def test_a_quotient_may_be_written_into_before_backward():
    x = tensor([6.0, 8.0], requires_grad=True)
    y = tensor([2.0, 4.0], requires_grad=True)
    z = x / y
    z[0] = 0
    z += 1
    z.sum().backward()
    assert x.grad.tolist() == [0, 0.25] and y.grad.tolist() == [0, -0.5]


def test_alpha_multiplies_in_the_dtype_of_the_sum():
    wide, half = dynograd.tensor([1.0], dtype=dynograd.float64), dynograd.tensor([4.3125], dtype=dynograd.bfloat16)
    assert dynograd.add(wide, half, alpha=-3.125).tolist() == [1 - 3.125 * 4.3125]
    assert dynograd.sub(wide, half[0], alpha=3.125).tolist() == [1 - 3.125 * 4.3125]
    assert dynograd.rsub(half, wide, alpha=3.125).tolist() == [1 - 3.125 * 4.3125]
    assert dynograd.add(dynograd.tensor([1000]), dynograd.tensor([100], dtype=dynograd.int8), alpha=3).tolist() == [
        1300
    ]
    half.requires_grad_()
    dynograd.add(wide, half, alpha=3).sum().backward()
    assert half.grad.dtype is dynograd.bfloat16 and half.grad.tolist() == [3.0]


@pytest.mark.parametrize("number", [numpy.float64(1 / 3), numpy.float32(0.7), numpy.float16(0.3), numpy.int64(3)])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
def test_numbers_of_numpy_are_as_those_of_python(number, dtype):
    x = dynograd.tensor([1, 2, 3]).to(getattr(dynograd, dtype)) / (1 if dtype == "int64" else 7)
    for function in (
        lambda number: x * number,
        lambda number: number + x,
        lambda number: x / number,
        lambda number: dynograd.where(x > 0, x, number),
        lambda number: dynograd.full((1,), number),
    ):
        result, expected = function(number), function(number.item())
        assert result.dtype == expected.dtype and result.tolist() == expected.tolist()


class _Answering:
    """A type of a program with operators of its own, which answers tensors."""


class _AnsweringPair(tuple):
    """The same, where the type is a tuple."""


_SWAPPED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}
_WITH_ANSWER = [*_SWAPPED, *"add sub mul matmul truediv floordiv mod pow and_ or_ xor lshift rshift".split()]
for _name in _WITH_ANSWER:
    _method = f"__{_SWAPPED.get(_name) or 'r' + _name.rstrip('_')}__"
    for _kind in (_Answering, _AnsweringPair):
        setattr(_kind, _method, lambda self, other, _method=_method: (_method, other))


@pytest.mark.parametrize("name", _WITH_ANSWER)
@pytest.mark.parametrize("other", [_Answering(), _AnsweringPair((1, 2))], ids=["class", "tuple"])
def test_types_with_operators_answer_tensors(name, other):
    for x in (tensor([1, 2]), dynograd.ragged_tensor([[1], [2, 3]])):
        method, asked = getattr(operator, name)(x, other)
        assert method.strip("_").removeprefix("r") in (_SWAPPED.get(name, ""), name.rstrip("_")) and asked is x
        if name not in _SWAPPED:
            assert getattr(operator, f"i{name.rstrip('_')}")(x, other)[0] == method


@pytest.mark.parametrize(
    "other", [object(), [1, 2], (1, 2), {}, {1}, "a", None, b"", range(2)], ids=lambda other: type(other).__name__
)
def test_what_is_no_operand_is_not_equal_and_refused_else(other):
    x = tensor([1, 2])
    assert (x == other) is False and (x != other) is True and x not in [other]
    for name in ("add", "mul", "truediv", "pow", "lt"):
        with pytest.raises(TypeError, match=f"must be Tensor, not {type(other).__name__}"):
            getattr(operator, name)(x, other)
        with pytest.raises(
            TypeError, match="unsupported operand|can only|can't|not supported|must be Tensor|only integer"
        ):
            getattr(operator, name)(other, x)


@pytest.mark.parametrize("sequence", [[1], (1, 2), "ab", b"ab"])
def test_a_whole_number_repeats_a_sequence_on_its_left(sequence):
    assert sequence * tensor(3) == sequence * 3


def test_a_list_takes_the_rows_of_a_tensor():
    rows = [0]
    rows += tensor([1, 2])
    assert rows == [0, 1, 2] and isinstance(rows[1], dynograd.Tensor)


@pytest.mark.parametrize("name", ["add", "sub"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64"])
@pytest.mark.parametrize("alpha", [2, -0.01, 0.1, 1e300, float("inf")])
def test_alpha_in_place_gives_the_bits_of_the_sum(name, dtype, alpha):
    """Whichever way it is written: into the tensor, into its own rows, into `out=`."""
    x = dynograd.linspace(-3, 3, 12).reshape(3, 4).to(getattr(dynograd, dtype))
    y = x.flip(0) + 1
    if dtype == "int64" and isinstance(alpha, float):
        with pytest.raises(RuntimeError, match="alpha"):
            x.clone().add_(y, alpha=alpha)
        return
    with numpy.errstate(all="ignore"):
        expected = getattr(dynograd, name)(x, y, alpha=alpha).numpy().tobytes()
        written = getattr(x.clone(), name + "_")
        assert written(y, alpha=alpha).numpy().tobytes() == expected
        out = dynograd.empty_like(x)
        assert getattr(dynograd, name)(x, y, alpha=alpha, out=out).numpy().tobytes() == expected
        itself = x.clone()
        getattr(itself, name + "_")(itself, alpha=alpha)
        assert itself.numpy().tobytes() == getattr(dynograd, name)(x, x, alpha=alpha).numpy().tobytes()


def test_alpha_in_place_keeps_the_history():
    x, y = dynograd.ones(3), dynograd.ones(3, requires_grad=True)
    x.add_(y, alpha=3)
    x.sum().backward()
    assert y.grad.tolist() == [3, 3, 3]
    with pytest.raises(RuntimeError, match="leaf"):
        y.add_(dynograd.ones(3), alpha=2)
    assert dynograd.ones(3).add_(2, alpha=0.5).tolist() == [2, 2, 2]
