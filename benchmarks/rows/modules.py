"""The smallest layers: a Linear(4, 4), and a module that does nothing."""

from __future__ import annotations

from benchmarks.workload import Workload, fill, fingerprint, generator, normal, row, train


def operands():
    random = generator(2)
    return normal(random, 4, 4), normal(random, 4, 4)


def linear_floor():
    x, w = operands()
    b = w[0]
    return Workload(lambda: x @ w.T + b, lambda: fingerprint(x @ w.T + b))


def small_linear(torch):
    """Linear(4, 4) whose parameters are the floor's."""
    x, w = [torch.from_numpy(array) for array in operands()]
    layer = torch.nn.Linear(4, 4)
    with torch.no_grad():
        layer.weight.copy_(w)
        layer.bias.copy_(w[0])
    return layer, x


@row("linear.no_grad", group="overhead", floor=linear_floor)
def linear_no_grad(torch):
    layer, x = small_linear(torch)

    def step():
        with torch.no_grad():
            return layer(x)

    return Workload(step, lambda: fingerprint(step()))


@row("linear.forward", group="overhead", floor=linear_floor)
def linear_forward(torch):
    layer, x = small_linear(torch)
    return Workload(lambda: layer(x), lambda: fingerprint(layer(x)))


@row("linear.train", group="overhead")
def linear_train(torch):
    """Forward, mean squared error, backward and a step of plain SGD."""
    x, y = [torch.from_numpy(array) for array in operands()]
    layer = torch.nn.Linear(4, 4)
    fill(torch, layer)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.01)

    def step():
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(layer(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return train(step, layer.parameters())


@row("module.call", group="overhead")
def module_call(torch):
    class Same(torch.nn.Module):
        def forward(self, x):
            return x

    module = Same()
    x = torch.from_numpy(operands()[0])
    return Workload(lambda: module(x), lambda: fingerprint(module(x)))


@row("module.ten_relus", group="overhead")
def ten_relus(torch):
    layer, (x, _) = torch.nn.Sequential(*[torch.nn.ReLU() for _ in range(10)]), map(torch.from_numpy, operands())
    return Workload(lambda: layer(x), lambda: fingerprint(layer(x)))


def ten_million(torch):
    return torch.nn.Sequential(*[torch.nn.Linear(1000, 1000) for _ in range(10)])


@row("module.load_state_dict", group="data", compiles=False)
def load_state_dict(torch):
    """10M parameters copied from one model's state_dict into another."""
    model, other = ten_million(torch), ten_million(torch)
    fill(torch, model)
    state = model.state_dict()
    return Workload(
        lambda: other.load_state_dict(state), lambda: (other.load_state_dict(state), fingerprint(other[9].bias))[1]
    )
