# fmt: off
# ruff: noqa
"""`dynograd.autograd.forward_ad`, which is `dynograd.transforms.forward_ad`.

Written by `python -m tools.make_stubs` from the functions themselves; do not edit it. A test keeps it up to date.
"""

from dynograd.transforms.forward_ad import UnpackedDualTensor as UnpackedDualTensor
from dynograd.transforms.forward_ad import dual_level as dual_level
from dynograd.transforms.forward_ad import enter_dual_level as enter_dual_level
from dynograd.transforms.forward_ad import exit_dual_level as exit_dual_level
from dynograd.transforms.forward_ad import make_dual as make_dual
from dynograd.transforms.forward_ad import unpack_dual as unpack_dual
