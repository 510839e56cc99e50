"""The pictures of what a scope did."""

import xml.etree.ElementTree

import dynograd
from dynograd.transforms.autobatch.pictures import picture
from tools.make_autobatch_picture import PICTURE, step

SPACE = "{http://www.w3.org/2000/svg}"


def parts(text, name):
    return list(xml.etree.ElementTree.fromstring(text).iter(SPACE + name))


def test_each_group_is_a_bar_and_each_kind_a_lane():
    with dynograd.autobatch(always=True) as report:
        result = [(dynograd.ones(3) * k).exp() for k in range(4)]
        other = result[0].sum()
    text = report.svg()
    titles = [part.text for part in parts(text, "title")]
    assert titles == ["mul -> float32[3]: 4 calls", "exp -> float32[3]: 4 calls", "sum -> float32[]: 1 calls"]
    tall = [float(part.get("height")) for part in parts(text, "rect")[1:]]
    assert tall[0] == tall[1] > tall[2]
    assert "9 calls in 3 groups" in text and other.item() == 3.0
    assert len({part.get("y") for part in parts(text, "rect")[1:]}) == 3


def test_names_are_escaped_and_many_groups_fit():
    groups = [("a<b & c -> float32[2]", 2 + number % 5, ["source"]) for number in range(3000)]
    text = picture([("source", 9, []), *groups])
    assert "a&lt;b &amp; c" in text and len(parts(text, "title")) == 3001
    assert int(xml.etree.ElementTree.fromstring(text).get("width")) < 4000
    assert len(parts(picture([]), "rect")) == 1


def test_the_picture_of_the_docs():
    report = step()
    assert report.groups["cell BinaryTreeLSTMCell -> float32[16], float32[16]"][0] == 25
    assert len(parts(PICTURE.read_text(encoding="utf-8"), "title")) > 5
