"""CUDA graphs of tensor code: in emulation they are recorded and replayed too."""

import dynograd as dg


def test_a_graph_computes_anew_at_each_replay():
    x = dg.zeros(4, device="cuda")
    y = x * 2 + 1
    graph = dg.cuda.CUDAGraph()
    with dg.cuda.graph(graph):
        y = x * 2 + 1
    for value in (3, 5):
        x.fill_(value)
        graph.replay()
        assert y.tolist() == [2.0 * value + 1] * 4
