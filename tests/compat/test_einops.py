"""einops takes tensors: its functions as on NumPy's arrays, its layers as modules."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import einops
import numpy
import pytest

import dynograd as dg
from dynograd import nn, tensor
from dynograd.compat.einops_layers import EinMix, Rearrange, Reduce

X = numpy.random.default_rng(0).standard_normal((2, 3, 4, 6))
CALLS = {
    "rearrange": lambda x: einops.rearrange(x, "b c (h p) w -> b (h w) (p c)", p=2),
    "rearrange with ones": lambda x: einops.rearrange(x, "b c h w -> b 1 c (h w) 1"),
    "rearrange with dots": lambda x: einops.rearrange(x, "b ... w -> w ... b"),
    "rearrange of a list": lambda x: einops.rearrange(list(x), "b c h w -> c b h w"),
    "repeat": lambda x: einops.repeat(x, "b c h w -> b (c r) h w k", r=2, k=3),
    **{
        f"reduce {how}": (lambda x, how=how: einops.reduce(x, "b c (h two) w -> b h w", how, two=2))
        for how in ("sum", "mean", "max", "min", "prod")
    },
    "reduce any": lambda x: einops.reduce(x > 1, "b c h w -> b c", "any"),
    "reduce all": lambda x: einops.reduce(x < 2, "b c h w -> c w", "all"),
    "einsum": lambda x: einops.einsum(x, x, "b c h w, d c h w -> b d"),
    "pack": lambda x: einops.pack([x, x[:, :, 0]], "b c * w")[0],
    "unpack": lambda x: einops.unpack(x, [[2], [2]], "b c * w")[1],
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_functions(call):
    x = tensor(X, requires_grad=True)
    result = call(x)
    assert isinstance(result, dg.Tensor)
    numpy.testing.assert_allclose(result.detach().numpy(), call(X), rtol=1e-12)
    if result.dtype.is_floating_point:
        result.sum().backward()
        assert x.grad.shape == x.shape


def test_functions_name_shapes_of_what_does_not_fit():
    with pytest.raises(einops.EinopsError, match="can't divide axis of length 3"):
        einops.rearrange(tensor(X), "b (c two) h w -> b c two h w", two=2)


def test_layers():
    x = tensor(X)
    model = nn.Sequential(
        Rearrange("b c h w -> b h w c"), EinMix("b h w c -> b h w d", weight_shape="c d", bias_shape="d", c=3, d=5)
    )
    assert list(model.state_dict()) == ["1.weight", "1.bias"] and "b h w c" in repr(model)
    model = model.double()
    weight, bias = model[1].weight.detach().numpy(), model[1].bias.detach().numpy().reshape(-1)
    expected = einops.einsum(X, weight.reshape(3, 5), "b c h w, c d -> b h w d") + bias
    numpy.testing.assert_allclose(model(x).detach().numpy(), expected, rtol=1e-9)
    pooled = Reduce("b c h w -> b c", "mean")(x)
    numpy.testing.assert_allclose(pooled.numpy(), X.mean((2, 3)), rtol=1e-12)
    packed = EinMix("b c (h p) w -> b h (p c) w", weight_shape="h c", c=3, h=2, p=2)
    assert packed.pre_rearrange is not None and packed(x.float()).shape == (2, 2, 6, 6)


@pytest.mark.parametrize("first", ["einops", "dynograd"])
def test_either_may_be_imported_first(first):
    second = "einops" if first == "dynograd" else "dynograd"
    program = f"import {first}, {second}; print(tuple(einops.rearrange(dynograd.zeros(2, 3), 'a b -> b a').shape))"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "(3, 2)\n"


@pytest.mark.skipif(
    importlib.util.find_spec("torch") is not None, reason="torch is installed, so its layers are torch's"
)
def test_programs_that_name_the_layers_of_torch_get_ours():
    from einops.layers.torch import Rearrange as theirs

    assert theirs is Rearrange


def test_layers_have_a_path_of_their_own():
    from einops.layers.dynograd import Rearrange as ours

    assert ours is Rearrange


def test_einops_is_not_imported_on_its_own():
    program = "import sys, dynograd; print('einops' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "False\n"
