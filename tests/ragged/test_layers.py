"""Layers on ragged tensors: what each row alone gives, in values, gradients of the input and the weights, and second order, with its bits."""

from dataclasses import dataclass, field
from typing import Any

import numpy
import pytest

import dynograd
from dynograd import nn
from dynograd.nn import functional as F

LENGTHS = [5, 0, 3, 9, 1]
FILLED = [5, 2, 9, 1]
D = 8


@dataclass
class Row:
    """A layer, what it is called with for ragged rows and for one row alone, and which of its rows may be empty."""

    name: str
    make: Any
    call: Any = field(default=lambda layer, x: layer(x))
    alone: Any = field(default=lambda layer, x: layer(x[None])[0])
    lengths: Any = field(default_factory=lambda: LENGTHS)
    turned: bool = False  # (B, D, j)
    tolerance: float = 1e-10


def rows_of(lengths, turned=False, dtype=dynograd.float64):
    drawn = [dynograd.randn(length, D, dtype=dtype) for length in lengths]
    return [element.T if turned else element for element in drawn]


def causal(length, like):
    return nn.Transformer.generate_square_subsequent_mask(length, dtype=like.dtype)


def attention(**options):
    return lambda: nn.MultiheadAttention(D, 2, batch_first=True, **options)


def own(**options):
    return lambda layer, x: layer(x, x, x, need_weights=False, **options)[0]


def own_alone(hide=False):
    def call(layer, x):
        mask = causal(len(x), x) if hide else None
        return layer(x[None], x[None], x[None], need_weights=False, attn_mask=mask, is_causal=hide)[0][0]

    return call


def encoder(**options):
    return lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(D, 2, 16, 0.0, batch_first=True, **options), 2)


def decoder():
    return nn.TransformerDecoder(nn.TransformerDecoderLayer(D, 2, 16, 0.0, batch_first=True), 2)


def states(layer, x):
    """All that a recurrent layer gives, as one tensor per row."""
    y, h = layer(x)
    return y, torch_states(h)


def torch_states(h):
    return dynograd.cat(list(h), -1) if isinstance(h, tuple) else h


