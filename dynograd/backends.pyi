# fmt: off
# ruff: noqa
"""`dynograd.backends`, which is `dynograd.compat.backends`.

Written by `python -m tools.make_stubs` from the functions themselves; do not edit it. A test keeps it up to date.
"""

from dynograd.compat.backends import cuda as cuda
from dynograd.compat.backends import cudnn as cudnn
from dynograd.compat.backends import mkl as mkl
from dynograd.compat.backends import mkldnn as mkldnn
from dynograd.compat.backends import mps as mps
from dynograd.compat.backends import openmp as openmp
from dynograd.compat.backends import opt_einsum as opt_einsum
from dynograd.compat.backends import quantized as quantized
