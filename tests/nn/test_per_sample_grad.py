"""call_for_per_sample_grads: the gradients of the examples one by one, left at the parameters."""

import pytest

import dynograd
from dynograd import nn, tensor
from dynograd.nn.utils._per_sample_grad import call_for_per_sample_grads

X = dynograd.sin(dynograd.arange(48.0)).reshape(3, 4, 4)
LAYERS = {
    "linear": (lambda: nn.Linear(4, 2), X, True),
    "conv1d": (lambda: nn.Conv1d(4, 6, 2, groups=2), X, True),
    "conv2d": (lambda: nn.Conv2d(1, 2, 3, padding=1), X[:, None], True),
    "group_norm": (lambda: nn.GroupNorm(2, 4), X, True),
    "layer_norm": (lambda: nn.LayerNorm(4), X, True),
    "embedding": (lambda: nn.Embedding(5, 3), tensor([[0, 1], [1, 1], [4, 0]]), True),
    "several": (lambda: nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)), X, True),
    "batch second": (lambda: nn.Linear(4, 2), X.transpose(0, 1), False),
}


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("name", LAYERS)
def test_gradients_are_those_of_each_example(name, reduction):
    make, x, batch_first = LAYERS[name]
    layer, dim = make(), 0 if batch_first else 1
    losses = call_for_per_sample_grads(layer, loss_reduction=reduction, batch_first=batch_first)(x).square()
    losses = losses.movedim(dim, 0).flatten(1).sum(1)
    getattr(losses, reduction)().backward()
    for place in range(3):
        gradients = dynograd.autograd.grad(layer(x.narrow(dim, place, 1)).square().sum(), [*layer.parameters()])
        for parameter, gradient in zip(layer.parameters(), gradients, strict=True):
            assert parameter.grad is None
            assert dynograd.allclose(parameter.grad_sample[place], gradient, atol=1e-5)


def test_what_is_no_batch_is_the_same_for_all_and_calls_add_up():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(tensor([1.0, 2.0]))
            self.fixed = nn.Parameter(tensor(1.0), requires_grad=False)

        def forward(self, x, *, scale):
            return {"out": x * self.weight * scale * self.fixed}

    layer, scale = Scaled(), tensor([3.0, 5.0])
    call = call_for_per_sample_grads(layer, batch_size=3)
    for expected in ([[3.0, 5.0]] * 3, [[6.0, 10.0]] * 3):
        call(dynograd.ones(3, 2), scale=scale)["out"].sum().backward()
        assert layer.weight.grad_sample.tolist() == expected and not hasattr(layer.fixed, "grad_sample")


def held():
    layer = nn.Linear(2, 1)
    layer.bias.grad_sample = dynograd.zeros(3, 1)
    return layer


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: call_for_per_sample_grads(nn.Tanh(), loss_reduction="max"), "sum or mean, got max"),
        (lambda: call_for_per_sample_grads(dynograd.tanh), "must be nn.Module, got"),
        (lambda: call_for_per_sample_grads(nn.Tanh(), batch_size=0), "positive integer, got 0.*None reads it"),
        (lambda: call_for_per_sample_grads(nn.Tanh(), batch_size="3"), "positive integer, got '3'"),
        (lambda: call_for_per_sample_grads(held()), "bias has a grad_sample already.*Set it to None"),
        (
            lambda: call_for_per_sample_grads(nn.Bilinear(2, 2, 1))(dynograd.ones(3, 2), dynograd.ones(1, 2)),
            "one batch size, got batches of 1 and 3.*batch_size=",
        ),
        (lambda: call_for_per_sample_grads(nn.Tanh())(2.0), "one batch size, got no tensor"),
        (
            lambda: call_for_per_sample_grads(nn.Flatten(0))(dynograd.ones(3, 2)),
            r"size 1 along dim 0, got shape \(2,\).*loss outside",
        ),
    ],
)
def test_what_is_refused(call, words):
    with pytest.raises(RuntimeError, match=words):
        call()
