"""Compiled functions with numbers at the end, in-place forms that use them, and int64 tensors beside Python ints."""

from __future__ import annotations

import numpy
import pytest

import dynograd
from dynograd.arrays import buffers
from dynograd.kernels.build.sizes import LOOP_OF_ONE_PASS, UFUNC
from dynograd.kernels.elementwise import elementwise_cpu, ufuncs

SPECIAL = [numpy.nan, numpy.inf, -numpy.inf, 0.0, -0.0, 1e30, -1e30]


def values(size: int, seed: int, kind: str = "float32") -> numpy.ndarray:
    created = numpy.random.default_rng(seed).standard_normal(size).astype(kind)
    created[: len(SPECIAL)] = SPECIAL[:size]
    return created


def lerp(x, end, weight):
    return x + weight * (end - x) if abs(weight) < 0.5 else end - (end - x) * (1 - weight)


# name, how many arrays, numbers after them, keyword of the last number, what it is
ROWS = [
    ("relu", 1, (), "", lambda x: numpy.where(x <= 0, 0, x)),
    ("clamp", 1, (-0.5, 0.75), "", lambda x, low, high: numpy.minimum(numpy.maximum(x, low), high)),
    ("clamp", 1, (0.75, -0.5), "", lambda x, low, high: numpy.minimum(numpy.maximum(x, low), high)),
    ("lerp", 2, (0.3,), "", lerp),
    ("lerp", 2, (0.7,), "", lerp),
    ("addcmul", 3, (), "", lambda x, a, b: x + a * b),
    ("addcmul", 3, (0.5,), "value", lambda x, a, b, value: x + value * a * b),
    ("addcdiv", 3, (-2.0,), "value", lambda x, a, b, value: x + value * a / b),
]


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("size", [7, UFUNC - 1, UFUNC, 3000, LOOP_OF_ONE_PASS + 5])
@pytest.mark.parametrize(("name", "count", "numbers", "keyword", "reference"), ROWS)
def test_functions_and_in_place_forms_agree(name, count, numbers, keyword, reference, size, kind):
    arrays = [values(size, seed, kind) for seed in range(count)]
    with numpy.errstate(all="ignore"):
        expected = reference(*[array.astype("float64") for array in arrays], *numbers).astype(kind)
    args, kwargs = (numbers, {}) if not keyword else ((), dict(zip([keyword], numbers)))
    first, *rest = [dynograd.tensor(array) for array in arrays]
    result = getattr(dynograd, name)(first, *rest, *args, **kwargs)
    numpy.testing.assert_allclose(result.numpy(), expected, rtol=1e-5, atol=1e-6)
    written = first.clone()
    address = written.data_ptr()
    same = getattr(written, f"{name}_")(*rest, *args, **kwargs)
    assert same is written and written.data_ptr() == address
    numpy.testing.assert_array_equal(written.numpy(), result.numpy())
    assert written._version == 1


def test_functions_take_arrays_with_gaps_and_overlaps():
    base = values(4000, 0)
    function = ufuncs.FLAT["lerp"]["f"]
    weight = numpy.array(0.25, "float32")
    shifted = base.copy()
    with numpy.errstate(all="ignore"):
        expected = lerp(base[:-1].astype("float64"), base[1:].astype("float64"), 0.25)
        function(shifted[:-1], shifted[1:], weight, out=shifted[1:])
        numpy.testing.assert_allclose(shifted[1:], expected.astype("float32"), rtol=1e-5, atol=1e-6)
        result = function(base[::2], base[1::2], weight)
        numpy.testing.assert_array_equal(result, function(base[::2].copy(), base[1::2].copy(), weight))


