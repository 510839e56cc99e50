# fmt: off
# ruff: noqa
"""`dynograd.autograd.functional`, which is `dynograd.transforms.functional`.

Written by `python -m tools.make_stubs` from the functions themselves; do not edit it. A test keeps it up to date.
"""

from dynograd.transforms.functional import hessian as hessian
from dynograd.transforms.functional import hvp as hvp
from dynograd.transforms.functional import jacobian as jacobian
from dynograd.transforms.functional import jvp as jvp
from dynograd.transforms.functional import vhp as vhp
from dynograd.transforms.functional import vjp as vjp
