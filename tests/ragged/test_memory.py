"""What ragged batches need at their peak: memory for the real tokens, not for rows as long as the longest."""

import gc
import tracemalloc

import numpy
import pytest

import dynograd
from dynograd import nn
from dynograd.arrays import buffers
from dynograd.nn import functional as F

D = 16
SHORT, LONG = 12, 200
WASTE = [LONG] + [SHORT] * 15  # 16 rows of which 380 of 3200 places are real: 88 % padding


def reduced(x):
    return x.softmax(1)


def sorted_rows(x):
    return x.sort(1)[0].cumsum(1)


def multiplied(x):
    return (x @ x.mT).softmax(-1) @ x


def padded_transformer(layer, x, padding):
    return layer(x, src_key_padding_mask=padding)


# name -> (module, output of the module on (B, j, D), the same on a padded batch with its mask of padding)
PROGRAMS = {
    "softmax": (None, lambda _, x: reduced(x), lambda _, x, padding: x.masked_fill(padding[..., None], -1e9).softmax(1)),
    "sort and cumsum": (None, lambda _, x: sorted_rows(x), lambda _, x, padding: sorted_rows(x)),
    "attention by hand": (None, lambda _, x: multiplied(x), lambda _, x, padding: multiplied(x)),
    "Transformer": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(D, 2, 32, 0.0, batch_first=True), 2, enable_nested_tensor=False),
        lambda layer, x: layer(x),
        padded_transformer,
    ),
    "LSTM": (
        lambda: nn.LSTM(D, D, 2, bidirectional=True, batch_first=True),
        lambda layer, x: layer(x)[0],
        lambda layer, x, padding: layer(x)[0],
    ),
    "convolution": (
        lambda: nn.Conv1d(D, D, 3, padding=1),
        lambda layer, x: layer(x.transpose(1, 2)),
        lambda layer, x, padding: layer(x.transpose(1, 2)),
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def every_array_is_counted(monkeypatch):
    """Large arrays come from kept memory, which tracemalloc does not see; here all are NumPy's own."""
    monkeypatch.setattr(buffers, "SMALLEST", 1 << 60)
    yield
    tracemalloc.stop()


def step_of(name, lengths, padded=False):
    """A training step of the program on rows of these lengths."""
    make, on_ragged, on_padded = PROGRAMS[name]
    layer = make() if make else None
    if padded:
        x = dynograd.randn(len(lengths), max(lengths), D)
        padding = dynograd.from_numpy(numpy.arange(max(lengths)) >= numpy.array(lengths)[:, None])
    else:
        x = dynograd.RaggedTensor(dynograd.randn(sum(lengths), D), lengths=lengths)
    x.requires_grad_()

    def step():
        result = on_padded(layer, x, padding) if padded else on_ragged(layer, x)
        F.mse_loss(result, dynograd.zeros_like(result)).backward()
        x.grad = None
        if layer is not None:
            layer.zero_grad(set_to_none=False)

    return step


def peak(name, lengths, padded=False):
    """Bytes that a step needs beyond what is there before it."""
    step = step_of(name, lengths, padded)
    step()  # gradients of weights, tables of rows, compiled kernels
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    step()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most - before


@pytest.mark.parametrize("name", PROGRAMS)
def test_padding_costs_no_memory(name):
    real = sum(WASTE) / (len(WASTE) * max(WASTE))
    if name == "attention by hand":
        real = sum(n * n for n in WASTE) / (len(WASTE) * max(WASTE) ** 2)
    result = peak(name, WASTE) / peak(name, WASTE, padded=True)
    assert result < 2 * real, f"{name}: {result:.2f} of the padded peak, {real:.2f} of its elements are real"


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "attention by hand"])
def test_memory_grows_with_real_tokens(name):
    """Ten times as many rows need ten times as much; one long row among them costs what it has itself, not that for each."""
    rows = [SHORT - 1, SHORT + 1]  # rows of one length are a rectangle, and go another way
    few, many = peak(name, rows * 15), peak(name, rows * 150)
    with_one_long = peak(name, rows * 150 + [LONG])
    assert many < 11 * few
    assert with_one_long - many < 3 * many * LONG / (SHORT * 300), (many, with_one_long)
