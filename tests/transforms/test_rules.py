"""Each way in which an op can say how its tangents move, on ops that exist only here."""

from __future__ import annotations

import numpy
import pytest

import dynograd
from dynograd.arrays import Array, Arrays
from dynograd.base import dtypes
from dynograd.func import grad, jvp
from dynograd.gradcheck import gradcheck, gradgradcheck
from dynograd.ops.op import op, registry


@pytest.fixture
def table():
    """Ops registered in the test are gone after it."""
    before = set(registry)
    yield
    for name in set(registry) - before:
        del registry[name]


def double(values, requires_grad=False):
    return dynograd.tensor(values, dtype=dtypes.float64, requires_grad=requires_grad)


X, Y = double([0.5, -1.2, 0.8]), double([1.1, 0.4, -0.6])
WAYS = double([1.0, 0.3, -2.0]), double([-0.7, 0.2, 0.9])


def check(function, primals=(X, Y), ways=WAYS, step=1e-6):
    """Tangents against differences, and every mix of forward and backward against each other."""
    output, moved = jvp(function, primals, ways)
    above = function(*[x + step * way for x, way in zip(primals, ways, strict=True)])
    below = function(*[x - step * way for x, way in zip(primals, ways, strict=True)])
    pairs = list(
        zip(
            *[element if isinstance(element, tuple) else (element,) for element in (output, moved, above, below)],
            strict=True,
        )
    )
    for _, tangent, up, down in pairs:
        numpy.testing.assert_allclose(tangent.numpy(), (up.numpy() - down.numpy()) / (2 * step), rtol=1e-6, atol=1e-7)
    leaves = tuple(double(x.tolist(), True) for x in primals)
    assert gradcheck(function, leaves, check_forward_ad=True)
    assert gradgradcheck(function, leaves, check_fwd_over_rev=True)
    assert gradcheck(lambda *x: jvp(function, x, ways)[1], leaves, check_forward_ad=True)


def test_by_backward(table):
    @op(saves="input other")
    def weighted(input: Array, other: Array) -> Array:
        return input * input * other

    @weighted.backward
    def weighted_backward(g, saved):
        return g * 2.0 * saved.input * saved.other, g * saved.input * saved.input

    check(weighted)
    way = jvp(lambda x: weighted(x, x), (X,), (WAYS[0],))[1]
    numpy.testing.assert_allclose(way.numpy(), (3 * X * X * WAYS[0]).numpy())


def test_by_backward_with_the_output_saved(table):
    @op(saves="output")
    def exponential(input: Array) -> Array:
        return numpy.exp(input)

    @exponential.backward
    def exponential_backward(g, saved):
        return (g * saved.output,)

    check(exponential, (X,), WAYS[:1])


def test_several_outputs_and_an_integer_one(table):
    @op(saves="input other", outputs="product difference sign")
    def pair(input: Array, other: Array) -> Array:
        return input * other, input - other, (input > other).astype("int64")

    @pair.backward
    def pair_backward(g, saved):
        return g[0] * saved.other + g[1], g[0] * saved.input - g[1]

    check(lambda x, y: tuple(pair(x, y))[:2])
    output, way = jvp(pair, (X, Y), WAYS)
    assert output._fields == ("product", "difference", "sign")
    assert way.sign.tolist() == [0, 0, 0]


def test_a_list_of_arrays_of_which_some_move(table):
    @op(saves="inputs")
    def product(inputs: Arrays, scale: float) -> Array:
        return inputs[0] * inputs[1] * scale

    @product.backward
    def product_backward(g, saved, scale):
        first, second = saved.inputs
        return ([g * second * scale, g * first * scale],)

    check(lambda x, y: product([x, y], 2.0))
    way = jvp(lambda x: product([Y, x], 3.0), (X,), WAYS[:1])[1]
    numpy.testing.assert_allclose(way.numpy(), (3 * Y * WAYS[0]).numpy())


def test_linear_with_an_index_and_an_optional_argument(table):
    @op(linear=True, saves="index input.shape")
    def picked(input: Array, index: Array, other: Array | None = None) -> Array:
        return input[index] if other is None else input[index] + other

    @picked.backward
    def picked_backward(g, saved):
        created = dynograd.stack([(g * (saved.index == place)).sum() for place in range(saved.input_shape[0])])
        return created, None, g if saved.needs(2) else None

    index = dynograd.tensor([2, 0, 0])
    way = jvp(lambda x: picked(x, index), (X,), WAYS[:1])[1]
    assert way.tolist() == [-2.0, 1.0, 1.0]
    way = jvp(lambda y: picked(X, index, y), (Y,), WAYS[1:])[1]
    assert way.tolist() == WAYS[1].tolist()


def test_own_rule(table):
    called = []

    @op(saves="input input.shape")
    def cube(input: Array, scale: float) -> Array:
        return input**3 * scale

    @cube.backward
    def cube_backward(g, saved, scale):
        return (g * 3.0 * scale * saved.input * saved.input,)

    @cube.jvp
    def cube_jvp(tangents, saved, scale):
        called.append(saved.input_shape)
        return tangents[0] * 3.0 * scale * saved.input * saved.input + saved.output * 0

    check(lambda x: cube(x, 0.5), (X,), WAYS[:1])
    assert called[0] == (3,)


def test_decomposition_of_a_fused_op(table):
    @op(extras="root")
    def normalized(input: Array, epsilon: float) -> Array:
        root = numpy.sqrt((input * input).mean() + epsilon)
        return input / root, root

    @normalized.fast_backward
    def normalized_fast_backward(g, saved, epsilon):
        x, root = saved.input, saved.root
        return (g / root - x * ((g * x).mean() / root**3),)

    @normalized.decomposition
    def normalized_decomposition(input, epsilon):
        return input / (dynograd.mean(input * input) + epsilon).sqrt()

    check(lambda x: normalized(x, 0.1), (X,), WAYS[:1])


def test_what_is_not_differentiable_does_not_move(table):
    @op(differentiable=False)
    def stair(input: Array) -> Array:
        return numpy.floor(input)

    way = jvp(lambda x: stair(x) * x, (X,), WAYS[:1])[1]
    assert way.tolist() == (dynograd.floor(X) * WAYS[0]).tolist()


def test_a_rule_that_reads_what_is_no_argument(table):
    @op()
    def twice(input: Array) -> Array:
        return input * 2

    @twice.backward
    def twice_backward(g, saved):
        return (g * 2.0,)

    @twice.jvp
    def twice_jvp(tangents, saved):
        return tangents[0] * saved.scale

    with pytest.raises(AttributeError, match=r"twice\.jvp reads saved\.scale"):
        jvp(twice, (X,), WAYS[:1])


def test_mixed_dtypes_and_broadcasting_of_tangents():
    small = dynograd.tensor([2.0])
    way = jvp(lambda x: x * X, (small,), (dynograd.tensor([3.0]),))[1]
    assert way.dtype is dtypes.float64
    assert way.tolist() == (3 * X).tolist()
    result = grad(lambda x: jvp(lambda x: (x * X).sum(), (x,), (x,))[1])(small)
    assert result.dtype is dtypes.float32
    assert result.item() == pytest.approx(X.sum().item())
