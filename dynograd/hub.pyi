# fmt: off
# ruff: noqa
"""`dynograd.hub`, which is `dynograd.compat.hub`.

Written by `python -m tools.make_stubs` from the functions themselves; do not edit it. A test keeps it up to date.
"""

from dynograd.compat.hub import get_dir as get_dir
from dynograd.compat.hub import load_state_dict_from_url as load_state_dict_from_url
from dynograd.compat.hub import set_dir as set_dir
