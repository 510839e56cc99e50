"""`varlen_attn` over caches of keys: tokens in use, pages, and the logarithms that come with the result."""

import numpy
import pytest

import dynograd as dg
from dynograd import nn
from dynograd.nn.attention.varlen import AuxRequest, varlen_attn, varlen_attn_out

CUTS = dg.tensor([0, 2, 3, 3, 6], dtype=dg.int32)
USED = [5, 0, 3, 7]
ROOM = 8


def dense(q, k, v, scale=None):
    """One sequence, the last query at the last key, a window of 4 to the left."""
    heads = [tensor.transpose(0, 1) for tensor in (q, k, v)]
    away = dg.arange(len(k)) - dg.arange(len(q))[:, None] - (len(k) - len(q))
    seen = (away <= 0) & (away >= -4)
    return nn.functional.scaled_dot_product_attention(*heads, seen, scale=scale, enable_gqa=True).transpose(0, 1)


def case():
    q = dg.randn(6, 4, 8, dtype=dg.float64, requires_grad=True)
    k, v = (dg.randn(4 * ROOM, 2, 8, dtype=dg.float64, requires_grad=True) for _ in range(2))
    return q, k, v


def each(q, k, v):
    """What every sequence alone gives, of caches (4, ROOM, heads, features)."""
    cuts = CUTS.tolist()
    return dg.cat(
        [dense(q[cuts[row] : cuts[row + 1]], k[row, :used], v[row, :used], 0.3) for row, used in enumerate(USED)]
    )


def same(result, expected, inputs):
    for element, two in (
        (result, expected),
        *zip(*[dg.autograd.grad((y**2).sum(), inputs) for y in (result, expected)]),
    ):
        assert numpy.allclose(element.detach(), two.detach())


OPTIONS = {"window_size": (4, 0), "enable_gqa": True, "scale": 0.3}


@pytest.mark.parametrize("kind", [dg.int32, dg.int64])
def test_tokens_in_use(kind):
    q, k, v = case()
    starts = dg.arange(5, dtype=kind) * ROOM
    result = varlen_attn(q, k, v, CUTS, starts, 3, ROOM, seqused_k=dg.tensor(USED, dtype=kind), **OPTIONS)
    same(result, each(q, *[tensor.reshape(4, ROOM, 2, 8) for tensor in (k, v)]), (q, k, v))
    whole = varlen_attn(q, k, v, CUTS, starts, 3, ROOM, seqused_k=dg.full((4,), ROOM), **OPTIONS)
    assert dg.equal(whole, varlen_attn(q, k, v, CUTS, starts, 3, ROOM, **OPTIONS))


@pytest.mark.parametrize("size", [1, 2, 4])
def test_pages_in_any_order(size):
    q, k, v = case()
    pages = ROOM // size
    order = numpy.random.default_rng(0).permutation(4 * pages)
    table = dg.tensor(order.reshape(4, pages).astype(numpy.int32))
    at = numpy.argsort(order)
    pools = [tensor.reshape(4 * pages, size, 2, 8)[dg.tensor(at)] for tensor in (k, v)]
    table[1] = -1  # nothing of sequence 1 is in use
    used = dg.tensor(USED)
    result = varlen_attn(q, *pools, CUTS, None, 3, ROOM, seqused_k=used, block_table=table, **OPTIONS)
    same(result, each(q, *[tensor.reshape(4, ROOM, 2, 8) for tensor in (k, v)]), (q, k, v))


def test_logarithms():
    q, k, v = case()
    starts = dg.arange(5) * ROOM
    y, logarithms = varlen_attn(q, k, v, CUTS, starts, 3, 8, return_aux=AuxRequest(lse=True), enable_gqa=True)
    assert logarithms.shape == (4, 6)
    scores = dg.einsum("qhe,khe->hqk", q[3:], k[24:].repeat_interleave(2, 1)) / 8**0.5
    assert numpy.allclose(logarithms[:, 3:].detach(), scores.logsumexp(-1).detach())
    out = dg.empty(6, 4, 8, dtype=dg.float64)
    with dg.no_grad():
        again = varlen_attn_out(out, q, k, v, CUTS, starts, 3, 8, return_aux=AuxRequest(lse=True), enable_gqa=True)
    assert again[0] is out and dg.equal(out, y) and dg.equal(again[1], logarithms)
    assert dg.equal(varlen_attn(q, k, v, CUTS, starts, 3, 8, return_aux=AuxRequest(), enable_gqa=True), y)


def refused(kind, *words, **changed):
    return kind, words, changed


ERRORS = [
    refused(IndexError, "seqused_k[3] = 9", "room for 8", seqused_k=dg.tensor([5, 0, 3, 9])),
    refused(IndexError, "seqused_k[1] = -2", seqused_k=dg.tensor([5, -2, 3, 1])),
    refused(RuntimeError, "seqused_k (4,)", "(3,)", seqused_k=dg.tensor([5, 2, 3])),
    refused(TypeError, "seqused_k", "float32", seqused_k=dg.ones(4)),
    refused(TypeError, "seqused_k", "list", seqused_k=USED),
    refused(ValueError, "block_table needs seqused_k", block_table=dg.zeros(4, 2).long()),
    refused(RuntimeError, "(pages, tokens of a page", "(32, 2, 8)", block_table=dg.zeros(4, 2).long(), seqused_k=dg.tensor(USED)),
]  # fmt: skip
PAGES = [
    refused(IndexError, "block_table[3, 1] = 8", "8 pages", "7 tokens", block_table=dg.tensor([[0, 1]] * 3 + [[0, 8]])),
    refused(IndexError, "seqused_k[0] = 5", "1 pages of 4 hold 4", block_table=dg.zeros(4, 1).long()),
    refused(RuntimeError, "(sequences, pages of each)", "(4,)", block_table=dg.zeros(4).long()),
]


@pytest.mark.parametrize("error", [*ERRORS, *PAGES], ids=range(len(ERRORS) + len(PAGES)))
def test_errors_say_what_is_wrong(error):
    kind, words, changed = error
    q, k, v = case()
    if error in PAGES:
        k, v = (tensor.reshape(8, 4, 2, 8) for tensor in (k, v))
        changed = {"seqused_k": dg.tensor(USED), **changed}
    with pytest.raises(kind) as caught:
        varlen_attn(q, k, v, CUTS, dg.arange(5) * ROOM, 3, ROOM, **OPTIONS, **changed)
    for word in words:
        assert word in str(caught.value)
