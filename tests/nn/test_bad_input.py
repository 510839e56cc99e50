"""What layers refuse to be built with, and the words they refuse it in: the layer, the argument, its value."""

import pytest

import dynograd as dg
from dynograd import nn

NAN = float("nan")
# class | arguments | words of the message
ROWS = """
Linear | -1, 2 | in_features must not be negative, got -1
Linear | 2, -1 | out_features must not be negative, got -1
Linear | 2.5, 3 | in_features must be an integer, got 2.5 of type float
Linear | 2, 'a' | out_features must be an integer, got 'a' of type str
Bilinear | 0, 3, 4 | in1_features must be positive, got 0
Bilinear | 2, -3, 4 | in2_features must not be negative, got -3
Bilinear | 2, 3, 4.0 | out_features must be an integer, got 4.0
Conv1d | 3, 4, 0 | kernel_size must be positive, got 0
Conv1d | 3, 4, 2.5 | kernel_size must be an integer, got 2.5
Conv1d | 3, 4, (3, 3) | kernel_size must be an integer or one number, got 2: (3, 3)
Conv1d | -3, 4, 3 | in_channels must not be negative, got -3
Conv1d | 3, 4, 3, stride=0 | stride must be positive, got 0
Conv1d | 3, 4, 3, padding=-1 | padding must not be negative, got -1
Conv1d | 3, 4, 3, dilation=0 | dilation must be positive, got 0
Conv1d | 3, 4, 3, groups=0 | groups must be positive, got 0
Conv1d | 3, 4, 3, groups=2 | in_channels must be divisible by groups, got 3 and 2
Conv1d | 4, 3, 3, groups=2 | out_channels must be divisible by groups, got 3 and 2
Conv1d | 3, 4, 3, padding='some' | Invalid padding string 'some'
Conv1d | 3, 4, 3, padding='same', stride=2 | padding='same' is not supported for strided
Conv1d | 3, 4, 3, padding_mode='x' | padding_mode must be one of 'zeros', 'reflect', 'replicate', 'circular', got 'x'
Conv2d | 3, 4, (3,) | kernel_size must be an integer or 2 of them, got (3,)
Conv2d | 3, 4, (3, 0) | kernel_size[1] must be positive, got 0
Conv2d | 3, 4, 3, stride=(1, 1, 1) | stride must be an integer or 2 numbers, one for each dimension, got 3: (1, 1, 1)
Conv3d | 3, 4, (3, 3) | kernel_size must be an integer or 3 numbers
ConvTranspose2d | 3, 4, 3, output_padding=-1 | output_padding must not be negative, got -1
ConvTranspose2d | 3, 4, 3, padding_mode='circular' | only "zeros" padding mode is supported
MaxPool1d | -1 | kernel_size must not be negative, got -1
MaxPool2d | 2, 0 | stride must be positive, got 0
MaxPool2d | 2, padding=-1 | padding must not be negative, got -1
MaxPool2d | (2, 2, 2) | kernel_size must be an integer or 2 numbers
MaxPool3d | 2.5 | kernel_size must be an integer, got 2.5
AvgPool1d | -2 | kernel_size must not be negative, got -2
AvgPool2d | 2, (1, 0) | stride[1] must be positive, got 0
AvgPool3d | 2, dilation=1 | dilation
LPPool1d | 0, 2 | norm_type must not be 0
LPPool2d | 'a', 2 | norm_type must be a number, got 'a'
LPPool3d | 2, -1 | kernel_size must not be negative, got -1
MaxUnpool1d | -1 | kernel_size must not be negative, got -1
MaxUnpool2d | 2, -1 | stride must be positive, got -1
MaxUnpool3d | 2, padding=-1 | padding must not be negative, got -1
AdaptiveAvgPool1d | -1 | output_size must not be negative, got -1
AdaptiveAvgPool2d | (1, 2, 3) | output_size must be one number or 2, got (1, 2, 3)
AdaptiveAvgPool3d | 2.5 | output_size must be an integer, got 2.5
AdaptiveMaxPool1d | (1, 2) | output_size must be one number or 1, got (1, 2)
AdaptiveMaxPool2d | -1 | output_size must not be negative, got -1
AdaptiveMaxPool3d | 'a' | output_size must be an integer, got 'a'
FractionalMaxPool2d | 2 | requires specifying either an output size, or a pooling ratio
FractionalMaxPool3d | 2, output_ratio=1.5 | output_ratio
BatchNorm1d | -1 | num_features must not be negative, got -1
BatchNorm2d | 2.5 | num_features must be an integer, got 2.5
BatchNorm3d | 4, eps='a' | eps must be a number, got 'a'
SyncBatchNorm | 4, momentum='a' | momentum must be a number, got 'a'
InstanceNorm1d | -2 | num_features must not be negative, got -2
InstanceNorm2d | None | num_features must be an integer, got None
InstanceNorm3d | 3, momentum=() | momentum must be a number, got ()
GroupNorm | 0, 4 | num_groups must be positive, got 0
GroupNorm | 3, 4 | num_channels must be divisible by num_groups, got 4 and 3
LayerNorm | 'a' | normalized_shape must be an integer, got 'a'
LayerNorm | (2, -1) | normalized_shape must not be negative, got -1
RMSNorm | 2.5 | normalized_shape must be an integer, got 2.5
LocalResponseNorm | 0 | size must be positive, got 0
CrossMapLRN2d | -1 | size must be positive, got -1
Dropout | -0.1 | dropout probability has to be between 0 and 1, but got -0.1
Dropout1d | 'a' | p must be a number, got 'a'
Dropout2d | 1.1 | dropout probability has to be between 0 and 1, but got 1.1
Dropout3d | NAN | dropout probability has to be between 0 and 1, but got nan
AlphaDropout | None | p must be a number, got None
FeatureAlphaDropout | 2 | dropout probability has to be between 0 and 1, but got 2
Embedding | -1, 3 | num_embeddings must not be negative, got -1
Embedding | 3, 2, padding_idx=3 | padding_idx
EmbeddingBag | 3, 2.0 | embedding_dim must be an integer, got 2.0
EmbeddingBag | 3, 2, mode='x' | mode has to be one of sum, mean or max, got 'x'
RNN | 3, 4, nonlinearity='x' | 'x'
RNN | 0, 4 | input_size must be positive, got 0
LSTM | 3, 0 | hidden_size must be positive, got 0
LSTM | 3, 4, 0 | num_layers must be positive, got 0
LSTM | 3, 4, 2.0 | num_layers must be an integer, got 2.0
LSTM | 3, 4, dropout=2 | dropout should be a number in range [0, 1], got 2
LSTM | 3, 4, proj_size=4 | proj_size has to be in [0, hidden_size), got 4 and hidden_size 4
LSTM | 3, 4, bias=1 | bias should be of type bool, got: 1 of type int
GRU | 3, 4, proj_size=2 | unexpected keyword argument 'proj_size'
GRU | 3, 4, batch_first='yes' | batch_first should be of type bool, got: 'yes' of type str
RNNCell | -1, 3 | input_size must not be negative, got -1
RNNCell | 3, 4, nonlinearity='x' | Unknown nonlinearity: x
LSTMCell | 3, -1 | hidden_size must not be negative, got -1
GRUCell | 3.5, 1 | input_size must be an integer, got 3.5
MultiheadAttention | 8, 3 | embed_dim must be divisible by num_heads, both greater than 0, got embed_dim=8 and num_heads=3
MultiheadAttention | 0, 1 | embed_dim must be positive, got 0
MultiheadAttention | 8, 2, dropout=2 | dropout has to be between 0 and 1, but got 2
MultiheadAttention | 8, 2, dropout=NAN | dropout has to be between 0 and 1, but got nan
PReLU | -1 | num_parameters must not be negative, got -1
Hardtanh | 1, -1 | max_val (-1) must be larger than min_val (1)
PixelShuffle | 0 | upscale_factor must be positive, got 0
PixelUnshuffle | 'a' | downscale_factor must be an integer, got 'a'
ChannelShuffle | -1 | groups must be positive, got -1
Unflatten | 1, 3 | unflattened_size must be a tuple of ints, but found type int
Unfold | 2, stride=0 | stride must be positive, got 0
Fold | (4, 4), 2, padding=-1 | padding must not be negative, got -1
Fold | 0, 2 | output_size must be positive, got 0
ConstantPad1d | (1, 2, 3), 0 | padding wants one number or 2, got (1, 2, 3)
ConstantPad2d | 1.5, 0 | padding must be an integer, got 1.5
ReflectionPad2d | 'a' | padding must be an integer, got 'a'
ReplicationPad1d | (1, 'a') | padding must be an integer, got 'a'
ZeroPad2d | (1, 2, 3) | padding wants one number or 4, got (1, 2, 3)
CircularPad3d | (1, 2) | padding wants one number or 6, got (1, 2)
HuberLoss | delta=1j | delta must be a number, got 1j of type complex
MultiMarginLoss | 3 | only p == 1 and p == 2 supported, got 3
MultiMarginLoss | margin='a' | margin must be a number, got 'a'
MultiMarginLoss | weight=3 | cannot assign 'int' object to buffer 'weight'
TripletMarginLoss | 0 | margin must be positive, got 0
TripletMarginWithDistanceLoss | margin=0 | expected margin to be greater than 0, got 0
LinearCrossEntropyLoss | -1, 3 | in_features must not be negative, got -1
LinearCrossEntropyLoss | 3, 4, label_smoothing=2 | expected label_smoothing to be in range [0, 1], got 2
AdaptiveLogSoftmaxWithLoss | 8, 10, [] | cutoffs should be a sequence of length larger than 0
AdaptiveLogSoftmaxWithLoss | 8, 10, [3, 2] | sorted in an increasing order, where each value is between 1 and n_classes-1 = 9, got [3, 2]
AdaptiveLogSoftmaxWithLoss | 8, 10, [10] | between 1 and n_classes-1 = 9, got [10]
AdaptiveLogSoftmaxWithLoss | 8, 10, [3], div_value=0 | div_value must be positive, got 0
ModuleList | 3 | ModuleList: expected modules in a list or another iterable, got 3
ModuleList | [3] | int is not a Module subclass: ModuleList cannot take it as '0'
ModuleDict | {'a': 3} | int is not a Module subclass: ModuleDict cannot take it as 'a'
Sequential | 3 | int is not a Module subclass
TransformerEncoder | 3, 2 | int is not a Module subclass
TransformerEncoderLayer | 8, 3 | embed_dim=8 and num_heads=3
TransformerEncoderLayer | 8, 2, -1 | out_features must not be negative, got -1
TransformerDecoderLayer | 8, 2, dropout=2 | dropout has to be between 0 and 1, but got 2
Transformer | 8, 3 | embed_dim=8 and num_heads=3
"""
CASES = [[part.strip() for part in line.split(" | ", 2)] for line in ROWS.strip().splitlines()]