def test_in_place_forms_leave_other_shapes_and_types_to_the_general_way():
    x = dynograd.ones(30, 40)
    assert x.addcmul_(dynograd.ones(40), dynograd.ones(30, 1)).sum().item() == 2400
    assert x.lerp_(dynograd.zeros(30, 40), dynograd.full((30, 40), 0.5)).sum().item() == 1200
    half = dynograd.ones(1000, dtype=dynograd.float16)
    assert half.relu_().dtype is dynograd.float16 and half.clamp_(0, 0.5).sum().item() == 500
    assert dynograd.full((600,), 3.0).clamp_(max=2).sum().item() == 1200
    with pytest.raises(dynograd.errors.ShapeError, match="doesn't match the broadcast shape"):
        dynograd.ones(600).add_(dynograd.ones(2, 600))
    with pytest.raises(TypeError):
        dynograd.ones(600).addcmul_(dynograd.ones(600), dynograd.ones(600), scale=2)


def test_minus_zero_is_a_number_of_its_own():
    zeros = dynograd.full((600,), -0.0)
    assert numpy.signbit(zeros.addcmul(zeros + 1, zeros + 1, value=-0.0).numpy()).all()
    assert not numpy.signbit(zeros.addcmul(zeros + 1, zeros + 1, value=0.0).numpy()).any()


@pytest.mark.parametrize("size", [0, 1, 600, LOOP_OF_ONE_PASS])
def test_int64_tensors_beside_ints(size):
    array = numpy.arange(size, dtype="int64")
    x = dynograd.tensor(array)
    for result, expected in [
        (x + 1, array + 1),
        (1 - x, 1 - array),
        (x * 3, array * 3),
        (x + x, array + array),
        (x == 3, array == 3),
        (x > 2, array > 2),
        (dynograd.maximum(x, x * 0 + 2), numpy.maximum(array, 2)),
    ]:
        assert result.numpy().dtype == expected.dtype
        numpy.testing.assert_array_equal(result.numpy(), expected)
    assert (x + True).dtype is dynograd.int64 and (x + 0.5).dtype is dynograd.float32
    assert x.clone().add_(2).mul_(3).sub_(1).tolist() == ((array + 2) * 3 - 1).tolist()
    with pytest.raises(OverflowError):
        x + 2**63
    with pytest.raises(dynograd.errors.DtypeError):
        x.clone().add_(0.5)


def test_results_of_int64_and_an_int_are_tensors_without_dims_too():
    counter = dynograd.tensor(0)
    counter.add_(1)
    counter += 2
    assert counter.item() == 3 and (counter + 1).shape == () and (counter + 1).item() == 4


def test_select_moves_the_bits_of_every_dtype():
    mask = numpy.arange(1500) % 3 == 0
    for letter in "fdeqihbBD?":
        element, two = numpy.ones(1500, letter), numpy.zeros(1500, letter)
        result = elementwise_cpu.where(mask, element, two)
        assert result.dtype == letter
        numpy.testing.assert_array_equal(result, numpy.where(mask, element, two))


@pytest.mark.parametrize("size", [7, 600, LOOP_OF_ONE_PASS])
@pytest.mark.parametrize("bounds", [(numpy.nan, 1.0), (-1.0, numpy.nan), (numpy.nan, None)])
def test_nan_bounds_make_everything_nan(size, bounds):
    x = dynograd.ones(size)
    assert x.clamp(*bounds).isnan().all() and x.clamp_(*bounds).isnan().all()


