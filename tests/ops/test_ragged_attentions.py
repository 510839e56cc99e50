"""Attention within sequences of different lengths behind one another."""

from itertools import pairwise

import numpy
import pytest

import dynograd
from dynograd.nn import functional as F
from tests.ops.harness import Row, error, generate
from tests.ops.test_attentions import np_attention

WHO = "nn.functional.varlen_attention"
LENGTHS, OTHERS = [3, 0, 4, 1], [2, 3, 5, 0]


def offsets(lengths):
    return numpy.concatenate([[0], numpy.cumsum(lengths)]).astype(numpy.int64)


def np_varlen(
    query,
    key,
    value,
    offsets_q,
    offsets_k=None,
    key_mask=None,
    is_causal=False,
    scale=None,
    window=None,
    ends=False,
    **rest,
):
    """Sequence by sequence: dense attention with a mask of what the window lets through."""
    offsets_k = offsets_q if offsets_k is None else offsets_k
    left, right = window or (-1, 0 if is_causal else -1)
    created = numpy.zeros((*query.shape[:2], value.shape[2]))
    for q0, q1, k0, k1 in zip(offsets_q, offsets_q[1:], offsets_k, offsets_k[1:]):
        if q0 == q1 or k0 == k1:
            continue
        q, k, v = (element.swapaxes(0, 1) for element in (query[q0:q1], key[k0:k1], value[k0:k1]))
        away = numpy.arange(k1 - k0) - numpy.arange(q1 - q0)[:, None] - (k1 - k0 - q1 + q0 if ends else 0)
        mask = numpy.where(
            (away <= right if right >= 0 else True) & (away >= -left if left >= 0 else away == away), 0.0, -numpy.inf
        )
        if key_mask is not None:
            own = key_mask[k0:k1]
            mask = mask + (numpy.where(own, 0.0, -numpy.inf) if own.dtype == bool else own)
        created[q0:q1] = np_attention(q, k, v, mask, scale=scale, **rest).swapaxes(0, 1)
    return created


def np_both(query, key, value, offsets_q, offsets_k, key_mask=None, enable_gqa=False, return_lse=True, **rest):
    """And (H, Tq) the logarithm of the sum of the exponentials of the scores."""
    created = np_varlen(query, key, value, offsets_q, offsets_k, key_mask, enable_gqa=enable_gqa, **rest)
    scale = rest.get("scale") or 1 / numpy.sqrt(query.shape[2])
    groups = query.shape[1] // key.shape[1]
    left, right = rest.get("window") or (-1, 0 if rest.get("is_causal") else -1)
    sums = numpy.zeros((query.shape[1], query.shape[0]))
    for q0, q1, k0, k1 in zip(offsets_q, offsets_q[1:], offsets_k, offsets_k[1:]):
        scores = numpy.einsum("qhe,khe->hqk", query[q0:q1], numpy.repeat(key[k0:k1], groups, 1)) * scale
        away = numpy.arange(k1 - k0) - numpy.arange(q1 - q0)[:, None] - (k1 - k0 - q1 + q0 if rest.get("ends") else 0)
        seen = ((away <= right) | (right < 0)) & ((away >= -left) | (left < 0))
        if key_mask is not None and key_mask.dtype == bool:
            seen = seen & key_mask[k0:k1]
        elif key_mask is not None:
            scores = scores + key_mask[k0:k1]
        sums[:, q0:q1] = (numpy.exp(scores) * seen).sum(2)
    with numpy.errstate(divide="ignore"):
        return created, numpy.log(sums)


def drawn(heads=2, groups=2, mask=None, lengths=LENGTHS, others=OTHERS):
    def draw(rng):
        shapes = (sum(lengths), heads, 4), (sum(others), groups, 4), (sum(others), groups, 3)
        created = [*[rng.normal(size=shape) for shape in shapes], offsets(lengths), offsets(others)]
        if mask == "bool":
            created.append(rng.random(sum(others)) < 0.6)
            created[-1][offsets(others)[:-1][numpy.array(others) > 0]] = (
                True  # a logarithm of nothing has no gradient by differences
            )
        elif mask == "numbers":
            created.append(rng.normal(size=sum(others)))
        return created

    return draw


q = k = v = dynograd.zeros(5, 2, 4)
cut = dynograd.tensor([0, 2, 5])


def refused(given, kind, *words):
    return error(lambda op: op(q, k, v, dynograd.tensor(given)), kind, "varlen_attention", *words)


