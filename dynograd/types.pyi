# fmt: off
# ruff: noqa
"""`dynograd.types`, which is `dynograd.compat.types`.

Written by `python -m tools.make_stubs` from the functions themselves; do not edit it. A test keeps it up to date.
"""

from dynograd.compat.types import BoolLikeType as BoolLikeType
from dynograd.compat.types import Device as Device
from dynograd.compat.types import FileLike as FileLike
from dynograd.compat.types import FloatLikeType as FloatLikeType
from dynograd.compat.types import IntLikeType as IntLikeType
from dynograd.compat.types import Number as Number
from dynograd.compat.types import Storage as Storage
