# fmt: off
# ruff: noqa
"""`dynograd.autograd.variable`, which is `dynograd.tensor.legacy`.

Written by `python -m tools.make_stubs` from the functions themselves; do not edit it. A test keeps it up to date.
"""

from dynograd.tensor.legacy import BFloat16Tensor as BFloat16Tensor
from dynograd.tensor.legacy import BoolTensor as BoolTensor
from dynograd.tensor.legacy import ByteTensor as ByteTensor
from dynograd.tensor.legacy import CharTensor as CharTensor
from dynograd.tensor.legacy import DoubleTensor as DoubleTensor
from dynograd.tensor.legacy import FloatTensor as FloatTensor
from dynograd.tensor.legacy import HalfTensor as HalfTensor
from dynograd.tensor.legacy import IntTensor as IntTensor
from dynograd.tensor.legacy import LongTensor as LongTensor
from dynograd.tensor.legacy import ShortTensor as ShortTensor
from dynograd.tensor.legacy import Variable as Variable
from dynograd.tensor.legacy import numel as numel
from dynograd.tensor.legacy import range as range
from dynograd.tensor.legacy import set_default_tensor_type as set_default_tensor_type
