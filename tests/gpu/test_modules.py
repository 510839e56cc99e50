"""Layers on the device: outputs, gradients of inputs and parameters, and buffers are those of the CPU."""

import copy

import numpy
import pytest

import dynograd as dg
from dynograd import nn
from dynograd.arrays import CudaArray
from dynograd.kernels.build import precision

F = nn.functional
X = (3, 8)
IMAGES = (2, 4, 6, 6)

# (title, make, shape of the input or a function that makes the inputs)
ROWS = [
    ("linear", lambda: nn.Linear(8, 5), X),
    ("mlp", lambda: nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)), X),
    ("conv1d", lambda: nn.Conv1d(4, 6, 3, padding=1, stride=2), (2, 4, 9)),
    ("conv2d", lambda: nn.Conv2d(4, 6, 3, padding=1), IMAGES),
    ("conv2d groups", lambda: nn.Conv2d(4, 8, 3, groups=2, dilation=2, padding=2), IMAGES),
    ("conv2d depthwise", lambda: nn.Conv2d(4, 4, 3, groups=4), IMAGES),
    ("conv_transpose2d", lambda: nn.ConvTranspose2d(4, 3, 3, stride=2, padding=1, output_padding=1), IMAGES),
    ("batch norm", lambda: nn.BatchNorm2d(4), IMAGES),
    ("batch norm rows", lambda: nn.BatchNorm1d(8), X),
    ("layer norm", lambda: nn.LayerNorm(8), X),
    ("rms norm", lambda: nn.RMSNorm(8), X),
    ("group norm", lambda: nn.GroupNorm(2, 4), IMAGES),
    ("instance norm", lambda: nn.InstanceNorm2d(4, affine=True), IMAGES),
    ("max pool", lambda: nn.MaxPool2d(2), IMAGES),
    ("avg pool", lambda: nn.AvgPool2d(3, 2, 1), IMAGES),
    ("adaptive pool", lambda: nn.AdaptiveAvgPool2d(2), IMAGES),
    ("gelu", nn.GELU, X),
    ("silu", nn.SiLU, X),
    ("softmax", lambda: nn.Softmax(-1), X),
    ("log softmax", lambda: nn.LogSoftmax(1), X),
    ("leaky relu", nn.LeakyReLU, X),
    ("prelu", lambda: nn.PReLU(), X),
    ("elu", nn.ELU, X),
    ("glu", nn.GLU, X),
    ("flatten", lambda: nn.Sequential(nn.Flatten(), nn.Linear(144, 2)), IMAGES),
    ("upsample", lambda: nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False), IMAGES),
    ("pad", lambda: nn.ReflectionPad2d(1), IMAGES),
    ("lstm", lambda: nn.LSTM(8, 6, 2, batch_first=True, bidirectional=True), (2, 5, 8)),
    ("gru", lambda: nn.GRU(8, 6), (5, 2, 8)),
    ("rnn", lambda: nn.RNN(8, 6), (5, 2, 8)),
    ("lstm cell", lambda: nn.LSTMCell(8, 6), X),
    ("gru cell", lambda: nn.GRUCell(8, 6), X),
    ("attention", lambda: nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True), (2, 5, 8)),
    ("decoder", lambda: nn.TransformerDecoderLayer(8, 2, 16, 0.0), lambda: [dg.randn(4, 2, 8), dg.randn(5, 2, 8)]),
    ("multihead", lambda: nn.MultiheadAttention(8, 2), lambda: [dg.randn(4, 2, 8)] * 3),
    ("embedding", lambda: nn.Embedding(10, 4, padding_idx=0), lambda: [dg.tensor([[1, 2, 0], [9, 2, 2]])]),
    ("bag", lambda: nn.EmbeddingBag(10, 4, mode="mean"), lambda: [dg.tensor([[1, 2, 0], [9, 2, 2]])]),
    ("bilinear", lambda: nn.Bilinear(8, 8, 3), lambda: [dg.randn(3, 8), dg.randn(3, 8)]),
    ("cosine", lambda: nn.CosineSimilarity(), lambda: [dg.randn(3, 8), dg.randn(3, 8)]),
    ("cross entropy", lambda: nn.CrossEntropyLoss(label_smoothing=0.1), lambda: [dg.randn(3, 8), dg.tensor([1, 0, 7])]),
    ("mse", nn.MSELoss, lambda: [dg.randn(3, 8), dg.randn(3, 8)]),
    ("bce", nn.BCEWithLogitsLoss, lambda: [dg.randn(3, 8), dg.rand(3, 8)]),
    ("smooth l1", nn.SmoothL1Loss, lambda: [dg.randn(3, 8), dg.randn(3, 8)]),
    ("kl", lambda: nn.KLDivLoss(reduction="batchmean"), lambda: [dg.randn(3, 8), dg.rand(3, 8)]),
    ("nll", nn.NLLLoss, lambda: [dg.randn(3, 8), dg.tensor([1, 0, 7])]),
    ("triplet", nn.TripletMarginLoss, lambda: [dg.randn(3, 8), dg.randn(3, 8), dg.randn(3, 8)]),
]


def flat(results):
    if isinstance(results, dg.Tensor):
        return [results]
    return [element for part in results for element in flat(part)] if isinstance(results, (tuple, list)) else []


def outcome(module, inputs):
    inputs = [operand.detach().requires_grad_() if operand.is_floating_point() else operand for operand in inputs]
    outputs = [element for element in flat(module(*inputs)) if element.is_floating_point()]
    sum((output * output).sum() for output in outputs).backward()
    return {
        **{f"output {number}": element.detach() for number, element in enumerate(outputs)},
        **{f"input {number}": element.grad for number, element in enumerate(inputs) if element.is_floating_point()},
        **{name: element.grad for name, element in module.named_parameters()},
        **{name: element for name, element in module.named_buffers() if element is not None},
    }


@pytest.mark.parametrize("make, inputs", [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_layer(make, inputs):
    compare(make, inputs, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize(
    "make, inputs", [row[1:] for row in ROWS if row[0] in ("conv2d", "conv_transpose2d", "lstm", "gru", "rnn")]
)
def test_layers_that_may_round_to_tf32(make, inputs):
    """PyTorch's default for convolutions and recurrent layers: 10 bits of mantissa in the factors."""
    precision.set_allow_tf32("cudnn", True)
    compare(make, inputs, rtol=1e-2, atol=2e-2)


def compare(make, inputs, rtol, atol):
    dg.manual_seed(0)
    module = make()
    arguments = inputs() if callable(inputs) else [dg.randn(*inputs)]
    there = outcome(copy.deepcopy(module).cuda(), [argument.cuda() for argument in arguments])
    here = outcome(module, arguments)
    assert there.keys() == here.keys()
    for name, element in here.items():
        if element is None:
            assert there[name] is None, name
            continue
        assert type(there[name].array) is CudaArray, name
        numpy.testing.assert_allclose(there[name].cpu().numpy(), element.numpy(), rtol, atol, err_msg=name)