ROWS = [
    Row("linear", lambda: nn.Linear(D, 3)),
    Row("layer_norm", lambda: nn.LayerNorm(D)),
    Row("rms_norm", lambda: nn.RMSNorm(D)),
    Row("group_norm", lambda: nn.GroupNorm(2, D), lengths=FILLED, turned=True),
    Row("batch_norm.eval", lambda: nn.BatchNorm1d(D).eval(), turned=True),
    Row("dropout.eval", lambda: nn.Dropout(0.5).eval()),
    Row("lstm", lambda: nn.LSTM(D, 6, 2, bidirectional=True, batch_first=True), lambda f, x: f(x)[0], lambda f, x: f(x[None])[0][0]),
    Row("gru", lambda: nn.GRU(D, 6, bidirectional=True, batch_first=True), lambda f, x: f(x)[0], lambda f, x: f(x[None])[0][0]),
    Row("rnn", lambda: nn.RNN(D, 6, 2, "relu", batch_first=True), lambda f, x: f(x)[0], lambda f, x: f(x[None])[0][0]),
    Row("lstm.projected", lambda: nn.LSTM(D, 6, proj_size=3, batch_first=True), lambda f, x: f(x)[0], lambda f, x: f(x[None])[0][0]),
    Row("attention", attention(), own(), own_alone()),
    Row("attention.causal", attention(bias=False), own(is_causal=True), own_alone(True)),
    Row("attention.weights", attention(), lambda f, x: f(x, x, x)[0], lambda f, x: f(x[None], x[None], x[None])[0][0]),
    Row(
        "attention.added_keys",
        attention(add_bias_kv=True, add_zero_attn=True),
        lambda f, x: f(x, x, x, need_weights=False)[0],
        lambda f, x: f(x[None], x[None], x[None], need_weights=False)[0][0],
    ),
    Row("encoder", encoder(), lambda f, x: f(x)),
    Row("encoder.norm_first", encoder(norm_first=True, activation="gelu"), lambda f, x: f(x)),
    Row(
        "encoder.causal",
        encoder(),
        lambda f, x: f(x, mask=causal(9, x.packed)),
        lambda f, x: f(x[None], mask=causal(len(x), x))[0],
    ),
    Row(
        "decoder",
        decoder,
        lambda f, x: f(x, x * 0.5, tgt_is_causal=True),
        lambda f, x: f(x[None], x[None] * 0.5, tgt_mask=causal(len(x), x))[0],
    ),
    Row("transformer", lambda: nn.Transformer(D, 2, 1, 1, 16, 0.0, batch_first=True), lambda f, x: f(x, x * 2), lambda f, x: f(x[None], x[None] * 2)[0]),
    *[
        Row(f"conv1d.{number}", lambda options=options: nn.Conv1d(D, 4, **options), lengths=FILLED, turned=True)
        for number, options in enumerate(
            (
                dict(kernel_size=3, padding=1),
                dict(kernel_size=3, padding=2, stride=2),
                dict(kernel_size=2, padding=3, dilation=2, groups=2, bias=False),
                dict(kernel_size=4, padding="same"),
                dict(kernel_size=1, padding="valid"),
                dict(kernel_size=3, padding=1, stride=3),
                dict(kernel_size=3, padding=1, padding_mode="replicate"),
            )
        )
    ],
    Row("conv1d.depthwise", lambda: nn.Conv1d(D, D, 3, padding=1, groups=D), turned=True, lengths=FILLED),
    Row("max_pool1d", lambda: nn.MaxPool1d(3, 2, 1), lengths=FILLED, turned=True),
    Row("max_pool1d.dilated", lambda: nn.MaxPool1d(2, 1, 1, 2), lengths=[5, 3, 9], turned=True),
    Row("avg_pool1d", lambda: nn.AvgPool1d(3, 2, 1), lengths=FILLED, turned=True),
    Row("avg_pool1d.real", lambda: nn.AvgPool1d(3, 2, 1, count_include_pad=False), lengths=FILLED, turned=True),
    Row("adaptive_avg_pool1d", lambda: nn.AdaptiveAvgPool1d(1), lengths=FILLED, turned=True),
    Row("adaptive_max_pool1d", lambda: nn.AdaptiveMaxPool1d(1), lengths=FILLED, turned=True),
    Row("adaptive_avg_pool1d.3", lambda: nn.AdaptiveAvgPool1d(3), lengths=FILLED, turned=True),
    Row("sequential", lambda: nn.Sequential(nn.Linear(D, 6), nn.GELU(), nn.LayerNorm(6), nn.Linear(6, 2), nn.Softmax(-1))),
]  # fmt: skip
IDS = [row.name for row in ROWS]


def parts(y):
    return list(y.unbind()) if dynograd.is_ragged(y) else [y[number] for number in range(len(y))]


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_a_layer_of_ragged_rows_is_the_layer_of_each_row(row):
    layer = row.make().double()
    rows = rows_of(row.lengths, row.turned)
    results = []
    for together in (True, False):
        arguments = [each.clone().requires_grad_() for each in rows]
        if together:
            whole = dynograd.ragged_tensor(arguments)
            assert tuple(whole.lengths().tolist()) == tuple(row.lengths) or row.turned
            ys = parts(row.call(layer, whole))
        else:
            ys = [row.alone(layer, argument) if argument.numel() else None for argument in arguments]
        there = [number for number, each in enumerate(rows) if each.numel()]
        ys = [ys[number] for number in there]
        inputs = [arguments[number] for number in there] + list(layer.parameters())
        loss = sum((each**2).sum() * (place + 1) for place, each in enumerate(ys))
        grads = dynograd.autograd.grad(loss, inputs, create_graph=True)
        slope = sum((grad**2).sum() for grad in grads if grad.requires_grad)
        second = (
            dynograd.autograd.grad(slope, inputs, allow_unused=True) if getattr(slope, "requires_grad", False) else []
        )
        results.append([*ys, *grads, *second])
    for element, two in zip(*results, strict=True):
        assert (element is None) == (two is None)
        if element is not None:
            assert element.shape == two.shape
            assert numpy.allclose(element.detach().numpy(), two.detach().numpy(), rtol=1e-6, atol=row.tolerance)


