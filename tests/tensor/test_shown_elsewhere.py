"""Tensors and modules in what other programs print with: f-strings, `%`, pprint, rich."""

import pprint
from io import StringIO

import pytest

import dynograd
from dynograd import nn

BATCH = [[1.0, 2.0], [3.0]]


def ragged(rows=BATCH):
    return dynograd.ragged_tensor([dynograd.tensor(row) for row in rows])


def percent(text, values):
    return text % values


TEXTS = {
    "str": (lambda: f"{dynograd.tensor([1.0, 2.0])}", "tensor([1., 2.])"),
    "str of a number": (lambda: f"{dynograd.tensor(2.5)}", "2.5"),
    "repr": (lambda: f"{dynograd.tensor(2.5)!r}", "tensor(2.5000)"),
    "spec": (lambda: f"{dynograd.tensor(2.5):.3f}", "2.500"),
    "spec of an integer": (lambda: f"{dynograd.tensor(42):>5d}|{dynograd.tensor(31):x}", "   42|1f"),
    "spec of a row's element": (lambda: f"{dynograd.tensor([1.5])[0]:.1e}", "1.5e+00"),
    "spec of a bool": (lambda: f"{dynograd.tensor(True):}", "True"),
    "percent d": (lambda: percent("%d", dynograd.tensor(3)), "3"),
    "percent d of a fraction": (lambda: percent("%d", dynograd.tensor(3.7)), "3"),
    "percent d of one element": (lambda: percent("%d", dynograd.tensor([3])), "3"),
    "percent f": (lambda: percent("%.2f|%5.1f", (dynograd.tensor(3.7), dynograd.tensor(1))), "3.70|  1.0"),
    "percent s": (lambda: percent("%s", dynograd.tensor([1])), "tensor([1])"),
    "parameter": (lambda: f"{nn.Parameter(dynograd.tensor(2.0)):.2f}", "2.00"),
    "ragged": (lambda: f"{ragged()}", "ragged_tensor([\n  [1., 2.],\n  [3.]])"),
    "ragged percent s": (lambda: percent("%s", ragged()), "ragged_tensor([\n  [1., 2.],\n  [3.]])"),
    "ragged of one element": (lambda: percent("%d", ragged([[3.7]])), "3"),
    "module": (lambda: f"{nn.ReLU()}|{nn.Linear(2, 3)!r}", "ReLU()|Linear(in_features=2, out_features=3, bias=True)"),
    "pprint": (
        lambda: pprint.pformat({"b": ragged(), "a": [dynograd.ones(2)] * 2}),
        "{'a': [tensor([1., 1.]), tensor([1., 1.])],\n 'b': ragged_tensor([\n  [1., 2.],\n  [3.]])}",
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_texts(name):
    make, expected = TEXTS[name]
    assert make() == expected


REFUSED = {
    "spec of several": (
        lambda: f"{dynograd.ones(2):.3f}",
        TypeError,
        "unsupported format string passed to Tensor.__format__",
    ),
    "width of several": (
        lambda: f"{dynograd.ones(2):>20}",
        TypeError,
        "unsupported format string passed to Tensor.__format__",
    ),
    "spec of rows": (
        lambda: f"{ragged():.3f}",
        TypeError,
        "unsupported format string passed to RaggedTensor.__format__",
    ),
    "percent d of several": (
        lambda: percent("%d", dynograd.ones(2)),
        RuntimeError,
        r"2 elements cannot be converted .*\(2,\)",
    ),
    "percent d of rows": (lambda: percent("%d", ragged()), RuntimeError, "3 elements cannot be converted"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name):
    make, kind, words = REFUSED[name]
    with pytest.raises(kind, match=words):
        make()


def rich_text(*values):
    rich_console = pytest.importorskip("rich.console", reason="rich is not installed")
    console = rich_console.Console(file=StringIO(), width=100, color_system=None)
    console.print(*values)
    return console.file.getvalue().rstrip("\n")


RICH = {
    "tensor": (lambda: dynograd.tensor([1.0, 2.0]), "tensor([1., 2.])"),
    "number": (lambda: dynograd.tensor(2.5), "tensor(2.5000)"),
    "ragged": (ragged, "ragged_tensor([\n  [1., 2.],\n  [3.]])"),
    "module": (lambda: nn.Linear(2, 3), "Linear(in_features=2, out_features=3, bias=True)"),
    "list": (lambda: [dynograd.tensor([1]), dynograd.tensor(2)], "[tensor([1]), tensor(2)]"),
    "size": (lambda: dynograd.ones(2, 3).shape, "dynograd.Size([2, 3])"),
    "dtype": (lambda: dynograd.float32, "dynograd.float32"),
}


@pytest.mark.parametrize("name", RICH)
def test_rich(name):
    make, expected = RICH[name]
    assert rich_text(make()) == expected


def test_rich_pretty():
    pretty = pytest.importorskip("rich.pretty", reason="rich is not installed")
    assert pretty.pretty_repr({"x": dynograd.ones(2), "rows": [ragged()]}, expand_all=True).startswith(
        "{\n    'x': tensor([1., 1.]),"
    )
    assert "Linear(" in pretty.pretty_repr(nn.Sequential(nn.Linear(2, 2)))


def test_rich_inspect():
    rich = pytest.importorskip("rich", reason="rich is not installed")
    console = pytest.importorskip("rich.console").Console(file=StringIO(), width=120, color_system=None)
    rich.inspect(dynograd.tensor([1.0, 2.0]), console=console)
    text = console.file.getvalue()
    assert "tensor([1., 2.])" in text and "shape" in text
