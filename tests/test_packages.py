"""The list of packages: stored results, verdicts and the page that shows them. The programs themselves run by `make packages`."""

import json
from pathlib import Path

import pytest

from packages import table
from packages.__main__ import difference, listed, stored

ROOT = Path(table.__file__).parent.parent
VERDICTS = json.loads((ROOT / "packages" / "verdicts.json").read_text(encoding="utf-8"))


def test_the_page_shows_the_verdicts():
    assert (ROOT / "docs" / "packages.md").read_text(encoding="utf-8") == table.page(), "python -m packages table"


def test_every_program_has_a_verdict_and_a_stored_result():
    programs = {f"{file}.{name}" for file, name in listed()}
    assert programs == {*VERDICTS}
    assert all(stored(file)[name]["torch"].startswith("2.13.0") for file, name in listed())


def test_versions_are_pinned():
    lines = (ROOT / "packages" / "requirements.txt").read_text(encoding="utf-8").splitlines()
    assert lines and all("==" in line for line in lines) and not any(line.startswith("torch==") for line in lines)


TENSOR = {"shape": [2], "mean": 1.5, "size": 1.5, "numbers": [1.0, 2.0]}
PAIRS = [
    (TENSOR, TENSOR, None),
    (TENSOR, TENSOR | {"numbers": [1.0, 2.002]}, None),
    (TENSOR, TENSOR | {"numbers": [1.0, 2.1]}, "a: 6.7e-02 of the mean magnitude"),
    (TENSOR, TENSOR | {"shape": [1, 2]}, r"a: shape \[2\] and \[1, 2\]"),
    (1.0, 1.1, "a: 1 and 1.1"),
    ([1.0, 2.0], [1.0], "a: 2 and 1 values"),
    (True, False, "a: True and False"),
    ({"x": 1.0}, {"y": 1.0}, r"a: \['x'\] and \['y'\]"),
    (float("nan"), float("nan"), None),
]


@pytest.mark.parametrize(("expected", "got", "words"), PAIRS, ids=range(len(PAIRS)))
def test_differences_are_told(expected, got, words):
    text = difference({"a": expected}, {"a": got})
    assert text is None if words is None else __import__("re").fullmatch(words, text)
