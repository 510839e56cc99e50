"""Results lie in memory as PyTorch's do, but for what `memory_order_known.txt` names; that list only gets shorter."""

import warnings

import pytest

from tests.parity import memory_order


@pytest.mark.parametrize("name", memory_order.ENTRIES)
def test_entry(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = memory_order.differing(name)
    known = memory_order.KNOWN.get(name, set())
    more = {layout: texts[0] for layout, texts in results.items() if layout not in known}
    assert not more
    assert set(results) >= known, f"agree now: take {known - set(results)} of {name} out of memory_order_known.txt"


def test_known_entries_exist():
    assert set(memory_order.KNOWN) <= set(memory_order.ENTRIES)
