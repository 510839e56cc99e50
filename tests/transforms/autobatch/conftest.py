"""Cells that are fused in all groups, and what ran of them."""

import pytest

from dynograd.errors import LinAlgError
from dynograd.transforms.autobatch.fuse import chains, fusing
from dynograd.transforms.autobatch.group import executing, op_rows


@pytest.fixture
def runs_of(monkeypatch):
    """`runs_of(method, note)`: every group is fused; the list of `note(running, what it ran)` of all calls of a method of `Running`."""

    def watched(method, note):
        monkeypatch.setattr(fusing, "LEVELS", 1)
        found, whole = [], getattr(chains.Running, method)

        def run(self, given):
            found.append(note(self, given))
            return whole(self, given)

        monkeypatch.setattr(chains.Running, method, run)
        return found

    return watched


@pytest.fixture(autouse=True)
def only_errors_of_examples(monkeypatch):
    """A group is run one by one for what is wrong with one of its calls, and for nothing that is wrong with how groups are run."""

    def attempted(run):
        error: list[Exception] = []

        def noted():
            try:
                return run()
            except (IndexError, LinAlgError):
                raise
            except Exception as other:
                error.append(other)
                raise

        result = plain(noted)
        assert not error, f"a group failed: {error[0]!r}"
        return result

    plain = executing.attempted
    monkeypatch.setattr(executing, "attempted", attempted)
    monkeypatch.setattr(op_rows, "attempted", attempted)
