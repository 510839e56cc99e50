"""Special functions under SciPy's names. No part of the standard (data-apis/array-api#725 proposes one), but SciPy looks for them here: with
`SCIPY_ARRAY_API=1`, `scipy.special.erf(x)` of a tensor is then computed by dynograd, on the tensor's device and with its gradient.

>>> xp.special.gammaln(xp.asarray([1.0, 5.0]))
tensor([0.0000, 3.1781])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.compat import special
from dynograd.compat.array_api.promotion import tensors
from dynograd.compat.array_api.table import sentence_of
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

# A call of each and its result; @ is `xp.asarray`.
_CALLS = """
digamma(@([0.25, 0.5])) = tensor([-4.2275, -1.9635])
entr(@([0.25, 0.5])) = tensor([0.3466, 0.3466])
erf(@([0.25, 0.5])) = tensor([0.2763, 0.5205])
erfc(@([0.25, 0.5])) = tensor([0.7237, 0.4795])
erfcx(@([0.25, 0.5])) = tensor([0.7703, 0.6157])
erfinv(@([0.25, 0.5])) = tensor([0.2253, 0.4769])
exp2(@([0.25, 0.5])) = tensor([1.1892, 1.4142])
expit(@([0.25, 0.5])) = tensor([0.5622, 0.6225])
expm1(@([0.25, 0.5])) = tensor([0.2840, 0.6487])
gammainc(@([1.0, 2.0]), @([2.0, 3.0])) = tensor([0.8647, 0.8009])
gammaincc(@([1.0, 2.0]), @([2.0, 3.0])) = tensor([0.1353, 0.1991])
gammaln(@([0.25, 0.5])) = tensor([1.2880, 0.5724])
i0(@([0.25, 0.5])) = tensor([1.0157, 1.0635])
i0e(@([0.25, 0.5])) = tensor([0.7910, 0.6450])
i1(@([0.25, 0.5])) = tensor([0.1260, 0.2579])
i1e(@([0.25, 0.5])) = tensor([0.0981, 0.1564])
j0(@([0.25, 0.5])) = tensor([0.9844, 0.9385])
j1(@([0.25, 0.5])) = tensor([0.1240, 0.2423])
k0(@([0.25, 0.5])) = tensor([1.5415, 0.9244])
k1(@([0.25, 0.5])) = tensor([3.7470, 1.6564])
log1p(@([0.25, 0.5])) = tensor([0.2231, 0.4055])
log_ndtr(@([0.25, 0.5])) = tensor([-0.5130, -0.3689])
logit(@([0.25, 0.5])) = tensor([-1.0986,  0.0000])
ndtr(@([0.25, 0.5])) = tensor([0.5987, 0.6915])
ndtri(@([0.25, 0.5])) = tensor([-0.6745,  0.0000])
psi(@([0.25, 0.5])) = tensor([-4.2275, -1.9635])
sinc(@([0.25, 0.5])) = tensor([0.9003, 0.6366])
xlog1py(@([1.0, 2.0]), @([2.0, 3.0])) = tensor([1.0986, 2.7726])
xlogy(@([1.0, 2.0]), @([2.0, 3.0])) = tensor([0.6931, 2.1972])
y0(@([0.25, 0.5])) = tensor([-0.9316, -0.4445])
y1(@([0.25, 0.5])) = tensor([-2.7041, -1.4715])
zeta(@([1.0, 2.0]), @([2.0, 3.0])) = tensor([   inf, 0.3949])
"""
_EXAMPLES = {
    call.partition("(")[0]: f"\n\n>>> xp.special.{call.replace('@', 'xp.asarray')}\n{result}"
    for call, result in [line.split(" = ") for line in _CALLS.split("\n")[1:-1]]
}


def _function(name: str, op: Any) -> Callable[..., Any]:
    def function(*x: Tensor | float) -> Tensor:
        return op(*tensors(*x))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"SciPy's `{name}`. {sentence_of(op)}\n\nArgs:\n    x: a tensor; of functions of two arguments, two tensors or numbers.\nReturns:\n"
        f"    The broadcast shape.{_EXAMPLES[name]}"
    )
    return function


globals().update({name: _function(name, getattr(special, _OTHER.get(name, name))) for name in __all__})

_show_plainly(globals())