@pytest.mark.parametrize("dtype", [dynograd.float32, dynograd.bfloat16])
@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_bits_are_those_of_the_row_alone(row, dtype):
    layer = row.make().to(dtype).eval()
    rows = rows_of(row.lengths, row.turned, dtype)
    with dynograd.use_batch_invariant(True), dynograd.no_grad():
        ys = parts(row.call(layer, dynograd.ragged_tensor(rows)))
        for y, x in zip(ys, rows, strict=True):
            if x.numel():
                assert y.tolist() == row.alone(layer, x).tolist()


@pytest.mark.parametrize("dtype", [dynograd.float32, dynograd.bfloat16])
def test_a_convolution_as_long_as_its_input_has_the_same_bits_in_any_layout(dtype):
    weight, bias, x = dynograd.randn(4, 8, 3).to(dtype), dynograd.randn(4).to(dtype), dynograd.randn(2, 8, 3).to(dtype)
    other = x.transpose(1, 2).contiguous().transpose(1, 2)
    expected = numpy.einsum("nci,oci->no", x.double().numpy(), weight.double().numpy()) + bias.double().numpy()
    for invariant in (True, False):
        with dynograd.use_batch_invariant(invariant):
            element, two = (F.conv1d(argument, weight, bias) for argument in (x, other))
        assert numpy.allclose(element.squeeze(2).double(), expected, atol=1e-5 if dtype is dynograd.float32 else 0.1)
        if invariant:
            assert element.tolist() == two.tolist()


REDUCTIONS = "sum mean softmax log_softmax logsumexp var std cumsum prod norm amax cumprod nansum".split()


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_of_rows_have_the_bits_of_the_row_alone(name):
    rows = [dynograd.randn(length, 7) for length in (5, 33, 300, 2, 1025)]
    with dynograd.use_batch_invariant(True):
        y = getattr(dynograd.ragged_tensor(rows), name)(dim=1)
        for number, row in enumerate(rows):
            assert (
                y[number].tolist() == getattr(row[None], name)(dim=1)[0].tolist() == getattr(row, name)(dim=0).tolist()
            )


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_final_states_are_in_the_order_of_the_rows(kind):
    layer = kind(D, 4, 2, bidirectional=True, batch_first=True)
    rows = rows_of(LENGTHS, dtype=dynograd.float32)
    start = [dynograd.randn(4, 5, 4) for _ in range(2 if kind is nn.LSTM else 1)]
    hx = tuple(start) if kind is nn.LSTM else start[0]
    finals = layer(dynograd.ragged_tensor(rows), hx)[1]
    for place, final in enumerate(finals if kind is nn.LSTM else [finals]):
        assert final[:, 1].tolist() == start[place][:, 1].tolist()  # an empty row keeps its states
        for number, row in enumerate(rows):
            if len(row):
                element = tuple(x[:, number : number + 1] for x in start)
                alone = layer(row[None], element if kind is nn.LSTM else element[0])[1]
                assert numpy.allclose(
                    final[:, number].detach(), (alone if kind is nn.LSTM else [alone])[place][:, 0].detach(), atol=1e-6
                )


