"""MultiheadAttention and the Transformer's layers against NumPy, one query at a time; masks; copies; errors."""

from __future__ import annotations

import copy
import math
import pickle

import numpy
import pytest

import dynograd as dg
from dynograd import nn
from dynograd.errors import ShapeError
from dynograd.gradcheck import gradcheck

E, HEADS, B, L, S = 6, 2, 3, 4, 5


def softmax(x):
    x = numpy.exp(x - x.max())
    return x / x.sum()


def np_attention(layer, query, key, value, allowed=None, added=0.0):
    """(L, E), (heads, L, S): one sequence, head by head and query by query; queries that see nothing find 0."""
    kept = {name: element.detach().double().numpy() for name, element in layer.named_parameters()}
    if "in_proj_weight" in kept:
        weights = numpy.split(kept["in_proj_weight"], 3)
    else:
        weights = [kept[f"{name}_proj_weight"] for name in "qkv"]
    biases = numpy.split(kept.get("in_proj_bias", numpy.zeros(3 * E)), 3)
    q, k, v = (x @ w.T + b for x, w, b in zip((query, key, value), weights, biases))
    allowed = numpy.ones((layer.num_heads, len(q), len(k)), bool) if allowed is None else allowed
    allowed, added = (
        numpy.broadcast_to(allowed, (layer.num_heads, len(q), len(k))),
        numpy.broadcast_to(added, (layer.num_heads, len(q), len(k))),
    )
    extra = ([kept["bias_k"][0]], [kept["bias_v"][0]]) if "bias_k" in kept else ([], [])
    if layer.add_zero_attn:
        extra = ([*extra[0], numpy.zeros((1, E))], [*extra[1], numpy.zeros((1, E))])
    k, v = numpy.concatenate([k, *extra[0]]), numpy.concatenate([v, *extra[1]])
    width = E // layer.num_heads
    result, all_weights = numpy.zeros((len(q), E)), numpy.zeros((layer.num_heads, len(q), len(k)))
    for head in range(layer.num_heads):
        part = slice(head * width, (head + 1) * width)
        for row in range(len(q)):
            see = numpy.concatenate([allowed[head, row], numpy.ones(len(extra[0]), bool)])
            bonus = numpy.concatenate([added[head, row], [0.0] * len(extra[0])])
            if see.any():
                scores = k[see, part] @ q[row, part] / math.sqrt(width) + bonus[see]
                all_weights[head, row, see] = softmax(scores)
            result[row, part] = all_weights[head, row] @ v[:, part]
    return result @ kept["out_proj.weight"].T + kept.get("out_proj.bias", 0.0), all_weights


def make(**options):
    dg.manual_seed(0)
    layer = nn.MultiheadAttention(E, HEADS, **options).double()
    rng = numpy.random.default_rng(0)
    for value in layer.parameters():
        value.data.copy_(dg.from_numpy(rng.normal(size=tuple(value.shape)) * 0.5))
    return layer


OPTIONS = [
    {},
    {"bias": False},
    {"kdim": 3, "vdim": 2},
    {"add_bias_kv": True},
    {"add_zero_attn": True, "batch_first": True},
    {"add_bias_kv": True, "add_zero_attn": True, "kdim": 3},
]


