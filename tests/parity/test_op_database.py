"""PyTorch's op database passes, but for what `op_database_known.txt` names; that list only gets shorter.

`op_database.py` says what each check asks, and runs single entries. A few samples of an entry are tried here;
with DYNOGRAD_OP_DATABASE_FULL=1 all of them.
"""

import pytest
from parity import op_database


@pytest.mark.parametrize("kind", op_database.CHECKS)
@pytest.mark.parametrize("name", op_database.ENTRIES)
def test_entry(name, kind):
    wrong = op_database.failures(kind, name)
    known = op_database.KNOWN.get((kind, name))
    if wrong and known is not None:
        pytest.xfail(known)
    assert not wrong, "\n".join(wrong)
    assert known is None, f"passes now: take `{kind}` of {name} out of {op_database.KNOWN_FILE.name}"


def test_known_entries_exist():
    assert not [
        name for kind, name in op_database.KNOWN if name not in op_database.ENTRIES or kind not in op_database.CHECKS
    ]
