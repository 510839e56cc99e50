"""`stepping` stops on the right line wherever a program writes its ops: each line that makes nodes tells their ops in a comment."""

from __future__ import annotations

import functools
import linecache

import pytest

import dynograd as dg
from dynograd import nn
from dynograd.nn import functional as F
from dynograd.utils.checkpoint import checkpoint
from tests.debug.sessions import names_an_op, session, stops


def weight(*shape):
    return dg.randn(*shape, requires_grad=True)


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x):
        return F.gelu(self.inner(x))  # Gelu Linear


class Cube(dg.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        squares = x * x  # Mul
        return g * 3 * squares  # Mul


def ragged_rows():
    rows = dg.ragged_tensor([dg.ones(2, 4), dg.ones(5, 4)])
    h = Gate()(rows).tanh()  # Tanh
    h = h * weight(4)  # Mul
    h.mean(1).sum().backward()  # Segment Div Sum


def ragged_attention():
    attention = nn.MultiheadAttention(4, 2, batch_first=True)
    rows = dg.ragged_tensor([dg.randn(2, 4), dg.randn(5, 4)])
    mixed, _ = attention(rows, rows, rows)  # Cat View Permute Matmul Softmax Linear Mul Split
    mixed.sum(1).sum().backward()  # Sum Segment


def examples_of_a_scope():
    gate = Gate()
    with dg.autobatch(always=True):
        losses = [
            gate(dg.randn(4))
            .square()  # Square
            .sum()  # Sum
            for _ in range(5)
        ]
        loss = losses[0].exp() + sum(losses[1:])  # Exp Add
    loss.backward()


def batched_examples():
    inner = nn.Linear(3, 3)

    @dg.batched
    def score(n):
        h = dg.ones(3)
        for _ in range(n):
            h = inner(h).tanh()  # Linear Tanh
        return h.sum()  # Sum

    dg.stack(list(score([1, 2, 3]))).sum().backward()  # Stack Sum


def recomputed():
    y = checkpoint(Gate(), dg.randn(2, 4), use_reentrant=False)
    (y * 2).sum().backward()  # Mul Sum


def recomputed_by_a_pass_within():
    y = checkpoint(Gate(), weight(2, 4), use_reentrant=True)  # Checkpoint
    (y * 2).sum().backward()  # Mul Sum


def compiled_model():
    gate = Gate()
    compiled = dg.compile(gate)
    for _ in range(4):
        loss = compiled(dg.ones(2, 4)).sum()  # Sum
    loss.backward()


def comprehensions():
    w = weight(3)
    parts = [
        (w * i)  # Mul
        .exp()  # Exp
        for i in range(4)
    ]
    named = {i: part.sin() for i, part in enumerate(parts)}  # Sin
    total = sum(  # Add
        part.sum()  # Sum
        for part in named.values()
    )
    total.backward()


def several_lines():
    w = weight(3)
    y = (
        w.exp()  # Exp Add
        + w.sin()  # Sin Mul
        * w.cos()  # Cos
    )
    y = F.layer_norm(  # Norm
        F.gelu(y),  # Gelu
        (3,),
    )
    y.sum().backward()  # Sum


def doubled(function):
    @functools.wraps(function)
    def run(*arguments):
        return function(*arguments) * 2  # Mul

    return run


@doubled
@dg.enable_grad()
def decorated_sine(x):
    return x.sin()  # Sin


def decorators():
    decorated_sine(weight(3)).sum().backward()  # Sum


def lambdas_and_partials():
    w = weight(3)
    scale = lambda x, by: x * by  # noqa: E731  # Mul
    y = functools.reduce(lambda x, by: scale(x, by).tanh(), [1.0, 2.0], w)  # Tanh
    total = list(map(functools.partial(dg.sum, dim=0), [y]))  # Sum
    total[0].backward()


def generators():
    w = weight(3)

    def states():
        h = w
        while True:
            h = h.tanh()  # Tanh
            yield h

    taken = [state for state, _ in zip(states(), range(4), strict=False)]
    dg.stack(taken).sum().backward()  # Stack Sum


def own_function():
    Cube.apply(weight(3)).sum().backward()  # Cube Sum


def backward_of_backward():
    w = weight(3)
    y = Cube.apply(w)  # Cube
    (g,) = dg.autograd.grad(y.exp().sum(), w, create_graph=True)  # Exp Sum Mul
    g.square().sum().backward()  # Square Sum


def examples_of_vmap():
    w = weight(3)
    dg.vmap(
        lambda row: (row * w).sum()  # Mul Sum
    )(dg.ones(4, 3)).sum().backward()  # Sum


def gradient_of_a_function():
    def loss(w):
        return (w.exp() * w).sum()  # Exp Mul Sum

    dg.func.grad(loss)(dg.ones(3))


def writes():
    w = weight(3)
    y = w * 1  # Mul
    y.exp_()  # Exp
    y[0] = 0  # CopySlices
    y[1:].mul_(3)  # Mul Index CopySlices
    y += 1  # Add
    y.sum().backward()  # Sum


def low_precision():
    with dg.autocast("cpu", dg.bfloat16):
        y = nn.Linear(3, 3)(dg.ones(2, 3))  # Linear ToCopy
    y.float().sum().backward()  # ToCopy Sum


def recurrent_layer():
    states, _ = nn.LSTM(3, 4, batch_first=True)(weight(2, 5, 3))  # Lstm Permute
    states.sum().backward()  # Sum


def hooks():
    y = weight(3).exp()  # Exp
    y.register_hook(lambda g: g * 2)
    y.sum().backward()  # Sum


PROGRAMS = [
    (ragged_rows, 7),
    (ragged_attention, 20),
    (examples_of_a_scope, 24),
    (batched_examples, 17),
    (recomputed, 4),
    (recomputed_by_a_pass_within, 5),
    (compiled_model, 3),
    (comprehensions, 19),
    (several_lines, 8),
    (decorators, 3),
    (lambdas_and_partials, 5),
    (generators, 6),
    (own_function, 2),
    (backward_of_backward, 9),
    (examples_of_vmap, 3),
    (gradient_of_a_function, 3),
    (writes, 7),
    (low_precision, 5),
    (recurrent_layer, 2),
    (hooks, 2),
]


@pytest.mark.parametrize("program, fewest", PROGRAMS, ids=[row[0].__name__ for row in PROGRAMS])
def test_each_node_stops_on_its_line(program, fewest):
    dg.manual_seed(0)
    shown = stops(session(program, "n\n" * 200))
    assert len(shown) >= fewest, shown
    for node, line, text in shown:
        assert linecache.getline(__file__, line).strip() == text.strip(), (node, line)
        assert names_an_op(text, node), (node, line, text)