@pytest.mark.parametrize("weights", [True, False])
@pytest.mark.parametrize("masks", ["none", "keys", "causal", "heads", "added", "all"])
@pytest.mark.parametrize("options", OPTIONS, ids=lambda one: ",".join(one) or "plain")
def test_values(options, masks, weights):
    layer = make(**options)
    rng = numpy.random.default_rng(1)
    query = rng.normal(size=(B, L, E))
    key, value = rng.normal(size=(B, S, layer.kdim)), rng.normal(size=(B, S, layer.vdim))
    padding = numpy.arange(S) >= numpy.array([5, 3, 1])[:, None] if masks in ("keys", "all") else None
    mask = None
    if masks in ("causal", "all"):
        mask = numpy.triu(numpy.ones((L, S), bool), 1)
    elif masks == "heads":
        mask = rng.random((B * HEADS, L, S)) < 0.4
        mask[0, 0] = True
    elif masks == "added":
        mask = rng.normal(size=(L, S))
    tensors = [dg.from_numpy(element) for element in (query, key, value)]
    argument = tensors if layer.batch_first else [tensor.transpose(0, 1) for tensor in tensors]
    output, result = layer(
        *argument,
        key_padding_mask=None if padding is None else dg.from_numpy(padding),
        attn_mask=None if mask is None else dg.from_numpy(mask),
        need_weights=weights,
        average_attn_weights=False,
    )
    output = output if layer.batch_first else output.transpose(0, 1)
    assert (result is None) == (not weights)
    for row in range(B):
        allowed = numpy.ones((HEADS, L, S), bool)
        if padding is not None:
            allowed &= ~padding[row]
        if mask is not None and mask.dtype == bool:
            allowed &= ~(mask.reshape(B, HEADS, L, S)[row] if mask.ndim == 3 else mask)
        expected, wanted_weights = np_attention(
            layer, query[row], key[row], value[row], allowed, mask if mask is not None and mask.dtype != bool else 0.0
        )
        numpy.testing.assert_allclose(output[row].detach().numpy(), expected, atol=1e-10)
        if weights:
            numpy.testing.assert_allclose(result[row].detach().numpy(), wanted_weights, atol=1e-10)


@pytest.mark.parametrize(
    "mask, padding, shape, kind",
    [
        (None, None, None, None),
        (None, (2, 3), (2, 3), 1),
        ((3, 3), None, (2, HEADS, 3, 3), 2),
        ((2 * HEADS, 3, 3), None, (2, HEADS, 3, 3), 2),
        ((3, 3), (2, 3), (2, HEADS, 3, 3), 2),
        ((2 * HEADS, 3, 3), (2, 3), (2, HEADS, 3, 3), 2),
    ],
)
def test_masks_merge(mask, padding, shape, kind):
    mask, padding = (size and dg.randn(size) for size in (mask, padding))
    merged, told = nn.MultiheadAttention(E, HEADS).merge_masks(mask, padding, dg.zeros(2, 3, E))
    assert told == kind
    if shape is None:
        assert merged is None
        return
    expected = numpy.zeros(shape)
    if mask is not None:
        expected += mask.numpy().reshape(-1, HEADS if mask.ndim == 3 else 1, 3, 3)
    if padding is not None:
        expected += padding.numpy() if kind == 1 else padding.numpy()[:, None, None]
    numpy.testing.assert_allclose(merged.numpy(), expected, rtol=1e-6)


def test_masks_merge_for_batches_alone():
    with pytest.raises(ShapeError, match=r"query should be \(B, L, E\), got shape \(3, 6\)"):
        nn.MultiheadAttention(E, HEADS).merge_masks(dg.zeros(3, 3), None, dg.zeros(3, E))


def test_weights_are_averaged_over_heads_unless_told():
    layer, x = make(), dg.randn(L, B, E, dtype=dg.float64)
    apart = layer(x, x, x, average_attn_weights=False)[1]
    assert apart.shape == (B, HEADS, L, L) and dg.allclose(layer(x, x, x)[1], apart.mean(1))


def test_a_single_sequence_needs_no_batch():
    layer, x = make(batch_first=True), dg.randn(L, E, dtype=dg.float64)
    output, weights = layer(x, x, x, key_padding_mask=dg.tensor([False, False, True, True]))
    expected = layer(x[None], x[None], x[None], key_padding_mask=dg.tensor([[False, False, True, True]]))
    assert dg.allclose(output, expected[0][0]) and dg.allclose(weights, expected[1][0])


def test_a_query_that_sees_nothing_gets_the_bias_and_finite_gradients():
    layer, x = make(), dg.randn(L, 1, E, dtype=dg.float64, requires_grad=True)
    for weights in (True, False):
        output, _ = layer(x, x, x, attn_mask=dg.ones(L, L, dtype=dg.bool), need_weights=weights)
        assert dg.allclose(output, layer.out_proj.bias.expand(L, 1, E))
        output.sum().backward()
    assert bool(x.grad.isfinite().all()) and all(
        bool(parameter.grad.isfinite().all()) for parameter in layer.parameters()
    )


