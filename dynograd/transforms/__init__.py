"""Other readers of the table of ops: forward mode, batches, and the functions built on them and on the tape (`grad`, `jacrev`, ...)."""

import importlib
from types import ModuleType

from dynograd.base.listing import lists
from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.transforms.batching.calls import vmap_fallbacks
from dynograd.transforms.derivatives import grad, grad_and_value, hessian, jacfwd, jacrev, vjp
from dynograd.transforms.jvp import jvp, linearize
from dynograd.transforms.vmap import vmap

__all__ = ["grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize", "vjp", "vmap", "vmap_fallbacks"]
__dir__ = lists(__name__, (*__all__, "autobatch"))


def __getattr__(name: str) -> ModuleType:
    if name == "autobatch":  # imported when it is asked for
        return importlib.import_module("dynograd.transforms.autobatch")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_show_plainly(globals())
