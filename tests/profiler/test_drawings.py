"""`dynograd.visualize`: the recorded graph as text, SVG and Graphviz's language."""

import sys
from types import ModuleType
from xml.dom import minidom

import pytest

import dynograd
from dynograd import nn, visualize
from dynograd.errors import GradientError
from dynograd.profiler import drawings

CHAIN = """4 ops, 4 tensors without history
1  linear  0  <- 0.weight (3, 2), 0.bias (3,)
2  relu       <- 1
3  linear  2  <- 2, 2.weight (1, 3), 2.bias (1,)
4  sum        <- 3"""


@pytest.fixture(autouse=True)
def without_graphviz(monkeypatch):
    monkeypatch.setattr(drawings, "has_graphviz", lambda: False)


def chain():
    return nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))


def leaf(*shape):
    return dynograd.ones(*shape, requires_grad=True)


def test_a_chain():
    model = chain()
    loss = model(dynograd.ones(4, 2)).sum()
    assert str(visualize(loss, model)) == CHAIN
    loss.backward()
    assert str(visualize(loss, model)) == CHAIN  # after backward, too
    without = str(visualize(loss))
    assert "linear  <- tensor (3, 2), tensor (3,)" in without
    assert repr(visualize(loss)) == "<GraphPicture of 4 ops>"


def shared():
    x = leaf(2)
    y = x * x
    return (y + y.exp()).sum()


def several():
    left, right = leaf(4).split(2)
    return left * right


GRAPHS = {  # a result -> (op, inputs, leaves) of its ops
    "shared": (shared, [("mul", [], 2), ("exp", [1], 0), ("add", [1, 2], 0), ("sum", [3], 0)]),
    "several outputs": (several, [("split_with_sizes", [], 1), ("mul", [1, 1], 0)]),
    "a constant beside": (lambda: leaf(2) * dynograd.ones(2), [("mul", [], 1)]),
    "ragged": (lambda: nn.Linear(2, 3)(dynograd.ragged_tensor([dynograd.ones(2, 2), dynograd.ones(3, 2)])), [("linear", [], 2)]),
    "autobatch": (lambda: batched(), [("mul", [], 1)]),
}  # fmt: skip


def batched():
    x = leaf(2)
    with dynograd.autobatch():
        y = x * 2
    return y


@pytest.mark.parametrize("name", GRAPHS)
def test_graphs(name):
    make, expected = GRAPHS[name]
    result = make()
    nodes = visualize(result).nodes
    assert [(node.op, node.inputs, len(node.leaves)) for node in nodes] == expected


def test_a_single_op():
    assert str(visualize(leaf(2).sum())) == "1 op, 1 tensor without history\n1  sum  <- tensor (2,)"


class Doubled(dynograd.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


def test_functions_of_a_program_and_second_derivatives():
    x = leaf(2)
    assert [node.op for node in visualize(Doubled.apply(x).sum()).nodes] == ["Doubled", "sum"]
    (g,) = dynograd.autograd.grad((x**3).sum(), x, create_graph=True)
    assert visualize(g.sum()).nodes[-1].op == "sum"


def test_several_results():
    x = leaf(2)
    picture = visualize([x.exp(), x.sin()])
    assert [node.op for node in picture.nodes] == ["exp", "sin"] and picture.leaves == 1


def test_modules_are_those_whose_parameters_are_read():
    model = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    picture = visualize(model(dynograd.ones(1, 3, 8)).sum(), model)
    modules = {node.module for node in picture.nodes if node.module}
    assert modules == {"self_attn", "self_attn.out_proj", "linear1", "linear2", "norm1", "norm2"}


def test_the_module_around_several():
    model = nn.ModuleDict({"a": nn.ModuleDict({"b": nn.Linear(2, 3), "c": nn.Linear(2, 3)}), "d": nn.Linear(2, 3)})
    product = visualize((model["a"]["b"].weight * model["a"]["c"].weight).sum(), model).nodes[0]
    assert product.module == "a" and product.lines == ["mul", "a", "b.weight (3, 2)", "c.weight (3, 2)"]
    assert visualize((model["a"]["b"].weight * model["d"].weight).sum(), model).nodes[0].module == ""


def test_the_nearest_ops_are_drawn():
    x = leaf(2)
    for _ in range(50):
        x = x.sin()
    picture = visualize(x.sum(), most=10)
    assert len(picture.nodes) == 10 and picture.left_out == 41
    assert picture.nodes[0].inputs == [None] and [node.number for node in picture.nodes] == list(range(1, 11))
    text = str(picture)
    assert text.startswith("51 ops, 0 tensors without history\nthe 41 farthest from the loss are left out\n1 ")
    assert "<- ..." in text
    minidom.parseString(picture.svg())


def boxes(page):
    return [
        [float(element.getAttribute(name)) for name in ("x", "y", "width", "height")]
        for element in page.getElementsByTagName("rect")
    ]


def test_svg():
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2, enable_nested_tensor=False)
    picture = visualize(model(dynograd.ones(1, 3, 8)).sum(), model)
    page = minidom.parseString(picture.svg())
    rectangles = boxes(page)
    assert len(rectangles) == len(picture.nodes)
    assert len(page.getElementsByTagName("path")) == sum(len(node.inputs) for node in picture.nodes)
    wide, high = [float(page.documentElement.getAttribute(name)) for name in ("width", "height")]
    for x, y, width, height in rectangles:
        assert x >= 0 and y >= 0 and x + width <= wide and y + height <= high
    for place, (x, y, width, height) in enumerate(rectangles):  # no two overlap
        for x2, y2, width2, height2 in rectangles[:place]:
            assert x + width <= x2 or x2 + width2 <= x or y + height <= y2 or y2 + height2 <= y
    words = [element.firstChild.data for element in page.getElementsByTagName("text")]
    assert "layers.0.self_attn" in words and "in_proj_weight (24, 8)" in words
    assert picture._repr_svg_() == picture.svg()


