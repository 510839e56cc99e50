"""Tree-LSTM cells and forests against the equations in plain NumPy."""

import numpy
import pytest

import dynograd
from dynograd import nn
from dynograd.errors import ShapeError


def sigmoid(x):
    return 1 / (1 + numpy.exp(-x))


def binary(cell, tree):
    w, u, b = (element.detach().numpy() for element in (cell.weight_ih, cell.weight_hh, cell.bias))
    if isinstance(tree, tuple):
        (hl, cl), (hr, cr) = binary(cell, tree[0]), binary(cell, tree[1])
        i, f, g, o, n = numpy.split(u @ numpy.concatenate([hl, hr]) + b, 5)
        c = sigmoid(i) * numpy.tanh(n) + sigmoid(f) * cl + sigmoid(g) * cr
    else:
        i, _, _, o, n = numpy.split(w @ tree.numpy() + b, 5)
        c = sigmoid(i) * numpy.tanh(n)
    return sigmoid(o) * numpy.tanh(c), c


def child_sum(cell, tree):
    w, u, uf, b = (element.detach().numpy() for element in (cell.weight_ih, cell.weight_hh, cell.weight_fh, cell.bias))
    states = [child_sum(cell, child) for child in tree[1]]
    total = sum([h for h, _ in states], numpy.zeros(cell.hidden_size))
    i, o, n, f = numpy.split(w @ tree[0].numpy() + b, 4)
    di, do, dn = numpy.split(u @ total, 3)
    c = sigmoid(i + di) * numpy.tanh(n + dn) + sum(sigmoid(f + uf @ h) * kept for h, kept in states)
    return sigmoid(o + do) * numpy.tanh(c), c


def word(k):
    return dynograd.tensor([0.1 * k, 1.0 - k, 0.3], dtype=dynograd.float64)


BINARY = [word(1), (word(1), word(2)), ((word(0), word(1)), (word(2), (word(3), word(4))))]
SUMS = [
    (word(1), []),
    (word(2), [(word(1), []), (word(0), []), (word(3), [(word(1), [])])]),
    (word(2), [(word(2), [])]),
]


@pytest.mark.parametrize("kind, forest, reference", [("binary", BINARY, binary), ("child_sum", SUMS, child_sum)])
def test_forest(kind, forest, reference):
    net = nn.TreeLSTM(3, 5, kind, dtype=dynograd.float64)
    h, c = net(forest)
    for number, tree in enumerate(forest):
        expected = reference(net.cell, tree)
        numpy.testing.assert_allclose(h[number].detach().numpy(), expected[0], rtol=1e-12)
        numpy.testing.assert_allclose(c[number].detach().numpy(), expected[1], rtol=1e-12)
    (h * h).sum().backward()
    together = [parameter.grad.numpy().copy() for parameter in net.parameters()]
    net.zero_grad()
    for tree in forest:  # one by one, without a scope
        state = _eager(net, tree)
        (state[0] * state[0]).sum().backward()
    for element, other in zip(net.parameters(), together):
        numpy.testing.assert_allclose(other, element.grad.numpy(), rtol=1e-10)


def _eager(net, tree):
    if net.kind == "binary":
        return (
            net.cell(tree)
            if not isinstance(tree, tuple)
            else net.cell(None, *[_eager(net, element) for element in tree])
        )
    return net.cell(tree[0], [_eager(net, element) for element in tree[1]])


def test_empty_forest_and_a_deep_tree():
    net = nn.TreeLSTM(3, 4)
    assert net([])[0].shape == (0, 4)
    tree = dynograd.ones(3)
    for _ in range(3000):
        tree = (tree, dynograd.ones(3))
    h, _ = net([tree])
    h.sum().backward()
    assert net.cell.weight_hh.grad.shape == (20, 8)


def test_an_inner_node_with_input_and_batches():
    cell = nn.BinaryTreeLSTMCell(3, 4)
    state = cell(dynograd.ones(2, 3))
    h, _ = cell(dynograd.ones(2, 3), state, state)
    assert h.shape == (2, 4)
    assert repr(cell) == "BinaryTreeLSTMCell(3, 4)" and "kind='binary'" in repr(nn.TreeLSTM(3, 4))


ERRORS = [
    (
        lambda: nn.BinaryTreeLSTMCell(3, 4)(dynograd.ones(2)),
        ShapeError,
        r"expected input of 3 features, got shape \(2,\)",
    ),
    (lambda: nn.BinaryTreeLSTMCell(3, 4)(), ShapeError, "got neither"),
    (lambda: nn.BinaryTreeLSTMCell(3, 4)(None, (dynograd.ones(4),) * 2), ShapeError, "two children or none, got one"),
    (lambda: nn.BinaryTreeLSTMCell(3, 4)(None, dynograd.ones(4), dynograd.ones(4)), ShapeError, r"a pair \(h, c\)"),
    (
        lambda: nn.ChildSumTreeLSTMCell(3, 4)(dynograd.ones(3), [(dynograd.ones(5),) * 2]),
        ShapeError,
        "states of 4 features",
    ),
    (lambda: nn.ChildSumTreeLSTMCell(3, 4)(None), ShapeError, "expected an input for every node"),
    (lambda: nn.TreeLSTM(3, 4, "ternary"), ValueError, "'binary' or 'child_sum', got 'ternary'"),
    (
        lambda: nn.TreeLSTM(3, 4)([(dynograd.ones(3),) * 3]),
        ShapeError,
        r"a tensor or a pair \(left, right\), got tuple of 3",
    ),
    (lambda: nn.TreeLSTM(-1, 4), ValueError, "input_size"),
]


@pytest.mark.parametrize("function, error, words", ERRORS)
def test_errors(function, error, words):
    with pytest.raises(error, match=words):
        function()
