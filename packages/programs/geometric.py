"""PyTorch Geometric: convolutions, batches of graphs, pooling, samplers, heterogeneous graphs."""

from __future__ import annotations

from typing import Any

import torch
import torch_geometric as pyg
import torch_geometric.nn as gnn
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.loader import DataLoader

from packages.values import again, filled, integers, normal, program, trained


def _graph(nodes: int = 12, edges: int = 40, seed: int = 0) -> Data:
    return Data(
        x=normal(nodes, 6, seed=seed),
        edge_index=integers(nodes, 2, edges, seed=seed),
        edge_attr=normal(edges, 3, seed=seed),
        y=integers(3, nodes, seed=seed),
    )


_CONVS = {
    "GCNConv": {},
    "SAGEConv": {},
    "GATConv": {"heads": 2, "concat": False},
    "GATv2Conv": {"heads": 2, "concat": False},
    "GraphConv": {},
    "TAGConv": {},
    "TransformerConv": {},
    "ChebConv": {"K": 2},
    "ARMAConv": {},
    "SGConv": {},
    "LEConv": {},
    "ClusterGCNConv": {},
    "ResGatedGraphConv": {},
    "FeaStConv": {},
    "GENConv": {},
    "SuperGATConv": {},
    "FiLMConv": {},
    "MFConv": {},
}


@program
def convolutions() -> dict[str, Any]:
    graph, results = _graph(), {}
    for name, options in _CONVS.items():
        layer = filled(getattr(gnn, name)(6, 4, **options)).eval()
        results[name] = layer(graph.x, graph.edge_index)
        losses = trained(layer.parameters(), lambda: layer(graph.x, graph.edge_index).square().mean(), 2)
        results[f"{name} losses"] = losses
    return results


@program
def edge_convolutions() -> dict[str, Any]:
    graph = _graph()
    linear = torch.nn.Linear
    layers = {
        "GINEConv": gnn.GINEConv(linear(6, 4), edge_dim=3),
        "NNConv": gnn.NNConv(6, 4, linear(3, 24)),
        "CGConv": gnn.CGConv(6, dim=3),
        "GMMConv": gnn.GMMConv(6, 4, dim=3, kernel_size=2),
        "PNAConv": gnn.PNAConv(
            6, 4, ["mean", "max", "std"], ["identity", "amplification"], deg=integers(9, 6, low=1), edge_dim=3
        ),
    }
    return {name: filled(layer)(graph.x, graph.edge_index, graph.edge_attr) for name, layer in layers.items()} | {
        "EdgeConv": filled(gnn.EdgeConv(linear(12, 4)))(graph.x, graph.edge_index),
        "GINConv": filled(gnn.GINConv(linear(6, 4)))(graph.x, graph.edge_index),
    }


class _Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = gnn.GATConv(6, 8, heads=2), gnn.GCNConv(16, 8), torch.nn.Linear(8, 3)

    def forward(self, x: Any, edge_index: Any, batch: Any = None) -> Any:
        x = self.second(self.first(x, edge_index).relu(), edge_index).relu()
        return self.last(x if batch is None else gnn.global_mean_pool(x, batch))


@program
def node_classification() -> dict[str, Any]:
    graph, model = _graph(), filled(_Net())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    losses = trained(
        model.parameters(),
        lambda: torch.nn.functional.cross_entropy(model(graph.x, graph.edge_index), graph.y),
        5,
        optimizer,
    )
    with torch.no_grad():
        out = model.eval()(graph.x, graph.edge_index)
        same = bool(torch.allclose(again(model, _Net())(graph.x, graph.edge_index), out, atol=1e-5))
    return {"losses": losses, "out": out, "loaded": same}


