"""`dynograd.compile` and `dynograd.compiler`: what they take and give, and what they refuse."""

from __future__ import annotations

import pickle

import numpy
import pytest

import dynograd as torch
from dynograd import nn
from dynograd.plans.compiling import Compiled
from dynograd.plans.lowering import layouts


def layer():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))


def double(x):
    """Twice."""
    return 2 * x


@pytest.mark.parametrize(
    "compile", [torch.compile, torch.compile(), torch.compile(mode="exact"), torch.compile(fullgraph=True)]
)
def test_functions_keep_what_they_are(compile):
    compiled = compile(double)
    assert isinstance(compiled, Compiled) and compiled.__name__ == "double" and compiled.__doc__ == "Twice."
    assert [compiled(torch.tensor(float(k))).item() for k in range(5)] == [0.0, 2.0, 4.0, 6.0, 8.0]
    assert compiled.walked == 3 and "5 calls, 3 along the record" in str(compiled.report())


def test_methods():
    class Model:
        factor = 3.0

        @torch.compile
        def times(self, x):
            return x * self.factor

    model = Model()
    assert [model.times(torch.tensor(float(k))).item() for k in range(4)] == [0.0, 3.0, 6.0, 9.0]
    model.factor = 2.0
    assert [model.times(torch.tensor(float(k))).item() for k in range(4)] == [0.0, 2.0, 4.0, 6.0]


def test_modules():
    model = layer()
    compiled = torch.compile(model)
    assert isinstance(compiled, torch.compiler.OptimizedModule) and isinstance(compiled, nn.Module)
    assert (
        next(iter(compiled.state_dict())) == "_orig_mod.0.weight" and compiled._orig_mod is model and len(compiled) == 3
    )
    compiled.eval()
    assert not model.training and not compiled.training
    compiled.note = "mine"
    assert model.note == "mine" and compiled.note == "mine" and "note" in dir(compiled)
    x = torch.randn(5, 3)
    for _ in range(4):
        assert torch.allclose(compiled(x), model(x))
    assert str(compiled.report()).startswith("Sequential: 4 calls, 2 along")
    again = pickle.loads(pickle.dumps(compiled))
    assert torch.allclose(again(x), model(x))
    assert torch.compile(compiled) is compiled


def test_modules_in_place():
    model, twin = layer(), layer()
    model.compile()
    for _k in range(4):
        x = torch.randn(5, 3)
        for net in (model, twin):
            net.zero_grad()
            net(x).square().sum().backward()
        assert torch.allclose(model[0].weight.grad, twin[0].weight.grad)


