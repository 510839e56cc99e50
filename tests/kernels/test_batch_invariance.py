"""The batch-invariant mode, and layers in it."""

import threading

import numpy
import pytest

import dynograd
from dynograd import nn

ROWS = (1, 2, 3, 7, 16, 33, 130)


def test_a_call_counts_everywhere_and_a_with_on_its_own_thread():
    seen = []
    try:
        dynograd.use_batch_invariant(True)
        other = threading.Thread(target=lambda: seen.append(dynograd.is_batch_invariant()))
        other.start()
        other.join()
        with dynograd.use_batch_invariant(False):
            seen.append(dynograd.is_batch_invariant())
            other = threading.Thread(target=lambda: seen.append(dynograd.is_batch_invariant()))
            other.start()
            other.join()
        seen.append(dynograd.is_batch_invariant())
    finally:
        dynograd.use_batch_invariant(False)
    assert seen == [True, False, True, True]
    assert not dynograd.is_batch_invariant()


def test_a_mode_can_be_entered_again():
    mode = dynograd.use_batch_invariant(True)
    for _ in range(2):
        with mode, mode:
            assert dynograd.is_batch_invariant()
        assert not dynograd.is_batch_invariant()


def test_a_mode_is_a_bool():
    with pytest.raises(TypeError, match=r"use_batch_invariant: expected True or False, got int 1"):
        dynograd.use_batch_invariant(1)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attend = nn.MultiheadAttention(32, 4, batch_first=True)

    def forward(self, x):
        return self.attend(x, x, x, need_weights=False)[0]


class Matmul(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(dynograd.randn(32, 45))

    def forward(self, x):
        return x @ self.weight


LAYERS = {
    "linear": (lambda: nn.Linear(32, 45), (32,)),
    "linear-rows": (lambda: nn.Linear(32, 300), (5, 32)),
    "mlp": (lambda: nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 10), nn.Softmax(-1)), (32,)),
    "matmul": (Matmul, (32,)),
    "attention": (Attention, (40, 32)),
    "encoder": (lambda: nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), (20, 32)),
    "layer-norm": (lambda: nn.LayerNorm(32), (5, 32)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_an_example_does_not_see_its_batch(name):
    make, shape = LAYERS[name]
    model = make().eval()
    x = dynograd.randn(ROWS[-1], *shape)
    with dynograd.use_batch_invariant(True), dynograd.no_grad():
        alone = numpy.concatenate([model(x[i : i + 1]).numpy() for i in range(ROWS[-1])])
        for rows in ROWS:
            assert (model(x[:rows]).numpy() == alone[:rows]).all()
