"""`flex_attention` over ragged rows, beside the same attention of each row alone."""

import numpy
import pytest

import dynograd as dg
from dynograd.errors import ShapeError
from dynograd.nn.attention.flex_attention import (
    AuxRequest,
    create_block_mask,
    create_nested_block_mask,
    flex_attention,
)

QUERIES, KEYS = [3, 0, 1, 4, 3], [2, 3, 0, 5, 2]


def rows(lengths, size, heads=2):
    created = [dg.randn(length, heads, size, dtype=dg.float64) for length in lengths]
    return dg.ragged_tensor(created).transpose(1, 2).detach().requires_grad_()


def loop(q, k, v, change, visible):
    """(H, Tq, V), (H, Tq), (H, Tq) of one row, score by score."""
    heads, queries = q.shape[:2]
    out, lse, top = (
        numpy.zeros((heads, queries, v.shape[-1])),
        numpy.zeros((heads, queries)),
        numpy.zeros((heads, queries)),
    )
    for h, i in numpy.ndindex(heads, queries):
        own = h * len(k) // heads
        scores = [change(q[h, i] @ k[own, j] / q.shape[-1] ** 0.5, h, i, j) for j in range(k.shape[1])]
        scores = [score if visible(h, i, j) else -numpy.inf for j, score in enumerate(scores)]
        weights = numpy.exp(scores)
        with numpy.errstate(divide="ignore"):
            lse[h, i] = numpy.log(weights.sum())
        top[h, i] = max(scores, default=-numpy.inf)
        if weights.sum():
            out[h, i] = weights @ v[own] / weights.sum()
    return out, lse, top


@pytest.mark.parametrize("lengths", [(QUERIES, KEYS), ([2, 2], [3, 3]), ([4], [4]), ([3, 1, 2], [3, 1, 2])])
@pytest.mark.parametrize("heads", [2, 1])
def test_rows_are_what_they_are_alone(lengths, heads):
    q, k, v = rows(lengths[0], 4), rows(lengths[1], 4, heads), rows(lengths[1], 3, heads)
    slopes = dg.randn(len(lengths[0]), 2, dtype=dg.float64).requires_grad_()
    mask = create_nested_block_mask(lambda b, h, i, j: (i + b >= j) & (j != h + 1), len(lengths[0]), 2, q, k)
    options = {"enable_gqa": True, "return_aux": AuxRequest(True, True)}
    result, aux = flex_attention(q, k, v, lambda s, b, h, i, j: s + slopes[b, h] * (i - j), mask, **options)
    slope = slopes.detach().numpy()
    for row in range(len(lengths[0])):
        expected = loop(
            *[tensor.detach().unbind()[row].numpy() for tensor in (q, k, v)],
            lambda s, h, i, j, row=row: s + slope[row, h] * (i - j),
            lambda h, i, j, row=row: i + row >= j and j != h + 1,
        )
        for element, reference in zip((result, aux.lse, aux.max_scores), expected, strict=True):
            numpy.testing.assert_allclose(element.detach().unbind()[row].numpy(), reference, atol=1e-12)


def test_gradients():
    q, k, v = rows(QUERIES, 4), rows(KEYS, 4), rows(KEYS, 3)
    slopes = dg.randn(5, 2, dtype=dg.float64).requires_grad_()
    mask = create_nested_block_mask(lambda b, h, i, j: i >= j, None, None, q, k)

    def total(query, key, value, slopes):
        query, key, value = (x.with_packed(element) for x, element in ((q, query), (k, key), (v, value)))
        return flex_attention(query, key, value, lambda s, b, h, i, j: s * slopes[b, h], mask).values()

    packed = [tensor.packed.detach().clone().requires_grad_() for tensor in (q, k, v)]
    assert dg.autograd.gradcheck(total, (*packed, slopes))


def test_a_mask_for_all_rows_is_asked_for_row_0():
    q = rows([2, 3], 4)
    seen = set()

    def causal(b, h, i, j):
        seen.update(b.flatten().tolist())
        return i >= j

    flex_attention(q, q, q, block_mask=create_block_mask(causal, None, None, 9, 9))
    assert seen == {0}


def test_dense_operands_have_an_entry_for_each_row():
    q, k = rows([2, 3, 1], 4), dg.randn(3, 2, 5, 4, dtype=dg.float64)
    result = flex_attention(q, k, k)
    other = flex_attention(k, q, q)
    for row in range(3):
        expected, _, _ = loop(
            q.detach().unbind()[row].numpy(), k[row].numpy(), k[row].numpy(), lambda s, *_: s, lambda *_: True
        )
        numpy.testing.assert_allclose(result.detach().unbind()[row].numpy(), expected, atol=1e-12)
        element = q.detach().unbind()[row].numpy()
        expected, _, _ = loop(k[row].numpy(), element, element, lambda s, *_: s, lambda *_: True)
        numpy.testing.assert_allclose(other[row].detach().numpy(), expected, atol=1e-12)


def test_no_rows():
    q = dg.ragged_tensor([dg.zeros(2, 2, 4)]).transpose(1, 2)[:0]
    assert len(flex_attention(q, q, q)) == 0


def test_errors():
    q, k = rows([2, 3], 4), rows([2, 1], 4)
    table = [
        (lambda: flex_attention(q.transpose(1, 2), q, q), r"flex_attention: expected ragged rows \(B, H, j, E\).*transpose\(1, 2\)"),
        (lambda: create_nested_block_mask(None, 1, 1, dg.ones(2)), r"create_nested_block_mask: expected ragged rows.*\(2,\)"),
        (
            lambda: flex_attention(q, q, q, block_mask=create_block_mask(None, 1, 1, 2, 3)),
            r"block_mask is for \(2, 3\) queries and keys, but there are \(3, 3\).*Q_LEN=3, KV_LEN=3",
        ),
        (lambda: flex_attention(q, q, k), "the key.*the value"),
        (lambda: flex_attention(q, k[:1], k[:1]), "attention: query, key and value have rows of shapes"),
        (lambda: flex_attention(q, rows([2, 3], 4, 1), rows([2, 3], 4, 1)), "query has 2 heads and key 1. Pass enable_gqa=True"),
    ]  # fmt: skip
    for call, message in table:
        with pytest.raises(ShapeError, match=message):
            call()
    with pytest.raises(ValueError, match="both return_lse and return_aux"):
        flex_attention(q, q, q, return_lse=True, return_aux=AuxRequest(lse=True))


def test_pictures_of_masks():
    """PyTorch's pictures."""
    mask = create_block_mask(lambda b, h, q, k: (q >= k) & (q - k < b * 3 + 3), 2, None, 5, 7, BLOCK_SIZE=1)
    first = "(0, 0)\n██            \n████          \n██████        \n  ██████      \n    ██████    \n"
    assert mask.to_string(limit=1) == f"{first}\n...\nTo print out more, set BlockMask.to_string(limit=N)"
    assert mask.to_string(-1).startswith(f"{first}\n(1, 0)\n██  ") and "..." not in mask.to_string()
    assert mask.to_string((2, 3), 1).startswith("(0, 0)\n░░    \n░░░░  \n\n...") and "██" in mask.to_string((1, 7))
    assert create_block_mask(lambda b, h, q, k: q < 0, None, None, 3, 3).to_string() == "(0, 0)\n  \n"
