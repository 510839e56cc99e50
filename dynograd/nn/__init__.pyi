# fmt: off
# ruff: noqa
"""The functions of `dynograd.nn`.

Written by `python -m tools.make_stubs` from the functions themselves; do not edit it. A test keeps it up to date.
"""

import builtins
from collections.abc import Callable, Sequence
from types import EllipsisType
from typing import Any, Literal, TypeAlias, overload

import numpy as _numpy

from dynograd import return_types as _return_types
from dynograd.base import devices as _devices
from dynograd.base import dtypes as _dtypes
from dynograd.base import layouts as _layouts
from dynograd.base import memory_formats as _memory_formats
from dynograd.base import random_streams as _random_streams
from dynograd.base import shapes as _shapes
from dynograd.ragged.tensor import RaggedTensor as _RaggedTensor
from dynograd.sparse.tensor import SparseTensor as _SparseTensor
from dynograd.tensor.tensor import Tensor

_Int: TypeAlias = builtins.int
_Ints: TypeAlias = builtins.int | Sequence[builtins.int]
_Number: TypeAlias = builtins.int | builtins.float | builtins.bool | builtins.complex | _numpy.number[Any] | _numpy.bool_
_Item: TypeAlias = (
    builtins.int | slice | EllipsisType | Tensor | Sequence[builtins.int] | Sequence[Tensor] | _numpy.ndarray[Any, Any] | _numpy.integer[Any]
    | list[Any] | None
)
_Index: TypeAlias = _Item | tuple[_Item, ...]
_Device: TypeAlias = _devices.device | builtins.str | builtins.int | None
_Dtype: TypeAlias = _dtypes.dtype | type | None

