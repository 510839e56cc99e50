# fmt: off
# ruff: noqa
"""`dynograd.masked`, which is `dynograd.compat.masked`.

Written by `python -m tools.make_stubs` from the functions themselves; do not edit it. A test keeps it up to date.
"""

from dynograd.compat.masked import amax as amax
from dynograd.compat.masked import amin as amin
from dynograd.compat.masked import argmax as argmax
from dynograd.compat.masked import argmin as argmin
from dynograd.compat.masked import cumprod as cumprod
from dynograd.compat.masked import cumsum as cumsum
from dynograd.compat.masked import log_softmax as log_softmax
from dynograd.compat.masked import logaddexp as logaddexp
from dynograd.compat.masked import logsumexp as logsumexp
from dynograd.compat.masked import mean as mean
from dynograd.compat.masked import median as median
from dynograd.compat.masked import norm as norm
from dynograd.compat.masked import normalize as normalize
from dynograd.compat.masked import prod as prod
from dynograd.compat.masked import softmax as softmax
from dynograd.compat.masked import softmin as softmin
from dynograd.compat.masked import std as std
from dynograd.compat.masked import sum as sum
from dynograd.compat.masked import var as var
