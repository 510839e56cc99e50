# fmt: off
# ruff: noqa
"""`dynograd.compiler`, which is `dynograd.compat.compiler`.

Written by `python -m tools.make_stubs` from the functions themselves; do not edit it. A test keeps it up to date.
"""

from dynograd.compat.compiler import Graph as Graph
from dynograd.compat.compiler import OptimizedModule as OptimizedModule
from dynograd.compat.compiler import Report as Report
from dynograd.compat.compiler import compile as compile
from dynograd.compat.compiler import get_default_backend as get_default_backend
from dynograd.compat.compiler import is_compiling as is_compiling
from dynograd.compat.compiler import is_exporting as is_exporting
from dynograd.compat.compiler import list_backends as list_backends
from dynograd.compat.compiler import mark_dynamic as mark_dynamic
from dynograd.compat.compiler import mark_static as mark_static
from dynograd.compat.compiler import maybe_mark_dynamic as maybe_mark_dynamic
from dynograd.compat.compiler import reset as reset
from dynograd.compat.compiler import set_default_backend as set_default_backend
from dynograd.compat.compiler import set_stance as set_stance
from dynograd.compat.compiler import wrap_numpy as wrap_numpy