from dynograd.nn.layers.pooling import AdaptiveAvgPool1d as AdaptiveAvgPool1d
from dynograd.nn.layers.pooling import AdaptiveAvgPool2d as AdaptiveAvgPool2d
from dynograd.nn.layers.pooling import AdaptiveAvgPool3d as AdaptiveAvgPool3d
from dynograd.nn.layers.adaptive import AdaptiveLogSoftmaxWithLoss as AdaptiveLogSoftmaxWithLoss
from dynograd.nn.layers.pooling import AdaptiveMaxPool1d as AdaptiveMaxPool1d
from dynograd.nn.layers.pooling import AdaptiveMaxPool2d as AdaptiveMaxPool2d
from dynograd.nn.layers.pooling import AdaptiveMaxPool3d as AdaptiveMaxPool3d
from dynograd.nn.layers.dropout import AlphaDropout as AlphaDropout
from dynograd.nn.layers.pooling import AvgPool1d as AvgPool1d
from dynograd.nn.layers.pooling import AvgPool2d as AvgPool2d
from dynograd.nn.layers.pooling import AvgPool3d as AvgPool3d
from dynograd.nn.layers.loss import BCELoss as BCELoss
from dynograd.nn.layers.loss import BCEWithLogitsLoss as BCEWithLogitsLoss
from dynograd.nn.layers.batchnorm import BatchNorm1d as BatchNorm1d
from dynograd.nn.layers.batchnorm import BatchNorm2d as BatchNorm2d
from dynograd.nn.layers.batchnorm import BatchNorm3d as BatchNorm3d
from dynograd.nn.layers.linear import Bilinear as Bilinear
from dynograd.nn.layers.tree_lstm import BinaryTreeLSTMCell as BinaryTreeLSTMCell
from dynograd.nn.parameter import Buffer as Buffer
from dynograd.nn.layers.activation import CELU as CELU
from dynograd.nn.layers.crf import CRF as CRF
from dynograd.nn.layers.loss import CTCLoss as CTCLoss
from dynograd.nn.layers.resampling import ChannelShuffle as ChannelShuffle
from dynograd.nn.layers.tree_lstm import ChildSumTreeLSTMCell as ChildSumTreeLSTMCell
from dynograd.nn.layers.padding import CircularPad1d as CircularPad1d
from dynograd.nn.layers.padding import CircularPad2d as CircularPad2d
from dynograd.nn.layers.padding import CircularPad3d as CircularPad3d
from dynograd.nn.layers.padding import ConstantPad1d as ConstantPad1d
from dynograd.nn.layers.padding import ConstantPad2d as ConstantPad2d
from dynograd.nn.layers.padding import ConstantPad3d as ConstantPad3d
from dynograd.nn.layers.conv import Conv1d as Conv1d
from dynograd.nn.layers.conv import Conv2d as Conv2d
from dynograd.nn.layers.conv import Conv3d as Conv3d
from dynograd.nn.layers.conv import ConvTranspose1d as ConvTranspose1d
from dynograd.nn.layers.conv import ConvTranspose2d as ConvTranspose2d
from dynograd.nn.layers.conv import ConvTranspose3d as ConvTranspose3d
from dynograd.nn.layers.loss import CosineEmbeddingLoss as CosineEmbeddingLoss
from dynograd.nn.layers.distance import CosineSimilarity as CosineSimilarity
from dynograd.nn.layers.loss import CrossEntropyLoss as CrossEntropyLoss
from dynograd.nn.layers.normalization import CrossMapLRN2d as CrossMapLRN2d
from dynograd.nn.parallel.data_parallel import DataParallel as DataParallel
from dynograd.nn.parallel.distributed import DistributedDataParallel as DistributedDataParallel
from dynograd.nn.layers.dropout import Dropout as Dropout
from dynograd.nn.layers.dropout import Dropout1d as Dropout1d
from dynograd.nn.layers.dropout import Dropout2d as Dropout2d
from dynograd.nn.layers.dropout import Dropout3d as Dropout3d
from dynograd.nn.layers.activation import ELU as ELU
from dynograd.nn.layers.sparse import Embedding as Embedding
from dynograd.nn.layers.sparse import EmbeddingBag as EmbeddingBag
from dynograd.nn.layers.dropout import FeatureAlphaDropout as FeatureAlphaDropout
from dynograd.nn.layers.flatten import Flatten as Flatten
from dynograd.nn.layers.resampling import Fold as Fold
from dynograd.nn.layers.pooling import FractionalMaxPool2d as FractionalMaxPool2d
from dynograd.nn.layers.pooling import FractionalMaxPool3d as FractionalMaxPool3d
from dynograd.nn.layers.activation import GELU as GELU
from dynograd.nn.layers.activation import GLU as GLU
from dynograd.nn.layers.rnn import GRU as GRU
from dynograd.nn.layers.rnn_cells import GRUCell as GRUCell
from dynograd.nn.layers.loss import GaussianNLLLoss as GaussianNLLLoss
from dynograd.nn.layers.normalization import GroupNorm as GroupNorm
from dynograd.nn.layers.activation import Hardshrink as Hardshrink
from dynograd.nn.layers.activation import Hardsigmoid as Hardsigmoid
from dynograd.nn.layers.activation import Hardswish as Hardswish
from dynograd.nn.layers.activation import Hardtanh as Hardtanh
from dynograd.nn.layers.loss import HingeEmbeddingLoss as HingeEmbeddingLoss
from dynograd.nn.layers.loss import HuberLoss as HuberLoss
from dynograd.nn.layers.linear import Identity as Identity
from dynograd.nn.layers.batchnorm import InstanceNorm1d as InstanceNorm1d
from dynograd.nn.layers.batchnorm import InstanceNorm2d as InstanceNorm2d
from dynograd.nn.layers.batchnorm import InstanceNorm3d as InstanceNorm3d
from dynograd.nn.layers.loss import KLDivLoss as KLDivLoss
from dynograd.nn.layers.loss import L1Loss as L1Loss
from dynograd.nn.layers.pooling import LPPool1d as LPPool1d
from dynograd.nn.layers.pooling import LPPool2d as LPPool2d
from dynograd.nn.layers.pooling import LPPool3d as LPPool3d
from dynograd.nn.layers.rnn import LSTM as LSTM
from dynograd.nn.layers.rnn_cells import LSTMCell as LSTMCell
from dynograd.nn.layers.normalization import LayerNorm as LayerNorm
LazyBatchNorm1d: Any
LazyBatchNorm2d: Any
LazyBatchNorm3d: Any
LazyConv1d: Any
LazyConv2d: Any
LazyConv3d: Any
LazyConvTranspose1d: Any
LazyConvTranspose2d: Any
LazyConvTranspose3d: Any
LazyInstanceNorm1d: Any
LazyInstanceNorm2d: Any
LazyInstanceNorm3d: Any
from dynograd.nn.layers.lazy import LazyLinear as LazyLinear
from dynograd.nn.layers.activation import LeakyReLU as LeakyReLU
from dynograd.nn.layers.linear import Linear as Linear
from dynograd.nn.layers.linear_losses import LinearCrossEntropyLoss as LinearCrossEntropyLoss
from dynograd.ops.loss.linear_losses import LinearCrossEntropyOptions as LinearCrossEntropyOptions
from dynograd.nn.layers.normalization import LocalResponseNorm as LocalResponseNorm
from dynograd.nn.layers.activation import LogSigmoid as LogSigmoid
from dynograd.nn.layers.activation import LogSoftmax as LogSoftmax
from dynograd.nn.layers.loss import MSELoss as MSELoss
from dynograd.nn.layers.loss import MarginRankingLoss as MarginRankingLoss
from dynograd.nn.layers.pooling import MaxPool1d as MaxPool1d
from dynograd.nn.layers.pooling import MaxPool2d as MaxPool2d
from dynograd.nn.layers.pooling import MaxPool3d as MaxPool3d
from dynograd.nn.layers.pooling import MaxUnpool1d as MaxUnpool1d
from dynograd.nn.layers.pooling import MaxUnpool2d as MaxUnpool2d
from dynograd.nn.layers.pooling import MaxUnpool3d as MaxUnpool3d
from dynograd.nn.layers.activation import Mish as Mish
from dynograd.nn.module import Module as Module
from dynograd.nn.layers.containers import ModuleDict as ModuleDict
from dynograd.nn.layers.containers import ModuleList as ModuleList
from dynograd.nn.layers.loss import MultiLabelMarginLoss as MultiLabelMarginLoss
from dynograd.nn.layers.loss import MultiLabelSoftMarginLoss as MultiLabelSoftMarginLoss
from dynograd.nn.layers.loss import MultiMarginLoss as MultiMarginLoss
from dynograd.nn.attention import MultiheadAttention as MultiheadAttention
from dynograd.nn.layers.loss import NLLLoss as NLLLoss
from dynograd.nn.layers.loss import NLLLoss as NLLLoss2d
from dynograd.nn.layers.activation import PReLU as PReLU
from dynograd.nn.layers.distance import PairwiseDistance as PairwiseDistance
from dynograd.nn.parameter import Parameter as Parameter
from dynograd.nn.layers.containers import ParameterDict as ParameterDict
from dynograd.nn.layers.containers import ParameterList as ParameterList
from dynograd.nn.layers.resampling import PixelShuffle as PixelShuffle
from dynograd.nn.layers.resampling import PixelUnshuffle as PixelUnshuffle
from dynograd.nn.layers.loss import PoissonNLLLoss as PoissonNLLLoss
from dynograd.nn.layers.normalization import RMSNorm as RMSNorm
from dynograd.nn.layers.rnn import RNN as RNN
from dynograd.nn.layers.rnn import RNNBase as RNNBase
from dynograd.nn.layers.rnn_cells import RNNCell as RNNCell
from dynograd.nn.layers.rnn_cells import RNNCellBase as RNNCellBase
from dynograd.nn.layers.activation import RReLU as RReLU
from dynograd.nn.layers.activation import ReLU as ReLU
from dynograd.nn.layers.activation import ReLU6 as ReLU6
from dynograd.nn.layers.padding import ReflectionPad1d as ReflectionPad1d
from dynograd.nn.layers.padding import ReflectionPad2d as ReflectionPad2d
from dynograd.nn.layers.padding import ReflectionPad3d as ReflectionPad3d
from dynograd.nn.layers.padding import ReplicationPad1d as ReplicationPad1d
from dynograd.nn.layers.padding import ReplicationPad2d as ReplicationPad2d
from dynograd.nn.layers.padding import ReplicationPad3d as ReplicationPad3d
from dynograd.nn.attention import SDPBackend as SDPBackend
from dynograd.nn.layers.activation import SELU as SELU
from dynograd.nn.layers.containers import Sequential as Sequential
from dynograd.nn.layers.activation import SiLU as SiLU
from dynograd.nn.layers.activation import Sigmoid as Sigmoid
from dynograd.nn.layers.loss import SmoothL1Loss as SmoothL1Loss
from dynograd.nn.layers.loss import SoftMarginLoss as SoftMarginLoss
from dynograd.nn.layers.activation import Softmax as Softmax
from dynograd.nn.layers.activation import Softmax2d as Softmax2d
from dynograd.nn.layers.activation import Softmin as Softmin
from dynograd.nn.layers.activation import Softplus as Softplus
from dynograd.nn.layers.activation import Softshrink as Softshrink
from dynograd.nn.layers.activation import Softsign as Softsign
from dynograd.nn.layers.batchnorm import SyncBatchNorm as SyncBatchNorm
from dynograd.nn.layers.activation import Tanh as Tanh
from dynograd.nn.layers.activation import Tanhshrink as Tanhshrink
from dynograd.nn.layers.activation import Threshold as Threshold
from dynograd.nn.layers.transformer import Transformer as Transformer
from dynograd.nn.layers.transformer import TransformerDecoder as TransformerDecoder
from dynograd.nn.layers.transformer import TransformerDecoderLayer as TransformerDecoderLayer
from dynograd.nn.layers.transformer import TransformerEncoder as TransformerEncoder
from dynograd.nn.layers.transformer import TransformerEncoderLayer as TransformerEncoderLayer
from dynograd.nn.layers.tree_lstm import TreeLSTM as TreeLSTM
from dynograd.nn.layers.loss import TripletMarginLoss as TripletMarginLoss
from dynograd.nn.layers.loss import TripletMarginWithDistanceLoss as TripletMarginWithDistanceLoss
from dynograd.nn.layers.flatten import Unflatten as Unflatten
from dynograd.nn.layers.resampling import Unfold as Unfold
from dynograd.nn.parameter import UninitializedBuffer as UninitializedBuffer
from dynograd.nn.parameter import UninitializedParameter as UninitializedParameter
from dynograd.nn.layers.resampling import Upsample as Upsample
from dynograd.nn.layers.resampling import UpsamplingBilinear2d as UpsamplingBilinear2d
from dynograd.nn.layers.resampling import UpsamplingNearest2d as UpsamplingNearest2d
from dynograd.nn.layers.padding import ZeroPad1d as ZeroPad1d
from dynograd.nn.layers.padding import ZeroPad2d as ZeroPad2d
from dynograd.nn.layers.padding import ZeroPad3d as ZeroPad3d
from dynograd.nn import attention as attention
common_types: Any
from dynograd.nn.parallel.data_parallel import data_parallel as data_parallel
from dynograd.nn import functional as functional
from dynograd.nn import grad as grad
from dynograd.nn import init as init
intrinsic: Any
from dynograd.nn import modules as modules
from dynograd.nn import parallel as parallel
from dynograd.nn import parameter as parameter
qat: Any
quantizable: Any
quantized: Any
from dynograd.nn.attention import sdpa_kernel as sdpa_kernel
from dynograd.nn import utils as utils
