# fmt: off
# ruff: noqa
"""dynograd: define-by-run deep learning in plain Python for data that is not a rectangle, named like PyTorch.

Written by `python -m tools.make_stubs`; do not edit it.
"""

from dynograd.tensor.public_functions import *
from dynograd.tensor.tensor import Tensor as Tensor
from dynograd.tensor.tensor import is_tensor as is_tensor
from dynograd.version import __version__ as __version__
