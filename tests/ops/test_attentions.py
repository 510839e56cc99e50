"""Scaled dot product attention."""

import math

import numpy
import pytest

import dynograd
from dynograd.nn import functional as F
from tests.ops.harness import Row, error, generate

inf = float("inf")


def np_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    if enable_gqa:
        key, value = (element.repeat(query.shape[-3] // element.shape[-3], -3) for element in (key, value))
    scores = query @ key.swapaxes(-1, -2) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if is_causal:
        attn_mask = numpy.tril(numpy.ones(scores.shape[-2:], bool))
    if attn_mask is not None and attn_mask.dtype.kind == "b":
        scores = numpy.where(attn_mask, scores, -inf)
    elif attn_mask is not None:
        scores = scores + attn_mask
    top = scores.max(-1, keepdims=True)
    weights = numpy.exp(scores - numpy.where(top == -inf, 0, top))
    total = weights.sum(-1, keepdims=True)
    return weights / numpy.where(total == 0, 1, total) @ value


def drawn(*shapes):
    return lambda rng: [rng.normal(size=shape) for shape in shapes]


PLAIN = [(2, 3, 4), (2, 5, 4), (2, 5, 2)]
MASK = numpy.array([[1, 0, 1, 1, 0], [0, 0, 0, 0, 0], [1, 1, 0, 1, 1]], bool)
q = k = v = dynograd.zeros(2, 3, 4)

ROWS = [
    Row(
        "nn.functional.scaled_dot_product_attention",
        np_attention,
        args=drawn(*PLAIN),
        tolerance=3,
        errors=[
            error(lambda op: op(q, dynograd.zeros(2, 3, 5), v), RuntimeError, "one width", "4 and 5", "key (2, 3, 5)"),
            error(lambda op: op(q, k, dynograd.zeros(2, 2, 4)), RuntimeError, "as many values as keys", "2 and 3"),
            error(lambda op: op(q, k.double(), v), RuntimeError, "same dtype", "float32, float64, float32"),
            error(lambda op: op(q[0, 0], k, v), RuntimeError, "at least 2 dimensional", "query (4,)"),
            error(lambda op: op(q, k, v, dynograd.ones(3, 3) > 0, 0.0, True), RuntimeError, "attn_mask", "is_causal=True"),
            error(lambda op: op(q, k, v, dynograd.ones(3, 3).long()), RuntimeError, "attn_mask", "bool or float", "int64", "float32"),
            error(lambda op: op(q, k, v, dynograd.ones(3, 3).half()), RuntimeError, "attn_mask", "bool or float", "float16", "float32"),
            error(lambda op: op(q, k, v, dynograd.ones(4, 4)), RuntimeError, "(2, 3, 3)", "(4, 4)"),
            error(lambda op: op(dynograd.zeros(4, 3, 2), dynograd.zeros(3, 3, 2), dynograd.zeros(3, 3, 2), enable_gqa=True),
                  RuntimeError, "heads", "3 and 4"),
        ],
    ),
    Row("nn.functional.scaled_dot_product_attention", np_attention, args=drawn(*PLAIN), kwargs={"is_causal": True}, id="causal", tolerance=3),
    Row("nn.functional.scaled_dot_product_attention", np_attention, args=drawn(*PLAIN), kwargs={"scale": 0.3}, id="scale", tolerance=3),
    Row("nn.functional.scaled_dot_product_attention", np_attention, args=lambda rng: [*drawn(*PLAIN)(rng), MASK], id="mask", tolerance=3),
    Row(
        "nn.functional.scaled_dot_product_attention",
        np_attention,
        args=lambda rng: [*drawn(*PLAIN)(rng), rng.normal(size=(3, 5))],
        id="numbers",
        tolerance=3,
    ),
    Row(
        "nn.functional.scaled_dot_product_attention",
        np_attention,
        args=lambda rng: [*drawn(*PLAIN)(rng), numpy.where(MASK, rng.normal(size=(3, 5)), -inf)],
        grad=[True, True, True, False],
        id="minus-infinity",
        tolerance=3,
    ),
    Row(
        "nn.functional.scaled_dot_product_attention",
        np_attention,
        args=drawn((2, 4, 3, 2), (2, 2, 5, 2), (2, 2, 5, 3)),
        kwargs={"enable_gqa": True},
        id="shared-heads",
        tolerance=3,
    ),
    Row("nn.functional.scaled_dot_product_attention", np_attention, args=drawn((3, 4), (5, 4), (5, 2)), id="matrices", tolerance=3),
]  # fmt: skip
test_rows = generate(ROWS)


def test_a_query_that_sees_nothing_gives_zero_and_finite_gradients():
    q = dynograd.randn(2, 3, requires_grad=True)
    k = dynograd.randn(4, 3, requires_grad=True)
    mask = dynograd.tensor([[True, False, True, True], [False, False, False, False]])
    y = F.scaled_dot_product_attention(q, k, k, mask)
    y.sum().backward()
    assert y[1].tolist() == [0.0] * 3
    assert numpy.isfinite(q.grad.numpy()).all()
    assert numpy.isfinite(k.grad.numpy()).all()


def test_what_is_masked_does_not_count_even_when_it_is_infinite():
    q, v = dynograd.ones(1, 2), dynograd.tensor([[1.0], [2.0]])
    k = dynograd.tensor([[0.0, 0.0], [inf, 0.0]])
    y = F.scaled_dot_product_attention(q, k, v, dynograd.tensor([[True, False]]))
    assert y.tolist() == [[1.0]]


@pytest.mark.parametrize("size", [3, 70])
@pytest.mark.parametrize("mask", ["none", "bool", "own", "float32", "lowest"])
@pytest.mark.parametrize("dtype", [dynograd.float16, dynograd.bfloat16, dynograd.float64])
def test_scores_of_halves_and_their_masks_are_float32(dtype, mask, size):
    query, key, value = (dynograd.randn(2, size, 8).to(dtype).requires_grad_() for _ in range(3))
    numbers = 30 * dynograd.randn(size, size)
    masks = {
        "none": None,
        "bool": numbers > -20,
        "own": numbers.to(dtype),
        "float32": numbers,
        "lowest": numbers.masked_fill(numbers > 0, dynograd.finfo(dynograd.float32).min),
    }
    result = F.scaled_dot_product_attention(query, key, value, masks[mask])
    expected = np_attention(
        *[operand.detach().double().numpy() for operand in (query, key, value)],
        None if mask == "none" else masks["bool"].numpy() if mask == "bool" else masks[mask].double().numpy(),
    )
    tolerance = {dynograd.float16: 2e-3, dynograd.bfloat16: 1.6e-2, dynograd.float64: 1e-12}[dtype]
    assert result.dtype is dtype
    numpy.testing.assert_allclose(result.detach().double().numpy(), expected, rtol=tolerance, atol=tolerance)
    result.sum().backward()
    assert all(operand.grad.dtype is dtype for operand in (query, key, value))


def test_a_float32_mask_of_halves_has_its_own_gradient():
    x, mask = dynograd.randn(3, 4).half(), dynograd.zeros(3, 3, requires_grad=True)
    F.scaled_dot_product_attention(x, x, x, mask).float().square().sum().backward()
    assert mask.grad.dtype is dynograd.float32 and mask.grad.abs().sum() > 0


def test_all_dropped_is_zero():
    q = dynograd.randn(2, 3)
    assert F.scaled_dot_product_attention(q, q, q, dropout_p=1.0).abs().sum().item() == 0.0


def test_causal_rows_do_not_see_what_comes_later():
    q = dynograd.randn(4, 3)
    k, other = dynograd.randn(4, 3), dynograd.randn(4, 3)
    other[:2] = k[:2]
    element = F.scaled_dot_product_attention(q, k, k, is_causal=True)
    two = F.scaled_dot_product_attention(q, other, other, is_causal=True)
    assert element[:2].tolist() == pytest.approx(two[:2].numpy())


@pytest.mark.parametrize("p", [0.0, 0.4])
@pytest.mark.parametrize("masked", ["none", "causal", "bool", "numbers"])
def test_tiles_and_other_ops_agree_in_first_and_second_order(masked, p):
    from dynograd.ops.attention.attentions import attended, attended_decomposition

    mask = None
    if masked == "bool":
        mask = dynograd.rand(40, 50, dtype=dynograd.float64) < 0.7
    elif masked == "numbers":
        mask = dynograd.randn(40, 50, dtype=dynograd.float64)
    argument = (mask, masked == "causal", 0.3, p, (3, 8))
    results = []
    start = [dynograd.randn(2, heads, rows, 6, dtype=dynograd.float64) for heads, rows in ((4, 40), (2, 50), (2, 50))]
    for function in (attended, attended_decomposition):
        inputs = [each.clone().requires_grad_() for each in start]
        y = function(*inputs, *argument)
        plain = dynograd.autograd.grad((y**2).sum(), inputs, retain_graph=True)
        grads = dynograd.autograd.grad((y**2).sum(), inputs, create_graph=True)
        second = dynograd.autograd.grad(sum((grad**2).sum() for grad in grads), inputs)
        results.append([y, *plain, *grads, *second])
    for element, two in zip(*results, strict=True):
        assert numpy.allclose(element.detach().numpy(), two.detach().numpy(), atol=1e-9)


def test_a_mask_that_wants_a_gradient_gets_one():
    q = dynograd.randn(2, 90, 32)
    mask = dynograd.zeros(90, 90, requires_grad=True)
    F.scaled_dot_product_attention(q, q, q, mask).pow(2).sum().backward()
    assert mask.grad.abs().sum().item() > 0


@pytest.mark.parametrize("heads", [1, 3])
def test_gradients_of_few_heads_do_not_depend_on_the_number_of_threads(heads):
    argument = [dynograd.randn(1, heads, 200, 16, requires_grad=True) for _ in range(3)]
    before = dynograd.get_num_threads()
    results = []
    for count in (1, 2, 4):
        dynograd.set_num_threads(count)
        try:
            y = F.scaled_dot_product_attention(*argument, is_causal=True)
            results.append([y, *dynograd.autograd.grad(y.sum(), argument)])
        finally:
            dynograd.set_num_threads(before)
    for element, *others in zip(*results):
        assert all(element.tolist() == other.tolist() for other in others)
