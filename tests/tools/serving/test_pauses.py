"""What a process that answers requests does to Python's own pauses, and takes back."""

import gc
import sys

import pytest

from dynograd.tools.web.pauses import short_pauses


def state():
    return sys.getswitchinterval(), gc.get_threshold()


@pytest.fixture(autouse=True)
def frozen():
    """Tests run with what was there frozen."""
    before = gc.get_freeze_count() > 0
    gc.unfreeze()
    yield
    gc.freeze() if before else gc.unfreeze()


def test_all_is_as_it_was_behind_it():
    before = state()
    with pytest.raises(KeyError), short_pauses():
        assert state() != before and gc.get_freeze_count() > 0
        raise KeyError
    assert state() == before and gc.get_freeze_count() == 0


def test_what_the_program_has_frozen_stays_frozen():
    gc.freeze()
    with short_pauses():
        pass
    assert gc.get_freeze_count() > 0
