"""Special functions under SciPy's names. No part of the standard (data-apis/array-api#725 proposes one), but SciPy looks for them here: with
`SCIPY_ARRAY_API=1`, `scipy.special.erf(x)` of a tensor is then computed by dynograd, on the tensor's device and with its gradient.

>>> xp.special.gammaln(xp.asarray([1.0, 5.0]))
tensor([0.0000, 3.1781])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynograd import special
from dynograd.compat.array_api.promotion import tensors
from dynograd.tensor.tensor import Tensor

_SAME = """digamma entr erf erfc erfcx erfinv exp2 expit expm1 gammainc gammaincc gammaln i0 i0e i1 i1e log1p log_ndtr logit ndtr ndtri psi sinc
    xlog1py xlogy zeta""".split()
_OTHER = {
    "j0": "bessel_j0",
    "j1": "bessel_j1",
    "y0": "bessel_y0",
    "y1": "bessel_y1",
    "k0": "modified_bessel_k0",
    "k1": "modified_bessel_k1",
}

__all__ = sorted([*_SAME, *_OTHER])


def _function(name: str, op: Any) -> Callable[..., Any]:
    def function(*x: Any) -> Tensor:
        return op(*tensors(*x))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"SciPy's `{name}`. {(op.__doc__ or '').split('>>>')[0].strip()}"
    return function


globals().update({name: _function(name, getattr(special, _OTHER.get(name, name))) for name in __all__})