LEVELS = [
    ("lstm", lambda: nn.LSTM(D, 4, bidirectional=True, batch_first=True), lambda f, x: f(x)[0]),
    ("gru", lambda: nn.GRU(D, 4, 2, batch_first=True), lambda f, x: f(x)[0]),
    ("attention", lambda: nn.MultiheadAttention(D, 2, batch_first=True), lambda f, x: f(x, x, x, need_weights=False)[0]),
    ("attention.weights", lambda: nn.MultiheadAttention(D, 2, batch_first=True), lambda f, x: f(x, x, x)[1]),
    ("encoder", encoder(), lambda f, x: f(x, is_causal=True)),
    ("masked", encoder(), lambda f, x: f(x, src_key_padding_mask=x[..., 0] > 2)),
    ("decoder", decoder, lambda f, x: f(x, x * 0.5)),
    ("conv1d", lambda: nn.Conv1d(D, 3, 3, padding=1), lambda f, x: f(x.transpose(2, 3)).transpose(2, 3)),
    ("pool", lambda: nn.AdaptiveMaxPool1d(1), lambda f, x: f(x.transpose(2, 3)).squeeze(3)),
]  # fmt: skip


@pytest.mark.parametrize("case", LEVELS, ids=[case[0] for case in LEVELS])
def test_sentences_of_documents_are_the_sequences(case):
    _, make, call = case
    layer = make().double()
    docs = [rows_of([3, 5]), rows_of([2]), rows_of([4, 1, 6])]
    sentences = [each.requires_grad_() for doc in docs for each in doc]
    results = []
    for together in (True, False):
        if together:
            ys = [each for doc in call(layer, dynograd.ragged_tensor(docs)).unbind() for each in doc.unbind()]
        else:
            ys = [call(layer, dynograd.ragged_tensor([[sentence]]))[0][0] for sentence in sentences]
            dense = layer(sentences[0].T[None]).transpose(1, 2) if isinstance(layer, nn.Conv1d) else None
            assert dense is None or numpy.allclose(dense[0].detach(), ys[0].detach())
        loss = sum((each**2).sum() * (place + 1) for place, each in enumerate(ys))
        results.append([*ys, *dynograd.autograd.grad(loss, [*sentences, *layer.parameters()], allow_unused=True)])
    for element, two in zip(*results, strict=True):
        assert (element is None and two is None) or (
            element.shape == two.shape and numpy.allclose(element.detach(), two.detach())
        )


def test_final_states_of_sentences():
    layer = nn.LSTM(D, 4, batch_first=True).double()
    docs = [rows_of([3, 5]), rows_of([2])]
    _, (h, c) = layer(dynograd.ragged_tensor(docs))
    assert h.shape == (1, 3, 4)
    for number, sentence in enumerate([*docs[0], *docs[1]]):
        assert numpy.allclose(layer(sentence[None])[1][1].detach()[0, 0], c[0, number].detach())


def test_packed_sequences_and_ragged_ones_give_the_same_bits():
    layer = nn.LSTM(D, 6, bidirectional=True)
    rows = rows_of(FILLED, dtype=dynograd.float32)
    packed, (h, c) = layer(nn.utils.rnn.pack_sequence(rows, enforce_sorted=False))
    ragged, (h_ragged, c_ragged) = layer(dynograd.ragged_tensor(rows))
    for element, two in zip(nn.utils.rnn.unpack_sequence(packed), ragged.unbind()):
        assert element.tolist() == two.tolist()
    assert h.tolist() == h_ragged.tolist() and c.tolist() == c_ragged.tolist()


def test_dropout_between_layers_and_of_weights_is_drawn():
    x = dynograd.ragged_tensor(rows_of(LENGTHS, dtype=dynograd.float32))
    for layer, call in (
        (nn.LSTM(D, 4, 2, dropout=0.5), lambda f: f(x)[0]),
        (nn.MultiheadAttention(D, 2, dropout=0.5), lambda f: f(x, x, x, need_weights=False)[0]),
    ):
        assert call(layer).values().tolist() != call(layer).values().tolist()
        layer.eval()
        assert call(layer).values().tolist() == call(layer).values().tolist()


