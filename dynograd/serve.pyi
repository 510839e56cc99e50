# fmt: off
# ruff: noqa
"""`dynograd.serve`, which is `dynograd.tools.serve`.

Written by `python -m tools.make_stubs` from the functions themselves; do not edit it. A test keeps it up to date.
"""

from dynograd.tools.serve import app_of_worker as app_of_worker
from dynograd.tools.serve import main as main
from dynograd.tools.serve import service_of as service_of
