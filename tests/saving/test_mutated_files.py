"""Some hundred damaged files of each format; `python -m tests.support.mutated_files` makes as many as one likes."""

import pytest

from tests.support.mutated_files import FOLDERS, FORMATS, damage


@pytest.mark.parametrize("form", [*FORMATS, *FOLDERS])
def test_damaged_files_are_refused_or_read(tmp_path, form):
    outcomes = damage(form, 300, 1, tmp_path)
    assert outcomes["refused"] > 30
