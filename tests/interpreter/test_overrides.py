"""Subclasses of Tensor, types like tensors and modes that take functions over by `__torch_function__`."""

import contextlib
import copy
import inspect
import itertools
import pickle
import threading

import numpy as np
import pytest

import dynograd
from dynograd import _C, nn, overrides
from dynograd.nn import functional as F


class Plain(dynograd.Tensor):
    pass


class Derived(Plain):
    pass


class Other(dynograd.Tensor):
    pass


class Tagged(dynograd.Tensor):
    """Hands its tag on to results; lists what was called."""

    calls: list = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls.append(func)
        result = super().__torch_function__(func, types, args, kwargs)
        if isinstance(result, cls):
            tags = [arg.tag for arg in args if isinstance(arg, cls) and hasattr(arg, "tag")]
            result.tag = tags[0] if tags else None
        return result


class Diagonal:
    """PyTorch's own example of a type that is no tensor: `size` times `value` on a diagonal."""

    def __init__(self, size, value):
        self.size, self.value = size, value

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func not in HANDLED or not all(issubclass(kind, (dynograd.Tensor, Diagonal)) for kind in types):
            return NotImplemented
        return HANDLED[func](*args, **(kwargs or {}))


HANDLED = {
    dynograd.mean: lambda input: float(input.value) / input.size,
    dynograd.std: lambda input, dim=None: ("std", input.value, dim),
    dynograd.matmul: lambda one, two: ("matmul", type(one).__name__, type(two).__name__),
    dynograd.Tensor.add: lambda one, two: ("added", two.value),
    dynograd.cat: lambda tensors, dim=0: ("cat", len(tensors), dim),
    dynograd.where: lambda condition, input, other: ("where", type(condition).__name__, input.value, other.value),
    F.relu: lambda input: ("relu", input.value),
}
RESULTS = {
    "operator": lambda x: x + 1,
    "reflected": lambda x: 2 - x,
    "method": lambda x: x.sum(0),
    "function": lambda x: dynograd.exp(x),
    "of nn.functional": lambda x: F.softmax(x, -1),
    "of linalg": lambda x: dynograd.linalg.norm(x),
    "index": lambda x: x[0],
    "index by a mask": lambda x: x[x > 0],
    "view": lambda x: x.view(-1).reshape(2, 2).T,
    "attribute": lambda x: x.mT,
    "data": lambda x: x.data,
    "list": lambda x: dynograd.stack([x, x]),
    "in place": lambda x: x.add_(1),
    "number": lambda x: x.to(dynograd.float64),
    "like": lambda x: dynograd.zeros_like(x),
    "new": lambda x: x.new_ones(3),
    "beside a plain one": lambda x: dynograd.ones(2, 2) * x,
    "layer": lambda x: nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.LayerNorm(3))(x),
    "detach": lambda x: x.detach().clone(),
    "copy": lambda x: copy.deepcopy(x),
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "iteration": lambda x: next(iter(x)),
}


@pytest.mark.parametrize("name", RESULTS)
def test_results_are_of_the_subclass(name):
    assert type(RESULTS[name](Plain([[1.0, -2.0], [3.0, 4.0]]))) is Plain


def test_results_of_several():
    x = Plain([3.0, 1.0, 2.0])
    values, indices = dynograd.sort(x)
    assert type(values) is type(indices) is Plain and dynograd.sort(x).values.tolist() == [1, 2, 3]
    assert [type(element) for element in x.split(2)] == [Plain, Plain]
    assert repr(x) == "Plain([3., 1., 2.])" and x.shape == (3,) and type(x.shape) is dynograd.Size


def test_the_more_derived_type_wins_and_strangers_do_not_mix():
    assert type(Plain([1.0]) + Derived([1.0])) is type(dynograd.add(Derived([1.0]), Plain([1.0]))) is Derived
    with pytest.raises(
        TypeError,
        match=r"'dynograd.Tensor.add'; all __torch_function__ handlers(.|\n)*Plain(.|\n)*Other(.|\n)*one type",
    ):
        Plain([1.0]) + Other([1.0])


def test_gradients_pass_and_stay_plain():
    x = Plain([1.0, 2.0]).requires_grad_()
    assert x.is_leaf and type(x) is Plain
    y = (x * x).sum()
    assert type(y) is Plain and y.requires_grad
    y.backward()
    assert type(x.grad) is dynograd.Tensor and x.grad.tolist() == [2, 4]
    x[0].mul(3).backward()
    assert x.grad.tolist() == [5, 4]
    with dynograd.no_grad():
        x -= x.grad
    assert type(x) is Plain and x.tolist() == [-4, -2]