@pytest.mark.parametrize("weights", [True, False])
def test_the_causal_hint_changes_nothing_but_speed(weights):
    layer, x = make(), dg.randn(L, B, E, dtype=dg.float64)
    mask = nn.Transformer.generate_square_subsequent_mask(L, dtype=dg.float64)
    element = layer(x, x, x, attn_mask=mask, need_weights=weights, is_causal=True)[0]
    assert dg.allclose(element, layer(x, x, x, attn_mask=mask, need_weights=weights)[0])


@pytest.mark.parametrize("options", OPTIONS, ids=lambda one: ",".join(one) or "plain")
def test_gradients(options):
    layer = make(**options)
    argument = [dg.randn(3, 2, width, dtype=dg.float64, requires_grad=True) for width in (E, layer.kdim, layer.vdim)]
    for weights in (True, False):
        run = lambda q, k, v, *_, weights=weights: layer(q, k, v, need_weights=weights)[0]  # noqa: E731
        assert gradcheck(run, (*argument, *layer.parameters()), atol=1e-6, fast_mode=True)


def test_dropout_of_weights_in_training_only():
    layer, x = make(dropout=0.5), dg.randn(L, B, E, dtype=dg.float64)
    assert not dg.equal(layer(x, x, x)[0], layer(x, x, x)[0])
    layer.eval()
    assert dg.equal(layer(x, x, x)[0], layer(x, x, x)[0])


