"""A graph convolutional network: messages along edges, gathered by index and added up with index_add, or as a sparse matrix."""

from __future__ import annotations

import numpy

from benchmarks.workload import fill, generator, normal, row, train_on

NODES = 5_000
EDGES = 50_000
FEATURES = 64
CLASSES = 10


@row("gcn")
def gcn(torch, nodes=NODES, edge_count=EDGES):
    """Two layers (Kipf and Welling 2017), 5,000 nodes, 50,000 edges, 64 features; cross_entropy over all nodes, Adam."""
    nn = torch.nn
    random = generator(13)
    edges = random.integers(0, nodes, (2, edge_count))
    degrees = numpy.bincount(edges[1], minlength=nodes) + 1
    weights = (1 / numpy.sqrt(degrees[edges[0]] * degrees[edges[1]])).astype(numpy.float32)
    source, target = torch.from_numpy(edges[0].copy()), torch.from_numpy(edges[1].copy())
    weights = torch.from_numpy(weights[:, None].copy())
    own = torch.from_numpy((1 / degrees).astype(numpy.float32)[:, None].copy())
    x = torch.from_numpy(normal(random, nodes, FEATURES))
    y = torch.from_numpy(random.integers(0, CLASSES, nodes))

    class Layer(nn.Module):
        def __init__(self, inputs, outputs):
            super().__init__()
            self.linear = nn.Linear(inputs, outputs)

        def forward(self, x):
            h = self.linear(x)
            return (h * own).index_add(0, target, h[source] * weights)

    model = nn.Sequential(Layer(FEATURES, FEATURES), nn.ReLU(), Layer(FEATURES, CLASSES))
    fill(torch, model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    cross_entropy = nn.functional.cross_entropy
    return train_on([(x, y)], lambda x, y: cross_entropy(model(x), y), optimizer, model.parameters())


@row("gcn.sparse")
def gcn_sparse(torch):
    """The same network with its edges as a sparse COO matrix, multiplied by torch.sparse.mm."""
    nn = torch.nn
    random = generator(13)
    edges = random.integers(0, NODES, (2, EDGES))
    degrees = numpy.bincount(edges[1], minlength=NODES) + 1
    weights = (1 / numpy.sqrt(degrees[edges[0]] * degrees[edges[1]])).astype(numpy.float32)
    matrix = torch.sparse_coo_tensor(
        torch.from_numpy(edges[::-1].copy()), torch.from_numpy(weights), (NODES, NODES), check_invariants=False
    ).coalesce()
    x = torch.from_numpy(normal(random, NODES, FEATURES))
    y = torch.from_numpy(random.integers(0, CLASSES, NODES))
    model = nn.ModuleList([nn.Linear(FEATURES, FEATURES), nn.Linear(FEATURES, CLASSES)])
    fill(torch, model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    functional = nn.functional

    def loss(x, y):
        h = torch.sparse.mm(matrix, model[0](x)).relu()
        return functional.cross_entropy(torch.sparse.mm(matrix, model[1](h)), y)

    return train_on([(x, y)], loss, optimizer, model.parameters())