QUOTIENTS = [("fmod", numpy.fmod), ("remainder", numpy.remainder), ("floor_divide", numpy.floor_divide)]


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("size", [1000, 20000, LOOP_OF_ONE_PASS])
@pytest.mark.parametrize(("name", "reference"), QUOTIENTS)
def test_remainders_are_exact(name, reference, size, kind):
    random = numpy.random.default_rng(0)
    x, y = (random.standard_normal(size) * 100).astype(kind), random.standard_normal(size).astype(kind)
    y[abs(y) < 0.01] = 3
    x[:500] = numpy.round(x[:500])
    y[:400] = numpy.round(random.standard_normal(400) * 5) * 2 + 1
    x[400:450] = y[400:450] * 5
    x[450:452] = 0.0, -0.0
    for other in (y, abs(y), -abs(y), numpy.full_like(y, 0.1), numpy.full_like(y, 3)):
        expected = reference(x, other)
        result = getattr(dynograd, name)(dynograd.tensor(x), dynograd.tensor(other)).numpy()
        numpy.testing.assert_array_equal(result, expected)
        numpy.testing.assert_array_equal(numpy.signbit(result), numpy.signbit(expected))


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize(
    "odd", [(1e30, 3), (numpy.inf, 2), (numpy.nan, 1), (1, 0), (-1, numpy.inf), (1, -numpy.inf), (5, 1e-40)]
)
@pytest.mark.parametrize(("name", "reference"), QUOTIENTS)
def test_remainders_of_large_quotients_and_infinities(name, reference, odd, kind):
    x, y = numpy.full(20000, 7, kind), numpy.full(20000, -2, kind)
    x[77], y[77] = odd
    with numpy.errstate(all="ignore"):
        expected = reference(x, y)
    result = getattr(dynograd, name)(dynograd.tensor(x), dynograd.tensor(y)).numpy()
    numpy.testing.assert_allclose(result, expected, rtol=1e-6)


@pytest.mark.parametrize(
    "kind", [dynograd.float32, dynograd.float64, dynograd.float16, dynograd.bfloat16, dynograd.complex64]
)
def test_gradients_of_large_sums_are_arrays_of_their_own(kind):
    x = dynograd.ones(600, 1000, dtype=kind, requires_grad=True)
    (result,) = dynograd.autograd.grad(x.sum(), x, grad_outputs=dynograd.tensor(2.5, dtype=kind))
    assert result.dtype is kind and result.is_contiguous() and (result == 2.5).all()
    result[0, 0] = 1
    assert result[0, 1].item() == 2.5


@pytest.mark.parametrize("kind", ["float32", "float64", "int64", "bool"])
@pytest.mark.parametrize("name", ["tan", "atan2", "bitwise_and", "eq", "logical_not", "sinh", "add"])
def test_large_results_of_numpy_functions_lie_in_kept_memory(name, kind):
    array = (numpy.arange(300_000) % 7 - 3).astype(kind)
    if name == "bitwise_and" and kind[0] == "f":
        pytest.skip("integers only")
    element = name in ("tan", "logical_not", "sinh")
    for x in (array, array.reshape(600, 500).T, array[::2]):
        x = dynograd.tensor(x) if x.base is None else dynograd.from_numpy(x)
        result = getattr(dynograd, name)(*([x] if element else [x, x]))
        base = (
            x.numpy().astype(result.numpy().dtype) if kind == "bool" and name in ("tan", "atan2", "sinh") else x.numpy()
        )
        function = {"tan": numpy.tan, "atan2": numpy.arctan2, "bitwise_and": numpy.bitwise_and, "eq": numpy.equal,
                    "logical_not": numpy.logical_not, "sinh": numpy.sinh, "add": numpy.add}[name]  # fmt: skip
        numpy.testing.assert_allclose(result.numpy(), function(*([base] if element else [base, base])), rtol=1e-6)
    if kind == "float64" and name in ("sinh", "atan2", "add"):
        big = dynograd.tensor(array)
        assert buffers.is_leased(getattr(dynograd, name)(*([big] if element else [big, big])).array)


@pytest.mark.parametrize("name", ["tan", "atan", "sinh", "sin", "floor", "remainder"])
def test_in_place_forms_of_large_arrays(name):
    array = values(70_000, 0)
    array[:10] = 1
    other = (dynograd.tensor(numpy.full(70_000, 0.75, "float32")),) if name == "remainder" else ()
    expected = getattr(dynograd, name)(dynograd.tensor(array), *other)
    result = getattr(dynograd.tensor(array), f"{name}_")(*other)
    numpy.testing.assert_array_equal(result.numpy(), expected.numpy())
