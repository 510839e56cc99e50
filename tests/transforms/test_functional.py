"""autograd.functional and autograd.forward_ad."""

from __future__ import annotations

import numpy
import pytest

import dynograd as dg
from dynograd.autograd import forward_ad
from dynograd.autograd.functional import hessian, hvp, jacobian, jvp, vhp, vjp
from dynograd.errors import ShapeError

X = dg.tensor([1.0, 2.0], dtype=dg.float64)
Y = dg.tensor([3.0, 4.0, 5.0], dtype=dg.float64)


def both(x, y):
    return dg.outer(x, y).sin(), (x * x).sum()


def test_products_agree_with_the_jacobian():
    (sin_x, sin_y), (square_x, square_y) = jacobian(both, (X, Y))
    assert tuple(sin_x.shape) == (2, 3, 2) and tuple(square_y.shape) == (3,) and not sin_x.requires_grad
    v, w = dg.rand(2, 3, dtype=dg.float64), dg.tensor(0.5, dtype=dg.float64)
    outputs, (to_x, to_y) = vjp(both, (X, Y), (v, w))
    numpy.testing.assert_allclose(to_x.numpy(), numpy.einsum("ij,ijk", v, sin_x) + 0.5 * square_x.numpy())
    numpy.testing.assert_allclose(to_y.numpy(), numpy.einsum("ij,ijk", v, sin_y))
    assert len(outputs) == 2
    _, (moved, moved_square) = jvp(both, (X, Y), (X, Y))
    numpy.testing.assert_allclose(moved.numpy(), sin_x.numpy() @ X.numpy() + sin_y.numpy() @ Y.numpy())
    assert moved_square.item() == pytest.approx(float(square_x.numpy() @ X.numpy()))


@pytest.mark.parametrize("options", [{"vectorize": True}, {"vectorize": True, "strategy": "forward-mode"}])
def test_all_ways_to_a_jacobian_agree(options):
    expected, result = jacobian(both, (X, Y)), jacobian(both, (X, Y), **options)
    for element, other in zip(expected, result, strict=True):
        for part, same in zip(element, other, strict=True):
            numpy.testing.assert_allclose(part.numpy(), same.numpy())
    single = jacobian(lambda x: x * x, X, **options)
    assert single.tolist() == [[2.0, 0.0], [0.0, 4.0]]


@pytest.mark.parametrize(
    "options", [{}, {"vectorize": True}, {"vectorize": True, "outer_jacobian_strategy": "forward-mode"}]
)
def test_hessian_and_its_products(options):
    def cubes(x, y):
        return (x**3).sum() * y.sum()

    table = hessian(cubes, (X, Y), **options)
    numpy.testing.assert_allclose(table[0][0].numpy(), numpy.diag(6 * X.numpy() * 12))
    numpy.testing.assert_allclose(table[0][1].numpy(), numpy.outer(3 * X.numpy() ** 2, numpy.ones(3)))
    assert not table[1][1].numpy().any()
    for product in (hvp, vhp):
        value, (to_x, to_y) = product(cubes, (X, Y), (X, Y))
        assert value.item() == 9 * 12
        numpy.testing.assert_allclose(to_x.numpy(), table[0][0].numpy() @ X.numpy() + table[0][1].numpy() @ Y.numpy())
        numpy.testing.assert_allclose(to_y.numpy(), table[1][0].numpy() @ X.numpy())


def test_results_can_be_differentiated_under_create_graph():
    x = X.clone().requires_grad_()
    for function in (
        lambda: jacobian(lambda x: x**3, x, create_graph=True).sum(),
        lambda: vjp(lambda x: x**3, x, dg.ones(2, dtype=dg.float64), create_graph=True)[1].sum(),
        lambda: jvp(lambda x: x**3, x, dg.ones(2, dtype=dg.float64), create_graph=True)[1].sum(),
        lambda: vhp(lambda x: (x**4).sum() / 4, x, x.detach() * 0 + 1, create_graph=True)[1].sum() / 3,
    ):
        (result,) = dg.autograd.grad(function(), x)
        numpy.testing.assert_allclose(result.numpy(), 6 * X.numpy() if result[0] == 6 else 2 * X.numpy())
    with dg.no_grad():
        assert jacobian(lambda x: x * x, X).tolist() == [[2.0, 0.0], [0.0, 4.0]]
        recorded = jacobian(lambda x: x * x, x, create_graph=True)
        assert recorded.requires_grad and hessian(lambda x: (x**3).sum(), x, create_graph=True).requires_grad
        assert not jacobian(lambda x: x * x, x).requires_grad
    assert dg.autograd.grad(recorded.sum(), x)[0].tolist() == [2.0, 2.0]


