# fmt: off
# ruff: noqa
"""`dynograd.functional`, which is `dynograd.compat.functional`.

Written by `python -m tools.make_stubs` from the functions themselves; do not edit it. A test keeps it up to date.
"""

from dynograd.compat.functional import broadcast_shapes as broadcast_shapes
from dynograd.compat.functional import pca_lowrank as pca_lowrank
from dynograd.compat.functional import svd_lowrank as svd_lowrank
