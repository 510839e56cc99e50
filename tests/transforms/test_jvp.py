"""Forward mode: values and tangents, writes, nesting with itself and with backward, and the functions built on it."""

import numpy
import pytest

import dynograd
from dynograd.base import dtypes
from dynograd.func import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp
from dynograd.interpreter import differentiation
from dynograd.tensor.custom_function import Function


def double(values, requires_grad=False):
    return dynograd.tensor(values, dtype=dtypes.float64, requires_grad=requires_grad)


X, WAY = double([0.5, -1.2, 0.8]), double([1.0, 0.3, -2.0])


def by_differences(function, x, way, step=1e-6):
    above, below = function(x + way * step), function(x - way * step)
    return (above.detach().numpy() - below.detach().numpy()) / (2 * step)


def close(result, expected, tolerance=1e-6):
    expected = expected.detach().numpy() if isinstance(expected, dynograd.Tensor) else expected
    numpy.testing.assert_allclose(result.detach().numpy(), expected, rtol=tolerance, atol=tolerance)


def in_place(x):
    y = x * 2
    y.mul_(x)
    y += 1
    return y


def item_assignment(x):
    y = x * x
    y[0] = x[1] * x[2]
    y[1:] *= x[0]
    return y


def written_into_a_constant(x):
    created = dynograd.tensor([0.0, 0.0, 0.0, 0.0], dtype=dtypes.float64)
    view = created[1:]
    created[1] = x[0] * x[1]
    view[2] = x[2] ** 2
    view.mul_(x)
    return created * 2


def written_through_a_view(x):
    y = (x * x).reshape(3, 1)
    flat = y.reshape(3)
    flat[0] = x[2]
    return y.reshape(3) * flat


def copied(x):
    y = x * 3
    y.copy_(x * x)
    return y


def by_index_tensor(x):
    y = x * 1
    y[dynograd.tensor([0, 2])] = x[dynograd.tensor([1, 1])] * x[0]
    return y


FUNCTIONS = [
    lambda x: x.tanh() * x,
    lambda x: (x * x).sum(),
    lambda x: x.reshape(3, 1) @ x.reshape(1, 3),
    lambda x: x / (x * x + 1),
    lambda x: x[1:] * x[:-1],
    in_place,
    item_assignment,
    written_into_a_constant,
    written_through_a_view,
    copied,
    by_index_tensor,
]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_tangents_are_slopes(function):
    output, way = jvp(function, (X,), (WAY,))
    close(output, function(X), 1e-12)
    close(way, by_differences(function, X, WAY))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_backward_through_forward(function):
    slope = lambda x: jvp(function, (x,), (WAY,))[1].sum()  # noqa: E731
    close(grad(slope)(X) @ WAY, by_differences(slope, X, WAY), 1e-5)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_forward_through_backward(function):
    slope = grad(lambda x: (function(x) * function(x)).sum())
    close(jvp(slope, (X,), (WAY,))[1], by_differences(slope, X, WAY), 1e-5)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_forward_through_forward(function):
    slope = lambda x: jvp(function, (x,), (WAY,))[1]  # noqa: E731
    close(jvp(slope, (X,), (WAY,))[1], by_differences(slope, X, WAY), 1e-5)


def test_a_level_never_takes_the_tangents_of_another():
    element = double(1.0)
    assert jvp(lambda x: x * jvp(lambda y: x + y, (element,), (element,))[1], (element,), (element,))[1].item() == 1
    assert jvp(lambda x: x * grad(lambda y: x + y)(element), (element,), (element,))[1].item() == 1
    assert grad(lambda x: x * jvp(lambda y: x + y, (element,), (element,))[1])(element).item() == 1
    assert grad(lambda x: x * grad(lambda y: x + y)(element))(element).item() == 1


def test_gradients_flow_to_primals_tangents_and_captured_tensors():
    x, way, w = double([1.0, 2.0], True), double([3.0, 4.0], True), double([5.0, 6.0], True)
    jvp(lambda x: w * x * x, (x,), (way,))[1].sum().backward()  # 2 w x way
    assert way.grad.tolist() == [10.0, 24.0]
    assert x.grad.tolist() == [30.0, 48.0]
    assert w.grad.tolist() == [6.0, 16.0]


def test_nothing_is_recorded_when_nobody_wants_gradients():
    output, way = jvp(lambda x: x.reshape(3, 1) @ x.reshape(1, 3), (X,), (WAY,))
    assert not output.requires_grad
    assert not way.requires_grad
    assert not grad(lambda x: (x * x).sum())(X).requires_grad
    assert not jvp(grad(lambda x: (x * x * x).sum()), (X,), (WAY,))[1].requires_grad


def test_no_grad_leaves_tangents_alone():
    with dynograd.no_grad():
        way = jvp(lambda x: x.reshape(3, 1) @ x.reshape(1, 3), (X,), (WAY,))[1]
    close(way, by_differences(lambda x: x.reshape(3, 1) @ x.reshape(1, 3), X, WAY))
    assert not way.requires_grad


