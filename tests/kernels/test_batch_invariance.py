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


class First(nn.Module):
    """The first result of a recurrent layer."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)[0]


class Means(nn.Module):
    """Sums over dims of an example: the last, one in the middle, several; a long one goes in blocks."""

    def forward(self, x):
        long = x.repeat(1, 1, 300).flatten(1)
        parts = [x.mean(-1), x.mean(1), x.amax(1), x.sum((1, 2))[:, None], x.norm(dim=2), long.mean(1)[:, None]]
        return dynograd.cat(parts, 1)


def pictures():
    return nn.Sequential(
        *(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 1), nn.GroupNorm(4, 32)),
        *(
            nn.MaxPool2d(2),
            nn.Conv2d(32, 32, 5, stride=2, groups=32),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(32, 10),
        ),
    )


LAYERS = {
    "conv": (pictures, (3, 20, 20)),
    "conv1d": (lambda: nn.Sequential(nn.Conv1d(8, 24, 5), nn.GELU(), nn.ConvTranspose1d(24, 8, 3, stride=2)), (8, 50)),
    "lstm": (lambda: First(nn.LSTM(24, 40, num_layers=2, bidirectional=True, batch_first=True)), (9, 24)),
    "gru": (lambda: First(nn.GRU(24, 40, batch_first=True)), (9, 24)),
    "rnn": (lambda: First(nn.RNN(24, 40, batch_first=True)), (9, 24)),
    "rms-norm": (lambda: nn.Sequential(nn.Linear(32, 32), nn.RMSNorm(32), nn.LogSoftmax(-1)), (5, 32)),
    "means": (Means, (7, 32)),
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
