"""Modules in notebooks: a tree with shapes and counts."""

from xml.dom import minidom

import pytest

import dynograd
from dynograd import nn

shared = nn.Linear(2, 3)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = shared, shared
        self.register_module("nothing", None)
        self.norm = nn.BatchNorm1d(3)
        self.lazy = nn.LazyLinear(3)
        self.frozen = nn.Embedding(10, 3).requires_grad_(False)


class Named(nn.Module):
    def extra_repr(self):
        return 'a < b & "c"\nd'


TREES = {
    "linear": (lambda: nn.Linear(2, 3), ["Linear(in_features=2, out_features=3, bias=True) 9", "weight (3, 2) float32", "9 parameters (36 B)"]),
    "activation": (lambda: nn.ReLU(), ["ReLU()", "0 parameters (0 B)"]),
    "shared": (Model, ["first: Linear(in_features=2, out_features=3, bias=True) 9", "second: Linear shared with first", "nothing: None"]),
    "buffers": (Model, ["running_mean (3,) float32 buffer", "num_batches_tracked () int64 buffer"]),
    "lazy": (Model, ["weight shape not known yet float32", "and 2 tensors whose shapes the first batch will tell"]),
    "frozen": (Model, ["weight (10, 3) float32 frozen", "45 parameters (180 B), 15 of them trained"]),
    "markup": (Named, ['Named(a < b & "c", d)']),
    "names": (lambda: nn.ModuleDict({"<b>": nn.ReLU()}), ["<b>: ReLU()"]),
    "double": (lambda: nn.Linear(2, 3).double(), ["bias (3,) float64", "(72 B)"]),
    "large": (lambda: nn.Linear(1000, 1000), ["1,001,000 parameters (3.8 MiB)"]),
    "long lists": (lambda: nn.ModuleList([nn.ReLU() for _ in range(1500)]), ["and 501 more modules"]),
}  # fmt: skip


def text_of(element):
    if element.nodeType == element.TEXT_NODE:
        return element.data
    inner = "".join(text_of(child) for child in element.childNodes)
    return f"{inner}\n" if element.tagName in ("div", "summary") else inner


@pytest.mark.parametrize("name", TREES)
def test_trees(name):
    make, expected = TREES[name]
    text = text_of(minidom.parseString(make()._repr_html_()).documentElement)
    for line in expected:
        assert line in text


def test_small_roots_are_open():
    small = nn.Sequential(nn.Linear(1, 1))
    assert small._repr_html_().count('open=""') == 1
    assert 'open=""' not in nn.ModuleList([nn.ReLU() for _ in range(20)])._repr_html_()


def test_reports_of_autobatch():
    with dynograd.autobatch(always=True) as report:
        values = [(dynograd.tensor([1.0, 2.0]) * k).exp() for k in range(4)]
        total = sum(value.sum() for value in values)
    assert total.item() > 0 and minidom.parseString(report._repr_svg_()).documentElement.tagName == "svg"
    with dynograd.autobatch() as nothing:
        pass
    assert nothing._repr_svg_() is None
