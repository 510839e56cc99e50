"""Normalisation with its statistics: values, means and inverse deviations."""

import numpy

import dynograd
from tests.ops.harness import Row, generate


def statistics(x, axis, eps, keepdims=False):
    return x.mean(axis, keepdims=keepdims), 1 / numpy.sqrt(x.var(axis, keepdims=keepdims) + eps)


def np_layer(x, shape, weight, bias, eps):
    mean, rstd = statistics(x, -1, eps, True)
    return (x - mean) * rstd * weight + bias, mean, rstd


def np_group(x, weight, bias, N, C, HxW, group, eps):
    mean, rstd = statistics(x.reshape(N, group, -1), 2, eps)
    out = (x.reshape(N, group, -1) - mean[..., None]) * rstd[..., None]
    return out.reshape(x.shape) * weight[:, None] + bias[:, None], mean, rstd


def np_batch(x, weight, bias, running_mean, running_var, training, momentum, eps):
    mean, rstd = statistics(x, (0, 2), eps)
    return (x - mean[:, None]) * rstd[:, None] * weight[:, None] + bias[:, None], mean, rstd


def parts(*rest):
    def arguments(rng):
        x, weight, bias = rng.normal(size=(2, 4, 3)), rng.normal(size=4), rng.normal(size=4)
        return [x, weight, bias, *rest]

    return arguments


def row(name, reference, args):
    options = {
        "dtypes": ["float32", "float64"],
        "result": ("same",) * 3,
        "ones": False,
        "empty": False,
        "tolerance": 10,
    }
    return Row(name, reference, args=args, **options)


ROWS = [
    row(
        "native_layer_norm",
        np_layer,
        lambda rng: [rng.normal(size=(2, 4)), (4,), rng.normal(size=4), rng.normal(size=4), 0.1],
    ),
    row("native_group_norm", np_group, parts(2, 4, 3, 2, 0.1)),
    row("native_batch_norm", np_batch, parts(None, None, True, 0.1, 0.1)),
]
test_rows = generate(ROWS)


def test_batch_statistics_are_empty_where_running_ones_are_used():
    zeros, ones = dynograd.zeros(2), dynograd.ones(2)
    out, mean, rstd = dynograd.native_batch_norm(dynograd.ones(3, 2), ones, zeros, zeros, ones, False, 0.1, 0.0)
    assert (out.tolist(), mean.shape, rstd.shape) == ([[1.0, 1.0]] * 3, (0,), (0,))
