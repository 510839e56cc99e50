"""CUDA graphs of tensor code: in emulation they are recorded and replayed too."""

import copy

import pytest

import dynograd as dg


def test_a_graph_computes_anew_at_each_replay():
    x = dg.zeros(4, device="cuda")
    y = x * 2 + 1
    graph = dg.cuda.CUDAGraph()
    with dg.cuda.graph(graph):
        y = x * 2 + 1
    for value in (3, 5):
        x.fill_(value)
        graph.replay()
        assert y.tolist() == [2.0 * value + 1] * 4


@pytest.mark.parametrize("training", [True, False])
def test_a_graphed_module_does_what_the_module_does(training):
    dg.manual_seed(0)
    plain = dg.nn.Sequential(dg.nn.Linear(4, 8), dg.nn.Tanh(), dg.nn.Linear(8, 2)).to("cuda").train(training)
    other = copy.deepcopy(plain)
    sample = dg.zeros(3, 4, device="cuda", requires_grad=True)
    created = dg.cuda.make_graphed_callables(other, (sample,), num_warmup_iters=1)
    assert created is other
    for _ in range(2):
        x = dg.randn(3, 4, device="cuda", requires_grad=True)
        y = x.detach().clone().requires_grad_()
        element, two = plain(x), other(y)
        dg.testing.assert_close(two, element)
        (element.square().sum() * 3).backward()
        (two.square().sum() * 3).backward()
        dg.testing.assert_close(y.grad, x.grad)
    for element, two in zip(plain.parameters(), other.parameters(), strict=True):
        dg.testing.assert_close(two.grad, element.grad)
    other.train(not training)
    dg.testing.assert_close(other(x[:2]), plain(x[:2]))  # in the other mode the module itself, of any shape


def test_graphed_functions_in_turn():
    a, b = (dg.ones(3, device="cuda", requires_grad=True) for _ in range(2))
    first, second = dg.cuda.make_graphed_callables(
        (lambda x: (x * 2, x + 1), lambda x, y: x * y), ((a,), (a, b)), num_warmup_iters=1
    )
    for value in (2.0, 5.0):
        x = dg.full((3,), value, device="cuda", requires_grad=True)
        out = second(*first(x))
        assert out.tolist() == [2 * value * (value + 1)] * 3
        out.sum().backward()
        assert x.grad.tolist() == [4 * value + 2] * 3


@pytest.mark.parametrize(
    "callables, arguments, error, words",
    [
        (abs, (3,), TypeError, "argument 0 of callable 0 is of type int. Only positional tensors"),
        (abs, (dg.ones(2),), dg.errors.DeviceError, "is on cpu. Put the sample arguments on the GPU"),
        ((abs, abs), ((),), ValueError, "2 callables but 1 tuples"),
    ],
)
def test_what_cannot_be_graphed(callables, arguments, error, words):
    with pytest.raises(error, match=words):
        dg.cuda.make_graphed_callables(callables, arguments)