def test_writes_through_views_of_a_subclass_reach_its_history():
    x, w = Plain([1.0, 2.0]), dynograd.ones(1, requires_grad=True)
    x[:1].copy_(w * 5)
    assert x.requires_grad and type(x) is Plain
    x.sum().backward()
    assert w.grad.tolist() == [5]


def test_what_a_handler_is_told():
    x = Tagged([1.0, 2.0])
    x.tag = "metres"
    Tagged.calls.clear()
    assert (x + 1).tag == "metres" and dynograd.mul(x, 2).tag == "metres" and x.sum(dim=0).tag == "metres"
    expected = [dynograd.Tensor.add, dynograd.mul, dynograd.Tensor.sum]
    assert Tagged.calls == expected
    Tagged.calls.clear()
    _ = x.shape, x[0], len(x), nn.Linear(2, 1)(x)
    assert Tagged.calls == [
        dynograd.Tensor.shape.__get__,
        dynograd.Tensor.__getitem__,
        dynograd.Tensor.__len__,
        F.linear,
    ]
    assert [call.__name__ for call in Tagged.calls] == ["__get__", "__getitem__", "__len__", "linear"]
    x.tag2 = "kept"
    assert (x == None) is False and x.tag2 == "kept"  # noqa: E711


def test_arguments_come_as_they_were_given():
    told = []

    class Listening(dynograd.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            told.append((types, args[1:], kwargs))
            return NotImplemented if len(told) > 2 else 7

    x = Listening([1.0])
    assert dynograd.sum(x, 0, keepdim=True) == 7 and x.sum(dim=0) == 7
    assert told == [((Listening,), (0,), {"keepdim": True}), ((Listening,), (), {"dim": 0})]
    with pytest.raises(TypeError, match="dynograd.mean(.|\n)*tensor subclass <class .*Listening'>"):
        dynograd.mean(x)


def test_a_type_that_is_no_tensor():
    x, t = Diagonal(5, 2), dynograd.ones(5)
    assert dynograd.std(x, dim=0) == ("std", 2, 0)  # the first meeting is in a function made of other ops
    assert dynograd.mean(x) == 0.4 and F.relu(x) == ("relu", 2) and t + x == t.add(x) == ("added", 2)
    assert dynograd.cat([t, x], dim=1) == ("cat", 2, 1) and dynograd.matmul(x, t) == ("matmul", "Diagonal", "Tensor")
    assert dynograd.where(t > 0, x, x) == ("where", "Tensor", 2, 2)
    with pytest.raises(
        TypeError,
        match="'dynograd.sin'; all __torch_function__ handlers returned NotImplemented(.|\n)*type <class .*Diagonal",
    ):
        dynograd.sin(x)
    with _C.DisableTorchFunctionSubclass(), pytest.raises(TypeError, match="must be Tensor, not Diagonal"):
        dynograd.mean(x)


def test_switched_off():
    x = Plain([1.0])
    for context in (_C.DisableTorchFunctionSubclass, _C.DisableTorchFunction, dynograd.DisableTorchFunctionSubclass):
        with context():
            assert type(x + 1) is type(dynograd.exp(x)) is dynograd.Tensor and not overrides.has_torch_function((x,))
    assert type(x + 1) is Plain

    class Silent(dynograd.Tensor):
        __torch_function__ = _C._disabled_torch_function_impl

    assert type(Silent([1.0]) + 1) is type(dynograd.exp(Silent([1.0]))) is dynograd.Tensor
    assert type(nn.Parameter(dynograd.ones(1)) + 1) is dynograd.Tensor and Silent.__bases__ == (dynograd.Tensor,)


def test_a_class_with_slots_or_other_bases():
    class Slotted(dynograd.Tensor):
        __slots__ = ("unit",)

    class Mixin:
        def twice(self):
            return self + self

    class Mixed(Mixin, dynograd.Tensor):
        def sum(self, *args):
            return super().sum(*args) * 2

    assert type(Slotted([1.0]) * 2) is Slotted
    assert type(Mixed([1.0]).twice()) is Mixed and Mixed([1.0, 2.0]).sum().item() == 6


def test_make_subclass():
    x = dynograd.ones(2)
    created = dynograd.Tensor._make_subclass(Plain, x, True)
    assert type(created) is Plain and created.is_leaf and created.requires_grad
    with dynograd.no_grad():
        created.add_(1)
    assert x.tolist() == [2, 2]


class Counting(overrides.TorchFunctionMode):
    def __init__(self):
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(overrides.resolve_name(func))
        return func(*args, **(kwargs or {}))


def test_a_mode_sees_functions_methods_attributes_and_layers():
    layer, x = nn.Linear(2, 2), dynograd.ones(2, 2)
    with Counting() as mode:
        y = layer(x).relu() + dynograd.zeros(2)
        y.sum(0)[0]
        _ = y.shape
        y.mean().backward()
    assert mode.seen == [
        *(
            "dynograd.linear",
            "dynograd.relu",
            "dynograd.zeros",
            "dynograd.Tensor.add",
            "dynograd.Tensor.sum",
        ),
        *(
            "dynograd.Tensor.__getitem__",
            "dynograd.Tensor.shape.__get__",
            "dynograd.Tensor.mean",
            "dynograd.Tensor.backward",
        ),
    ]
    assert layer.weight.grad is not None
    before = len(mode.seen)
    _ = (x + 1).relu().shape, dynograd.zeros(1)
    assert len(mode.seen) == before


def test_modes_nest_and_may_change_results():
    class Zeros(overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            if func is dynograd.ones:
                return dynograd.zeros(*args)
            return func(*args, **(kwargs or {}))

    with Counting() as outer, Zeros(), Counting() as inner:
        assert dynograd.ones(2).tolist() == [0, 0]
    assert inner.seen[0] == "dynograd.ones" and outer.seen[0] == "dynograd.zeros"
    with Counting() as mode, _C.DisableTorchFunction():
        dynograd.ones(1)
    assert mode.seen == []
    with pytest.raises(NotImplementedError, match="defines __torch_function__"), overrides.TorchFunctionMode():
        dynograd.ones(1)


def test_a_mode_and_a_subclass():
    x = Plain([1.0])
    with Counting() as mode:
        assert type(x + 1) is Plain and type(dynograd.exp(x)) is Plain
    assert mode.seen == ["dynograd.Tensor.add", "dynograd.exp"]


def test_a_mode_belongs_to_its_thread():
    seen = []

    def other():
        (dynograd.ones(2) + 1).sum()

    with Counting() as mode:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert mode.seen == seen


def test_functions_are_as_before_after_a_mode():
    functions = [
        dynograd.add,
        dynograd.relu,
        F.linear,
        dynograd.Tensor.add,
        dynograd.Tensor.clone,
        dynograd.Tensor.shape.fget,
    ]
    F.linear(dynograd.ones(1, 1), dynograd.ones(1, 1))
    (dynograd.ones(1) + 1).add(1).relu().clone()
    dynograd.add(dynograd.ones(1), 1), dynograd.relu(dynograd.ones(1))
    before = [function.__code__ for function in functions]
    signatures = [str(inspect.signature(function)) for function in functions]
    with Counting():
        assert [str(inspect.signature(function)) for function in functions] == signatures
        assert dynograd.add(dynograd.ones(1), 1).item() == 2
    assert [function.__code__ for function in functions] == before


@pytest.mark.parametrize("around", ["autocast outside", "autocast inside", "vmap", "profile"])
def test_modes_beside_others_who_exchange_code(around):
    x, w = dynograd.ones(2, 2), dynograd.ones(2, 2)
    cast = dynograd.autocast("cpu", dtype=dynograd.bfloat16)
    with Counting() as mode:
        if around == "vmap":
            assert dynograd.vmap(lambda row: row.sum() + 1)(x).tolist() == [3, 3]
        elif around == "profile":
            with dynograd.profiler.profile():
                assert dynograd.matmul(x, w).tolist() == [[2, 2], [2, 2]]
        else:
            with cast:
                assert dynograd.matmul(x, w).dtype is dynograd.bfloat16
        assert dynograd.matmul(x, w).dtype is dynograd.float32
    assert mode.seen.count("dynograd.matmul") >= 1 or around == "vmap"
    with cast if around == "autocast outside" else contextlib.nullcontext(), Counting() as mode:
        dynograd.matmul(x, w)
        x.sum()
    assert "dynograd.Tensor.sum" in mode.seen
    assert dynograd.matmul(x, w).dtype is dynograd.float32


def test_what_overrides_tells():
    x, p = dynograd.ones(1), Plain([1.0])
    assert overrides.has_torch_function((x, p)) and not overrides.has_torch_function((x, 1))
    assert overrides.has_torch_function_unary(p) and overrides.has_torch_function_variadic(x, p)
    assert not overrides.has_torch_function_unary(nn.Parameter(x))
    assert overrides.is_tensor_like(Diagonal(1, 1)) and overrides.is_tensor_like(x) and not overrides.is_tensor_like(1)
    listed = overrides.get_overridable_functions()
    assert dynograd.add in listed[dynograd] and F.relu in listed[F] and dynograd.Tensor.add in listed[dynograd.Tensor]
    assert dynograd.linalg.norm in listed[dynograd.linalg] and dynograd.zeros in overrides.get_ignored_functions()
    assert dynograd.zeros not in listed[dynograd]
    assert overrides.get_testing_overrides()[dynograd.add](1, 2) == -1
    assert overrides.is_tensor_method_or_property(dynograd.Tensor.add) and not overrides.is_tensor_method_or_property(
        dynograd.add
    )
    assert dynograd.Tensor.grad.__get__ in overrides.get_default_nowrap_functions()
    assert overrides.resolve_name(dynograd.add) == "dynograd.add" and overrides.resolve_name(print) is None
    assert overrides.resolve_name(dynograd.linalg.norm) == "dynograd.linalg.norm"


def test_own_functions_can_be_taken_over():
    def area(x):
        if overrides.has_torch_function_unary(x):
            return overrides.handle_torch_function(area, (x,), x)
        return x.prod()

    HANDLED[area] = lambda x: ("area", x.size)
    assert area(Diagonal(3, 1)) == ("area", 3) and area(dynograd.full((2,), 3.0)).item() == 9
    with pytest.raises(
        TypeError, match=r"handle_torch_function: none of the arguments of .*area has a __torch_function__ \(int\)"
    ):
        overrides.handle_torch_function(area, (1,), 1)
    with pytest.raises(AttributeError, match="there is no C"):
        _ = _C._nothing


@pytest.mark.parametrize("name", ["add", "relu", "sum", "matmul", "softmax", "cumsum", "std", "logsumexp"])
def test_values_are_those_of_plain_tensors(name):
    x = np.random.default_rng(0).normal(size=(3, 3))
    args = {"add": (1,), "matmul": (x,), "softmax": (-1,), "cumsum": (0,), "logsumexp": (0,)}.get(name, ())
    args = tuple(dynograd.tensor(arg) if isinstance(arg, np.ndarray) else arg for arg in args)
    function = getattr(dynograd, name)
    got = function(dynograd.tensor(x).as_subclass(Plain), *args)
    assert type(got) is Plain
    np.testing.assert_array_equal(got.numpy(), function(dynograd.tensor(x), *args).numpy())


# --- beside others who put code over functions ----------------------------------------------------------------------------------


def covers():
    return {
        "mode": Passing(),
        "profile": dynograd.profiler.profile(),
        "autobatch": dynograd.autobatch(always=True),
        "autocast": dynograd.autocast("cpu", dtype=dynograd.bfloat16),
    }


class Passing(overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class Own(dynograd.Tensor):
    pass


def used(with_own):
    x, w = dynograd.ones(3, 4, requires_grad=True), dynograd.ones(5, 4, requires_grad=True)
    result = dynograd.nn.functional.linear(x, w).float().sum() + dynograd.einsum("ij,kj->ik", x, w).float().sum()
    result = result + dynograd.bmm(x[None], w.t()[None]).float().sum() + dynograd.tanh(x).sum()
    result = result + dynograd.ragged_tensor([[1.0, 2.0], [3.0]]).exp().sum()
    result.backward()
    if with_own:
        own = Own([1.0, 2.0])
        assert type(dynograd.sin(own)) is type(own + 1) is type(dynograd.cat([own, own])) is Own
    return x.grad.sum().item()


@pytest.mark.parametrize(
    "names", [names for count in (1, 2, 3, 4) for names in itertools.permutations(covers(), count)]
)
def test_code_of_several_over_one_function(names):
    expected = used(True)
    with contextlib.ExitStack() as stack:
        for name in names:
            stack.enter_context(covers()[name])
            assert used("autobatch" not in names) == pytest.approx(expected, rel=1e-2)
    assert used(True) == expected
