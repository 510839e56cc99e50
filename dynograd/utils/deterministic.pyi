# fmt: off
# ruff: noqa
"""`dynograd.utils.deterministic`, which is `dynograd.kernels.build.determinism`.

Written by `python -m tools.make_stubs` from the functions themselves; do not edit it. A test keeps it up to date.
"""

from dynograd.kernels.build.determinism import are_deterministic_algorithms_enabled as are_deterministic_algorithms_enabled
from dynograd.kernels.build.determinism import filling as filling
from dynograd.kernels.build.determinism import is_deterministic_algorithms_warn_only_enabled as is_deterministic_algorithms_warn_only_enabled
from dynograd.kernels.build.determinism import use_deterministic_algorithms as use_deterministic_algorithms
