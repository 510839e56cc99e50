# fmt: off
# ruff: noqa
"""`dynograd.autograd.function`, which is `dynograd.tensor.custom_function`.

Written by `python -m tools.make_stubs` from the functions themselves; do not edit it. A test keeps it up to date.
"""

from dynograd.tensor.custom_function import Function as Function
from dynograd.tensor.custom_function import FunctionCtx as FunctionCtx
from dynograd.tensor.custom_function import InplaceFunction as InplaceFunction
from dynograd.tensor.custom_function import once_differentiable as once_differentiable