def test_dot():
    model = chain()
    text = visualize(model(dynograd.ones(4, 2)).sum(), model).dot()
    assert 'subgraph "cluster_0" {' in text and 'n1 [label="linear\\nweight (3, 2)\\nbias (3,)"];' in text
    assert "n1 -> n2;" in text and "n3 -> n4;" in text
    assert text.count("{") == text.count("}") == 3


def test_files(tmp_path):
    picture = visualize(shared())
    for name in ("a.svg", "a.dot", "a.gv", "a.txt", "b.SVG"):
        picture.save(tmp_path / name)
    assert (tmp_path / "a.svg").read_text() == (tmp_path / "b.SVG").read_text() == picture.svg()
    assert (tmp_path / "a.dot").read_text() == (tmp_path / "a.gv").read_text() == picture.dot()
    assert (tmp_path / "a.txt").read_text() == str(picture)
    with pytest.raises(ValueError, match=r"save: expected a name that ends in .svg, .* got 'a.jpg'"):
        picture.save(tmp_path / "a.jpg")
    with pytest.raises(ValueError, match=r"save: .png needs Graphviz.*dynograd\[graphviz\].*Save a.svg"):
        picture.save(str(tmp_path / "a.png"))


def test_with_graphviz(monkeypatch, tmp_path):
    """Its package is a stand-in here: what it is given, and what becomes of what it gives."""
    calls = []

    class Source:
        def __init__(self, text):
            self.text = text

        def pipe(self, format):
            calls.append((format, self.text))
            return b"<?xml?>\n<svg>drawn</svg>" if format == "svg" else b"PNG"

    graphviz = ModuleType("graphviz")
    graphviz.Source = Source
    monkeypatch.setitem(sys.modules, "graphviz", graphviz)
    monkeypatch.setattr(drawings, "has_graphviz", lambda: True)
    picture = visualize(shared())
    assert picture.svg() == "<svg>drawn</svg>" and calls == [("svg", picture.dot())]
    picture.save(tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes() == b"PNG"


@pytest.mark.parametrize("program", [None, "/usr/bin/dot"])
def test_graphviz_needs_both(monkeypatch, program):
    monkeypatch.undo()
    monkeypatch.setattr(drawings.shutil, "which", lambda name: program)
    monkeypatch.setattr(drawings.importlib.util, "find_spec", lambda name: None)
    assert not drawings.has_graphviz()
    monkeypatch.setattr(drawings.importlib.util, "find_spec", lambda name: object())
    assert drawings.has_graphviz() == (program is not None)


MISTAKES = {
    "no history": (lambda: dynograd.ones(2, 3), r"visualize: expected a tensor with a history, got a tensor of shape \(2, 3\) without.*no_grad"),
    "a leaf": (lambda: leaf(2), r"got a tensor of shape \(2,\) without"),
    "no tensor": (lambda: 3.0, "got float without"),
    "nothing": (list, "got an empty list"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name):
    make, words = MISTAKES[name]
    with pytest.raises(GradientError, match=words):
        visualize(make())
