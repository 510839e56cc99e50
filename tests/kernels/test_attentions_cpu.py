"""Attention in tiles against plain NumPy in float64: masks, shared heads, dropout, layouts, blocks, and any number of threads."""

import itertools

import numpy
import pytest

from dynograd.kernels.attention.attentions_cpu import attends_in_tiles, attention_backward, attention_forward
from dynograd.kernels.build import threads
from dynograd.kernels.random.random_cpu import dropout_mask

PLACE = (5, 1000)


def plain(q, k, v, mask, causal, scale, kept, g):
    """The result and the gradients of q, k and v."""
    group = q.shape[1] // k.shape[1]
    many_k, many_v = k.repeat(group, 1), v.repeat(group, 1)
    scores = q @ many_k.swapaxes(-1, -2) * scale
    if causal:
        mask = numpy.tri(*scores.shape[-2:], dtype=bool)
    if mask is not None:
        scores = numpy.where(mask, scores, -numpy.inf) if mask.dtype == bool else scores + mask
    top = scores.max(-1, keepdims=True)
    weights = numpy.exp(scores - numpy.where(top == -numpy.inf, 0, top))
    total = weights.sum(-1, keepdims=True)
    weights = weights / numpy.where(total == 0, 1, total)
    slopes = (g @ many_v.swapaxes(-1, -2)) * kept
    slopes = weights * (slopes - (slopes * weights).sum(-1, keepdims=True)) * scale
    shared = (k.shape[0], k.shape[1], group)
    g_k, g_v = slopes.swapaxes(-1, -2) @ q, (weights * kept).swapaxes(-1, -2) @ g
    return (
        (weights * kept) @ many_v,
        slopes @ many_k,
        g_k.reshape(*shared, *k.shape[2:]).sum(2),
        g_v.reshape(*shared, *v.shape[2:]).sum(2),
    )


# batch, heads, heads of keys, queries, keys, features, features of values: blocks are 48 or 96 queries by 512 keys
SIZES = [(2, 4, 4, 128, 128, 64, 64), (1, 4, 2, 130, 130, 16, 24), (2, 2, 1, 50, 700, 20, 33), (1, 3, 3, 200, 560, 64, 64), (1, 1, 1, 1, 300, 64, 64)]  # fmt: skip
MASKS = ("none", "causal", "bool", "numbers")


@pytest.mark.parametrize(
    ("kind", "size", "masked", "p"), list(itertools.product(("float32", "float64"), SIZES, MASKS, (0.0, 0.3))), ids=str
)
def test_forward_and_backward(kind, size, masked, p):
    batch, heads, shared, rows, keys, width, values = size
    random = numpy.random.default_rng(3)
    q = random.standard_normal((batch, rows, heads, width)).astype(kind).transpose(0, 2, 1, 3)
    k = random.standard_normal((batch, shared, keys, 2 * width)).astype(kind)[..., width:]
    v = random.standard_normal((keys, batch, shared, values)).astype(kind).transpose(1, 2, 0, 3)
    g = random.standard_normal((batch, heads, rows, values)).astype(kind)
    mask = None
    if masked == "bool":
        mask = random.random((batch, 1, rows, keys)) < 0.7
        mask[0, 0, rows // 2] = False
    if masked == "numbers":
        mask = numpy.where(random.random((rows, keys)) < 0.7, random.standard_normal((rows, keys)), -numpy.inf).astype(
            kind
        )
        mask[rows // 2] = -numpy.inf
    argument = (mask, masked == "causal", width**-0.5, p, PLACE)
    kept = dropout_mask(*PLACE, (batch, heads, rows, keys), p, kind).astype("float64") if p else 1.0
    before = threads.get_num_threads()
    results = []
    try:
        for count in (1, 2):
            threads.set_num_threads(count)
            out, logarithms = attention_forward(q, k, v, *argument)
            results.append((out, *attention_backward(g, q, k, v, out, logarithms, *argument)))
    finally:
        threads.set_num_threads(before)
    wide = [tensor.astype("float64") for tensor in (q, k, v)]
    expected = plain(*wide, mask, masked == "causal", width**-0.5, kept, g.astype("float64"))
    for element, two, exact in zip(*results, expected, strict=True):
        assert element.shape == exact.shape
        assert (element == two).all()
        assert numpy.allclose(element, exact, atol=3e-4 if kind == "float32" else 1e-11, rtol=0)


def test_the_result_lies_in_memory_as_the_queries_do():
    x = numpy.ones((2, 40, 3, 16), "float32").transpose(0, 2, 1, 3)
    out, _ = attention_forward(x, x, x, None, False, 1.0, 0.0, PLACE)
    assert out.transpose(0, 2, 1, 3).flags.c_contiguous


@pytest.mark.parametrize(
    ("q", "k", "v", "kind"),
    [((4, 3, 2), (4, 3, 2), (4, 3, 2), "float32"), ((1, 90, 64), (4, 90, 64), (4, 90, 64), "float32"),
     ((2, 4, 90, 64), (1, 4, 90, 64), (1, 4, 90, 64), "float32"),
     ((2, 2, 4, 90, 64), (2, 2, 4, 90, 64), (2, 2, 4, 90, 64), "float32")],
)  # fmt: skip
def test_what_other_ops_compute(q, k, v, kind):
    assert not attends_in_tiles(*[numpy.zeros(shape, kind) for shape in (q, k, v)])
