"""Linear algebra, under PyTorch's names (`torch.linalg`). Each function takes batches of matrices in the last two dims.

>>> A = tensor([[2.0, 0.0], [0.0, 4.0]])
>>> dynograd.linalg.solve(A, tensor([2.0, 2.0]))
tensor([1.0000, 0.5000])
"""

from typing import Any

from dynograd.errors import LinAlgError
from dynograd.methods import public_functions as _public_functions
from dynograd.ops.matrix_functions import matrix_exp

__all__ = [
    "LinAlgError",
    "cholesky",
    "cholesky_ex",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "householder_product",
    "inv",
    "inv_ex",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_ex",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensorinv",
    "tensorsolve",
    "vander",
    "vecdot",
    "vector_norm",
]

_known = _public_functions()
globals().update({_name: _known[f"linalg_{_name}"] for _name in __all__ if f"linalg_{_name}" in _known})


def __getattr__(name: str) -> Any:
    raise AttributeError(f"module 'dynograd.linalg' has no attribute {name!r}")