MASK = dg.zeros(2, 2, dtype=dg.bool)
ERRORS = [
    (lambda: nn.MultiheadAttention(6, 4), ValueError, "divisible.*embed_dim=6.*num_heads=4"),
    (lambda: nn.MultiheadAttention(0, 1), ValueError, "embed_dim must be positive, got 0"),
    (lambda: make()(dg.zeros(4, 3, 5), dg.zeros(4, 3, 5), dg.zeros(4, 3, 5)), RuntimeError, "dimension of 6, but got 5"),
    (lambda: make()(dg.zeros(4, 6), dg.zeros(4, 3, 6), dg.zeros(4, 3, 6)), RuntimeError, r"unbatched.*\(4, 6\).*\(4, 3, 6\)"),
    (lambda: make().float()(*[dg.zeros(4, 3, 6)] * 3, attn_mask=MASK), RuntimeError, r"attn_mask is \(2, 2\).*\(4, 4\) or \(6, 4, 4\)"),
    (lambda: make().float()(*[dg.zeros(4, 3, 6)] * 3, key_padding_mask=MASK), RuntimeError, r"key_padding_mask.*\(3, 4\).*\(2, 2\)"),
    (lambda: make().float()(*[dg.zeros(4, 3, 6)] * 3, attn_mask=dg.zeros(4, 4, dtype=dg.int64)), RuntimeError, "bool and floating.*int64"),
    (lambda: make().float()(*[dg.zeros(4, 3, 6)] * 3, is_causal=True), RuntimeError, "Need attn_mask.*generate_square_subsequent_mask"),
    (lambda: nn.TransformerEncoderLayer(6, 2, activation="tanh"), RuntimeError, "relu/gelu, not tanh"),
    (lambda: nn.Transformer(6, 2, 1, 1, 8)(dg.zeros(3, 2, 6), dg.zeros(3, 3, 6)), RuntimeError, "batch number of src and tgt"),
    (lambda: nn.Transformer(6, 2, 1, 1, 8)(dg.zeros(3, 2, 6), dg.zeros(3, 2, 5)), RuntimeError, r"d_model \(6\).*\(3, 2, 5\)"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_errors(number):
    call, kind, words = ERRORS[number]
    with pytest.raises(kind, match=words):
        call()


# --- Transformer -------------------------------------------------------------------------------------------------------------


def test_encoder_layer_step_by_step():
    layer = nn.TransformerEncoderLayer(E, HEADS, 8, 0.0, "gelu", batch_first=True).double()
    x = dg.randn(1, L, E, dtype=dg.float64)
    attended = x + dg.from_numpy(np_attention(layer.self_attn, *[x[0].numpy()] * 3)[0])[None]
    middle = layer.norm1(attended)
    expected = layer.norm2(middle + layer.linear2(nn.functional.gelu(layer.linear1(middle))))
    assert dg.allclose(layer(x), expected, atol=1e-10)
    layer.norm_first = True
    normed = layer.norm1(x)
    attended = x + dg.from_numpy(np_attention(layer.self_attn, *[normed[0].detach().numpy()] * 3)[0])[None]
    expected = attended + layer.linear2(nn.functional.gelu(layer.linear1(layer.norm2(attended))))
    assert dg.allclose(layer(x), expected, atol=1e-10)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
def test_decoding_does_not_look_ahead_nor_at_padding(batch_first, norm_first):
    model = nn.Transformer(E, HEADS, 2, 2, 8, batch_first=batch_first, norm_first=norm_first).double().eval()
    turn = (lambda x: x) if batch_first else (lambda x: x.transpose(0, 1))
    src, tgt = dg.randn(2, S, E, dtype=dg.float64), dg.randn(2, L, E, dtype=dg.float64)
    padding = dg.tensor([[False] * 3 + [True] * 2, [False] * 5])
    mask = model.generate_square_subsequent_mask(L)

    def run(src, tgt):
        options = {"src_key_padding_mask": padding, "memory_key_padding_mask": padding, "tgt_mask": mask.double()}
        return turn(model(turn(src), turn(tgt), **options))

    expected = run(src, tgt)
    other_src, other_tgt = src.clone(), tgt.clone()
    other_src[0, 3:] = 9.0
    other_tgt[:, 2:] = -9.0
    result = run(other_src, other_tgt)
    assert dg.allclose(result[:, :2], expected[:, :2]) and not dg.allclose(result[:, 2:], expected[:, 2:])


def test_gradients_reach_every_parameter_of_a_transformer():
    model = nn.Transformer(E, HEADS, 1, 1, 8, dropout=0.2)
    model(dg.randn(S, B, E), dg.randn(L, B, E)).square().sum().backward()
    assert all(parameter.grad is not None and bool(parameter.grad.isfinite().all()) for parameter in model.parameters())


def test_encoder_takes_any_layer_and_copies_it():
    class Plain(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(E, E)

        def forward(self, src, src_mask=None, src_key_padding_mask=None, is_causal=False):
            return self.linear(src)

    encoder = nn.TransformerEncoder(Plain(), 3, nn.LayerNorm(E))
    assert encoder(dg.zeros(L, B, E)).shape == (L, B, E)
    assert len({id(parameter) for parameter in encoder.parameters()}) == 8


@pytest.mark.parametrize(
    "build", [lambda: make(), lambda: nn.Transformer(E, HEADS, 1, 1, 8).double()], ids=["attention", "transformer"]
)
def test_copies(build):
    model = build().eval()
    x = dg.randn(L, B, E, dtype=dg.float64)
    run = (lambda m: m(x, x, x)[0]) if isinstance(model, nn.MultiheadAttention) else (lambda m: m(x, x))
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert dg.equal(run(twin), run(model)) and repr(twin) == repr(model)


def test_varlen_attn_is_attention_within_sequences():
    from dynograd.nn.attention.varlen import varlen_attn, varlen_attn_out

    q, k = dg.randn(5, 4, 8), dg.randn(7, 2, 8)
    cuts, others = dg.tensor([0, 2, 5], dtype=dg.int32), dg.tensor([0, 4, 7], dtype=dg.int32)
    y = varlen_attn(q, k, k, cuts, others, 3, 4, enable_gqa=True, window_size=(-1, 0))
    mask = dg.ones(2, 4, dtype=dg.bool).tril(2)  # the last query stands at the last key
    argument = [element.transpose(0, 1) for element in (q[:2], k[:4], k[:4])]
    alone = nn.functional.scaled_dot_product_attention(*argument, mask, enable_gqa=True)
    assert dg.allclose(y[:2], alone.transpose(0, 1), atol=1e-6)
    out = dg.empty(5, 4, 8)
    assert (
        varlen_attn_out(out, q, k, k, cuts, others, 3, 4, enable_gqa=True, window_size=(-1, 0)).tolist() == y.tolist()
    )
    with pytest.raises(ValueError, match="Hq=4 and Hkv=2.*enable_gqa=True"):
        varlen_attn(q, k, k, cuts, others, 3, 4)
    with pytest.raises(RuntimeError, match=r"\(5, 4, 8\), got \(2, 4, 8\)"):
        varlen_attn_out(out[:2], q, k, k, cuts, others, 3, 4, enable_gqa=True)