ERRORS = [
    refused([0, 3, 2, 5], IndexError, "offsets_q", "row 1", "from 3 to 2"),
    refused([0, 2, 9], IndexError, "row 1", "from 2 to 9", "5 tokens"),
    refused([0, 2, 4], IndexError, "end with 4", "5 tokens", "last 1"),
    refused([1, 5], IndexError, "begin with 0", "got 1"),
    refused([0, -2, 5], IndexError, "row 0", "from 0 to -2"),
    refused([[0, 5]], RuntimeError, "(B + 1,)", "(1, 2)"),
    refused([0.0, 5.0], TypeError, "integer", "float32"),
    error(lambda op: op(q, k, v, [0, 5]), TypeError, "offsets_q", "Tensor", "list"),
    error(
        lambda op: op(q, k, v, cut, dynograd.tensor([0, 5])),
        RuntimeError,
        "as many sequences",
        "1 (offsets_k)",
        "2 (offsets_q)",
    ),
    error(lambda op: op(q[:, 0], k, v, cut), RuntimeError, "3 dims", "query (5, 4)"),
    error(lambda op: op(q, k[..., :3], v, cut), RuntimeError, "one width", "4 and 3"),
    error(lambda op: op(q, k, v[:4], cut), RuntimeError, "same tokens", "(5, 2)", "(4, 2)"),
    error(lambda op: op(q, k[:, :1], v[:, :1], cut), RuntimeError, "enable_gqa=True", "Hq=2", "Hkv=1"),
    error(
        lambda op: op(dynograd.zeros(5, 3, 4), k, v, cut, enable_gqa=True), RuntimeError, "multiple", "Hq=3", "Hkv=2"
    ),
    error(lambda op: op(q, k.double(), v, cut), RuntimeError, "same dtype", "float64"),
    error(lambda op: op(q, k, v, cut, None, dynograd.ones(4)), RuntimeError, "key_mask", "(5,)", "(4,)"),
    error(lambda op: op(q, k, v, cut, None, dynograd.ones(5).long()), RuntimeError, "key_mask", "bool", "int64"),
    error(lambda op: op(q, k, v, cut, return_lse=True, dropout_p=0.5), ValueError, "return_lse", "0.5"),
    error(lambda op: op(q, k, v, cut, is_causal=True, window=(1, 1)), ValueError, "is_causal=True", "(1, 1)"),
]

ROWS = [
    Row(WHO, np_varlen, args=drawn(), tolerance=3, errors=ERRORS),
    Row(WHO, np_varlen, args=drawn(), kwargs={"is_causal": True}, id="causal", tolerance=3),
    Row(
        WHO,
        np_varlen,
        args=drawn(4, 2),
        kwargs={"is_causal": True, "ends": True, "enable_gqa": True},
        id="groups-ends",
        tolerance=3,
    ),
    Row(WHO, np_varlen, args=drawn(), kwargs={"window": (1, 2), "scale": 0.3}, id="window", tolerance=3),
    Row(WHO, np_varlen, args=drawn(mask="bool"), kwargs={"window": (2, 0), "ends": True}, id="key-mask", tolerance=3),
    Row(WHO, np_varlen, args=drawn(mask="numbers"), id="key-numbers", tolerance=3),
    *[
        Row(
            WHO,
            np_both,
            args=drawn(heads, 2, mask=mask, others=[2, 3, 5, 2]),
            result=("same", lambda name: name if name in ("float32", "float64") else "float32"),
            kwargs={"return_lse": True, "enable_gqa": True, **options},
            id=f"lse-{name}",
            tolerance=3,
            covers=("varlen_attention_with_logarithms",),
        )
        for name, heads, mask, options in (
            ("all", 2, None, {}),
            ("window", 4, None, {"window": (1, 1), "ends": True, "scale": 0.3}),
            ("causal-mask", 4, "bool", {"is_causal": True}),
            ("numbers", 2, "numbers", {}),
        )
    ],
    Row(
        WHO,
        np_varlen,
        args=drawn(lengths=[], others=[]),
        id="no-sequences",
        tolerance=3,
        grad=False,
        second=False,
        jvp=False,
    ),
]
test_rows = generate(ROWS)


def parts_of(x, cuts):
    return [x[start:stop] for start, stop in pairwise(cuts)]


