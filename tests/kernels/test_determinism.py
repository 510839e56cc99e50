"""The switch for sums that repeat bit for bit."""

import pytest

import dynograd


def test_switch():
    assert not dynograd.are_deterministic_algorithms_enabled()
    dynograd.use_deterministic_algorithms(True, warn_only=True)
    try:
        assert dynograd.are_deterministic_algorithms_enabled()
        assert dynograd.is_deterministic_algorithms_warn_only_enabled()
    finally:
        dynograd.use_deterministic_algorithms(False)
    assert not dynograd.is_deterministic_algorithms_warn_only_enabled()


def test_takes_truths_only():
    with pytest.raises(TypeError, match="use_deterministic_algorithms: expected True or False, got 1"):
        dynograd.use_deterministic_algorithms(1)
