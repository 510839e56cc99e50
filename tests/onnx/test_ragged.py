"""Ragged inputs, as values and offsets, or as padded rows and lengths."""

import pytest

import dynograd as torch
from dynograd import nn
from dynograd.onnx import OnnxError
from dynograd.ops.op import registry
from dynograd.ragged import RaggedTensor
from examples import sentiment, text_transformer

pytest.importorskip("onnx", reason="needs the extra onnx")
pytest.importorskip("onnxruntime", reason="needs the extra onnx")


class Pooled(nn.Module):
    """A recurrent layer over rows, and a pool of each row."""

    def __init__(self, layer, pool):
        super().__init__()
        self.layer, self.pool = layer, pool

    def forward(self, x):
        return getattr(torch.relu(self.layer(x)[0]), self.pool)(1)


class AttentionPool(nn.Module):
    """A mean over each row, by weights that sum to 1 there."""

    def __init__(self):
        super().__init__()
        self.scores = nn.Linear(4, 1)

    def forward(self, x):
        return (torch.softmax(self.scores(x), 1) * x).sum(1)


class Causal(nn.Module):
    """Attention of rows to what came before, with fewer heads of keys than of queries."""

    def forward(self, x):
        heads = x.unflatten(2, (2, 2)).transpose(1, 2)
        shared = heads[:, :1]
        scores = nn.functional.scaled_dot_product_attention(heads, shared, shared, is_causal=True, enable_gqa=True)
        return scores.transpose(1, 2).flatten(2).sum(1)


def running(x):
    """Sums up to each place, from both ends, of numbers and of whole numbers."""
    rows = torch.cumsum(x, 1) * torch.cumsum((x > 0).long(), 1) + torch.cumsum(x > 0, 1)
    return rows.sum(1)


def sorted_rows(x):
    return torch.cat([x.sort(1)[0].values, x.sort(1, descending=True)[0].values, x.argsort(1).values], 1)


def picks_of_rows(x):
    return torch.cat([x.topk(1, 1)[0].flatten(1), x.median(1)[0], *x.max(1), x.kthvalue(1, 1)[0], x[:, -1]], 1)


def running_rows(x):
    return torch.cat([x.cumprod(1).values, x.logcumsumexp(1).values], 1)


def extremes_so_far(x):
    return torch.cat(
        [x.cummax(1)[0].values, x.cummin(1)[0].values, x.cummax(1)[1].values, (x > 0).long().cummin(1)[1].values], 1
    )


def some_rows(x):
    """Rows from the front, from the end, each second one, and single ones."""
    ends = torch.cat([x[:2].sum(1), x[1:].amax(1), x[:-1].mean(1), x[-2:].sum(1), x[::2].sum(1)])
    return torch.cat(
        [ends.sum(0), x[0].sum(0), x[-1].amax(0), x[1].mean(0), (torch.softmax(x[1:], 1) * x[1:]).sum(1).sum(0)]
    )


def reduced_rows(x):
    return torch.cat([x.prod(1), x.logsumexp(1), x.var(1, unbiased=False), x.norm(dim=1)], 1)


def turned_rows(x):
    return x.flip(1).values + 2 * x.flip(1).exp().values


def moved_rows(x):
    return x.roll(1, 1).values + 2 * x.roll(-7, 1).values + 3 * x.roll((2, -3), (1, 1)).values


def differences(x):
    return (x[:, 1:].values - x[:, :-1].values).abs().sum() + x.diff(dim=1).values.sum()


def parts_of_rows(x):
    return torch.cat([x[:, 1:].sum(1), x[:, :2].sum(1), x[:, -2:].sum(1), x[:, ::2].sum(1), x[:, :-2].sum(1)], 1)


def joined_rows(x):
    rows = torch.cat([x, x.exp()], 1)
    return torch.cat([rows.amax(1), rows.values.sum(0).expand(x.shape[0], 4)], 1)


def padded_rows(x):
    return x.exp().to_padded(0.5)


def padded_means(x):
    padded, mask = x.to_padded(0.0), x.mask()
    scores = (padded @ padded.transpose(1, 2)).masked_fill(~mask[:, None], float("-inf"))
    return ((scores.softmax(-1) @ padded) * mask[..., None]).sum(1) / x.lengths[:, None]


