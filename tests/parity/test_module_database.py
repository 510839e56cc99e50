"""PyTorch's module database passes, but for what `module_database_known.txt` names; that list only gets shorter.

`module_database.py` says what each check asks, and runs single entries.
"""

import pytest
from parity import module_database


@pytest.mark.parametrize("kind", module_database.CHECKS)
@pytest.mark.parametrize("name", module_database.ENTRIES)
def test_entry(name, kind):
    wrong = module_database.failures(kind, name)
    known = module_database.KNOWN.get((kind, name))
    if wrong and known is not None:
        pytest.xfail(known)
    assert not wrong, "\n".join(wrong)
    assert known is None, f"passes now: take `{kind}` of {name} out of {module_database.KNOWN_FILE.name}"


def test_known_entries_exist():
    assert not [
        name
        for kind, name in module_database.KNOWN
        if name not in module_database.ENTRIES or kind not in module_database.CHECKS
    ]