@program
def graph_classification() -> dict[str, Any]:
    graphs = [
        Data(x=normal(5 + n, 6, seed=n), edge_index=integers(5 + n, 2, 12, seed=n), y=torch.tensor([n % 3]))
        for n in range(8)
    ]
    loader, model, losses = DataLoader(graphs, batch_size=4), filled(_Net()), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        for batch in loader:
            losses += trained(
                [],
                lambda: torch.nn.functional.cross_entropy(model(batch.x, batch.edge_index, batch.batch), batch.y),
                1,
                optimizer,
            )
    batch = Batch.from_data_list(graphs)
    return {
        "losses": losses,
        "max": gnn.global_max_pool(batch.x, batch.batch),
        "add": gnn.global_add_pool(batch.x, batch.batch),
        "sizes": batch.ptr,
        "attention": filled(gnn.AttentionalAggregation(torch.nn.Linear(6, 1)))(batch.x, batch.batch),
        "set2set": filled(gnn.Set2Set(6, 2))(batch.x, batch.batch),
        "sort": gnn.SortAggregation(3)(batch.x, batch.batch),
        "back": batch.to_data_list()[2].x,
    }


@program
def heterogeneous() -> dict[str, Any]:
    data = HeteroData()
    data["author"].x, data["paper"].x = normal(5, 4), normal(7, 6)
    data["author", "writes", "paper"].edge_index = torch.stack([integers(5, 14), integers(7, 14, seed=1)])
    data["paper", "rev_writes", "author"].edge_index = data["author", "writes", "paper"].edge_index.flip(0)
    model = filled(
        gnn.HeteroConv(
            {
                ("author", "writes", "paper"): gnn.SAGEConv((4, 6), 8),
                ("paper", "rev_writes", "author"): gnn.GATConv((6, 4), 8, add_self_loops=False),
            },
            aggr="sum",
        )
    )
    out = model(data.x_dict, data.edge_index_dict)
    transformer = filled(gnn.HGTConv({"author": 4, "paper": 6}, 8, data.metadata(), heads=2))
    lazy = gnn.to_hetero(gnn.GraphSAGE(-1, 8, 2), data.metadata())
    with torch.no_grad():
        lazy(data.x_dict, data.edge_index_dict)
    return {
        "out": out,
        "hgt": transformer(data.x_dict, data.edge_index_dict),
        "to_hetero": filled(lazy)(data.x_dict, data.edge_index_dict),
    }


@program
def models_and_pooling() -> dict[str, Any]:
    graph = _graph()
    results = {
        name: filled(getattr(gnn, name)(6, 8, 2, 3)).eval()(graph.x, graph.edge_index)
        for name in ("GCN", "GraphSAGE", "GIN", "GAT", "EdgeCNN")
    }
    pooled = filled(gnn.TopKPooling(6, ratio=0.5))(graph.x, graph.edge_index)
    return results | {
        "topk": pooled[0],
        "edges": pooled[1],
        "dense_gin": filled(gnn.DenseGINConv(torch.nn.Linear(6, 4)))(
            graph.x, pyg.utils.to_dense_adj(graph.edge_index, max_num_nodes=12)
        ),
        "knn": gnn.DenseGCNConv(6, 4).in_channels,
        "norm": gnn.GraphNorm(6)(graph.x),
        "dense": pyg.utils.to_dense_adj(graph.edge_index, max_num_nodes=12),
        "softmax": pyg.utils.softmax(graph.edge_attr, graph.edge_index[0]),
        "degree": pyg.utils.degree(graph.edge_index[0], 12),
        "laplacian": pyg.utils.get_laplacian(graph.edge_index, normalization="sym", num_nodes=12)[1],
        "undirected": pyg.utils.to_undirected(graph.edge_index),
        "coalesced": pyg.utils.coalesce(graph.edge_index),
    }


@program
def transforms() -> dict[str, Any]:
    data = Data(pos=normal(10, 3), x=normal(10, 2), edge_index=integers(10, 2, 20))
    t = pyg.transforms
    return {
        "cartesian": t.Cartesian()(data.clone()).edge_attr,
        "distance": t.Distance()(data.clone()).edge_attr,
        "loops": t.AddSelfLoops()(data.clone()).edge_index,
        "normalized": t.NormalizeFeatures()(data.clone()).x,
        "centered": t.Center()(data.clone()).pos,
        "scaled": t.NormalizeScale()(data.clone()).pos,
        "gdc": t.LocalDegreeProfile()(data.clone()).x,
        "onehot": t.OneHotDegree(20)(data.clone()).x,
    }
