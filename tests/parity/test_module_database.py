"""PyTorch's module database passes, but for what `module_database_known.txt` names; that list only gets shorter.

`module_database.py` says what each check asks, and runs single entries.
"""

import pytest

from tests.parity import module_database


@pytest.mark.parametrize("kind", module_database.DATABASE.checks)
@pytest.mark.parametrize("name", module_database.ENTRIES)
def test_entry(name, kind):
    module_database.DATABASE.test(kind, name)


def test_known_entries_exist():
    assert not module_database.DATABASE.unknown()
