"""`func` beside torch.func: the same programs on the same numbers."""

import numpy
import pytest
import torch

import dynograd

RNG = numpy.random.default_rng(5)
X, Y, W = RNG.normal(size=(4, 3)), RNG.normal(size=(3, 4)), RNG.normal(size=(2, 3))
IMAGES, FILTERS = RNG.normal(size=(3, 1, 2, 6, 6)), RNG.normal(size=(4, 2, 3, 3))

# Each is called with the library and its tensors X (4, 3), Y (3, 4), W (2, 3), images (3, 1, 2, 6, 6), filters (4, 2, 3, 3).
PROGRAMS = {
    "in_dims": lambda t, x, y, w, i, f: t.vmap(t.mul, in_dims=(0, 1))(x, y),
    "out_dims": lambda t, x, y, w, i, f: t.vmap(lambda a: (a * 2, a.sum()), out_dims=(1, 0))(x),
    "nested": lambda t, x, y, w, i, f: t.vmap(t.vmap(t.dot, (None, 0)), (0, None))(x, w),
    "chunks": lambda t, x, y, w, i, f: t.vmap(lambda a: a.softmax(0), chunk_size=3)(x),
    "per sample": lambda t, x, y, w, i, f: t.vmap(t.func.grad(lambda w, a: (w @ a).tanh().sum()), (None, 0))(w, x),
    "per sample convolution": lambda t, x, y, w, i, f: t.vmap(
        t.func.grad(lambda f, a: t.nn.functional.conv2d(a, f, stride=2, padding=1).tanh().sum()), (None, 0)
    )(f, i),
    "hessians": lambda t, x, y, w, i, f: t.vmap(t.func.hessian(lambda a: (w @ a).tanh().pow(2).sum()))(x),
    "jacrev": lambda t, x, y, w, i, f: t.func.jacrev(lambda a: (w @ a).sin())(x[0]),
    "jacfwd of two": lambda t, x, y, w, i, f: t.func.jacfwd(lambda a, b: t.outer(a, b), (0, 1))(x[0], w[0]),
    "vmap of vjp": lambda t, x, y, w, i, f: t.vmap(t.func.vjp(lambda a: (w @ a).exp(), x[0])[1])(
        t.eye(2, dtype=t.float64)
    ),
    "vmap of jvp": lambda t, x, y, w, i, f: t.vmap(lambda v: t.func.jvp(lambda a: (w @ a).exp(), (x[0],), (v,))[1])(x),
    "jvp of vmap": lambda t, x, y, w, i, f: t.func.jvp(t.vmap(lambda a: a.cumsum(0) * a), (x,), (x * 2,)),
    "grad of vmap": lambda t, x, y, w, i, f: t.func.grad(lambda w: t.vmap(lambda a: (w @ a).tanh().sum())(x).sum())(w),
    "indexing": lambda t, x, y, w, i, f: t.vmap(lambda a, k: a[k, None] * a[1:2])(
        x, t.tensor([[0, 2], [1, 1], [2, 0], [0, 0]])
    ),
    "in place": lambda t, x, y, w, i, f: t.vmap(lambda a: (a * 1).add_(a).mul_(a.sum()))(x),
    "promotion": lambda t, x, y, w, i, f: t.vmap(t.mul)(x.float(), x[:, 0]),
}
REFUSED = {
    "sizes": lambda t: t.vmap(t.mul)(t.ones(3, 4), t.ones(4, 3)),
    "no tensor": lambda t: t.vmap(t.mul)(t.ones(3), 2.0),
    "in_dims": lambda t: t.vmap(t.mul, in_dims=(0,))(t.ones(3), t.ones(3)),
    "all None": lambda t: t.vmap(t.mul, in_dims=(None, None))(t.ones(3), t.ones(3)),
    "too far": lambda t: t.vmap(t.sin, in_dims=1)(t.ones(3)),
    "no tensor out": lambda t: t.vmap(lambda x: 3)(t.ones(3)),
    "out_dims None": lambda t: t.vmap(lambda x: x, out_dims=None)(t.ones(3)),
    "random": lambda t: t.vmap(lambda x: x + t.rand(()))(t.ones(3)),
    "item": lambda t: t.vmap(lambda x: x * x.item())(t.ones(3)),
    "branch": lambda t: t.vmap(lambda x: x if x > 0 else -x)(t.ones(3)),
    "write": lambda t: t.vmap(lambda x, y: x.add_(y), in_dims=(None, 0))(t.ones(2), t.ones(3, 2)),
}


def outputs(library, program):
    result = program(
        library, *[library.tensor(element, dtype=library.float64) for element in (X, Y, W, IMAGES, FILTERS)]
    )
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")  # torch's own
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    for element, other in zip(outputs(dynograd, PROGRAMS[name]), outputs(torch, PROGRAMS[name]), strict=True):
        assert str(element.dtype).rpartition(".")[2] == str(other.dtype).rpartition(".")[2]
        numpy.testing.assert_allclose(element.numpy(), other.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    with pytest.raises(Exception) as theirs:
        REFUSED[name](torch)
    with pytest.raises(type(theirs.value)):
        REFUSED[name](dynograd)
