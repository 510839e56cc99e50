"""The ops of PyTorch's database take arguments of mixed dtypes as PyTorch does, but for what `mixed_dtypes_known.txt` names.

That list only gets shorter; `mixed_dtypes.py` says what is drawn, and runs single entries. With DYNOGRAD_OP_DATABASE_FULL=1 more is drawn.
"""

import pytest

from tests.parity import mixed_dtypes


@pytest.mark.parametrize("name", mixed_dtypes.DATABASE.entries)
def test_entry(name):
    mixed_dtypes.DATABASE.test("mixed", name)


def test_known_entries_exist():
    assert not mixed_dtypes.DATABASE.unknown()