@pytest.mark.parametrize(
    "make", [lambda f: torch.compile(f, disable=True), lambda f: torch.compile(f, backend="eager")]
)
def test_what_comes_back_as_it_is(make):
    step = torch.optim.SGD(layer().parameters(), lr=0.1).step
    assert make(double) is double and torch.compile(step) == step


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: torch.compile(3), TypeError, "compile: expected a function or module, got int .3."),
        (
            lambda: torch.compile(double, mode="a", options={}),
            RuntimeError,
            "either mode or options.*mode='a', options={}",
        ),
        (lambda: torch.compile(double, options={"a": 1}), RuntimeError, "there are no options; got {'a': 1}"),
        (
            lambda: torch.compile(double, mode="fast"),
            ValueError,
            "expected a mode out of default, checked, exact,.* got 'fast'",
        ),
        (lambda: torch.compile(double, backend="tvm"), ValueError, "expected a backend out of inductor, .* got 'tvm'"),
        (lambda: torch.compile(double, backend=print), ValueError, "a backend of one's own gets graphs"),
        (
            lambda: torch.compiler.set_stance("fast"),
            RuntimeError,
            "expected a stance out of default, force_eager,.* got 'fast'",
        ),
    ],
)
def test_errors(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_fullgraph_names_the_line():
    @torch.compile(fullgraph=True)
    def f(x):
        h = x * 2
        other = h.detach()
        h += 1  # here
        return h, other

    with pytest.raises(RuntimeError, match=r"f cannot be recorded whole, .*in place.*test_compile.py:\d+ in f"):
        f(torch.ones(2))


def test_stances():
    compiled = torch.compile(double)
    for _ in range(4):
        compiled(torch.ones(2))
    walked = compiled.walked
    with torch.compiler.set_stance("force_eager"):
        compiled(torch.ones(2))
    assert compiled.walked == walked

    @torch.compiler.set_stance("force_eager")
    def eagerly():
        return compiled(torch.ones(2))

    assert eagerly().tolist() == [2.0, 2.0] and compiled.walked == walked
    compiled(torch.ones(2))
    assert compiled.walked == walked + 1
    with (
        torch.compiler.set_stance("fail_on_recompile"),
        pytest.raises(RuntimeError, match="goes a way that is not recorded"),
    ):
        compiled(torch.ones(2, dtype=torch.float64))
    with (
        torch.compiler.set_stance("fail_on_recompile"),
        pytest.raises(RuntimeError, match="not recorded yet with arguments of"),
    ):
        compiled(torch.ones(3))
    with torch.compiler.set_stance("fail_on_recompile"), pytest.raises(RuntimeError, match="is not recorded yet"):
        torch.compile(double)(torch.ones(2))
    torch.compiler.reset()
    assert compiled.walked == 0 and compiled(torch.ones(3)).tolist() == [2.0, 2.0, 2.0]
    assert torch.compiler.is_compiling() is False


def test_an_op_that_fails_says_so_where_it_stands():
    table = nn.Embedding(4, 2)

    @torch.compile
    def pick(index):
        return table(index).sum()

    for _ in range(4):
        pick(torch.tensor([1, 3]))
    with pytest.raises(IndexError, match="9"):
        pick(torch.tensor([1, 9])).item()
    assert pick(torch.tensor([1, 3])).item() == pytest.approx(table(torch.tensor([1, 3])).sum().item())


def test_what_would_be_slower_is_left_as_it_is():
    layer = nn.LSTM(8, 64, batch_first=True)
    rows = torch.ragged_tensor([torch.full((length, 8), 0.5) for length in (30, 20, 40)])

    @torch.compile
    def f(x):
        return torch.stack([row.sum() for row in layer(x)[0].unbind()]).sum()

    for _ in range(3):
        f(rows).backward()
    assert f.walked == 0 and "it would be slower by some" in str(f.report()) and "lstm_layer" in str(f.report())


def test_an_input_that_is_a_parameters_memory_is_not_written():
    """The next call's input was copied to where the record had read it: into the parameter."""
    weight = nn.Parameter(torch.ones(4))

    @torch.compile
    def f(x):
        with torch.no_grad():
            return (weight * 2 + x).sum()

    for _ in range(4):
        assert f(weight.data).item() == 12
    assert f.walked == 2
    assert f(torch.full((4,), 5.0)).item() == 28
    assert weight.tolist() == [1.0] * 4
    weight.data.mul_(2)
    assert f(weight.data).item() == 24


def test_tensors_elsewhere_are_left():
    @torch.compile
    def f(x):
        return x * 2

    for _ in range(3):
        assert f(torch.ones(2, device="meta")).shape == (2,)
    assert f.walked == 0 and "mul of tensors on several devices" in str(f.report())


def test_gradients_of_a_mean_without_dims_lie_in_the_plan():
    """`array[()]` is a number and no view: a kernel wrote where that lay."""
    once = layouts.repeated_once(numpy.zeros((), numpy.float32))
    assert isinstance(once, numpy.ndarray)
    weight = nn.Parameter(torch.tensor(3.0))

    @torch.compile
    def f(x):
        weight.grad = None
        loss = (weight * x).pow(2).mean()
        loss.backward()
        return loss

    for k in range(5):
        f(torch.tensor(float(k)))
        assert weight.grad.item() == 6.0 * k * k


def test_the_place_of_one_number_is_memory():
    assert isinstance(layouts.part_of(numpy.zeros(3), (1,)), numpy.ndarray)
    with pytest.raises(layouts.NoMemoryError, match="a number has no memory"):
        layouts.flat(numpy.zeros(3)[1])


@pytest.mark.parametrize("exact", [True, False])
def test_what_a_node_saves_beside_its_operands_is_written_in_each_step(exact):
    """A truth value as a factor is saved as an array of its own, which no kernel writes."""
    weight = torch.ones(4, requires_grad=True)

    def step(x):
        product = (x * weight) * True
        product.sum().backward()
        gradient, weight.grad = weight.grad.clone(), None
        return gradient

    compiled = Compiled(step, exact=exact, always=True)
    for count in range(1, 6):
        x = torch.arange(4.0) + count
        compiled.walk.arena.whole[...] = 0  # between steps nobody has anything there
        numpy.testing.assert_array_equal(compiled(x).numpy(), x.numpy())
    assert compiled.walked


def test_what_nobody_has_when_a_step_is_over_is_not_written():
    def chain(x):
        return (x * 2 + 1).tanh() * x

    compiled = Compiled(chain, always=True)
    for count in range(4):
        x = torch.arange(4096.0).reshape(64, 64) / 4096 + count
        assert torch.allclose(compiled(x), chain(x))
    (group,) = compiled.walk.paths[0].program.groups
    assert len(group.gone) == 3 and len(group.outputs()) == 1


@pytest.mark.parametrize("calls", ["ss sd", "sd ss", "dd sd", "sd dd", "pp sp", "sp pp"])
def test_tensors_that_were_one_and_are_two_and_the_other_way_round(calls):
    """The same tensor, different ones, and the parameter itself come to one op; each way is recorded first and then another comes."""
    weight = torch.full((3,), 2.0, requires_grad=True)

    def step(x, y):
        loss = (torch.lerp(x, y, 0.25) * weight + torch.stack([x, y]).sum(0)).sum()
        loss.backward()
        return loss.detach()

    def results(function):
        weight.grad, seen = None, []
        for kinds in [calls[:2]] * 4 + [calls[3:]] * 2 + [calls[:2]] * 2:
            first = torch.arange(3.0).requires_grad_()
            tensors = {"s": first, "d": (torch.arange(3.0) + 1).requires_grad_(), "p": weight}
            x, y = [tensors[kind] for kind in kinds]
            loss = function(x, y)
            seen.append([loss.item(), *[None if leaf.grad is None else leaf.grad.tolist() for leaf in (x, y, weight)]])
            weight.grad = None
        return seen

    compiled = Compiled(step, always=True)
    assert results(compiled) == results(step)
    assert compiled.walked