@pytest.mark.parametrize(("name", "args", "words"), CASES, ids=[f"{name}({args})" for name, args, _ in CASES])
def test_a_constructor_refuses(name, args, words):
    with pytest.raises((ValueError, TypeError, RuntimeError)) as caught:
        eval(f"nn.{name}({args})")
    assert words in str(caught.value)


def test_batch_norm_without_eps_is_refused_when_it_runs():
    layer = nn.BatchNorm1d(2, eps=0)
    with pytest.raises(ValueError, match="BatchNorm1d: eps must be positive, got 0"):
        layer(dg.ones(3, 2))


@pytest.mark.parametrize(
    "name",
    [
        "MaxPool1d(0)",
        "MaxPool2d(0)",
        "MaxPool3d(0)",
        "AvgPool1d(0)",
        "AvgPool2d(0)",
        "AvgPool3d((2, 0, 2))",
        "LPPool2d(2, 0)",
    ],
)
def test_windows_of_size_0_are_refused_when_the_layer_runs(name):
    layer = eval(f"nn.{name}")
    with pytest.raises(RuntimeError, match="pool.d: non-positive kernel_size is not supported, got .*0"):
        layer(dg.ones(1, 1, *(4,) * layer.rank))


def test_targets_and_sizes_of_the_adaptive_softmax():
    layer = nn.AdaptiveLogSoftmaxWithLoss(4, 10, [3])
    with pytest.raises(RuntimeError, match=r"Target values should be in \[0, 9\], but values in range \[1, 10\]"):
        layer(dg.ones(2, 4), dg.tensor([1, 10]))
    with pytest.raises(RuntimeError, match=r"same size in the batch dimension.*got \(2, 4\) and \(3,\)"):
        layer(dg.ones(2, 4), dg.tensor([1, 2, 3]))
    with pytest.raises(RuntimeError, match="CrossMapLRN2d: Expected 4D input, got 3D"):
        nn.CrossMapLRN2d(3)(dg.ones(1, 2, 3))


def test_circular_padding_knows_its_rank():
    with pytest.raises(
        ValueError, match=r"CircularPad1d: expected 2D or 3D input \(got 4D input of shape \(2, 3, 4, 5\)\)"
    ):
        nn.CircularPad1d(1)(dg.ones(2, 3, 4, 5))


def test_integers_of_other_kinds_are_taken():
    import numpy

    assert nn.Linear(numpy.int64(3), numpy.int32(2)).weight.shape == (2, 3)
    assert nn.Conv2d(dg.tensor(3), 4, (numpy.int64(3), 2)).weight.shape == (4, 3, 3, 2)
    assert nn.MaxPool2d([2, 2])(dg.ones(1, 4, 4)).shape == (1, 2, 2)
