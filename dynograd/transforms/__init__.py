"""Other readers of the table of ops: forward mode, and the functions built on it and on the tape (`func.grad`, `jacrev`, ...)."""

from dynograd.transforms.derivatives import grad, grad_and_value, hessian, jacfwd, jacrev, vjp
from dynograd.transforms.jvp import jvp, linearize

__all__ = ["grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize", "vjp"]
