"""Every layer of `nn` that has a row in its tests, on onnxruntime beside eager; and how many of the ops that they call leave as ONNX."""

from collections import Counter

import pytest

import dynograd as torch
from dynograd.onnx.records import records_at
from dynograd.onnx.writers import form_of
from dynograd.ops.op import registry
from tests.nn import test_activation, test_conv, test_crf, test_layers, test_loss, test_normalization, test_pooling
from tests.nn.rows import build, tensors_of

pytest.importorskip("onnx", reason="needs the extra onnx")
pytest.importorskip("onnxruntime", reason="needs the extra onnx")

FILES = (test_activation, test_conv, test_layers, test_loss, test_normalization, test_pooling, test_crf)
ROWS = {}
for row in [row for file in FILES for row in file.ROWS]:
    title = f"{row.name}-{row.id}" if row.id else row.name
    ROWS[title if title not in ROWS else f"{title}-{len(ROWS)}"] = row
# Layers that are refused, and the words of the refusal.
REFUSED = {
    "CRF": "depend on values",
    "MultiLabelMarginLoss": "depends on values",
    "EmbeddingBag-sum": "max_norm",
}


@pytest.mark.parametrize("title", ROWS)
def test_a_layer_gives_the_same_on_onnxruntime(title):
    row = ROWS[title]
    layer, tensors = build(row).eval(), tuple(tensors_of(row, torch.float32))
    words = REFUSED.get(title, REFUSED.get(row.name))
    if words is not None:
        with pytest.raises(torch.onnx.OnnxError, match=words):
            torch.onnx.export(layer, tensors)
    else:
        torch.onnx.export(layer, tensors, verify=True)


def ops_of(row):
    layer = build(row).eval()
    copying = [lambda *tensors: layer(*[tensor.clone() for tensor in tensors])]
    graph = records_at(copying, [tensors_of(row, torch.float32)], row.name)[0]
    return {node.name for node in graph.nodes if node.op is not None}


def test_nine_in_ten_of_the_ops_that_layers_call_have_a_form():
    names = sorted({name for row in ROWS.values() for name in ops_of(row)})
    counts = Counter([form_of(registry[name]) for name in names])
    refused = [name for name in names if form_of(registry[name]) == "refused"]
    print(f"{len(names)} ops, called by {len(ROWS)} rows of layers: {dict(counts)}, refused: {refused}")
    assert len(names) > 60
    assert len(refused) <= 0.1 * len(names)
