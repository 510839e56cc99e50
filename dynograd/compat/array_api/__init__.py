"""The Python array API standard, 2024.12, over dynograd's tensors (https://data-apis.org/array-api/2024.12).

Libraries that are written for the standard find this module by `x.__array_namespace__()`. Its functions take and return `Tensor`s,
keep their history (gradients flow through them), and have the standard's names, arguments and promotion, where
`dynograd` itself has PyTorch's. Operators and methods of a tensor stay PyTorch's: see docs/array-api.md for the few differences.

>>> import dynograd.array_api as xp
>>> x = xp.asarray([[1.0, 2.0], [3.0, 4.0]])
>>> xp.sum(x, axis=0, keepdims=True)
tensor([[4., 6.]])
"""

from __future__ import annotations

import math

from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.compat.array_api import (
    creation,
    elementwise,
    fft,
    inspection,
    linalg,
    manipulation,
    promotion,
    reductions,
    searching,
    sets,
    sorting,
    special,
    types,
)
from dynograd.compat.array_api.creation import *
from dynograd.compat.array_api.elementwise import *
from dynograd.compat.array_api.inspection import *
from dynograd.compat.array_api.linalg import matmul, matrix_transpose, tensordot, vecdot
from dynograd.compat.array_api.manipulation import *
from dynograd.compat.array_api.promotion import *
from dynograd.compat.array_api.reductions import *
from dynograd.compat.array_api.searching import *
from dynograd.compat.array_api.sets import *
from dynograd.compat.array_api.sorting import *
from dynograd.compat.array_api.types import *

__array_api_version__ = "2024.12"

e, pi, inf, nan = math.e, math.pi, math.inf, math.nan
newaxis = None
assert special.__all__  # for SciPy; not a name of the standard

_parts = (creation, elementwise, inspection, manipulation, promotion, reductions, searching, sets, sorting, types)
__all__ = sorted(
    {name for part in _parts for name in part.__all__}
    | set("e fft inf linalg matmul matrix_transpose nan newaxis pi tensordot vecdot __array_api_version__".split())
)

_show_plainly(globals())
