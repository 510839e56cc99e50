"""Views and writes of complex parts, expanded and overlapping memory, hooks and graph functions, beside torch."""

import numpy
import pytest
import torch

import dynograd


def leaf(t):
    return t.tensor([1.0, 2.0], dtype=t.float64, requires_grad=True)


def parts_written(t, x):
    z = t.complex(x, x * 2) * 1
    z.real.mul_(3)
    z.imag.add_(x)
    t.view_as_real(z)[0].zero_()
    return (z.abs() ** 2).sum()


def part_of_what_is_written(t, x):
    z = t.complex(x, x * 2) * 1
    real = z.real
    z.mul_(1j)
    return (real * t.tensor([1.0, 5.0], dtype=t.float64)).sum()


def parts_of_a_constant(t, x):
    z = t.zeros(2, dtype=t.complex128)
    z.imag.copy_(x**2)
    z.real[1] = x[0]
    return (z * t.tensor([1 + 2j, 3 - 1j], dtype=t.complex128)).real.sum()


def expanded_before_the_write(t, x):
    y = x * 1
    wide = y.view(1, 2).expand(3, 2)
    y.mul_(x)
    return (wide * t.arange(6.0, dtype=t.float64).reshape(3, 2)).sum()


def windows_before_the_write(t, x):
    y = x.repeat(3)
    windows = y.unfold(0, 3, 2)
    y[2].mul_(5)
    return (windows * windows).sum()


def strided_views_of_one_memory(t, x):
    y = x.repeat(3) * 1
    y.as_strided((2, 2), (3, 1), 1).mul_(2)
    y.as_strided((2,), (2,), 0).add_(x)
    return (y * y).sum()


def hooks_in_order(t, x):
    y = x * 2
    y.register_hook(lambda g: g * 2)
    y.retain_grad()
    y.register_hook(lambda g: g * 3)
    y.sum().backward()
    return (x * (y.grad + x.grad)).sum()


def hook_of_a_copy(t, x):
    source, target = x * 2, t.zeros(2, dtype=t.float64)
    target.copy_(source)
    target.register_hook(lambda g: g * 10)
    return source.sum() + (target * target).sum()


def hooks_of_a_node(t, x):
    y = x * 3
    y.grad_fn.register_prehook(lambda grads: (grads[0] * 10,))
    y.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] + 1, *inputs[1:]))
    return (y * y).sum()


def rows_at_once(t, x):
    y = x**3
    (rows,) = t.autograd.grad(y, x, t.eye(2, dtype=t.float64), is_grads_batched=True, create_graph=True)
    return (rows * rows).sum()


def through_an_edge(t, x):
    y = x * x
    edge = t.autograd.graph.get_gradient_edge(y)
    (slope,) = t.autograd.grad((y * y).sum(), edge, create_graph=True)
    return (slope * x).sum()


def recomputed(t, x):
    return t.utils.checkpoint.checkpoint(lambda x, k: (x * k).exp().sin(), x, k=0.5, use_reentrant=False).sum()


def packed(t, x):
    with t.autograd.graph.saved_tensors_hooks(lambda one: one * 2, lambda one: one / 4):
        y = x.exp().sin()
    return y.sum()


def hessian_vector(t, x):
    return t.autograd.functional.hvp(lambda x: (x**4).sum(), x, x.detach(), create_graph=True)[1].sum()


def duals(t, x):
    with t.autograd.forward_ad.dual_level():
        dual = t.autograd.forward_ad.make_dual(x, x.detach() * 3)
        return t.autograd.forward_ad.unpack_dual(dual.exp() * dual).tangent.sum()


PROGRAMS = [
    parts_written,
    part_of_what_is_written,
    parts_of_a_constant,
    expanded_before_the_write,
    windows_before_the_write,
    strided_views_of_one_memory,
    hooks_in_order,
    hook_of_a_copy,
    hooks_of_a_node,
    rows_at_once,
    through_an_edge,
    recomputed,
    packed,
    hessian_vector,
    duals,
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.__name__)
def test_program(program):
    result = []
    for library in (torch, dynograd):
        __import__(f"{library.__name__}.utils.checkpoint")
        x = leaf(library)
        y = program(library, x)
        (slope,) = library.autograd.grad(y, x)
        result.append((y.item(), slope.numpy()))
    assert result[1][0] == pytest.approx(result[0][0], rel=1e-12)
    numpy.testing.assert_allclose(result[1][1], result[0][1], rtol=1e-12)