@pytest.mark.parametrize("dtype", [dynograd.float32, dynograd.float64, dynograd.bfloat16])
@pytest.mark.parametrize("causal", [False, True])
def test_each_row_has_the_bits_of_dense_attention_of_it_alone(dtype, causal):
    lengths = [70, 3, 1, 530, 12]
    cuts = offsets(lengths).tolist()
    arguments = [dynograd.randn(sum(lengths), 2, 8).to(dtype).requires_grad_() for _ in range(3)]
    with dynograd.use_batch_invariant(True):
        y = F.varlen_attention(*arguments, dynograd.tensor(cuts), is_causal=causal)
        g = dynograd.randn_like(y)
        together = dynograd.autograd.grad(y, arguments, g)
        for row, (element, g_one) in enumerate(zip(parts_of(y, cuts), parts_of(g, cuts))):
            alone = [parts_of(x, cuts)[row].detach().requires_grad_() for x in arguments]
            dense = F.scaled_dot_product_attention(*[x.transpose(0, 1)[None] for x in alone], is_causal=causal)[
                0
            ].transpose(0, 1)
            assert dense.tolist() == element.tolist()
            grads = dynograd.autograd.grad(dense, alone, g_one)
            for whole, part in zip(together, grads):
                assert parts_of(whole, cuts)[row].tolist() == part.tolist()


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_bits_do_not_depend_on_the_number_of_threads(threads):
    lengths = [300, 2, 0, 40, 900]
    argument = [dynograd.randn(sum(lengths), 2, 16, requires_grad=True) for _ in range(3)]
    before = dynograd.get_num_threads()
    results = []
    for count in (1, threads):
        dynograd.set_num_threads(count)
        try:
            y = F.varlen_attention(*argument, dynograd.tensor(offsets(lengths)), is_causal=True)
            results.append([y, *dynograd.autograd.grad(y.sum(), argument)])
        finally:
            dynograd.set_num_threads(before)
    for element, two in zip(*results):
        assert (element == two).all()


def test_dropout_of_the_kernel_is_that_of_the_decomposition():
    from dynograd.ops.attention.ragged_attentions import attended_ragged, attended_ragged_decomposition

    lengths, others = dynograd.tensor(offsets([20, 0, 9])), dynograd.tensor(offsets([7, 2, 30]))
    arguments = [
        dynograd.randn(count, heads, 4, dtype=dynograd.float64) for count, heads in ((29, 4), (39, 2), (39, 2))
    ]
    results = []
    for function in (attended_ragged, attended_ragged_decomposition):
        inputs = [argument.clone().requires_grad_() for argument in arguments]
        y = function(*inputs, lengths, others, None, (-1, 0), True, 0.4, 0.5, (3, 8), (20, 30))
        results.append([y, *dynograd.autograd.grad((y**2).sum(), inputs)])
    for element, two in zip(*results):
        assert numpy.allclose(element.detach().numpy(), two.detach().numpy(), atol=1e-10)


def test_a_query_that_sees_no_key_has_the_logarithm_of_nothing():
    cuts, keys = dynograd.tensor([0, 2, 3]), dynograd.tensor([0, 0, 2])
    argument = [dynograd.randn(count, 2, 4, dtype=dynograd.float64, requires_grad=True) for count in (3, 2, 2)]
    y, logarithms = F.varlen_attention(*argument, cuts, keys, return_lse=True)
    assert logarithms[:, :2].tolist() == [[-numpy.inf] * 2] * 2 and logarithms[:, 2].isfinite().all()
    first = dynograd.autograd.grad(logarithms[:, 2].sum() + y.sum(), argument, create_graph=True)
    assert (first[0][:2] == 0).all() and all(element.isfinite().all() for element in first)
    second = dynograd.autograd.grad(sum(element.square().sum() for element in first), argument)
    assert all(element.isfinite().all() for element in second)


def test_results_over_parts_of_the_keys_are_joined_by_their_logarithms():
    q, k, v = (dynograd.randn(count, 2, 4, dtype=dynograd.float64) for count in (5, 12, 12))
    cuts = dynograd.tensor([0, 2, 5])
    halves = [dynograd.tensor([0, 3, 6]), dynograd.tensor([0, 3, 6])]
    first, second = [0, 1, 2, 6, 7, 8], [3, 4, 5, 9, 10, 11]
    parts = [
        F.varlen_attention(q, k[at], v[at], cuts, half, return_lse=True) for at, half in zip((first, second), halves)
    ]
    logarithms = dynograd.stack([element for _, element in parts])
    shares = logarithms.softmax(0).transpose(1, 2)[..., None]
    joined = shares[0] * parts[0][0] + shares[1] * parts[1][0]
    whole, all_ = F.varlen_attention(q, k, v, cuts, dynograd.tensor([0, 6, 12]), return_lse=True)
    assert numpy.allclose(joined, whole) and numpy.allclose(logarithms.logsumexp(0), all_)
