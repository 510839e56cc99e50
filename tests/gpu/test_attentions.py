"""Attention on the GPU against NumPy in float64, gradients against the formulas."""

from __future__ import annotations

import ml_dtypes
import numpy
import pytest

from dynograd.arrays.cuda_arrays import from_numpy
from dynograd.kernels.attention import attentions_cpu, attentions_cuda
from dynograd.kernels.random import random_cpu
from tests.gpu.values import close, numbers

bfloat16 = numpy.dtype(ml_dtypes.bfloat16)


def reference(q, k, v, mask, causal, scale, dropped, g):
    """(out, logarithms, g_q, g_k, g_v) of float64 arrays with four dims."""
    group = q.shape[1] // k.shape[1]
    many_k, many_v = k.repeat(group, 1), v.repeat(group, 1)
    scores = q @ many_k.swapaxes(-1, -2) * scale
    seen = numpy.ones(scores.shape, bool)
    if causal:
        seen &= numpy.tri(*scores.shape[-2:], dtype=bool)
    if mask is not None:
        if mask.dtype.kind == "b":
            seen &= mask
        else:
            seen &= mask != -numpy.inf
            scores = scores + numpy.where(numpy.isfinite(mask), mask, 0)
    scores = numpy.where(seen, scores, -numpy.inf)
    top = scores.max(-1, keepdims=True)
    weights = numpy.exp(scores - numpy.where(numpy.isfinite(top), top, 0))
    total = weights.sum(-1, keepdims=True)
    logarithms = numpy.where(total > 0, top + numpy.log(numpy.where(total > 0, total, 1)), -numpy.inf)[..., 0]
    weights = weights / numpy.where(total > 0, total, 1)
    used = weights * dropped
    out = used @ many_v
    g_values = used.swapaxes(-1, -2) @ g
    g_weights = g @ many_v.swapaxes(-1, -2) * dropped
    g_scores = weights * (g_weights - (g_weights * weights).sum(-1, keepdims=True))
    g_q, g_keys = g_scores @ many_k * scale, g_scores.swapaxes(-1, -2) @ q * scale
    shape = (k.shape[0], k.shape[1], group)
    return out, logarithms, g_q, *[element.reshape(*shape, *element.shape[2:]).sum(2) for element in (g_keys, g_values)]


def check(
    heads,
    shared,
    rows,
    keys,
    width,
    values,
    dtype="float32",
    mask=None,
    causal=False,
    p=0.0,
    batch=2,
    layout="heads first",
):
    random = numpy.random.default_rng(7)
    order = (0, 2, 1, 3) if layout == "rows first" else (0, 1, 2, 3)

    def made(seed, *shape):
        array = numbers(seed, tuple([shape[dim] for dim in order]), dtype)
        return array.transpose(order), from_numpy(array, 0).transpose(*order)

    (q, on_q), (k, on_k) = made(0, batch, heads, rows, width), made(1, batch, shared, keys, width)
    (v, on_v), (g, on_g) = made(2, batch, shared, keys, values), made(3, batch, heads, rows, values)
    if mask == "truths":
        mask = random.random((batch, 1, rows, keys)) < 0.6
        mask[0, 0, 0] = False
    elif mask == "numbers":
        mask = random.standard_normal((rows, keys)).astype(dtype)
        mask[random.random((rows, keys)) < 0.3] = -numpy.inf
    elif mask == "lengths":
        mask = (numpy.arange(keys) < random.integers(1, keys, (batch, 1, 1, 1))).astype(bool)
    elif mask == "numbers for keys":
        mask = random.standard_normal((batch, heads, 1, keys)).astype(dtype)
    elif mask == "truths for queries":
        mask = random.random((rows, 1)) < 0.6
    elif mask == "turned":
        mask = random.standard_normal((keys, rows)).astype(dtype).T
    on_mask = None if mask is None else from_numpy(mask, 0)
    scale, place = width**-0.5, (123456789012345, 77)
    dropped = random_cpu.dropout_mask(*place, (batch, heads, rows, keys), p, "float32") if p else 1.0
    assert attentions_cuda.attends_in_tiles(on_q, on_k, on_v)
    out, logarithms = attentions_cuda.attention_forward(on_q, on_k, on_v, on_mask, causal, scale, p, place)
    results = attentions_cuda.attention_backward(
        on_g, on_q, on_k, on_v, out, logarithms, on_mask, causal, scale, p, place
    )
    wide = [tensor.astype("float64") for tensor in (q, k, v)]
    wide_mask = None if mask is None else mask if mask.dtype.kind == "b" else mask.astype("float64")
    expected = reference(*wide, wide_mask, causal, scale, dropped, g.astype("float64"))
    assert out.dtype == q.dtype
    close(out, expected[0], dtype)
    seen = numpy.isfinite(expected[1])
    numpy.testing.assert_allclose(
        logarithms.numpy()[seen], expected[1][seen], rtol=3e-2 if dtype != "float32" else 1e-4, atol=1e-2
    )
    assert (logarithms.numpy()[~seen] == -numpy.inf).all()
    for element, two, like in zip(results, expected[2:], (on_q, on_k, on_v), strict=True):
        close(element, two, dtype)
        assert numpy.argsort(element.strides).tolist() == numpy.argsort(like.strides).tolist()


