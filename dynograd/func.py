"""PyTorch's import path `torch.func`: functions that transform functions."""

from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.nn.functional_call import functional_call, replace_all_batch_norm_modules_, stack_module_state
from dynograd.transforms import (
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    vjp,
    vmap,
    vmap_fallbacks,
)

__all__ = [
    "functional_call",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
    "vmap_fallbacks",
]

_show_plainly(globals())
