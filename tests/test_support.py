"""docs/support.md says what the table of ops says."""

from dynograd.ops.op import Op, registry
from tools import make_support


def test_the_page_is_up_to_date():
    assert make_support.page() == make_support.PAGE.read_text(encoding="utf-8"), (
        "run `python tools/make_support.py` (or `make docs`)"
    )


def test_every_op_has_a_line():
    text = make_support.page()
    missing = [key for key in registry if f"| `{key.removesuffix('.public')}` |" not in text]
    assert not missing


def made(kind="op", **fields):
    return Op("made", kind, lambda input: input, **fields)


def test_what_a_line_says():
    lines = [
        (made(backward_rule=len), "rule", "yes", "backwards"),
        (made(backward_rule=len, linear=True), "rule", "yes", "linear"),
        (made(backward_rule=len, linear=True, jvp_rule=len), "rule", "yes", "rule"),
        (made(fast_backward_rule=len), "rule", "no", "backwards"),
        (made(fast_backward_rule=len, decomposition=len), "rule", "yes", "parts"),
        (made(decomposition=len), "parts", "yes", "parts"),
        (made(differentiable=False), "none", "none", "none"),
        (made(backward_rule=len, differentiable="refused"), "none", "none", "none"),
        (made("elementwise", derivative=("g",)), "derivative", "yes", "derivative"),
        (made("composed"), "parts", "parts", "parts"),
    ]
    for entry, *expected in lines:
        assert [make_support.gradient(entry), make_support.second(entry), make_support.forward_mode(entry)] == expected