def test_attention_to_other_rows():
    layer = nn.MultiheadAttention(D, 2, kdim=6, vdim=5, batch_first=True).double()
    q = rows_of([3, 1, 4])
    k = [dynograd.randn(length, 6, dtype=dynograd.float64) for length in (2, 5, 1)]
    v = [dynograd.randn(length, 5, dtype=dynograd.float64) for length in (2, 5, 1)]
    for weights in (False, True):
        y, w = layer(*[dynograd.ragged_tensor(tensor) for tensor in (q, k, v)], need_weights=weights)
        for number in range(3):
            element, alone = layer(q[number][None], k[number][None], v[number][None], need_weights=weights)
            assert numpy.allclose(element[0].detach(), y[number].detach())
            assert (w is None) if not weights else numpy.allclose(alone[0].detach(), w[number].detach())


def test_attention_to_a_dense_memory():
    layer = nn.MultiheadAttention(D, 2).double()
    q, memory = rows_of([3, 1, 4]), dynograd.randn(3, 6, D, dtype=dynograd.float64)
    y, _ = layer(dynograd.ragged_tensor(q), memory, memory, need_weights=False)
    for number in range(3):
        alone = layer(q[number], memory[number], memory[number], need_weights=False)[0]
        assert numpy.allclose(alone.detach(), y[number].detach())


@pytest.mark.parametrize("kind", ["bool", "numbers", "dense"])
@pytest.mark.parametrize("hide", [False, True])
def test_masks_of_keys(kind, hide):
    layer = nn.MultiheadAttention(D, 2, batch_first=True).double()
    rows = rows_of([4, 3, 6])
    hidden = [dynograd.rand(len(row)) < 0.4 for row in rows]
    for element in hidden:
        element[0] = False
    if kind == "numbers":
        masks = [dynograd.randn(len(row), dtype=dynograd.float64) for row in rows]
        argument = dynograd.ragged_tensor(masks)
    else:
        masks = hidden
        argument = dynograd.ragged_tensor(masks)
        argument = argument.to_padded(True) if kind == "dense" else argument
    x = dynograd.ragged_tensor(rows)
    y, _ = layer(x, x, x, key_padding_mask=argument, need_weights=False, is_causal=hide)
    for row, mask, element in zip(rows, masks, y.unbind()):
        look = dynograd.ones(len(row), len(row), dtype=dynograd.bool).triu(1) if hide else None
        if kind == "numbers" and hide:
            look = causal(len(row), row)
        alone = layer(row[None], row[None], row[None], key_padding_mask=mask[None], attn_mask=look, need_weights=False)[
            0
        ][0]
        assert numpy.allclose(alone.detach(), element.detach())


def test_masks_of_pairs_are_cut_for_each_row():
    layer = nn.MultiheadAttention(D, 2, batch_first=True).double()
    rows = rows_of([4, 3, 6])
    mask = dynograd.randn(6, 6, dtype=dynograd.float64)
    x = dynograd.ragged_tensor(rows)
    y, _ = layer(x, x, x, attn_mask=mask, need_weights=False)
    for row, element in zip(rows, y.unbind()):
        size = len(row)
        alone = layer(row[None], row[None], row[None], attn_mask=mask[:size, :size], need_weights=False)[0][0]
        assert numpy.allclose(alone.detach(), element.detach())


def test_scaled_dot_product_attention_takes_heads_in_dim_1():
    q = dynograd.ragged_tensor(rows_of([3, 0, 4]))
    k = dynograd.ragged_tensor(rows_of([5, 2, 1]))
    heads = [element.unflatten(-1, (2, 4)).transpose(1, 2) for element in (q, k, k * 2)]
    for options in ({}, {"is_causal": True}):
        y = F.scaled_dot_product_attention(*heads, **options)
        assert y.shape[1] == 2 and y.place == 2
        for number in (0, 2):
            alone = F.scaled_dot_product_attention(*[head[number] for head in heads], **options)
            assert numpy.allclose(alone, y[number])


