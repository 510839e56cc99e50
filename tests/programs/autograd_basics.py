"""First steps: tensors, gradients, a polynomial fitted to the sine by hand, by autograd, by a Function of one's own and by nn."""

import math

import dynograd as torch
from dynograd import nn


class LegendrePolynomial3(torch.autograd.Function):
    @staticmethod
    def forward(ctx, input):
        ctx.save_for_backward(input)
        return 0.5 * (5 * input**3 - 3 * input)

    @staticmethod
    def backward(ctx, grad_output):
        (input,) = ctx.saved_tensors
        return grad_output * 1.5 * (5 * input**2 - 1)


def by_hand(x, y, steps):
    a, b, c, d = (torch.randn(()) for _ in range(4))
    rate = 1e-6
    for _ in range(steps):
        y_pred = a + b * x + c * x**2 + d * x**3
        loss = (y_pred - y).pow(2).sum().item()
        grad = 2.0 * (y_pred - y)
        a -= rate * grad.sum()
        b -= rate * (grad * x).sum()
        c -= rate * (grad * x**2).sum()
        d -= rate * (grad * x**3).sum()
    return loss


def by_autograd(x, y, steps):
    weights = [torch.randn((), requires_grad=True) for _ in range(4)]
    for _ in range(steps):
        y_pred = sum(w * x**power for power, w in enumerate(weights))
        loss = (y_pred - y).pow(2).sum()
        loss.backward()
        with torch.no_grad():
            for w in weights:
                w -= 1e-6 * w.grad
                w.grad = None
    return loss.item()


def by_function(x, y, steps):
    a, b = torch.full((), 0.0, requires_grad=True), torch.full((), -1.0, requires_grad=True)
    c, d = torch.full((), 0.0, requires_grad=True), torch.full((), 0.3, requires_grad=True)
    for _ in range(steps):
        loss = (a + b * LegendrePolynomial3.apply(c + d * x) - y).pow(2).sum()
        loss.backward()
        with torch.no_grad():
            for w in (a, b, c, d):
                w -= 5e-6 * w.grad
                w.grad.zero_()
    return loss.item()


def by_module(x, y, steps):
    powers = x.unsqueeze(-1).pow(torch.tensor([1, 2, 3]))
    model = nn.Sequential(nn.Linear(3, 1), nn.Flatten(0, 1))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    loss_fn = nn.MSELoss(reduction="sum")
    for _ in range(steps):
        loss = loss_fn(model(powers), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def main(steps=2000):
    torch.manual_seed(0)
    x = torch.linspace(-math.pi, math.pi, 2000)
    y = torch.sin(x)
    result = {fit.__name__: fit(x, y, steps) for fit in (by_hand, by_autograd, by_function, by_module)}
    inp = torch.eye(4, 5, requires_grad=True)
    out = (inp + 1).pow(2).t()
    out.backward(torch.ones_like(out), retain_graph=True)
    first = inp.grad.clone()
    out.backward(torch.ones_like(out), retain_graph=True)
    assert torch.equal(inp.grad, 2 * first)
    assert not (x + 1).requires_grad and out.grad_fn.next_functions
    return result


if __name__ == "__main__":
    print(main())
