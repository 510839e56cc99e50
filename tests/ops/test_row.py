"""What rows of the table say: their fields fit the ops, and faces and files pass theirs on."""

import pytest

from dynograd.ops.op import Op, registry, rows_with
from dynograd.ops.row import Row, complete


def forward(input):
    return input


def test_own_fields_come_before_those_of_the_op_and_these_before_the_usual_ones():
    below = complete(Row(out="exact", cast="wide", inner=True), forward, False, False, None)
    face = complete(Row(cast="lower"), forward, False, False, below)
    assert (below["out"], below["cast"], below["inner"], below["ordered"]) == ("exact", "wide", True, False)
    assert (face["out"], face["cast"], face["inner"]) == ("exact", "lower", False)  # a face is no inner op


def test_views_have_no_out_unless_they_say_so():
    assert complete(Row(), forward, False, True, None)["out"] is None
    assert complete(Row(out="cast"), forward, False, True, None)["out"] == "cast"
    assert complete(Row(), forward, False, False, None)["out"] == "cast"


def test_a_file_says_what_its_ops_have_in_common():
    assert registry["max_pool1d"].row["out"] is None
    assert registry["max_pool1d"].row["ragged"] == "groups"
    assert registry["avg_pool2d"].row["out"] == "cast"


def test_fields_that_do_not_exist_are_refused():
    with pytest.raises(TypeError, match=r"forward: an op has no field \['casts'\]; it has .*'cast'"):
        Op("forward", "op", forward, {"casts": "wide"})


@pytest.mark.parametrize("field", ["tensors", "by_row", "aliases"])
def test_fields_name_parameters(field):
    for key, entry in registry.items():
        name = key.removesuffix(".public")
        known = {*registry[name].signature.parameters, *registry.get(f"{name}.public", entry).signature.parameters}
        value = entry.row[field] or ""
        assert known.issuperset(value.split() if isinstance(value, str) else value), key


def test_rows_with():
    assert "float" in rows_with("ragged", "packed")
    assert "max_pool" in rows_with("inner")
    assert "matmul" in rows_with("uneven")