def test_batch_norm_counts_real_tokens_only():
    rows = rows_of(LENGTHS, turned=True)
    layer, dense = nn.BatchNorm1d(D).double(), nn.BatchNorm1d(D).double()
    y = layer(dynograd.ragged_tensor(rows))
    expected = dense(dynograd.cat(rows, 1).T)
    assert numpy.allclose(dynograd.cat(list(y.unbind()), 1).T.detach(), expected.detach())
    assert numpy.allclose(layer.running_var, dense.running_var) and numpy.allclose(
        layer.running_mean, dense.running_mean
    )


def images(dtype=dynograd.float64):
    return [dynograd.randn(3, height, width, dtype=dtype) for height, width in ((5, 4), (3, 6), (5, 4))]


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Conv2d(3, 4, 3, padding=1),
        lambda: nn.MaxPool2d(2),
        lambda: nn.AvgPool2d(2, 1),
        lambda: nn.AdaptiveAvgPool2d((2, 3)),
        lambda: nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), nn.BatchNorm2d(4).eval(), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)),
    ],
    ids=["conv2d", "max_pool2d", "avg_pool2d", "adaptive", "network"],
)  # fmt: skip
def test_images_of_different_sizes(make):
    layer, argument = make().double(), images()
    y = layer(dynograd.ragged_tensor(argument))
    for element, image in zip(parts(y), argument):
        assert numpy.allclose(element.detach(), layer(image[None])[0].detach())


def test_batch_norm_of_images_counts_real_pixels_only():
    arguments = images()
    y = nn.BatchNorm2d(3).double()(dynograd.ragged_tensor(arguments))
    pixels = dynograd.cat([argument.flatten(1) for argument in arguments], 1)
    expected = (pixels - pixels.mean(1, keepdim=True)) / (pixels.var(1, correction=0, keepdim=True) + 1e-5).sqrt()
    assert numpy.allclose(dynograd.cat([element.flatten(1) for element in y.unbind()], 1).detach(), expected)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embeddings_and_bags(mode):
    rows = [dynograd.randint(0, 10, (length,)) for length in LENGTHS]
    tokens = dynograd.ragged_tensor(rows)
    table, bags = nn.Embedding(10, 4, padding_idx=2), nn.EmbeddingBag(10, 4, mode=mode)
    assert [element.tolist() for element in table(tokens).unbind()] == [table(row).tolist() for row in rows]
    result = bags(tokens)
    for number, row in enumerate(rows):
        assert numpy.allclose(result[number].detach(), bags(row[None])[0].detach() if len(row) else numpy.zeros(4))


def test_messages_between_the_nodes_of_graphs():
    """Edges (2, j) of each graph beside its nodes (j, D): sums of neighbours by index_add over all graphs at once."""
    nodes = rows_of([4, 2, 5])
    edges = [dynograd.tensor(each) for each in ([[0, 1, 2], [1, 2, 3]], [[0], [1]], [[0, 4], [4, 0]])]
    x = dynograd.ragged_tensor(nodes)
    begin = x.offsets()[:-1]
    source, target = dynograd.cat([each + begin[number] for number, each in enumerate(edges)], 1)
    result = x.with_packed(dynograd.zeros_like(x.values()).index_add(0, target, x.values()[source]))
    for node, edge, element in zip(nodes, edges, result.unbind()):
        assert numpy.allclose(element, dynograd.zeros_like(node).index_add(0, edge[1], node[edge[0]]))


