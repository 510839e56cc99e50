"""Lazy modules: what they are before the first forward, what the forward makes of them, moving, saving and errors."""

from __future__ import annotations

import copy
import pickle

import numpy
import pytest

import dynograd as dg
from dynograd import nn
from dynograd.nn.modules.lazy import LazyModuleMixin
from dynograd.nn.parameter import is_lazy

IMAGE = {1: (2, 4, 6), 2: (2, 4, 6, 5), 3: (2, 4, 3, 4, 5)}
# class, arguments, shape of the input, arguments of the plain class that must come out
ROWS = [
    ("LazyLinear", (3,), {}, (2, 5), (5, 3)),
    ("LazyLinear", (3,), {"bias": False}, (2, 4, 5), (5, 3)),
    *[(f"LazyConv{n}d", (6, 2), {"groups": 2, "padding": 1}, IMAGE[n], (4, 6, 2)) for n in IMAGE],
    *[(f"LazyConv{n}d", (6, 2), {"bias": False}, IMAGE[n][1:], (4, 6, 2)) for n in IMAGE],
    *[(f"LazyConvTranspose{n}d", (6, 3), {"groups": 2, "stride": 2}, IMAGE[n], (4, 6, 3)) for n in IMAGE],
    *[(f"LazyBatchNorm{n}d", (), {"eps": 1e-3}, IMAGE[n], (4,)) for n in IMAGE],
    *[(f"LazyBatchNorm{n}d", (), {"affine": False}, IMAGE[n], (4,)) for n in IMAGE],
    *[(f"LazyInstanceNorm{n}d", (), {"momentum": 0.3}, IMAGE[n], (4,)) for n in IMAGE],
    ("LazyInstanceNorm2d", (), {"track_running_stats": False, "bias": False}, IMAGE[2], (4,)),
    ("LazyBatchNorm1d", (), {"affine": False, "track_running_stats": False}, IMAGE[1], (4,)),
    ("LazyInstanceNorm1d", (), {}, IMAGE[1][1:], (4,)),
]


def label(row):
    return f"{row[0]}-{','.join(row[2])}-{len(row[3])}d"


def both(row):
    name, args, options, shape, plain_args = row
    lazy = getattr(nn, name)(*args, **options)
    defaults = {"affine": True, "track_running_stats": True} if "Instance" in name else {}
    plain = getattr(nn, name.removeprefix("Lazy"))(*plain_args, **{**defaults, **options})
    return lazy, plain, dg.randn(shape)


@pytest.mark.parametrize("row", ROWS, ids=label)
def test_the_first_forward_makes_it_the_plain_layer(row):
    lazy, plain, x = both(row)
    assert list(lazy.state_dict()) == list(plain.state_dict())
    kept = {name: id(element) for name, element in lazy.named_parameters()}
    dg.manual_seed(1)
    lazy(x)
    assert type(lazy) is type(plain) and repr(lazy) == repr(plain) and not lazy._hooked
    assert {name: id(element) for name, element in lazy.named_parameters()} == kept
    dg.manual_seed(1)
    plain.reset_parameters()
    plain(x)
    for (name, result), expected in zip(lazy.state_dict().items(), plain.state_dict().values(), strict=True):
        numpy.testing.assert_array_equal(result.numpy(), expected.numpy(), err_msg=name)
    assert dg.equal(lazy(x), plain(x))
    assert set(vars(lazy)) == set(vars(plain))


@pytest.mark.parametrize("row", ROWS, ids=label)
def test_loading_gives_the_shapes(row):
    lazy, plain, x = both(row)
    plain(x)
    lazy.load_state_dict(plain.state_dict())
    assert not lazy.has_uninitialized_params()
    assert dg.equal(lazy.eval()(x), plain.eval()(x)) and repr(lazy) == repr(plain) and type(lazy) is type(plain)


@pytest.mark.parametrize("row", ROWS, ids=label)
def test_copies_and_conversions_stay_lazy(row):
    lazy, plain, x = both(row)
    for element in (copy.deepcopy(lazy), pickle.loads(pickle.dumps(lazy)), copy.deepcopy(lazy).double().cpu().float()):
        assert type(element) is type(lazy) and element.has_uninitialized_params() == lazy.has_uninitialized_params()
        element(x)
        assert type(element) is type(plain) and repr(element) == repr(plain)
    assert type(lazy) is not type(plain)
    lazy.double()
    lazy(x.double())
    assert all(parameter.dtype is dg.float64 for parameter in lazy.parameters())