ROWS = {
    "plain": dict(heads=2, shared=2, rows=40, keys=40, width=16, values=16),
    "causal": dict(heads=2, shared=2, rows=40, keys=40, width=16, values=16, causal=True),
    "causal over several tiles": dict(heads=1, shared=1, rows=150, keys=150, width=16, values=16, causal=True, batch=1),
    "more rows than keys": dict(heads=1, shared=1, rows=70, keys=33, width=16, values=16, causal=True),
    "more keys than rows": dict(heads=1, shared=1, rows=33, keys=70, width=16, values=16, causal=True),
    "several tiles": dict(heads=1, shared=1, rows=80, keys=70, width=32, values=32, batch=1),
    "heads share keys": dict(heads=4, shared=2, rows=20, keys=24, width=16, values=16, causal=True),
    "odd widths": dict(heads=1, shared=1, rows=20, keys=24, width=7, values=19),
    "one query": dict(heads=2, shared=2, rows=1, keys=24, width=16, values=16),
    "truths": dict(heads=2, shared=2, rows=20, keys=24, width=16, values=16, mask="truths"),
    "numbers": dict(heads=2, shared=2, rows=20, keys=37, width=16, values=16, mask="numbers"),
    "lengths": dict(heads=2, shared=2, rows=20, keys=24, width=16, values=16, mask="lengths"),
    "lengths, several tiles": dict(heads=1, shared=1, rows=80, keys=144, width=16, values=16, mask="lengths"),
    "truths, several tiles": dict(
        heads=1, shared=1, rows=140, keys=144, width=16, values=16, mask="truths", causal=True
    ),
    "numbers, several tiles": dict(heads=2, shared=1, rows=40, keys=75, width=16, values=16, mask="numbers", batch=1),
    "numbers for keys": dict(heads=2, shared=1, rows=20, keys=37, width=16, values=16, mask="numbers for keys"),
    "truths for queries": dict(heads=1, shared=1, rows=20, keys=24, width=16, values=16, mask="truths for queries"),
    "turned mask": dict(heads=1, shared=1, rows=20, keys=24, width=16, values=16, mask="turned"),
    "dropout": dict(heads=2, shared=2, rows=20, keys=24, width=16, values=16, p=0.3),
    "dropout, odd keys": dict(heads=2, shared=1, rows=20, keys=37, width=16, values=16, p=0.3, causal=True),
    "everything dropped": dict(heads=1, shared=1, rows=20, keys=24, width=16, values=16, p=1.0),
    "rows first": dict(heads=2, shared=2, rows=20, keys=24, width=16, values=16, layout="rows first"),
    "width 64": dict(heads=1, shared=1, rows=40, keys=40, width=64, values=64, causal=True),
    "width 128": dict(heads=1, shared=1, rows=40, keys=40, width=128, values=128, batch=1),
    "width 256": dict(heads=1, shared=1, rows=20, keys=20, width=256, values=256, batch=1),
}


@pytest.mark.parametrize("name", ROWS)
def test_attention(name):
    check(**ROWS[name])


@pytest.mark.parametrize("dtype", ["float16", bfloat16], ids=str)
@pytest.mark.parametrize("name", ["causal", "heads share keys", "numbers", "dropout", "width 64"])
def test_attention_of_half_types(name, dtype):
    check(**ROWS[name], dtype=dtype)