MODELS = {
    "moved rows": (lambda: moved_rows, lambda: torch.randn(6, 4)),
    "differences": (lambda: differences, lambda: torch.randn(6, 4)),
    "parts of rows": (lambda: parts_of_rows, lambda: torch.randn(6, 4)),
    "joined rows": (lambda: joined_rows, lambda: torch.randn(6, 4)),
    "padded rows": (lambda: padded_rows, lambda: torch.randn(6, 4)),
    "attention of padded rows": (lambda: padded_means, lambda: torch.randn(6, 4)),
    "turned rows": (lambda: turned_rows, lambda: torch.randn(6, 4)),
    "sorted rows": (lambda: sorted_rows, lambda: torch.randn(6, 4)),
    "picks of rows": (lambda: picks_of_rows, lambda: torch.randn(6, 4)),
    "running products of rows": (lambda: running_rows, lambda: torch.randn(6, 4)),
    "extremes so far in rows": (lambda: extremes_so_far, lambda: torch.randn(6, 4)),
    "some rows": (lambda: some_rows, lambda: torch.randn(6, 4)),
    "some rows, padded": (lambda: lambda x: x[:2].to_padded(0.5), lambda: torch.randn(6, 4)),
    "products and squares of rows": (lambda: reduced_rows, lambda: torch.randn(6, 4)),
    "text_transformer": (
        lambda: text_transformer.Classifier(20, 16, 2, 2, 32),
        lambda: torch.randint(1, 20, (6,)),
    ),
    "attention pool": (AttentionPool, lambda: torch.randn(6, 4)),
    "causal attention": (Causal, lambda: torch.randn(6, 4)),
    "distances from the mean": (
        lambda: lambda x: (x - x.mean(1, keepdim=True)).abs().sum(1),
        lambda: torch.randn(6, 4),
    ),
    "running sums": (lambda: running, lambda: torch.randn(6, 4)),
    "sentiment": (lambda: sentiment.Classifier(20, 8, 6), lambda: torch.randint(1, 20, (6, 8))),
    "LSTM and mean": (
        lambda: Pooled(nn.LSTM(4, 5, batch_first=True, bidirectional=True), "mean"),
        lambda: torch.randn(6, 4),
    ),
    "GRU and sum": (lambda: Pooled(nn.GRU(4, 5, 2, batch_first=True), "sum"), lambda: torch.randn(6, 4)),
    "RNN and max": (lambda: Pooled(nn.RNN(4, 5, batch_first=True), "amax"), lambda: torch.randn(6, 4)),
    "layers on each value": (
        lambda: nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3), nn.GELU()),
        lambda: torch.randn(6, 4),
    ),
}


@pytest.mark.parametrize("of_program", [False, True], ids=["module", "program"])
@pytest.mark.parametrize("ragged", ["values", "padded"])
@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_rows_gives_the_same_on_onnxruntime(name, ragged, of_program):
    make, values = MODELS[name]
    torch.manual_seed(0)
    model, x = make(), RaggedTensor(values(), [3, 1, 2])
    if isinstance(model, nn.Module):
        model.eval()
    if name == "layers on each value":
        layers = model
        model = lambda x: layers(x).values  # noqa: E731
    source = torch.export.export(model, (x,)) if of_program else model
    program = torch.onnx.export(source, () if of_program else (x,), ragged=ragged)
    assert program.verify() < 1e-4
    names = [value.name for value in program.model_proto.graph.input]
    assert names[1].endswith("_offsets" if ragged == "values" else "_lengths")
    lengths = torch.tensor([1, 5])
    rows = RaggedTensor(values(), lengths)
    inputs = (rows.values, rows.offsets) if ragged == "values" else (rows.to_padded(1), lengths)
    torch.testing.assert_close(program(*inputs)[0], model(rows), rtol=1e-4, atol=1e-4)


def beside_rows(x, y, weights):
    """As many rows in each, and in a dense tensor."""
    scores = (x * weights[:, None]).sum(2, keepdim=True)
    return x.sum(1) * weights + y.amax(1), (scores.softmax(1) * x).sum(1)


@pytest.mark.parametrize("ragged", ["values", "padded"])
@pytest.mark.parametrize("lengths", [[3, 1, 2], [2, 2, 2]], ids=["rows of several lengths", "rows of one length"])
def test_rows_are_as_many_as_an_axis_is_long(lengths, ragged):
    def example(lengths):
        count = sum(lengths)
        others = [length + 1 for length in lengths]
        rows = RaggedTensor(torch.randn(count, 4), lengths), RaggedTensor(torch.randn(count + len(lengths), 4), others)
        return (*rows, torch.randn(len(lengths), 4))

    torch.manual_seed(0)
    shapes = ({0: "batch"},) * 3
    program = torch.onnx.export(beside_rows, example(lengths), ragged=ragged, dynamic_shapes=shapes)
    assert program.verify() < 1e-4
    for others in ([5, 1], [4], [1, 1, 6, 2]):
        x, y, weights = example(others)
        inputs = [
            (rows.values, rows.offsets) if ragged == "values" else (rows.to_padded(1), rows.lengths) for rows in (x, y)
        ]
        for own, expected in zip(program(*inputs[0], *inputs[1], weights), beside_rows(x, y, weights), strict=True):
            torch.testing.assert_close(own, expected, rtol=1e-4, atol=1e-4)
    assert [
        next(iter(value.type.tensor_type.shape.dim)).dim_param for value in program.model_proto.graph.output[:2]
    ] == ["batch"] * 2