def test_lazy_to_lazy_keeps_waiting():
    element, two = nn.LazyLinear(3), nn.LazyLinear(3)
    element.load_state_dict(two.state_dict())
    assert element.has_uninitialized_params() and repr(element.weight) == "<UninitializedParameter>"


def test_models_train_from_an_optimizer_made_before():
    model = nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.ReLU(), nn.Flatten(), nn.LazyLinear(2))
    optimizer = dg.optim.Adam(model.parameters(), lr=0.01)
    x = dg.randn(4, 3, 5, 5)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    assert losses[-1] < losses[0]
    assert [type(element).__name__ for element in model] == ["Conv2d", "BatchNorm2d", "ReLU", "Flatten", "Linear"]


def test_the_mixin_serves_own_modules_and_keyword_inputs():
    class Scale(LazyModuleMixin, nn.Module):
        def __init__(self):
            super().__init__()
            self.factor = nn.UninitializedParameter()
            self.seen = nn.UninitializedBuffer(persistent=False)

        def initialize_parameters(self, x, *, y):
            self.factor.materialize(y.shape)
            self.seen.materialize((1,), dtype=dg.int64)
            nn.init.ones_(self.factor)

        def forward(self, x, *, y):
            return x * self.factor + y

    layer = Scale()
    assert list(layer.state_dict()) == ["factor"]
    assert dg.equal(layer(dg.ones(2), y=dg.ones(2)), dg.full((2,), 2.0))
    assert type(layer) is Scale and isinstance(layer.seen, nn.Buffer) and layer.seen.dtype is dg.int64


def test_materialize_keeps_identity_dtype_and_gradient():
    element = nn.UninitializedParameter(requires_grad=False, dtype=dg.float64)
    assert (
        is_lazy(element)
        and element.dtype is dg.float64
        and not element.requires_grad
        and isinstance(element, nn.Parameter)
    )
    element.materialize((2, 3))
    assert (
        type(element) is nn.Parameter
        and element.shape == (2, 3)
        and element.dtype is dg.float64
        and not is_lazy(element)
    )
    assert nn.parameter.UninitializedParameter is nn.UninitializedParameter


def test_materialize_takes_the_size_of_one_dim():
    element = nn.UninitializedParameter()
    element.materialize(10)
    assert element.shape == (10,)


class Forgetful(LazyModuleMixin, nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = nn.UninitializedParameter()

    def initialize_parameters(self, x):
        pass


class Bare(LazyModuleMixin, nn.Module):
    pass


USED = "Attempted to use an uninitialized parameter.*UninitializedParameter.*dummy batch"
ERRORS = [
    (lambda: nn.LazyLinear(2).weight + 1, ValueError, USED),
    (lambda: dg.add(1, nn.LazyLinear(2).weight), ValueError, USED),
    (lambda: nn.LazyLinear(2).weight.numel(), ValueError, USED),
    (lambda: nn.LazyLinear(2).weight.copy_(dg.ones(2)), ValueError, USED),
    (lambda: nn.LazyLinear(2).weight.shape, RuntimeError, "Can't access the shape.*UninitializedParameter"),
    (lambda: nn.LazyLinear(2).share_memory(), RuntimeError, "Can't share memory.*UninitializedParameter"),
    (
        lambda: nn.Linear(2, 2).load_state_dict(nn.LazyLinear(2).state_dict()),
        RuntimeError,
        "'weight'.*no values for it yet",
    ),
    (lambda: Forgetful()(dg.ones(2)), RuntimeError, "Forgetful has not been fully initialized.*factor"),
    (lambda: Bare()(dg.ones(2)), NotImplementedError, "not implemented for Bare"),
    (lambda: nn.LazyConv2d(4, 3)(dg.ones(3, 3)), RuntimeError, r"3D .* 4D .*LazyConv2d.*\(3, 3\)"),
    (lambda: nn.LazyConv1d(4, 3, groups=2)(dg.ones(3, 9)), ValueError, "LazyConv1d: in_channels .* 3 and 2"),
    (lambda: nn.LazyConv1d(3, 3, groups=2), ValueError, "LazyConv1d: out_channels .* 3 and 2"),
    (lambda: nn.LazyBatchNorm2d()(dg.ones(3, 3)), RuntimeError, "LazyBatchNorm2d: expected 4D input"),
]


@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_errors(number):
    call, kind, words = ERRORS[number]
    with pytest.raises(kind, match=words):
        call()


def test_errors_name_the_place_in_the_model():
    model = nn.Sequential(nn.ReLU(), nn.Sequential(nn.LazyConv2d(4, 3)))
    with pytest.raises(RuntimeError) as caught:
        model(dg.ones(3, 3))
    assert "Sequential.1.0" in caught.value.__notes__[0]
