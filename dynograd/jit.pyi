# fmt: off
# ruff: noqa
"""`dynograd.jit`, which is `dynograd.compat.jit`.

Written by `python -m tools.make_stubs` from the functions themselves; do not edit it. A test keeps it up to date.
"""

from dynograd.compat.jit import Final as Final
from dynograd.compat.jit import Optional as Optional
from dynograd.compat.jit import Union as Union
from dynograd.compat.jit import Future as Future
from dynograd.compat.jit import ScriptFunction as ScriptFunction
from dynograd.compat.jit import fork as fork
from dynograd.compat.jit import isinstance as isinstance
from dynograd.compat.jit import wait as wait
