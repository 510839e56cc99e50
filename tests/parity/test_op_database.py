"""PyTorch's op database passes, but for what `op_database_known.txt` names; that list only gets shorter.

`op_database.py` says what each check asks, and runs single entries. A few samples of an entry are tried here;
with DYNOGRAD_OP_DATABASE_FULL=1 all of them.
"""

import pytest

from tests.parity import op_database


@pytest.mark.parametrize("kind", op_database.DATABASE.checks)
@pytest.mark.parametrize("name", op_database.ENTRIES)
def test_entry(name, kind):
    op_database.DATABASE.test(kind, name)


def test_known_entries_exist():
    assert not op_database.DATABASE.unknown()
