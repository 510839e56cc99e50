"""Ragged inputs, as values and offsets, or as padded rows and lengths."""

import pytest

import dynograd as torch
from dynograd import nn
from dynograd.onnx import OnnxError
from dynograd.ragged import RaggedTensor
from examples import sentiment

pytest.importorskip("onnx", reason="needs the extra onnx")
pytest.importorskip("onnxruntime", reason="needs the extra onnx")


class Pooled(nn.Module):
    """A recurrent layer over rows, and a pool of each row."""

    def __init__(self, layer, pool):
        super().__init__()
        self.layer, self.pool = layer, pool

    def forward(self, x):
        return getattr(torch.relu(self.layer(x)[0]), self.pool)(1)


MODELS = {
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


@pytest.mark.parametrize("ragged", ["values", "padded"])
@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_rows_gives_the_same_on_onnxruntime(name, ragged):
    make, values = MODELS[name]
    torch.manual_seed(0)
    model, x = make().eval(), RaggedTensor(values(), [3, 1, 2])
    if name == "layers on each value":
        layers = model
        model = lambda x: layers(x).values  # noqa: E731
    program = torch.onnx.export(model, (x,), ragged=ragged)
    assert program.verify() < 1e-4
    names = [value.name for value in program.model_proto.graph.input]
    assert names[1].endswith("_offsets" if ragged == "values" else "_lengths")
    lengths = torch.tensor([1, 5])
    rows = RaggedTensor(values(), lengths)
    inputs = (rows.values, rows.offsets) if ragged == "values" else (rows.to_padded(1), lengths)
    torch.testing.assert_close(program(*inputs)[0], model(rows), rtol=1e-4, atol=1e-4)


def test_what_is_refused_of_ragged_tensors():
    x = RaggedTensor(torch.randn(6, 4), [3, 1, 2])
    with pytest.raises(OnnxError, match="ragged='values'.*ragged='padded'"):
        torch.onnx.export(nn.Linear(4, 2), (x,))
    with pytest.raises(OnnxError, match="'values', 'padded' or None, got 'rows'"):
        torch.onnx.export(nn.Linear(4, 2), (x,), ragged="rows")
    with pytest.raises(OnnxError, match="gives a ragged tensor.*Return its values"):
        torch.onnx.export(nn.Linear(4, 2), (x,), ragged="values")