def test_the_primal_is_not_changed():
    x = double([1.0, 2.0])
    jvp(lambda x: x.requires_grad_() * 2, (x,), (x,))
    assert not x.requires_grad
    captured = double([0.0, 0.0])

    def write(x):
        captured[0] = x[0] * 5
        return captured * 2

    output, way = jvp(write, (x,), (x,))
    assert output.tolist() == [10.0, 0.0]
    assert way.tolist() == [10.0, 0.0]
    assert type(captured) is dynograd.Tensor
    assert captured.tolist() == [5.0, 0.0]
    assert (captured + 1).tolist() == [6.0, 1.0]


def test_the_tape_inside_jvp():
    def slope(x):
        x.requires_grad_()
        return differentiation.grad((x * x * x).sum(), x)[0]

    output, way = jvp(slope, (X,), (WAY,))
    close(output, 3 * X * X, 1e-12)
    close(way, 6 * X * WAY, 1e-12)

    def accumulated(x):
        x.requires_grad_()
        (x * x * x).sum().backward()
        return x.grad

    close(jvp(accumulated, (X,), (WAY,))[1], 6 * X * WAY, 1e-12)


def test_structures_of_tensors():
    output, way = jvp(
        lambda pair, scale: {"sum": pair[0] + pair[1], "rest": [pair[0] * scale]},
        ((X, X * 2), double(3.0)),
        ((WAY, WAY), double(1.0)),
    )
    close(way["sum"], 2 * WAY, 1e-12)
    close(way["rest"][0], 3 * WAY + X, 1e-12)
    assert list(output) == ["sum", "rest"]


def test_aux_and_strict():
    output, way, aux = jvp(lambda x: (x * 2, {"kept": x}), (X,), (WAY,), has_aux=True)
    close(output, 2 * X, 1e-12)
    close(way, 2 * WAY, 1e-12)
    assert type(aux["kept"]) is dynograd.Tensor
    assert jvp(lambda x: x.detach() * 2, (X,), (WAY,))[1].tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(RuntimeError, match=r"strict=True.*independent of the inputs"):
        jvp(lambda x: x.detach() * 2, (X,), (WAY,), strict=True)


def test_integers_and_comparisons_do_not_move():
    output, way = jvp(lambda x: (x > 0, x.to(dtypes.int64), x * (x > 0)), (X,), (WAY,))
    assert output[0].dtype is dtypes.bool
    assert way[1].tolist() == [0, 0, 0]
    close(way[2], [1.0, 0.0, -2.0], 1e-12)


