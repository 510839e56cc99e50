"""Floats of one byte: conversions both ways, storage, views and copies; arithmetic is refused."""

import ml_dtypes
import numpy
import pytest

import dynograd
from dynograd import float8_e4m3fn, float8_e5m2

tensor, ones = dynograd.tensor, dynograd.ones
KINDS = [float8_e4m3fn, float8_e5m2]
OTHERS = [dynograd.float32, dynograd.float64, dynograd.float16, dynograd.bfloat16]
EVERY_BYTE = numpy.arange(256).astype(numpy.uint8)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("other", OTHERS)
def test_every_value_there_and_back(kind, other):
    x = dynograd.from_numpy(EVERY_BYTE.copy()).view(kind)
    wide = x.to(other)
    expected = EVERY_BYTE.view(kind.numpy).astype(numpy.float64)
    assert wide.dtype is other
    numpy.testing.assert_array_equal(wide.double().numpy(), expected)
    finite = ~numpy.isnan(expected) & ~numpy.isinf(expected)
    numpy.testing.assert_array_equal(wide.to(kind).view(dynograd.uint8).numpy()[finite], EVERY_BYTE[finite])


def test_rounding_and_what_is_too_large():
    x = tensor([1.0, -2.55, 448.1, 1000.0, float("inf"), -1e30, float("nan")])
    assert x.to(float8_e4m3fn).float()[:6].tolist() == [1.0, -2.5, 448.0, 448.0, 448.0, -448.0]
    assert x.to(float8_e4m3fn).isnan().tolist() == [False] * 6 + [True]
    assert x.to(float8_e5m2).float()[:6].tolist() == [1.0, -2.5, 448.0, 1024.0, float("inf"), float("-inf")]
    assert tensor([61439.0, 61440.0]).to(float8_e5m2).float().tolist() == [57344.0, float("inf")]
    assert tensor([600]).to(float8_e4m3fn).float().item() == 448.0
    assert tensor([1e4], dtype=float8_e4m3fn).float().item() == 448.0
    assert dynograd.full((1,), 1e4, dtype=float8_e4m3fn).float().item() == 448.0  # one element, as in PyTorch
    for fill in (
        lambda: dynograd.full((2,), 1e4, dtype=float8_e4m3fn),
        lambda: dynograd.zeros(2, dtype=float8_e4m3fn).fill_(1e4),
    ):
        with pytest.raises(RuntimeError, match="float8_e4m3fn without overflow: 10000.0 is not in -448.0 to 448.0"):
            fill()


@pytest.mark.parametrize("kind", KINDS)
def test_made_kept_and_moved(kind, tmp_path):
    x = tensor([[1.0, 2.0], [3.0, -0.5]], dtype=kind)
    assert x.dtype is kind and x.element_size() == 1 and kind.is_floating_point and x.is_floating_point()
    assert repr(x) == f"tensor([[ 1.0000,  2.0000],\n        [ 3.0000, -0.5000]], dtype=dynograd.{kind.name})"
    assert x.tolist() == [[1.0, 2.0], [3.0, -0.5]] and x[1, 1].item() == -0.5
    assert x.t().contiguous().float().tolist() == [[1.0, 3.0], [2.0, -0.5]]
    assert dynograd.cat([x, x]).dtype is kind and dynograd.stack([x, x])[1].tolist() == x.tolist()
    assert dynograd.where(x.float() > 0, x, x).tolist() == x.tolist()
    assert x[tensor([1])].tolist() == [[3.0, -0.5]] and x.clone().copy_(ones(2, 2)).tolist() == [[1.0] * 2] * 2
    assert (x == x).all() and not (x != x).any() and x.abs().tolist()[1] == [3.0, 0.5]
    assert x.view(dynograd.uint8).shape == (2, 2) and x.to(kind) is x
    assert x.untyped_storage().nbytes() == 4
    for created in (dynograd.zeros(2, dtype=kind), dynograd.ones(2, dtype=kind), dynograd.empty(2, dtype=kind)):
        assert created.dtype is kind
    dynograd.save({"x": x}, tmp_path / "x.safetensors")
    again = dynograd.load(tmp_path / "x.safetensors")["x"]
    assert again.dtype is kind and again.tolist() == x.tolist()
    info = dynograd.finfo(kind)
    assert info.max == float(ml_dtypes.finfo(kind.numpy).max) and info.bits == 8


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_pass_the_conversion(kind):
    w = ones(2, requires_grad=True)
    (w.to(kind).float() * 2).sum().backward()
    assert w.grad.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "name, call",
    [
        ("add", lambda x: x + x),
        ("add", lambda x: x + 1),
        ("mul", lambda x: x * x),
        ("neg", lambda x: -x),
        ("lt", lambda x: x < x),
        ("exp", lambda x: x.exp()),
        ("relu", lambda x: x.relu()),
        ("sum", lambda x: x.sum()),
        ("mean", lambda x: x.mean(0)),
        ("prod", lambda x: x.prod()),
        ("std", lambda x: x.std()),
        ("cumsum", lambda x: x.cumsum(0)),
        ("softmax", lambda x: x.softmax(0)),
        ("logsumexp", lambda x: x.logsumexp(0)),
        ("matmul", lambda x: x @ x),
        ("linear", lambda x: dynograd.nn.functional.linear(x, x)),
        ("rand", lambda x: dynograd.rand(2, dtype=x.dtype)),
        ("randn", lambda x: dynograd.randn(2, dtype=x.dtype)),
        ("promote", lambda x: x + ones(2, 2)),
        ("promote", lambda x: dynograd.promote_types(x.dtype, dynograd.float16)),
    ],
)
def test_arithmetic_is_refused(kind, name, call):
    with pytest.raises(RuntimeError) as caught:
        call(ones(2, 2, dtype=kind))
    message = str(caught.value)
    assert name in message and kind.name in message and ("float()" in message or ".to(" in message), message
