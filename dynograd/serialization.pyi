# fmt: off
# ruff: noqa
"""`dynograd.serialization`, which is `dynograd.saving.serialization`.

Written by `python -m tools.make_stubs` from the functions themselves; do not edit it. A test keeps it up to date.
"""

from dynograd.saving.serialization import add_safe_globals as add_safe_globals
from dynograd.saving.serialization import clear_safe_globals as clear_safe_globals
from dynograd.saving.serialization import default_restore_location as default_restore_location
from dynograd.saving.serialization import get_safe_globals as get_safe_globals
from dynograd.saving.serialization import load as load
from dynograd.saving.serialization import location_tag as location_tag
from dynograd.saving.serialization import safe_globals as safe_globals
from dynograd.saving.serialization import save as save