def test_strict_and_mistakes():
    element = dg.ones(1)
    for function in (jacobian, vjp, jvp):
        with pytest.raises(RuntimeError, match=r"Output 0 of the user-provided function|independent of input"):
            function(lambda x: element, X[:1], strict=True)
    with pytest.raises(RuntimeError, match="independent of input 1"):
        jacobian(lambda x, y: x * 2, (X, Y), strict=True)
    assert not jacobian(lambda x: element, X).numpy().any()
    with pytest.raises(RuntimeError, match="should contain a single element, got shape"):
        hessian(lambda x: x * x, X)
    with pytest.raises(TypeError, match="value at index 1 has type int"):
        jacobian(lambda x, y: x, (X, 3))
    with pytest.raises(TypeError, match="outputs of the user-provided function"):
        vjp(lambda x: 3, X)
    with pytest.raises(RuntimeError, match=r"Entry 0 of v has invalid size: should be \(2,\) but got \(3,\)"):
        vjp(lambda x: x, X, Y)
    with pytest.raises(RuntimeError, match="can only be None"):
        vjp(lambda x: x, X)
    with pytest.raises(RuntimeError, match="invalid length: should be 2 but got 1"):
        jvp(both, (X, Y), (X,))
    with pytest.raises(ValueError, match="Expected strategy"):
        jacobian(lambda x: x, X, strategy="sideways")
    with pytest.raises(NotImplementedError, match="only implemented for vectorize=True"):
        jacobian(lambda x: x, X, strategy="forward-mode")


# --- forward_ad --------------------------------------------------------------------------------------------------------------


def test_duals_made_by_hand():
    with forward_ad.dual_level():
        x = forward_ad.make_dual(X, dg.ones(2, dtype=dg.float64))
        y = x.sin() * X
        primal, tangent = forward_ad.unpack_dual(y)
        numpy.testing.assert_allclose(tangent.numpy(), numpy.cos(X.numpy()) * X.numpy())
        numpy.testing.assert_allclose(primal.numpy(), numpy.sin(X.numpy()) * X.numpy())
        assert forward_ad.unpack_dual(X).tangent is None
        layer = dg.nn.Linear(2, 1).double()
        z = layer(x)
        assert forward_ad.unpack_dual(z).tangent.item() == pytest.approx(layer.weight.sum().item())
    assert forward_ad.unpack_dual(y).tangent is None


def test_a_tangent_may_have_another_floating_dtype():
    with forward_ad.dual_level():
        x = forward_ad.make_dual(X, dg.tensor([1.0, 2.0]))
        assert forward_ad.unpack_dual(x).tangent.dtype is dg.float32
        tangent = forward_ad.unpack_dual(x * x).tangent
        assert tangent.dtype is dg.float64 and tangent.tolist() == [2 * X[0], 4 * X[1]]


def test_levels_are_closed_in_order():
    number = forward_ad.enter_dual_level()
    with pytest.raises(RuntimeError, match="was not the last one"):
        forward_ad.exit_dual_level(level=number + 1)
    with pytest.raises(ShapeError, match=r"expected a tangent of the tensor's shape, \(2,\), got \(3,\)"):
        forward_ad.make_dual(X, Y)
    with pytest.raises(ValueError, match="Expected tangent to be floating point or complex, but got: dynograd.int64"):
        forward_ad.make_dual(X, dg.tensor([1, 1]))
    with pytest.raises(ValueError, match="floating point or complex"):
        forward_ad.make_dual(dg.tensor([1]), dg.tensor([1]))
    forward_ad.exit_dual_level()
    with pytest.raises(RuntimeError, match="no level exists"):
        forward_ad.make_dual(X, X)
    with pytest.raises(RuntimeError, match="was not the last one"):
        forward_ad.exit_dual_level()