def test_crf_of_rows():
    crf = nn.CRF(3, batch_first=True).double()
    emissions = [dynograd.randn(length, 3, dtype=dynograd.float64) for length in LENGTHS]
    tags = [dynograd.randint(0, 3, (length,)) for length in LENGTHS]
    x, y = dynograd.ragged_tensor(emissions), dynograd.ragged_tensor(tags)
    likelihoods, best, shares = crf(x, y, reduction="none"), crf.viterbi(x), crf.marginals(x)
    assert [len(each) for each in crf.decode(x)] == LENGTHS
    for number, (element, own) in enumerate(zip(emissions, tags)):
        if len(element):
            assert likelihoods[number].item() == pytest.approx(crf(element, own).item())
            assert best.tags[number].tolist() == crf.viterbi(element).tags.tolist() == crf.decode(x)[number]
            assert best.scores[number].item() == pytest.approx(crf.viterbi(element).scores.item())
            assert numpy.allclose(shares[number].detach(), crf.marginals(element).detach())
    with pytest.raises(ValueError, match="leave out mask, lengths and offsets"):
        crf(x, y, lengths=dynograd.tensor(LENGTHS))
    with pytest.raises(RuntimeError, match="row 0"):
        crf(x, dynograd.ragged_tensor(tags[1:] + tags[:1]))


ERRORS = [
    (lambda x: nn.LSTM(4, 3)(x), RuntimeError, "8", "4"),
    (lambda x: nn.LSTM(D, 3)(x.transpose(1, 2)), RuntimeError, "ragged input", "j"),
    (
        lambda x: nn.LSTM(D, 3)(x, (dynograd.zeros(1, 2, 3), dynograd.zeros(1, 2, 3))),
        RuntimeError,
        "(1, 3, 3)",
        "(1, 2, 3)",
    ),
    (
        lambda x: nn.MultiheadAttention(D, 2)(dynograd.ragged_tensor([list(x)]), x, x),
        RuntimeError,
        "several levels",
        "Give it the same levels",
    ),
    (lambda x: nn.MultiheadAttention(4, 2)(x, x, x), RuntimeError, "embedding dimension of 4", "8"),
    (lambda x: nn.MultiheadAttention(D, 2)(x, x[:2], x[:2]), RuntimeError, "3 rows", "2"),
    (
        lambda x: nn.MultiheadAttention(D, 2)(x, x, dynograd.ragged_tensor(rows_of([3, 2, 1])).float()),
        RuntimeError,
        "row 1",
        "4",
        "2",
    ),
    (
        lambda x: nn.MultiheadAttention(D, 2)(x, x, x, key_padding_mask=dynograd.zeros(3, 2) > 0),
        RuntimeError,
        "key_padding_mask",
        "(3, 4)",
        "(3, 2)",
    ),
    (
        lambda x: nn.MultiheadAttention(D, 2)(x, x, x, attn_mask=dynograd.zeros(2, 2)),
        RuntimeError,
        "attn_mask",
        "(2, 2)",
        "row 0",
    ),
    (lambda x: nn.BatchNorm1d(D)(x), RuntimeError, "num_features (8)", "j1"),
    (lambda x: F.batch_norm(x, None, None, training=True), NotImplementedError, "transpose(1, 2)", "channels"),
    (lambda x: nn.Conv1d(D, 2, 3)(x.transpose(1, 2)), RuntimeError, "conv1d", "row 2 has 1", "reaches over 3"),
    (
        lambda x: F.embedding_bag(
            dynograd.ragged_tensor([dynograd.tensor([1])]), dynograd.zeros(2, 2), dynograd.tensor([0])
        ),
        ValueError,
        "offsets",
    ),
]


@pytest.mark.parametrize("case", ERRORS, ids=range(len(ERRORS)))
def test_errors_say_what_is_wrong(case):
    call, kind, *words = case
    x = dynograd.ragged_tensor(rows_of([3, 4, 1], dtype=dynograd.float32))
    with pytest.raises(kind) as caught:
        call(x)
    for word in words:
        assert word in str(caught.value)
