# fmt: off
# ruff: noqa
"""`dynograd.autograd.graph`, which is `dynograd.tensor.graphs`.

Written by `python -m tools.make_stubs` from the functions themselves; do not edit it. A test keeps it up to date.
"""

from dynograd.tensor.graphs import GradientEdge as GradientEdge
from dynograd.tensor.graphs import Node as Node
from dynograd.tensor.graphs import allow_mutation_on_saved_tensors as allow_mutation_on_saved_tensors
from dynograd.tensor.graphs import disable_saved_tensors_hooks as disable_saved_tensors_hooks
from dynograd.tensor.graphs import get_gradient_edge as get_gradient_edge
from dynograd.tensor.graphs import increment_version as increment_version
from dynograd.tensor.graphs import register_multi_grad_hook as register_multi_grad_hook
from dynograd.tensor.graphs import save_on_cpu as save_on_cpu
from dynograd.tensor.graphs import saved_tensors_hooks as saved_tensors_hooks
