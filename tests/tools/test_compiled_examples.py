"""The examples' steps compiled give what they give as they are written; the page names each of them."""

from pathlib import Path

import pytest

from tools import compiled_examples
from tools.compiled_examples import EXAMPLES, PAGE, Example


def test_all_examples_that_train_are_there():
    folder = Path(compiled_examples.ROOT) / "examples"
    compiled = {path.stem for path in folder.glob("*.py") if "--compile" in path.read_text(encoding="utf-8")}
    assert compiled == set(EXAMPLES)
    table = compiled_examples.table_in(PAGE.read_text(encoding="utf-8"))
    assert [name for name in sorted(EXAMPLES) if f"| `{name}` |" not in table] == []


@pytest.mark.parametrize(
    "name, options, least",
    [
        ("vae", dict(steps=8, images=200), 4),
        ("gcn", dict(steps=5), 3),
        ("tree_lstm", dict(trees=20, epochs=1), 0),
    ],
)
def test_compiled_steps_give_the_same(name, options, least):
    example = Example(name, **options)
    assert example.calls() and example.difference() < 1e-4 and example.walked() >= least, example.row()
