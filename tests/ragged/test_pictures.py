"""Ragged tensors in notebooks: bars of rows, and statistics of lengths."""

from xml.dom import minidom

import numpy
import pytest

import dynograd
from dynograd import RaggedTensor, ragged_tensor, tensor

nan, inf = float("nan"), float("inf")


def rows(lengths, *more):
    return ragged_tensor([dynograd.randn(n, *more) for n in lengths])


BATCHES = {  # what a batch is -> (how it is made, bars, a label, words of the line below)
    "sentences": (lambda: rows((3, 10, 0), 5), 3, "1: 10", "3 rows of 0 to 10 elements (mean 4.3, median 3.0); padded, 57% would"),
    "many rows": (lambda: rows(range(1, 201)), 20, "199: 200", "(200, j1) float32 on cpu"),
    "long rows": (lambda: rows((5000, 70_000)), 2, "1: 70000", "padded, 46% would be padding"),
    "two levels": (lambda: ragged_tensor([list(rows((2, 3)).unbind()), list(rows((4,)).unbind())]), 2, "0: 2", "(2, j1, j2)"),
    "images": (lambda: ragged_tensor([dynograd.rand(3, 4, 5), dynograd.rand(3, 2, 7)]), 2, "1: (3, 2, 7)", "(2, 3, j2, j3)"),
    "ragged behind": (lambda: rows((3, 10), 5).transpose(1, 2), 2, "1: 10", "(2, 5, j2)"),
    "whole numbers": (lambda: ragged_tensor([tensor([1, 2, 3]), tensor([4])]), 2, "1: 1", "int64"),
    "masks": (lambda: rows((1, 2)) > 0, 2, "1: 2", "bool"),
    "complex": (lambda: ragged_tensor([tensor([1 + 2j]), tensor([3j, 4])]), 2, "1: 2", "to 4 (red)"),
    "half": (lambda: rows((1, 2)).bfloat16(), 2, "1: 2", "bfloat16"),
    "not finite": (lambda: ragged_tensor([tensor([nan, 1.0]), tensor([inf, -2.0])]), 2, "0: 2", "from -2 (blue) to 2 (red)"),
    "with a history": (lambda: rows((1, 2)).requires_grad_() * 2, 2, "1: 2", "float32"),
    "no rows": (lambda: ragged_tensor([]), 0, "", "0 rows"),
    "empty rows": (lambda: ragged_tensor([dynograd.zeros(0)] * 3), 3, "2: 0", "0% would be padding"),
}  # fmt: skip


@pytest.mark.parametrize("name", BATCHES)
def test_bars(name):
    make, bars, label, words = BATCHES[name]
    html = make()._repr_html_()
    page = minidom.parseString(f"<body>{html}</body>")
    outlines = [element for element in page.getElementsByTagName("rect") if element.getAttribute("fill") == "none"]
    texts = [element.firstChild.data for element in page.getElementsByTagName("text")]
    assert len(outlines) == bars and (not label or label in texts)
    assert words in page.getElementsByTagName("div")[0].firstChild.data
    assert len(html) < 100_000


def test_colours_and_widths():
    html = ragged_tensor([tensor([-1.0, 0.0, 0.5, 1.0]), tensor([nan, 1.0])])._repr_html_()
    page = minidom.parseString(f"<body>{html}</body>")
    rectangles = page.getElementsByTagName("rect")
    fills = [rectangle.getAttribute("fill") for rectangle in rectangles]
    assert fills == ["#2166ac", "#ffffff", "#d88c95", "#b2182b", "none", "#999999", "#b2182b", "none"]
    widths = [float(rectangle.getAttribute("width")) for rectangle in rectangles]
    assert widths == [140, 140, 140, 140, 560, 140, 140, 280]


def test_neighbours_of_one_colour_are_one_rectangle():
    html = ragged_tensor([dynograd.ones(9)])._repr_html_()
    assert html.count("<rect") == 2


def test_statistics():
    x = rows((3, 5, 5, 9), 2)
    told = x.statistics()
    assert (told.rows, told.total, told.shortest, told.longest) == (4, 22, 3, 9)
    assert (told.mean, told.median) == (5.5, 5.0) and told.padding == pytest.approx(1 - 22 / 36)
    assert numpy.array_equal(told.lengths, [3, 5, 5, 9])
    text = "4 rows of 3 to 9 elements (mean 5.5, median 5.0); padded, 39% would be padding"
    assert str(told) == text and repr(told) == f"<RowStatistics: {text}>"
    page = minidom.parseString(told._repr_svg_())
    assert [element.firstChild.data for element in page.getElementsByTagName("title")][:3] == [
        "3 elements: 1 rows",
        "4 elements: 0 rows",
        "5 elements: 2 rows",
    ]
    assert told.svg() == told._repr_svg_()


@pytest.mark.parametrize("lengths", [(), (0, 0), (7,), range(1000), (1, 10_000)], ids=str)
def test_histograms_hold_every_row(lengths):
    told = RaggedTensor(dynograd.zeros(sum(lengths)), lengths=list(lengths)).statistics()
    page = minidom.parseString(told.svg())
    titles = [element.firstChild.data for element in page.getElementsByTagName("title")]
    assert len(titles) <= 24 and sum(int(title.split()[-2]) for title in titles) == len(lengths)
