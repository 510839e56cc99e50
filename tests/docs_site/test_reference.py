"""tools/site: signatures and docstrings as the API reference shows them."""

import inspect
import re
from typing import Any, Literal

import pytest

import dynograd
from dynograd.arrays import Array
from dynograd.ops.argument_kinds import Dim
from tools.site import api, constants, docstrings, public_names, signatures
from tools.site.name_table import page_of
from tools.site.sources import SourcePages

UNNAMED = object()


def _hidden(
    input: "Array",
    dim: "Dim" = -1,
    /,
    *rest: "Any",
    _level: int = 1,
    keep: "bool | bool" = False,
    how: "Literal['min', 'max'] | None" = None,
    dtype=dynograd.float32,
) -> "Array":
    """Shown."""


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (
            _hidden,
            "(input: Tensor, dim: int = -1, /, *rest, keep: bool = False, how: str | None = None, dtype=dynograd.float32) -> Tensor",
        ),
        (lambda x, f=lambda: 0, *, s="a": 0, "(x, f=..., *, s='a')"),
        (lambda x=(1, UNNAMED), **more: 0, "(x=..., **more)"),
        (
            dynograd.nn.Linear,
            "(in_features: int, out_features: int, bias: bool = True, device: device = None, dtype: dtype = None)",
        ),
    ],
)
def test_signatures(function, expected):
    assert signatures.signature_of(function) == expected


def test_the_first_argument_of_a_method_is_left_out():
    assert signatures.signature_of(dynograd.nn.Module.train, method=True).startswith("(mode")


@pytest.fixture(scope="module")
def objects():
    return public_names.entries()


def test_no_signature_has_quotes_any_or_private_names(objects):
    texts = {entry.name: signatures.signature_of(entry.value) for entry in objects.values()}
    bad = {name: text for name, text in texts.items() if re.search(r"'Any'|: Any\b|[(, ]_\w|<|0x", text)}
    assert not bad


def test_each_object_has_one_entry_under_its_shortest_name(objects):
    assert objects[id(dynograd.nn.Linear)].name == "nn.Linear"
    assert objects[id(dynograd.relu)].names[:2] == ["relu", "nn.functional.relu"]
    assert not [entry.name for entry in objects.values() if inspect.ismodule(entry.value)]


@pytest.mark.parametrize(
    ("docstring", "parts"),
    [
        ("One. Two\nlines.", ["One. Two lines."]),
        ("a < b, x[i]_k * y and `a < b`", [r"a \< b, x\[i\]\_k \* y and `a < b`"]),
        ("**Errors.** What * is.", [r"**Errors.** What \* is."]),
        ("One.\n\n    x = y\n        + z\n\nTwo.", ["One.", "````text\nx = y\n    + z\n````", "Two."]),
        ("- one\n  more\n- two", ["- one more", "- two"]),
        ("1 - x\n- 2", ["1 - x", "- 2"]),
        (">>> a\n1\n\n>>> b", ["````pycon\n>>> a\n1\n````", "````pycon\n>>> b\n````"]),
        (
            "What.\n\nArgs:\n    x (B, T): text\n        goes on.\n    y, z: more.\nReturns:\n    (B,), sum.\nSource: A, 2017.\n\nEnd.",
            [
                "What.",
                ":::{rubric} Arguments\n:::\n\n`x` (B, T)\n: text goes on.\n\n`y`, `z`\n: more.\n",
                ":::{rubric} Returns\n:::\n\n(B,), sum.",
                ":::{rubric} Source\n:::\n\nA, 2017.",
                "End.",
            ],
        ),
        (
            "Raises:\n    ShapeError: sizes (2, 3): bad.",
            [":::{rubric} Raises\n:::\n\n`ShapeError`\n: sizes (2, 3): bad.\n"],
        ),
    ],
)
def test_docstrings(docstring, parts):
    assert docstrings.as_markdown(docstring) == "\n\n".join(parts)


def test_summaries_are_the_first_sentence():
    assert docstrings.summary("One sentence\nof two lines. Another.\n\nMore.") == "One sentence of two lines."
    assert docstrings.summary(None) == ""


def test_a_page_shows_signature_docstring_example_and_source(objects):
    sources = SourcePages(api.ROOT)
    reference = api.Reference(sources)
    page = "\n".join(api.page_of_entry(objects[id(dynograd.relu)], reference))
    assert page.startswith("---\norphan: true\n---\n\n# relu\n")
    assert (
        "::::{py:function} dynograd.relu(input: Tensor" in page
        and ">>> dynograd.relu(tensor([-1.0, 2.0]))\ntensor([0., 2.])" in page
    )
    assert '<a href="../source/dynograd/ops/elementwise/activations.py.html#L' in page
    assert "dynograd/ops/elementwise/activations.py" in sources.files


def test_methods_of_a_described_base_are_only_named(objects):
    reference = api.Reference(SourcePages(api.ROOT))
    page = "\n".join(api.page_of_entry(objects[id(dynograd.nn.Linear)], reference))
    assert (
        "Methods and properties of [`nn.Module`](nn.Module.md) are there, too." in page
        and "load_state_dict" not in page
    )
    assert "{py:method} dynograd.nn.Module.load_state_dict(" in "\n".join(
        api.page_of_entry(objects[id(dynograd.nn.Module)], reference)
    )


def test_pages_differ_also_where_letter_case_is_ignored():
    pages = list(api.Reference(SourcePages(api.ROOT)).pages.values())
    assert len({page.lower() for page in pages}) == len(pages)


@pytest.mark.parametrize(
    ("text", "page"),
    [
        ("nn.Linear", "api/nn.Linear"),
        ("dynograd.nn.Linear(3, 2)", "api/nn.Linear"),
        ("RaggedTensor", "api/RaggedTensor"),
        ("torch.relu(x)", "api/relu"),
        ("F.cross_entropy", "api/nn.functional.cross_entropy"),
        ("sum", None),
        ("data", None),
        ("torch.data", "api/module-data"),
        ("nn.functional", "api/module-nn.functional"),
        ("x = relu(y)", None),
        ("unknown_name", None),
    ],
)
def test_names_in_texts(text, page, names):
    assert page_of(text, names) == page


@pytest.fixture(scope="module")
def names():
    return api.names_table(api.Reference(SourcePages(api.ROOT)))


def test_every_constant_is_described():
    kinds = (dynograd.dtype, dynograd.layout, dynograd.memory_format, float, type(None))
    listed = {name for name in dynograd.__all__ if isinstance(getattr(dynograd, name), kinds)}
    assert listed - {"legacy_contiguous_format"} == set(constants.names())
    text = "\n".join(constants.page())
    assert not [name for name in constants.names() if f"dynograd.{name}" not in text]


def test_a_class_shows_what_it_lists():
    names = {name for name, _ in public_names.members(dynograd.Tensor)}
    assert "backward" in names and not {"accumulate_grad", "adds_directly", "align_to"} & names
