"""`dynograd.compile` and `dynograd.compiler`: what they take and give, and what they refuse."""

from __future__ import annotations

import pickle

import numpy
import pytest

import dynograd as torch
from dynograd import nn
from dynograd.ops import readers
from dynograd.ops.op import registry
from dynograd.plans.compiling import Compiled
from dynograd.plans.lowering import layouts


def layer():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))


def double(x):
    """Twice."""
    return x * 1 + x


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
        (
            lambda: torch.compile(double, options={"a": 1}),
            RuntimeError,
            "Unexpected optimization option a, known options",
        ),
        (
            lambda: torch.compile(double, mode="fast"),
            ValueError,
            "expected a mode out of default, checked, exact,.* got 'fast'",
        ),
        (
            lambda: torch.compile(double, backend="tvm"),
            ValueError,
            "expected a backend out of cudagraphs, .* got 'tvm'",
        ),
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


LOOKED_AT = {  # arguments that these functions look at, here others in each call
    "mask": (lambda x, mask: nn.functional.scaled_dot_product_attention(x, x, x, mask), lambda k: torch.arange(4) <= k),
    "scores of a mask": (
        lambda x, mask: nn.functional.scaled_dot_product_attention(x, x, x, mask),
        lambda k: torch.where(torch.arange(4) <= k, 0.5 * k, -torch.inf),
    ),
    "places": (lambda x, places: torch.take_along_dim(x[None], places, 2), lambda k: torch.tensor([[[k, -k]] * 4])),
    "classes": (nn.functional.multi_margin_loss, lambda k: torch.arange(4) * k % 3),
}


@pytest.mark.parametrize("name", LOOKED_AT)
def test_arguments_whose_values_are_looked_at_may_be_others_behind_a_write(name):
    function, argument = LOOKED_AT[name]

    def step(x, other):
        x.add_(1)
        return function(x, other)

    compiled = torch.compile(step, fullgraph=True)
    cache, own = [torch.arange(16.0).view(4, 4).sin() for _ in range(2)]
    for k in (1, 2, 3, 1, 2):
        torch.testing.assert_close(compiled(cache, argument(k)), step(own, argument(k)))
    assert compiled.walked


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
    rows = torch.ragged_tensor([torch.full((length, 8), 0.5) for length in (30, 20, 40)])

    @torch.compile
    def ordered(x):
        return x.sort(1)[0]

    @torch.compile
    def doubled(x):
        return x * 2

    for _ in range(3):
        ordered(rows)
        doubled(torch.ones(1000, 1000))
    for f, why in ((ordered, "segment_places"), (doubled, "what is copied costs more")):
        assert f.walked == 0 and "it would be slower by some" in str(f.report()) and why in str(f.report())


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


@pytest.mark.parametrize("count", [300, 5000, 70_000])
def test_sums_that_nearly_cancel_are_computed_by_kernels(count):
    """The last bits of the summands are more than the last bits of the sum."""

    f = Compiled(lambda x: ((x - x.mean()).mean(), x.sum(0)), always=True)

    x = torch.randn(count, generator=torch.Generator().manual_seed(0)) + 100
    for _ in range(4):
        f(torch.cat([x, -x]))
    (way,) = f.report().ways
    assert not way.in_python and not way.replaced


def _printed(x):
    y = x * 2
    y.tolist()
    part = y[1:]
    (part * 3).sum().backward()
    return part


def _strided(x):
    y = x.clone()
    part = torch.as_strided(y, (2, 3), (3, 1), 1)
    part.sum().backward()
    return part


@pytest.mark.parametrize("step", [_printed, _strided])
def test_views_of_what_was_read_keep_their_values(step):
    """Their memory is used again for gradients."""
    compiled, kept = Compiled(step, always=True), []
    for n in range(6):
        x = torch.randn(3, 4, generator=torch.Generator().manual_seed(n))
        leaves = [x.clone().requires_grad_() for _ in range(2)]
        kept.append((step(leaves[0]).tolist(), compiled(leaves[1])))
        assert leaves[0].grad.tolist() == leaves[1].grad.tolist()
    assert compiled.walked == 4 and all(part.tolist() == expected for expected, part in kept)


@pytest.mark.parametrize("use", [lambda loss: loss + 1, lambda loss: torch.equal(loss, loss), lambda loss: loss.sum()])
def test_results_whose_graph_was_used_up_can_be_computed_with(use):
    weight = nn.Parameter(torch.tensor(3.0))

    @torch.compile
    def step(x):
        loss = (weight * x).sum()
        loss.backward()
        return loss

    for n in range(5):
        assert torch.as_tensor(use(step(torch.full((4,), float(n))))).item() == use(torch.tensor(12.0 * n))
    with pytest.raises(RuntimeError, match="second time"):
        (step(torch.ones(4)) * 2).backward()


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


