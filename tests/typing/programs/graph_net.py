"""Message passing on a graph, with indices and scatter."""

from __future__ import annotations

from collections import OrderedDict
from itertools import pairwise
from typing import Final

import dynograd as torch
from dynograd import Tensor, nn

EPSILON: Final = 1e-6


class Convolution(nn.Module):
    __constants__ = ["size"]

    def __init__(self, size_in: int, size: int) -> None:
        super().__init__()
        self.size = size
        self.weight = nn.Parameter(torch.empty(size_in, size))
        self.bias = nn.Parameter(torch.zeros(size), requires_grad=True)
        nn.init.kaiming_uniform_(self.weight, a=5**0.5)

    def forward(self, x: Tensor, edges: Tensor, norm: Tensor) -> Tensor:
        source, target = edges
        messages = (x @ self.weight).index_select(0, source) * norm[:, None]
        out = torch.zeros(x.size(0), self.size, dtype=x.dtype, device=x.device)
        out = out.index_add(0, target, messages)
        return out + self.bias

    def extra_repr(self) -> str:
        return f"size={self.size}"


class Net(nn.Module):
    norm: Tensor

    def __init__(self, edges: Tensor, nodes: int, sizes: tuple[int, ...]) -> None:
        super().__init__()
        degree = torch.bincount(edges[1], minlength=nodes).float().clamp(min=1)
        norm = degree[edges[0]].pow(-0.5) * degree[edges[1]].rsqrt()
        self.register_buffer("norm", norm + EPSILON, persistent=False)
        layers: OrderedDict[str, nn.Module] = OrderedDict()
        for place, (before, after) in enumerate(pairwise(sizes)):
            layers[f"layer{place}"] = Convolution(before, after)
        self.layers = nn.ModuleDict(layers)
        self.activation = nn.LeakyReLU(0.1)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        for name, layer in self.layers.items():
            x = layer(x, edges, self.norm)
            if name != f"layer{len(self.layers) - 1}":
                x = self.activation(x)
        return x


def ring(nodes: int) -> Tensor:
    first = torch.arange(nodes)
    second = torch.roll(first, shifts=-1, dims=0)
    return torch.stack([torch.cat((first, second)), torch.cat((second, first))])


def main(steps: int = 3) -> float:
    torch.manual_seed(0)
    nodes = 8
    edges = ring(nodes)
    adjacency = torch.zeros(nodes, nodes)
    adjacency[edges[0], edges[1]] = 1.0
    assert torch.equal(adjacency, adjacency.T) and bool((adjacency.sum(-1) == 2).all())
    x = torch.eye(nodes)
    labels = torch.arange(nodes) % 2
    train = torch.zeros(nodes, dtype=torch.bool)
    train[:6] = True
    model = Net(edges, nodes, (nodes, 16, 2))
    optimizer = torch.optim.RMSprop(
        [
            {"params": [p for n, p in model.named_parameters() if n.endswith("weight")], "weight_decay": 1e-4},
            {"params": [p for n, p in model.named_parameters() if n.endswith("bias")]},
        ],
        lr=1e-2,
    )
    best, loss = 0.0, torch.tensor(0.0)
    for step in range(steps):
        logits = model(x, edges)
        loss = nn.functional.cross_entropy(logits[train], labels[train])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            values, places = model(x, edges).softmax(-1).topk(1, dim=-1)
            right = places.squeeze(-1).eq(labels)[~train]
            best = max(best, right.float().mean().item())
        assert values.min().item() > 0 and step < steps
    return loss.item()


if __name__ == "__main__":
    main()
