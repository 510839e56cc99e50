"""Branches and loops: what they are in a model, and what is refused."""

import pytest

import dynograd as torch
from tests.onnx.functions import by_newton, halved, recurrence

pytest.importorskip("onnx", reason="needs the extra onnx")
pytest.importorskip("onnxruntime", reason="needs the extra onnx")

scan = torch._higher_order_ops.scan
X = torch.ones(2, 3)


def kinds(graph):
    """The kinds of nodes of a graph, with those of graphs within."""
    inner = [kind for node in graph.node for attribute in node.attribute for kind in kinds(attribute.g)]
    return {node.op_type for node in graph.node} | set(inner)


@pytest.mark.parametrize(
    ("function", "shape", "words"),
    [(halved, (2, 3), {"Loop"}), (by_newton, (2, 3), {"If", "Loop"}), (recurrence, (2, 5, 4), {"Scan", "Tanh"})],
)
def test_structures_are_nodes_and_are_listed(function, shape, words):
    program = torch.onnx.export(function, (torch.ones(*shape),))
    assert words <= kinds(program.model_proto.graph)
    assert all([f"{kind}(" in str(program) for kind in words & {"If", "Loop", "Scan"}])


def test_conditions_that_are_known_choose_once():
    program = torch.onnx.export(lambda x: torch.cond(x.shape[0] == 2, lambda z: z + 1, lambda z: z * 2, (x,)), (X,))
    assert kinds(program.model_proto.graph) == {"Add", "Constant", "Identity"}


def test_numbers_among_operands_stay_numbers():
    def program(x):
        return torch.cond(x.sum() > 0, lambda z, by: z * by, lambda z, by: z - by, (x, 3))

    assert torch.onnx.export(program, (X,)).verify() < 1e-4


REFUSED = {
    "branches of unlike dtypes": (
        lambda x: torch.cond(x.sum() > 0, lambda z: z, lambda z: z.long(), (x,)),
        "cond: what true_fn and false_fn give must be alike, got .*float32.*int64.*test_structures.py.*same dtypes",
    ),
    "branches of unlike ranks": (
        lambda x: torch.cond(x.sum() > 0, lambda z: z, lambda z: z.sum(), (x,)),
        r"must be alike, got .*\(2, 3\) and .*\(\)",
    ),
    "a branch that gives a number": (
        lambda x: torch.cond(x.sum() > 0, lambda z: z, lambda z: 1.0, (x,)),
        "must be tensors, got float.*dynograd.tensor",
    ),
    "a loop that carries a number": (
        lambda x: torch.while_loop(lambda k, y: y.sum() > k, lambda k, y: (k + 1, y), (0, x))[1],
        "while_loop: carried inputs must be tensors, got int",
    ),
    "a loop whose state grows": (
        lambda x: torch.while_loop(lambda y: y.sum() < 20, lambda y: (torch.cat([y, y]),), (x,))[0],
        r"carried inputs and what body_fn gives must be alike.*\(2, 3\) and .*\(4, 3\)",
    ),
    "a scan whose state changes its dtype": (
        lambda x: scan(lambda h, row: (h.long(), row), torch.zeros(3), x)[1],
        "init and the state that combine_fn gives must be alike",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_structures_that_are_refused(name):
    program, words = REFUSED[name]
    with pytest.raises(
        torch.onnx.OnnxError,
        match=f"(?s)onnx.export: {words}" if words.startswith(("cond", "while")) else f"(?s){words}",
    ):
        torch.onnx.export(program, (X,))


INDICES = {
    "an index with a new dim": (lambda x: put(x, (None, slice(None), 0)), "new dims"),
    "bags that are normed": (
        lambda x: torch.nn.functional.embedding_bag(x.long(), torch.ones(4, 2), max_norm=1.0),
        "max_norm.*Leave max_norm out",
    ),
}


def put(x, index):
    y = x * 2
    y[index] = 0
    return y


PICKS = {
    "a mask that is full at any values": (
        lambda x: x[x.abs() >= 0],
        r"index gives \[6\] also for other values.*a part",
    ),
    "a mask beside other indices": (lambda x: x[torch.tensor([0]), x[0] > 0], "by a mask beside other index arrays"),
    "consecutive slices": (lambda x: x.sign().unique_consecutive(dim=0), "unique of consecutive slices"),
    "a mask in a branch": (
        lambda x: torch.cond(x.sum() > 0, lambda z: z[z > 0].sum(), lambda z: z.sum(), (x,)),
        "the shape of what index gives depends on values",
    ),
}


@pytest.mark.parametrize("name", PICKS)
def test_picks_that_are_refused(name):
    program, words = PICKS[name]
    torch.manual_seed(0)
    with pytest.raises(torch.onnx.OnnxError, match=words):
        torch.onnx.export(program, (torch.randn(2, 3),))


def test_a_size_that_follows_from_values_has_a_name():
    torch.manual_seed(0)
    program = torch.onnx.export(lambda x: (x[x > 0], x[x > 0].exp(), x[x > 1]), (torch.randn(5, 6),))
    dims = [value.type.tensor_type.shape.dim[0].dim_param for value in program.model_proto.graph.output]
    assert dims[0] == dims[1] != dims[2] and all(dims)


@pytest.mark.parametrize("name", INDICES)
def test_indices_and_bags_that_are_refused(name):
    program, words = INDICES[name]
    with pytest.raises(torch.onnx.OnnxError, match=words):
        torch.onnx.export(program, (X,), input_names=["x"], dynamic_axes={"x": [1]})