@pytest.mark.parametrize("ragged", ["values", "padded"])
def test_some_of_fewer_rows_are_as_many_as_there_are(ragged):
    program = torch.onnx.export(lambda x: x[:2].mean(1), (RaggedTensor(torch.randn(6, 4), [3, 1, 2]),), ragged=ragged)
    for lengths in ([4], [2, 5], [1, 2, 1, 3]):
        rows = RaggedTensor(torch.randn(sum(lengths), 4), lengths)
        inputs = (rows.values, rows.offsets) if ragged == "values" else (rows.to_padded(1), rows.lengths)
        torch.testing.assert_close(program(*inputs)[0], rows[:2].mean(1))


def test_values_of_rows_at_their_places():
    spread = registry["segment_spread"].function
    args = (torch.tensor([[1.0, 2.0], [3.0, float("inf")]]), torch.tensor([1, 3]), torch.tensor([3, 4]))
    program = torch.onnx.export(lambda g, starts, ends: spread(g, starts, ends, 6), args)
    expected = [[0, 0], [1, 2], [1, 2], [3, float("inf")], [0, 0], [0, 0]]
    assert program(*args)[0].tolist() == expected


WINDOWS = {
    "no window": {},
    "causal": {"is_causal": True},
    "a window": {"window": (1, 1)},
    "a window to the left": {"window": (2, -1)},
    "a window from the ends": {"window": (1, 0), "ends": True},
    "a mask": {"key_mask": torch.tensor([True, False, True, True, False, False, True, True])},
    "numbers for a mask": {"key_mask": torch.tensor([0.5, -1.0, float("-inf"), 1, 0, 2, 0, 0])},
}


@pytest.mark.parametrize("name", WINDOWS)
def test_attention_within_sequences(name):
    def program(q, k, v, queries, keys):
        return nn.functional.varlen_attention(q, k, v, queries, keys, **WINDOWS[name])

    torch.manual_seed(0)
    q, k, v = torch.randn(6, 2, 4), torch.randn(8, 2, 4), torch.randn(8, 2, 3)
    args = (q, k, v, torch.tensor([0, 2, 2, 6]), torch.tensor([0, 3, 5, 8]))
    exported = torch.onnx.export(program, args)
    assert exported.verify() < 1e-4
    others = (*args[:3], torch.tensor([0, 1, 4, 6]), torch.tensor([0, 5, 5, 8]))
    torch.testing.assert_close(exported(*others)[0], program(*others), rtol=1e-4, atol=1e-4)


def test_long_rows_tell_parts_of_rows_apart():
    """Of rows that are shorter than what is cut off, another part would be the same."""
    x = RaggedTensor(torch.randn(6, 4), [3, 1, 2])
    with pytest.raises(OnnxError, match=r"goes another way for rows of some 40 values.*Give an example of longer rows"):
        torch.onnx.export(lambda x: x[:, :8].values, (x,), ragged="values")
    longer = RaggedTensor(torch.randn(12, 4), [9, 1, 2])
    program = torch.onnx.export(lambda x: x[:, :8].values, (longer,), ragged="values")
    rows = RaggedTensor(torch.randn(36, 4), [30, 5, 1])
    torch.testing.assert_close(program(rows.values, rows.offsets)[0], rows[:, :8].values)
    with pytest.raises(OnnxError, match="is neither filled, nor a range"):
        torch.onnx.export(lambda x: x.roll(20, 1).values, (x,), ragged="values")


def test_what_is_refused_of_ragged_tensors():
    x = RaggedTensor(torch.randn(6, 4), [3, 1, 2])
    with pytest.raises(OnnxError, match="ragged='values'.*ragged='padded'"):
        torch.onnx.export(nn.Linear(4, 2), (x,))
    with pytest.raises(OnnxError, match="'values', 'padded' or None, got 'rows'"):
        torch.onnx.export(nn.Linear(4, 2), (x,), ragged="rows")
    with pytest.raises(OnnxError, match="gives a ragged tensor.*Return its values"):
        torch.onnx.export(nn.Linear(4, 2), (x,), ragged="values")
