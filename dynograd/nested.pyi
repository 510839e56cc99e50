# fmt: off
# ruff: noqa
"""`dynograd.nested`, which is `dynograd.compat.nested`.

Written by `python -m tools.make_stubs` from the functions themselves; do not edit it. A test keeps it up to date.
"""

from dynograd.compat.nested import as_nested_tensor as as_nested_tensor
from dynograd.compat.nested import masked_select as masked_select
from dynograd.compat.nested import narrow as narrow
from dynograd.compat.nested import nested_tensor as nested_tensor
from dynograd.compat.nested import nested_tensor_from_jagged as nested_tensor_from_jagged
from dynograd.compat.nested import to_padded_tensor as to_padded_tensor
