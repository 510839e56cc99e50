"""Ops that others are made of refuse sizes that would let a compiled kernel leave its memory."""

import pytest

import dynograd as dg
from dynograd.errors import ShapeError
from dynograd.ops.op import registry

CALLS = {
    "lstm_step": (
        lambda f: f(dg.ones(3), dg.ones(3)),
        r"lstm_step: expected 4 blocks of gates.*state of shape \(3,\), got shape \(3,\)",
    ),
    "gru_step": (
        lambda f: f(dg.ones(2, 6), dg.ones(2, 2), dg.ones(2, 2)),
        r"gru_step: expected 3 blocks of gates.*state of shape \(2, 2\), got shape \(2, 2\)",
    ),
    "adaptive_avg_pool_backward": (
        lambda f: f(dg.ones(1, 2), (1, 9), (3,)),
        r"adaptive_avg_pool_backward: expected g of shape \(1, 3\), got \(1, 2\)",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_wrong_sizes(name):
    call, message = CALLS[name]
    with pytest.raises(ShapeError, match=message):
        call(registry[name].function)