def test_custom_functions_move_by_their_backward():
    class Doubled(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g * 2

    output, way = jvp(lambda x: Doubled.apply(x) * x, (X,), (WAY,))
    close(output, X * X, 1e-12)
    close(way, 3 * X * WAY, 1e-12)


def test_linearize():
    output, push = linearize(lambda x: x * x, X)
    close(output, X * X, 1e-12)
    close(push(WAY), 2 * X * WAY, 1e-12)
    close(push(X), 2 * X * X, 1e-12)


@pytest.mark.parametrize(
    "primals, tangents, kind, words",
    [
        (X, (WAY,), RuntimeError, "primals to be a tuple"),
        ((X,), WAY, RuntimeError, "tangents to be a tuple"),
        ((), (), RuntimeError, "at least one primal"),
        ((X,), (WAY, WAY), RuntimeError, "same structure, got 1 primals and 2 tangents"),
        ((X,), ([WAY],), RuntimeError, "same structure"),
        ((X,), (double([1.0]),), ValueError, r"shape of its primal, \(3,\), got \(1,\)"),
        ((X,), (WAY.to(dtypes.float32),), TypeError, "dtype of its primal, dynograd.float64, got dynograd.float32"),
        ((X, 2.0), (WAY, 1.0), RuntimeError, r"only tensors, got float \(2.0\) at 1"),
        ((dynograd.tensor([1]),), (dynograd.tensor([1]),), TypeError, "only floating tensors move"),
    ],
)
def test_errors(primals, tangents, kind, words):
    with pytest.raises(kind, match=words):
        jvp(lambda *x: x[0], primals, tangents)


def test_only_tensors_come_back():
    with pytest.raises(RuntimeError, match=r"only tensors, got float"):
        jvp(lambda x: x.sum().item(), (X,), (WAY,))
    with pytest.raises(RuntimeError, match=r"has_aux=True.*tuple \(output, aux\)"):
        jvp(lambda x: x, (X,), (WAY,), has_aux=True)


# --- vjp, grad, jacobians ------------------------------------------------------------------------------------------------------


def test_vjp_many_times_and_for_structures():
    output, pull = vjp(lambda x, y: (x * y, x.sum()), X, WAY)
    close(output[0], X * WAY, 1e-12)
    first = pull((double([1.0, 0.0, 0.0]), double(0.0)))
    second = pull((double([0.0, 0.0, 0.0]), double(2.0)))
    assert first[0].tolist() == [1.0, 0.0, 0.0]
    assert first[1].tolist() == [0.5, 0.0, 0.0]
    assert second[0].tolist() == [2.0, 2.0, 2.0]
    assert second[1].tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(RuntimeError, match="structure of the output"):
        pull(double(1.0))
    with pytest.raises(RuntimeError, match=r"cotangent 1 of shape \(\), got \(3,\)"):
        pull((WAY, WAY))


def test_grad_arguments():
    function = lambda x, y, scale=1.0: (x * y * scale).sum()  # noqa: E731
    assert grad(function, argnums=1)(X, WAY).tolist() == X.tolist()
    result = grad(function, argnums=(0, 1))(X, WAY, scale=2.0)
    close(result[0], 2 * WAY, 1e-12)
    close(result[1], 2 * X, 1e-12)
    slope, aux = grad(lambda x: ((x * x).sum(), x * 3), has_aux=True)(X)
    close(slope, 2 * X, 1e-12)
    close(aux, 3 * X, 1e-12)
    slope, (value, aux) = grad_and_value(lambda x: ((x * x).sum(), x * 3), has_aux=True)(X)
    close(slope, 2 * X, 1e-12)
    close(value, (X * X).sum(), 1e-12)
    assert not value.requires_grad
    tree = grad(lambda p: (p["w"] * X).sum() + p["b"])({"w": WAY, "b": double(1.0)})
    assert tree["w"].tolist() == X.tolist()
    assert tree["b"].item() == 1


def test_grad_of_grad_of_grad():
    cube = lambda x: x**4  # noqa: E731
    assert grad(grad(grad(cube)))(double(2.0)).item() == 48


def test_results_can_be_differentiated_by_backward():
    w = double([1.0, 2.0, 3.0], True)
    grad(lambda x: (w * w * x).sum())(X).sum().backward()
    assert w.grad.tolist() == [2.0, 4.0, 6.0]
    x = double([1.0, 2.0], True)
    grad(lambda x: (x**3).sum())(x).sum().backward()
    assert x.grad.tolist() == [6.0, 12.0]


def test_grad_inside_no_grad():
    with dynograd.no_grad():
        result = grad(lambda x: (x * x).sum())(X)
    close(result, 2 * X, 1e-12)
    assert not result.requires_grad


def test_what_vjp_gives_under_no_grad_has_no_history():
    x = double([1.0, 2.0]).requires_grad_()
    result, pull = vjp(lambda x: x**3, x)
    with dynograd.no_grad():
        (slope,) = pull(dynograd.ones_like(x))
    assert not slope.requires_grad and result.requires_grad and pull(dynograd.ones_like(x))[0].requires_grad
    assert slope.tolist() == [3.0, 12.0]


@pytest.mark.parametrize("jacobian", [jacrev, jacfwd])
def test_jacobians(jacobian):
    weights = double([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    close(jacobian(lambda x: weights @ x)(X), weights, 1e-12)
    both = jacobian(lambda x, y: (x * y, x.sum()), argnums=(0, 1))(X, WAY)
    close(both[0][0], numpy.diag(WAY.numpy()), 1e-12)
    close(both[0][1], numpy.diag(X.numpy()), 1e-12)
    close(both[1][0], numpy.ones(3), 1e-12)
    assert both[1][1].tolist() == [0.0, 0.0, 0.0]
    result, aux = jacobian(lambda x: (x * x, x), has_aux=True)(X)
    close(result, numpy.diag(2 * X.numpy()), 1e-12)
    close(aux, X, 0)
    assert jacobian(lambda x: x.reshape(1, 3).expand(2, 3))(X).shape == (2, 3, 3)


def test_hessian():
    result = hessian(lambda x: (x.tanh() * x[0]).sum())(X)
    both = jacrev(jacrev(lambda x: (x.tanh() * x[0]).sum()))(X)
    close(result, both, 1e-12)
    close(result, result.transpose(0, 1), 1e-12)
    close(result[0], by_differences(grad(lambda x: (x.tanh() * x[0]).sum()), X, double([1.0, 0.0, 0.0])))


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: grad(lambda x: x)(X), r"scalar tensor, got a tensor with 1 dims \(shape \(3,\)\)"),
        (lambda: grad(lambda x: (x.sum(), x))(X), "scalar tensor, got tuple"),
        (lambda: grad(lambda x: 3.0)(X), "only tensors, got float"),
        (lambda: grad(lambda x: x, argnums=2)(X), "argnum=2, but only 1 positional"),
        (lambda: grad(lambda x: x, argnums=())(X), "non-empty"),
        (lambda: grad(lambda x: x, argnums=(0, 0))(X), "unique"),
        (lambda: grad(lambda x: x, argnums="x")(X), "int or a tuple of ints"),
        (lambda: grad(lambda x: x)(dynograd.tensor([1])), "floating tensors.*int64"),
        (lambda: vjp(lambda x: 3.0, X), "only tensors, got float"),
    ],
)
def test_errors_of_grad_and_vjp(call, words):
    with pytest.raises(RuntimeError, match=words):
        call()
