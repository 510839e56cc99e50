"""Bits of ragged batches: those of the row alone in batch-invariant mode, and those of one thread on several, at any load."""

import numpy
import pytest

import dynograd
from dynograd import nn
from dynograd.nn import functional as F

D = 48
LENGTHS = [1, 7, 0, 64, 700, 2]

LAYERS = {
    "Linear": (lambda: nn.Linear(D, 31), lambda f, x: f(x)),
    "LayerNorm": (lambda: nn.LayerNorm(D), lambda f, x: f(x)),
    "RMSNorm": (lambda: nn.RMSNorm(D), lambda f, x: f(x)),
    "Conv1d": (lambda: nn.Conv1d(D, 16, 3, padding=1), lambda f, x: f(x.transpose(1, 2)).transpose(1, 2)),
    "feed forward": (lambda: nn.Sequential(nn.Linear(D, 96), nn.GELU(), nn.Linear(96, D)), lambda f, x: x + f(x)),
    "attention": (
        lambda: nn.MultiheadAttention(D, 4, batch_first=True),
        lambda f, x: f(x, x, x, need_weights=False)[0],
    ),
    "attention by hand": (lambda: nn.Linear(D, D), lambda f, x: (f(x) @ x.mT).softmax(-1) @ x),
    "LSTM": (lambda: nn.LSTM(D, 24, 2, bidirectional=True, batch_first=True), lambda f, x: f(x)[0]),
    "GRU": (lambda: nn.GRU(D, 24, bidirectional=True, batch_first=True), lambda f, x: f(x)[0]),
    "RNN": (lambda: nn.RNN(D, 24, batch_first=True), lambda f, x: f(x)[0]),
    "Transformer": (
        lambda: nn.TransformerEncoder(
            nn.TransformerEncoderLayer(D, 4, 64, 0.0, batch_first=True), 2, enable_nested_tensor=False
        ),
        lambda f, x: f(x),
    ),
    "logsumexp": (lambda: nn.Linear(D, D), lambda f, x: f(x).logsumexp(2)),
    "cross_entropy": (
        lambda: nn.Linear(D, 9),
        lambda f, x: F.cross_entropy(f(x).transpose(1, 2), (x[..., 0] > 0).long(), reduction="none"),
    ),
    "mse_loss": (lambda: nn.Linear(D, D), lambda f, x: F.mse_loss(f(x), x * 0.5, reduction="none")),
    "softmax over rows": (lambda: nn.Linear(D, D), lambda f, x: f(x).softmax(1)),
    "scans": (lambda: nn.Linear(D, D), lambda f, x: f(x).cumsum(1) * x.cummax(1)[0]),
    "pooled": (lambda: nn.Linear(D, D), lambda f, x: f(x).mean(1)),
}  # fmt: skip
EMPTY_ROWS_ARE_NO_INPUT = {"Conv1d"}


@pytest.fixture(params=[1, 2])
def threads(request):
    before = dynograd.get_num_threads()
    dynograd.set_num_threads(request.param)
    yield request.param
    dynograd.set_num_threads(before)


def rows_of(lengths):
    rng = numpy.random.default_rng(4)
    return [dynograd.from_numpy(rng.normal(size=(length, D)).astype(numpy.float32)) for length in lengths]


def output_and_gradient(call, layer, x):
    """What the layer gives, and the gradient of its input where each output counts by its place in the row."""
    x = x.detach().requires_grad_()
    y = call(layer, x)
    (y * y).sum().backward()
    return y.detach(), x.grad


@pytest.mark.parametrize("name", LAYERS)
def test_bits_are_those_of_the_row_alone(name, threads):
    """Outputs and gradients of the input, for rows of none, of one and of many elements."""
    make, call = LAYERS[name]
    layer = make()
    rows = rows_of([length for length in LENGTHS if length or name not in EMPTY_ROWS_ARE_NO_INPUT])
    with dynograd.use_batch_invariant(True):
        y, g = output_and_gradient(call, layer, dynograd.ragged_tensor(rows))
        for number, row in enumerate(rows):
            if len(row):
                element, slope = output_and_gradient(call, layer, row[None])
                assert numpy.array_equal(y[number].numpy(), element[0].numpy(), equal_nan=True)
                assert numpy.array_equal(g[number].numpy(), slope[0].numpy())


