"""Cells that are fused in all groups, and what ran of them."""

import pytest

from dynograd.transforms.autobatch.fuse import chains, fusing


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
