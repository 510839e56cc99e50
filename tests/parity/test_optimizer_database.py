"""PyTorch's table of optimizers passes, but for what `optimizer_database_known.txt` names; that list only gets shorter.

`optimizer_database.py` says what each check asks, and runs single entries.
"""

import pytest

from tests.parity import optimizer_database


@pytest.mark.parametrize("kind", optimizer_database.DATABASE.checks)
@pytest.mark.parametrize("name", optimizer_database.ENTRIES)
def test_entry(name, kind):
    optimizer_database.DATABASE.test(kind, name)


def test_the_table_is_whole():
    """15 entries with 91 configurations on a CPU; each kind of check of the known list exists."""
    entries = optimizer_database.ENTRIES.values()
    assert len(entries) == 15
    assert sum(len(optimizer_database.plain_inputs_of(entry)) for entry in entries) == 91
    assert not optimizer_database.DATABASE.unknown()