OPS = {
    "sum": lambda x: x.sum(1), "mean": lambda x: x.mean(1), "prod": lambda x: (x * 1.001).prod(1), "amax": lambda x: x.amax(1),
    "std": lambda x: x[x.lengths() > 1].std(1), "norm": lambda x: x.norm(dim=1), "logsumexp": lambda x: x.logsumexp(1),
    "softmax": lambda x: x.softmax(1), "log_softmax": lambda x: x.log_softmax(1), "cumsum": lambda x: x.cumsum(1),
    "cumprod": lambda x: x.cumprod(1), "cummax": lambda x: x.cummax(1)[0], "logcumsumexp": lambda x: x.logcumsumexp(1),
    "sort": lambda x: x.sort(1)[0], "topk": lambda x: x.topk(1, 1)[0], "median": lambda x: x.median(1)[0], "max": lambda x: x.max(1)[0],
    "products": lambda x: x[:, :300] @ x[:, :300].mT, "scores": lambda x: x.mT @ x, "spread": lambda x: x - x.mean(1, keepdim=True),
}  # fmt: skip


@pytest.mark.parametrize("name", OPS)
def test_one_long_row_beside_many_short_ones(name):
    """A row of 10,000 beside 1,000 of 1: the same bits on any number of threads, forward and backward."""
    rng = numpy.random.default_rng(5)
    values = rng.normal(size=(11_000, 6)).astype(numpy.float32)
    results = []
    before = dynograd.get_num_threads()
    try:
        for count in (1, 2, 3):
            dynograd.set_num_threads(count)
            x = dynograd.RaggedTensor(dynograd.from_numpy(values), lengths=[1] * 500 + [10_000] + [1] * 500)
            x.requires_grad_()
            y = OPS[name](x)
            (y * y).sum().backward()
            while isinstance(y, dynograd.RaggedTensor):
                y = y.packed
            results.append((y.detach().numpy(), x.grad.values().numpy()))
    finally:
        dynograd.set_num_threads(before)
    for y, g in results[1:]:
        assert numpy.array_equal(y, results[0][0], equal_nan=True)
        assert numpy.array_equal(g, results[0][1], equal_nan=True)


def test_rows_stay_where_they_are_when_offsets_change():
    """Neither the offsets that were given nor those that are handed out are the ones that kernels read."""
    argument = dynograd.tensor([0, 2, 3])
    x = dynograd.RaggedTensor(dynograd.tensor([1.0, 2.0, 3.0]), offsets=argument)
    for numbers in (argument, x.offsets(), x.lengths(), x.offsets, x.lengths):
        numbers.fill_(1 << 40)
    assert x.sum(1).tolist() == [3, 3] and x.lengths().tolist() == [2, 1] and x.offsets().tolist() == [0, 2, 3]
    array = numpy.array([2, 1])
    x = dynograd.RaggedTensor(dynograd.tensor([1.0, 2.0, 3.0]), lengths=array)
    array[:] = -7
    assert x.sort(1, descending=True)[0].tolist() == [[2, 1], [3]]


@pytest.mark.parametrize("kind", ["int32", "int64", "uint8", "int16"])
def test_offsets_of_any_integer_dtype(kind):
    offsets = dynograd.from_numpy(numpy.array([0, 2, 2, 3], kind))
    x = dynograd.RaggedTensor(dynograd.tensor([[1.0], [2.0], [3.0]]), offsets=offsets)
    assert x.offsets().dtype is dynograd.int64 and x.sum(1).tolist() == [[3], [0], [3]]
    assert x.lengths().tolist() == [2, 0, 1]
