# fmt: off
# ruff: noqa
"""`dynograd.array_api`, which is `dynograd.compat.array_api`.

Written by `python -m tools.make_stubs` from the functions themselves; do not edit it. A test keeps it up to date.
"""

from dynograd.compat.array_api import e as e
from dynograd.compat.array_api import fft as fft
from dynograd.compat.array_api import inf as inf
from dynograd.compat.array_api import linalg as linalg
from dynograd.compat.array_api import matmul as matmul
from dynograd.compat.array_api import matrix_transpose as matrix_transpose
from dynograd.compat.array_api import nan as nan
from dynograd.compat.array_api import newaxis as newaxis
from dynograd.compat.array_api import pi as pi
from dynograd.compat.array_api import tensordot as tensordot
from dynograd.compat.array_api import vecdot as vecdot