def test_two_and_three_dims():
    q, k, v, g = (numbers(seed, (2, 10, 8)) for seed in range(4))
    wide = [tensor.astype("float64")[None] for tensor in (q, k, v)]
    expected = reference(*wide, None, False, 0.3, 1.0, g.astype("float64")[None])
    for cut, shape in ((slice(None), (2, 10, 8)), (0, (10, 8))):
        arrays = [from_numpy(tensor[cut], 0) for tensor in (q, k, v, g)]
        out, logarithms = attentions_cuda.attention_forward(*arrays[:3], None, False, 0.3, 0.0, (0, 0))
        assert out.shape == shape
        close(out, expected[0][0][cut], "float32")
        results = attentions_cuda.attention_backward(
            arrays[3], *arrays[:3], out, logarithms, None, False, 0.3, 0.0, (0, 0)
        )
        for element, two in zip(results, expected[2:], strict=True):
            close(element, two[0][cut], "float32")


def test_heads_that_do_not_fit_are_left_to_other_ops():
    def array(*shape, dtype="float32"):
        return from_numpy(numpy.zeros(shape, dtype), 0)

    fits = attentions_cuda.attends_in_tiles
    assert fits(array(2, 2, 5, 16), array(2, 1, 6, 16), array(2, 1, 6, 8))
    assert not fits(array(2, 2, 5, 257), array(2, 2, 6, 257), array(2, 2, 6, 8))
    assert not fits(array(2, 2, 5, 16), array(1, 2, 6, 16), array(1, 2, 6, 8))
    assert not fits(array(2, 3, 5, 16), array(2, 2, 6, 16), array(2, 2, 6, 8))
    assert not fits(array(2, 2, 0, 16), array(2, 2, 6, 16), array(2, 2, 6, 8))
    assert not fits(*[array(2, 5, 16, dtype="float64")] * 3)


@pytest.mark.parametrize(
    ("heads", "shared", "window", "mask", "p", "dtype"),
    [
        (2, 2, (-1, -1), None, 0.0, "float32"),
        (4, 2, (-1, 0), None, 0.0, "float32"),
        (2, 1, (-1, 0), "numbers", 0.4, "float32"),
        (2, 2, (-1, -1), "truths", 0.0, "bfloat16"),
    ],
)
def test_sequences_behind_one_another(heads, shared, window, mask, p, dtype):
    """The CPU's result: sequences of one token, without queries and without keys among them."""
    random = numpy.random.default_rng(5)
    lengths, others = [5, 0, 40, 1], [9, 3, 70, 0]
    kind = bfloat16 if dtype == "bfloat16" else numpy.dtype(dtype)
    shapes = (sum(lengths), heads, 16), (sum(others), shared, 16), (sum(others), shared, 8), (sum(lengths), heads, 8)
    q, k, v, g = (random.standard_normal(shape).astype(kind) for shape in shapes)
    offsets = [numpy.concatenate([[0], numpy.cumsum(each)]) for each in (lengths, others)]
    hidden = None
    if mask is not None:
        hidden = (
            random.random(sum(others)) < 0.7 if mask == "truths" else random.standard_normal(sum(others)).astype(kind)
        )
    options = (window, False, 0.3, p, (3, 8), (40, 70))
    wide = [tensor.astype(numpy.float64) for tensor in (q, k, v, g)]
    seen = hidden.astype(numpy.float64) if mask == "numbers" else hidden
    out, sums = attentions_cpu.ragged_attention_forward(*wide[:3], *offsets, seen, *options)
    expected = out, *attentions_cpu.ragged_attention_backward(wide[3], *wide[:3], out, sums, *offsets, seen, *options)
    on = [from_numpy(each, 0) for each in (q, k, v, g, *offsets)]
    places = (*on[4:], None if hidden is None else from_numpy(hidden, 0), *options)
    created, logarithms = attentions_cuda.ragged_attention_forward(*on[:3], *places)
    results = created, *attentions_cuda.ragged_attention_backward(on[3], *on[:3], created, logarithms, *places)
    tolerance = 0.05 if dtype == "bfloat16" else 2e-5
    for element, two in zip(results, expected, strict=True):
        assert element.dtype == kind
        assert abs(element.numpy().astype(numpy.float64) - two).max() <= tolerance * max(1.0, abs(two).max())
