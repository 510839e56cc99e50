"""Sparse tensors: coordinates (COO) with any number of dims, compressed rows and columns (CSR, CSC) for matrices.

Their entries are ordinary tensors, and gradients flow through them; see `SparseTensor`. A product with a dense matrix computes on the
entries alone, forward and backward.

>>> x = dynograd.sparse_coo_tensor([[0, 1], [1, 0]], [2.0, 3.0], (2, 2), requires_grad=True)
>>> dynograd.sparse.mm(x, tensor([[1.0], [10.0]])).sum().backward()
>>> x.grad.to_dense()
tensor([[ 0., 10.],
        [ 1.,  0.]])
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ContextDecorator
from typing import Any

from dynograd.base import dtypes
from dynograd.base.listing import lists
from dynograd.base.signatures import find_here as _find_here
from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.sparse import making
from dynograd.sparse.functions import addmm, log_softmax, mm, sampled_addmm, softmax, spdiags, sum
from dynograd.sparse.making import sparse_coo_tensor
from dynograd.sparse.tensor import SparseTensor

__all__ = ["SparseTensor", "addmm", "log_softmax", "mm", "sampled_addmm", "softmax", "spdiags", "sum"]
__dir__ = lists(__name__, (*__all__, "sparse_coo_tensor"))


class check_sparse_tensor_invariants(ContextDecorator):
    """Accepted for PyTorch's sake, also as a decorator: dynograd checks the places of sparse tensors always."""

    def __init__(self, enable: bool = True) -> None:
        self.enabled = enable

    def __enter__(self) -> None: ...

    def __exit__(self, *error: Any) -> None: ...

    @staticmethod
    def is_enabled() -> bool:
        return True

    @staticmethod
    def enable() -> None: ...

    @staticmethod
    def disable() -> None: ...


def _legacy(name: str) -> Callable[..., SparseTensor]:
    def make(indices: Any = None, values: Any = None, size: Any = None, **options: Any) -> SparseTensor:
        if values is not None:
            values = values.to(getattr(dtypes, name))
        else:
            options["dtype"] = getattr(dtypes, name)
        return sparse_coo_tensor(indices, values, size, **options)

    make.__doc__ = f"The old way to make a sparse tensor of {name}; use `dynograd.sparse_coo_tensor`."
    return make


for _name, _dtype in {
    "FloatTensor": "float32",
    "DoubleTensor": "float64",
    "HalfTensor": "float16",
    "BFloat16Tensor": "bfloat16",
    "LongTensor": "int64",
    "IntTensor": "int32",
    "ShortTensor": "int16",
    "CharTensor": "int8",
    "ByteTensor": "uint8",
}.items():
    globals()[_name] = _legacy(_dtype)
    _find_here({_name: globals()[_name]}, __name__)
making.SparseTensor.sparse_mask = making.sparse_mask  # type: ignore[assignment, method-assign]

_show_plainly(globals())
