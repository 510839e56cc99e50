"""Linear algebra, under PyTorch's names (`torch.linalg`). Each function takes batches of matrices in the last two dims.

>>> A = tensor([[2.0, 0.0], [0.0, 4.0]])
>>> dynograd.linalg.solve(A, tensor([2.0, 2.0]))
tensor([1.0000, 0.5000])
"""

from dynograd.errors import LinAlgError
from dynograd.interpreter.out_forms import out_forms as _out_forms
from dynograd.ops.linalg.determinants import linalg_det as det
from dynograd.ops.linalg.determinants import linalg_slogdet as slogdet
from dynograd.ops.linalg.factorizations import linalg_eig as eig
from dynograd.ops.linalg.factorizations import linalg_eigh as eigh
from dynograd.ops.linalg.factorizations import linalg_eigvals as eigvals
from dynograd.ops.linalg.factorizations import linalg_eigvalsh as eigvalsh
from dynograd.ops.linalg.factorizations import linalg_qr as qr
from dynograd.ops.linalg.factorizations import linalg_svd as svd
from dynograd.ops.linalg.factorizations import linalg_svdvals as svdvals
from dynograd.ops.linalg.least_squares import linalg_lstsq as lstsq
from dynograd.ops.linalg.least_squares import linalg_matrix_rank as matrix_rank
from dynograd.ops.linalg.least_squares import linalg_pinv as pinv
from dynograd.ops.linalg.linear_systems import linalg_cholesky as cholesky
from dynograd.ops.linalg.linear_systems import linalg_cholesky_ex as cholesky_ex
from dynograd.ops.linalg.linear_systems import linalg_inv as inv
from dynograd.ops.linalg.linear_systems import linalg_inv_ex as inv_ex
from dynograd.ops.linalg.linear_systems import linalg_solve as solve
from dynograd.ops.linalg.linear_systems import linalg_solve_ex as solve_ex
from dynograd.ops.linalg.linear_systems import linalg_solve_triangular as solve_triangular
from dynograd.ops.linalg.lu_factors import linalg_lu as lu
from dynograd.ops.linalg.lu_factors import linalg_lu_factor as lu_factor
from dynograd.ops.linalg.lu_factors import linalg_lu_factor_ex as lu_factor_ex
from dynograd.ops.linalg.lu_factors import linalg_lu_solve as lu_solve
from dynograd.ops.linalg.matrix_functions import linalg_cross as cross
from dynograd.ops.linalg.matrix_functions import linalg_diagonal as diagonal
from dynograd.ops.linalg.matrix_functions import linalg_householder_product as householder_product
from dynograd.ops.linalg.matrix_functions import linalg_matmul as matmul
from dynograd.ops.linalg.matrix_functions import linalg_matrix_power as matrix_power
from dynograd.ops.linalg.matrix_functions import linalg_multi_dot as multi_dot
from dynograd.ops.linalg.matrix_functions import linalg_tensorinv as tensorinv
from dynograd.ops.linalg.matrix_functions import linalg_tensorsolve as tensorsolve
from dynograd.ops.linalg.matrix_functions import linalg_vander as vander
from dynograd.ops.linalg.matrix_functions import matrix_exp
from dynograd.ops.linalg.matrix_norms import linalg_cond as cond
from dynograd.ops.linalg.matrix_norms import linalg_matrix_norm as matrix_norm
from dynograd.ops.linalg.matrix_norms import linalg_norm as norm
from dynograd.ops.linalg.matrix_norms import linalg_vecdot as vecdot
from dynograd.ops.linalg.matrix_norms import linalg_vector_norm as vector_norm
from dynograd.ops.linalg.symmetric_systems import linalg_ldl_factor as ldl_factor
from dynograd.ops.linalg.symmetric_systems import linalg_ldl_factor_ex as ldl_factor_ex
from dynograd.ops.linalg.symmetric_systems import linalg_ldl_solve as ldl_solve

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
    "ldl_factor",
    "ldl_factor_ex",
    "ldl_solve",
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

globals().update(_out_forms({_name: globals()[_name] for _name in __all__}))