@pytest.mark.parametrize("kind", [str, lambda text: [text], lambda text: {"how": (text, b"bytes")}])
def test_texts_among_the_arguments(kind):
    """They have a method `partition`, as ragged tensors have an attribute of that name."""
    weight = torch.ones(3, requires_grad=True)

    def step(how, x):
        return (x * weight).sum() if "sum" in str(how) else (x * weight).mean()

    compiled = Compiled(step, always=True)
    for call in range(8):
        how, x = kind("sum" if call % 4 < 2 else "mean"), torch.tensor([1.0, 2.0, float(call)])
        assert compiled(how, x).item() == step(how, x).item()
    assert compiled.walked >= 4, str(compiled.report())


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


def test_ops_have_their_own_code_outside_of_compiled_functions():
    """The code of a walk stays where it is until ops are called elsewhere, some times without a walk between."""
    entry = readers.entry_of(registry["relu"].function)
    first, second = torch.compile(lambda x: x.relu() + 1), torch.compile(lambda x: x.relu() * 2)
    x = torch.tensor([-1.0, 3.0])
    with torch.no_grad():
        for _ in range(4):
            assert first(x).tolist() == [1.0, 4.0] and second(x).tolist() == [0.0, 6.0]
        assert not any([reader.name == "plan" for reader in readers.turned_on()])
        resting = entry.function.__code__
        for _ in range(16):
            assert entry.function.__code__ is resting
            assert torch.relu(x).tolist() == [0.0, 3.0]
        assert entry.function.__code__ is not resting
        assert second(x).tolist() == [0.0, 6.0] and first(x).tolist() == [1.0, 4.0]
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert first(x).tolist() == [1.0, 4.0] and torch.relu(x).tolist() == [0.0, 3.0]
    assert first.walked >= 3 and second.walked >= 3


def test_hooks_of_all_optimizers_run():
    model, seen = layer(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @torch.compile
    def step(x):
        optimizer.zero_grad()
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
        return loss

    for n in range(8):
        if n == 5:
            handle = torch.optim.optimizer.register_optimizer_step_pre_hook(lambda *_: seen.append(1))
        step(torch.ones(2, 3))
    handle.remove()
    step(torch.ones(2, 3))
    assert len(seen) == 3


@pytest.mark.parametrize(
    "change",
    [
        lambda optimizer, p: optimizer.state[p].update(exp_avg=torch.ones(2, 4)),
        lambda optimizer, p: optimizer.state[p]["exp_avg"].fill_(1.0),
        lambda optimizer, p: setattr(optimizer.state[p]["exp_avg"], "data", torch.ones(2, 4)),
        lambda optimizer, p: optimizer.load_state_dict(optimizer.state_dict()),
        lambda optimizer, p: optimizer.state.pop(p),
        lambda optimizer, p: optimizer.state.clear(),
        lambda optimizer, p: optimizer.param_groups[0].update(lr=0.5),
        lambda optimizer, p: optimizer.param_groups[0].update(lr=torch.tensor(0.5)),
        lambda optimizer, p: optimizer.param_groups[0].update(betas=(0.5, 0.9), maximize=True),
        lambda optimizer, p: optimizer.param_groups[0]["params"].pop(0),
        lambda optimizer, p: optimizer.param_groups[0].update(params=optimizer.param_groups[0]["params"][1:]),
        lambda optimizer, p: setattr(p, "data", torch.ones(2, 4)),
        lambda optimizer, p: p.grad.mul_(2.0),
    ],
)
def test_whatever_changes_between_steps_of_an_optimizer_counts(change):
    results = []
    for compile in (lambda function: function, lambda function: Compiled(function, always=True)):
        model = layer()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)

        def step(x, model=model, optimizer=optimizer):
            loss = model(x).square().sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        step = compile(step)
        for n in range(9):
            if n in (5, 7):
                change(optimizer, model[2].weight)
            step(torch.ones(2, 3) * n)
        results.append([p.detach().numpy() for p in model.parameters()])
    for expected, actual in zip(*results):
        numpy.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-6)
    assert step.walked >= 3


def test_another_threads_turn_may_end_at_any_time():
    class Ended(dict):
        """The turn of another thread, which ends right behind the look at it."""

        def setdefault(self, key, value):
            return object()

        def __contains__(self, key):
            return True

    compiled = Compiled(double)
    compiled.turns = Ended()
    assert compiled(torch.ones(2)).tolist() == double(torch.ones(2)).tolist()
