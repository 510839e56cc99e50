"""Layers in `vmap` over the rows of a ragged tensor, gradients for each row, hooks and custom functions around ragged tensors."""

import numpy
import pytest

import dynograd
from dynograd import func, nn
from dynograd.nn import functional as F

LENGTHS = [5, 9, 1, 7]


def drawn(*rest):
    return dynograd.ragged_tensor([dynograd.randn(length, *rest, dtype=dynograd.float64) for length in LENGTHS])


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.reads, self.scores = (
            nn.Embedding(10, 8),
            nn.LSTM(8, 4, bidirectional=True, batch_first=True),
            nn.Linear(8, 3),
        )

    def forward(self, words):
        return self.scores(self.reads(self.words(words))[0])


# a layer, and what it does with one row (j, 8)
CASES = {
    "linear": (lambda: nn.Linear(8, 5), lambda f, x: f(x).mean(0)),
    "layer_norm": (lambda: nn.LayerNorm(8), lambda f, x: f(x).sum(0)),
    "gru": (lambda: nn.GRU(8, 4, 2, bidirectional=True), lambda f, x: f(x)[0]),
    "gru.final": (lambda: nn.GRU(8, 4), lambda f, x: f(x)[1]),
    "lstm.batch": (lambda: nn.LSTM(8, 4, batch_first=True), lambda f, x: f(x[None])[0]),
    "rnn.several": (lambda: nn.RNN(8, 4), lambda f, x: f(dynograd.stack([x, x * 2, -x], 1))[0]),
    "conv": (lambda: nn.Conv1d(8, 4, 3, padding=1), lambda f, x: f(x.T)),
    "conv.strided": (lambda: nn.Conv1d(8, 4, 1, stride=2, bias=False), lambda f, x: f(x.T[None])[0]),
    "attention": (lambda: nn.MultiheadAttention(8, 2), lambda f, x: f(x, x, x)[0]),
    "encoder": (lambda: nn.TransformerEncoderLayer(8, 2, 16, 0.0), lambda f, x: f(x)),
    "sequential": (lambda: nn.Sequential(nn.Linear(8, 6), nn.GELU(), nn.Linear(6, 2)), lambda f, x: f(x).softmax(-1)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_vmap_over_rows(name):
    make, call = CASES[name]
    layer, x = make().double(), drawn(8)
    result = func.vmap(lambda row: call(layer, row))(x)
    for number, row in enumerate(x.unbind()):
        assert numpy.allclose(result[number].detach(), call(layer, row).detach())


PRODUCTS = {
    "matrix and vector": (lambda row, other: row @ other, (8,)),
    "vector and matrix": (lambda row, other: row[:, 0] @ row + other, (8,)),
    "matrices": (lambda row, other: row @ other, (8, 2)),
    "turned": (lambda row, other: other @ row.T, (2, 8)),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_each_row_with_its_own(name):
    call, shape = PRODUCTS[name]
    x, other = drawn(8), dynograd.randn(len(LENGTHS), *shape, dtype=dynograd.float64)
    result = func.vmap(call)(x, other)
    element = func.vmap(call)(x, other[:1].expand(len(LENGTHS), *shape))
    for number, row in enumerate(x.unbind()):
        assert numpy.allclose(result[number], call(row, other[number]))
        assert numpy.allclose(element[number], call(row, other[0]))


@pytest.mark.parametrize("name", CASES)
def test_gradients_for_each_row(name):
    make, call = CASES[name]
    layer, x = make().double(), drawn(8)
    weights = {key: each.detach() for key, each in layer.named_parameters()}

    def loss(weights, row):
        return (call(lambda *given: func.functional_call(layer, weights, given), row) ** 3).sum()

    result = func.vmap(func.grad(loss), (None, 0))(weights, x)
    for number, row in enumerate(x.unbind()):
        for key, element in func.grad(loss)(weights, row).items():
            assert numpy.allclose(result[key][number], element), key


@pytest.mark.parametrize(
    "options", [{}, {"reduction": "sum"}, {"ignore_index": 1}, {"weight": dynograd.tensor([0.5, 2.0, 1.0]).double()}]
)
def test_a_loss_for_each_sentence(options):
    model = Tagger().double()
    words = dynograd.ragged_tensor([dynograd.randint(0, 10, (length,)) for length in LENGTHS])
    tags = dynograd.ragged_tensor([dynograd.tensor([0, 2, 1, 0, 2, 0, 1, 1, 2])[:length] for length in LENGTHS])
    weights = {key: each.detach() for key, each in model.named_parameters()}

    def loss(weights, words, tags):
        return F.cross_entropy(func.functional_call(model, weights, (words,)), tags, **options)

    result = func.vmap(func.grad_and_value(loss), (None, 0, 0))(weights, words, tags)
    for number, (row, own) in enumerate(zip(words.unbind(), tags.unbind())):
        grads, value = func.grad_and_value(loss)(weights, row, own)
        assert numpy.allclose(result[1][number], value)
        for key, element in grads.items():
            assert numpy.allclose(result[0][key][number], element), key


def test_backward_hooks_see_ragged_gradients():
    layer, x = nn.Linear(8, 3).double(), drawn(8).requires_grad_()
    seen = []

    def double(module, grad_input, grad_output):
        seen.append((grad_input[0], grad_output[0]))
        return (grad_input[0] * 2,)

    layer.register_full_backward_hook(double)
    (layer(x) ** 2).sum().backward()
    (grad_input, grad_output) = seen[0]
    assert grad_input.shape == x.shape and grad_output.shape[2] == 3 and dynograd.is_ragged(grad_output)
    assert numpy.allclose(x.grad.values(), 2 * grad_input.values())
    plain = nn.Linear(8, 3).double()
    plain.load_state_dict(layer.state_dict())
    element = x.detach().requires_grad_()
    (plain(element) ** 2).sum().backward()
    assert numpy.allclose(element.grad.values(), grad_input.values())
    assert numpy.allclose(layer.weight.grad, plain.weight.grad)


def test_backward_pre_hooks_replace_ragged_gradients():
    layer, x = nn.LSTM(8, 3, batch_first=True).double(), drawn(8).requires_grad_()
    layer.register_full_backward_pre_hook(lambda module, grads: tuple(None if g is None else g * 0 for g in grads))
    layer(x)[0].sum().backward()
    assert not x.grad.values().any()
