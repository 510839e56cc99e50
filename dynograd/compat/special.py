"""Special functions, under PyTorch's names (`torch.special`).

>>> dynograd.special.ndtr(tensor([0.0, 1.0]))
tensor([0.5000, 0.8413])
"""

from dynograd.interpreter.out_forms import out_forms as _out_forms
from dynograd.ops.elementwise.bessel_functions import airy_ai, i0, i0e, i1, i1e
from dynograd.ops.elementwise.bessel_functions import j0 as bessel_j0
from dynograd.ops.elementwise.bessel_functions import j1 as bessel_j1
from dynograd.ops.elementwise.bessel_functions import k0 as modified_bessel_k0
from dynograd.ops.elementwise.bessel_functions import k1 as modified_bessel_k1
from dynograd.ops.elementwise.bessel_functions import scaled_k0 as scaled_modified_bessel_k0
from dynograd.ops.elementwise.bessel_functions import scaled_k1 as scaled_modified_bessel_k1
from dynograd.ops.elementwise.bessel_functions import special_modified_bessel_i0 as modified_bessel_i0
from dynograd.ops.elementwise.bessel_functions import special_modified_bessel_i1 as modified_bessel_i1
from dynograd.ops.elementwise.bessel_functions import spherical_j0 as spherical_bessel_j0
from dynograd.ops.elementwise.bessel_functions import y0 as bessel_y0
from dynograd.ops.elementwise.bessel_functions import y1 as bessel_y1
from dynograd.ops.elementwise.exponentials import exp2, expm1, log1p, logit, xlogy
from dynograd.ops.elementwise.exponentials import sigmoid as expit
from dynograd.ops.elementwise.polynomials import (
    chebyshev_polynomial_t,
    chebyshev_polynomial_u,
    chebyshev_polynomial_v,
    chebyshev_polynomial_w,
    hermite_polynomial_h,
    hermite_polynomial_he,
    laguerre_polynomial_l,
    legendre_polynomial_p,
    shifted_chebyshev_polynomial_t,
    shifted_chebyshev_polynomial_u,
    shifted_chebyshev_polynomial_v,
    shifted_chebyshev_polynomial_w,
)
from dynograd.ops.elementwise.roundings import round
from dynograd.ops.elementwise.special_functions import (
    digamma,
    entr,
    erf,
    erfc,
    erfcx,
    erfinv,
    log_ndtr,
    ndtr,
    ndtri,
    polygamma,
    xlog1py,
    zeta,
)
from dynograd.ops.elementwise.special_functions import digamma as psi
from dynograd.ops.elementwise.special_functions import igamma as gammainc
from dynograd.ops.elementwise.special_functions import igammac as gammaincc
from dynograd.ops.elementwise.special_functions import lgamma as gammaln
from dynograd.ops.elementwise.special_functions import mvlgamma as multigammaln
from dynograd.ops.elementwise.trigonometrics import sinc
from dynograd.ops.norm.softmaxes import log_softmax, softmax
from dynograd.ops.reduce.reductions import logsumexp

__all__ = [
    "airy_ai",
    "bessel_j0",
    "bessel_j1",
    "bessel_y0",
    "bessel_y1",
    "chebyshev_polynomial_t",
    "chebyshev_polynomial_u",
    "chebyshev_polynomial_v",
    "chebyshev_polynomial_w",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcx",
    "erfinv",
    "exp2",
    "expit",
    "expm1",
    "gammainc",
    "gammaincc",
    "gammaln",
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
    "log1p",
    "log_ndtr",
    "log_softmax",
    "logit",
    "logsumexp",
    "modified_bessel_i0",
    "modified_bessel_i1",
    "modified_bessel_k0",
    "modified_bessel_k1",
    "multigammaln",
    "ndtr",
    "ndtri",
    "polygamma",
    "psi",
    "round",
    "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1",
    "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w",
    "sinc",
    "softmax",
    "spherical_bessel_j0",
    "xlog1py",
    "xlogy",
    "zeta",
]

globals().update(_out_forms({_name: globals()[_name] for _name in __all__}))
