# fmt: off
# ruff: noqa
"""The functions of `dynograd.autograd`.

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

from dynograd.tensor.custom_function import Function as Function
from dynograd.tensor.legacy import Variable as Variable
from dynograd.interpreter.differentiation import backward as backward
from dynograd.autograd.modes import detect_anomaly as detect_anomaly
from dynograd.autograd.modes import enable_grad as enable_grad
from dynograd.interpreter.differentiation import grad as grad
from dynograd.transforms.gradcheck import gradgradcheck as gradgradcheck
from dynograd.tensor.honest import honest_where as honest_where
from dynograd.autograd.modes import inference_mode as inference_mode
from dynograd.autograd.modes import is_anomaly_enabled as is_anomaly_enabled
from dynograd.autograd.modes import is_grad_enabled as is_grad_enabled
def is_honest_where_enabled() -> builtins.bool:
    'Whether gradients that are exactly 0 stay 0: see `honest_where`.'
from dynograd.autograd.modes import is_inference_mode_enabled as is_inference_mode_enabled
from dynograd.autograd.modes import no_grad as no_grad
from dynograd.autograd.modes import set_detect_anomaly as set_detect_anomaly
from dynograd.autograd.modes import set_grad_enabled as set_grad_enabled
def set_honest_where(mode: builtins.bool = True) -> None:
    'Turns `honest_where` on or off for the whole program: for this thread and those that start later.'
from dynograd.autograd import anomaly_mode as anomaly_mode
from dynograd.autograd import forward_ad as forward_ad
from dynograd.autograd import function as function
from dynograd.autograd import functional as functional
from dynograd.autograd import grad_mode as grad_mode
from dynograd.transforms.gradcheck import gradcheck as gradcheck
from dynograd.autograd import graph as graph
from dynograd.autograd import profiler as profiler
from dynograd.autograd import variable as variable
