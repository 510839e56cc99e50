"""What `dynograd.onnx.export` writes, `dynograd.onnx.load` reads: the same numbers, training goes on, and it leaves again."""

import pytest

import dynograd
from tests.support.modules import MODULES

pytest.importorskip("onnx", reason="needs the extra onnx")

# One of each family; `tests.support.modules` has all.
ROWS = """GELU|Softmax|Linear of sequences|Bilinear|Embedding|BatchNorm2d|LayerNorm|RMSNorm|GroupNorm|InstanceNorm1d|LocalResponseNorm|Conv1d|Conv2d|
    Conv2d same|Conv3d|ConvTranspose1d|ConvTranspose2d|MaxPool2d|AvgPool2d|LPPool2d|AdaptiveAvgPool2d|ReflectionPad2d|CircularPad2d|Upsample bilinear|
    Upsample bicubic|PixelShuffle|Unflatten|RNN|LSTM|GRU|LSTMCell|MultiheadAttention|TransformerEncoder|TransformerDecoderLayer|GPT|LSTM by hand|
    causal mask|mean over lengths|LeNet|residual convolutions""".replace("\n    ", "").split("|")


def _tensors(value):
    return [part for item in value for part in _tensors(item)] if isinstance(value, (tuple, list)) else [value]


def _close(actual, expected):
    pairs = list(zip(_tensors(actual), _tensors(expected), strict=True))
    return all(dynograd.allclose(element, other, 1e-4, 1e-5) for element, other in pairs)


def _export(module, args, axes):
    names = [f"x{number}" for number in range(len(args))]
    dynamic = {name: {} for name in names}
    for (number, axis), symbol in axes.items():
        dynamic[f"x{number}"][axis] = symbol
    return dynograd.onnx.export(module, args, input_names=names, dynamic_axes=dynamic).model_proto


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
def test_an_exported_module_comes_back_trains_and_leaves_again(name):
    make, example, axes = MODULES[name]
    dynograd.manual_seed(0)
    module, args = make().eval(), example()
    back = dynograd.onnx.load(_export(module, args, axes))
    assert _close(back(*args), module(*args))

    parameters = list(back.parameters())
    if parameters:
        optimizer = dynograd.optim.SGD(parameters, lr=1e-3)
        before = [parameter.detach().clone() for parameter in parameters]
        loss = sum((part**2).sum() for part in _tensors(back(*args)))
        loss.backward()
        optimizer.step()
        changed = [not dynograd.equal(old, new) for old, new in zip(before, parameters)]
        assert any(changed)

    again = dynograd.onnx.load(_export(back, args, axes))
    assert _close(again(*args), back(*args))
    assert sorted(dict(again.named_parameters())) == sorted(dict(back.named_parameters()))
