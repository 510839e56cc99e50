"""Functions that draw: with given numbers against plain NumPy, with drawn ones by their properties."""

import numpy
import pytest

import dynograd
from dynograd import nn, tensor
from dynograd.nn import functional as F


def starts(sample, size, tap, count):
    """Where Graham's windows begin."""
    pace = (size - tap) / max(count - 1, 1)
    return [int((k + sample) * pace) - int(sample * pace) for k in range(count - 1)] + [size - tap]


def np_pool(x, taps, sizes, samples):
    """(values, places) by loops; `samples` are in the order of the dims."""
    rank = len(taps)
    values = numpy.empty((*x.shape[:2], *sizes))
    places = numpy.empty(values.shape, int)
    for n, c in numpy.ndindex(x.shape[:2]):
        first = [starts(samples[n, c, d], x.shape[2 + d], taps[d], sizes[d]) for d in range(rank)]
        for at in numpy.ndindex(*sizes):
            corner = [first[d][at[d]] for d in range(rank)]
            block = x[(n, c, *[slice(low, low + tap) for low, tap in zip(corner, taps, strict=True)])]
            inside = numpy.unravel_index(block.argmax(), block.shape)
            values[(n, c, *at)] = block.max()
            where = [low + step for low, step in zip(corner, inside, strict=True)]
            places[(n, c, *at)] = numpy.ravel_multi_index(where, x.shape[2:])
    return values, places


CASES = [
    ((7, 6), (2, 3), (4, 3)),
    ((5, 5), (2, 2), (4, 1)),
    ((6, 5, 4), (2, 1, 2), (3, 5, 2)),
]


@pytest.mark.parametrize(("own", "taps", "sizes"), CASES, ids=str)
def test_pools_of_given_numbers(own, taps, sizes):
    rng, rank = numpy.random.default_rng(0), len(own)
    x, samples = rng.normal(size=(2, 3, *own)), rng.uniform(size=(2, 3, rank))
    function = getattr(F, f"fractional_max_pool{rank}d")
    values, places = np_pool(x, taps, sizes, samples)
    given = tensor(samples[..., ::-1].copy() if rank == 2 else samples)  # those of W come first
    leaf = tensor(x, requires_grad=True)
    found, indices = function(leaf, taps, output_size=sizes, return_indices=True, _random_samples=given)
    numpy.testing.assert_array_equal(found.detach().numpy(), values)
    numpy.testing.assert_array_equal(indices.numpy(), places)
    found.sum().backward()
    counted = numpy.zeros((2, 3, numpy.prod(own)))
    for n, c in numpy.ndindex(2, 3):
        numpy.add.at(counted[n, c], places[n, c].reshape(-1), 1)
    numpy.testing.assert_array_equal(leaf.grad.numpy().reshape(counted.shape), counted)
    alone = function(tensor(x[0]), taps, output_size=sizes, _random_samples=given[:1])
    numpy.testing.assert_array_equal(alone.numpy(), values[0])
    assert dynograd.autograd.gradcheck(
        lambda x: function(x, taps, output_size=sizes, _random_samples=given), (tensor(x, requires_grad=True),)
    )


def test_drawn_windows_and_ratio():
    dynograd.manual_seed(0)
    x = dynograd.randn(3, 2, 12, 10)
    one, two = (F.fractional_max_pool2d(x, 2, output_ratio=0.4) for _ in range(2))
    assert one.shape == (3, 2, 4, 4) and (one != two).any()
    dynograd.manual_seed(0)
    dynograd.randn(3, 2, 12, 10)
    assert (F.fractional_max_pool2d(x, 2, output_ratio=(0.4, 0.4)) == one).all()
    layer = nn.FractionalMaxPool2d(2, output_ratio=0.5, return_indices=True)
    values, indices = layer(x)
    assert (x.flatten(2).gather(2, indices.flatten(2)) == values.flatten(2)).all()
    assert nn.FractionalMaxPool3d(2, output_size=3)(dynograd.randn(1, 2, 5, 6, 7)).shape == (1, 2, 3, 3, 3)


X = dynograd.ones(2, 3, 7, 6)
REFUSED = [
    (lambda: F.fractional_max_pool2d(X, 8, 3), RuntimeError, "pool size 8 too large relative to input size 7"),
    (lambda: F.fractional_max_pool2d(X, 2, 7), RuntimeError, "pool size 2 .* need 8"),
    (lambda: F.fractional_max_pool2d(X, 2), ValueError, "output_size or an output_ratio"),
    (lambda: F.fractional_max_pool2d(X, 2, output_ratio=(0.5,) * 3), ValueError, "output_ratio .* got 3"),
    (lambda: F.fractional_max_pool2d(X[0, 0], 2, 3), RuntimeError, "Expected 3D or 4D .*\\(7, 6\\)"),
    (lambda: F.fractional_max_pool2d(X, 2, 3, _random_samples=dynograd.rand(2, 3, 3)), RuntimeError, "\\(2, 3, 2\\).*\\(2, 3, 3\\)"),
    (lambda: nn.FractionalMaxPool2d(2), ValueError, "output size, or a pooling ratio"),
    (lambda: nn.FractionalMaxPool2d(2, 3, 0.5), ValueError, "only one of .*3 and 0.5"),
    (lambda: nn.FractionalMaxPool3d(2, output_ratio=1.5), ValueError, "between 0 and 1 .*1.5"),
    (lambda: F.rrelu(X, 0.5, 0.3), RuntimeError, "lower=0.5 and upper=0.3"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "words"), REFUSED, ids=lambda one: one if isinstance(one, str) else "")
def test_refused(call, kind, words):
    with pytest.raises(kind, match=words):
        call()


def test_rrelu():
    x = tensor([-1.0, 2.0, 0.0, -4.0], requires_grad=True)
    assert F.rrelu(x, 0.1, 0.3).tolist() == F.leaky_relu(x, 0.2).tolist()
    wide = dynograd.full((10000,), -1.0)
    drawn = F.rrelu(wide, 0.1, 0.3, training=True)
    assert -0.3 <= drawn.min().item() < -0.295 and -0.105 < drawn.max().item() <= -0.1
    assert abs(drawn.mean().item() + 0.2) < 0.005
    found = F.rrelu(x, 0.1, 0.3, training=True)
    found.sum().backward()
    numpy.testing.assert_allclose((x.grad * x).detach().numpy(), found.detach().numpy(), rtol=1e-6)
    assert x.grad[1] == 1
    place = tensor([-1.0, 1.0])
    assert F.rrelu_(place, 0.5, 0.5) is place and place.tolist() == [-0.5, 1.0]
    assert dynograd.rrelu(place, 0.5, 0.5).tolist() == [-0.25, 1.0]


def test_vmap_of_what_is_drawn():
    x = dynograd.full((5, 100), -1.0)
    different = dynograd.vmap(lambda row: F.rrelu(row, training=True), randomness="different")(x)
    assert (different[0] != different[1]).any()
    same = dynograd.vmap(lambda row: F.rrelu(row, training=True), randomness="same")(x)
    assert (same[0] == same[1]).all()
    images = dynograd.randn(4, 2, 6, 6)
    samples = dynograd.rand(1, 2, 2)
    pooled = dynograd.vmap(lambda one: F.fractional_max_pool2d(one, 2, 3, _random_samples=samples))(images)
    assert pooled[1].tolist() == F.fractional_max_pool2d(images[1], 2, 3, _random_samples=samples).tolist()
