"""Many matrix products of different sizes at once: what products of ragged tensors, row by row, are made of."""

from __future__ import annotations

from typing import Any

from dynograd.arrays import Array
from dynograd.kernels import kernel
from dynograd.ops.op import Gradients, op


@op(saves="a b", inner=True)
def grouped_products(a: Array, b: Array, plan: Any, transposed_a: bool = False, transposed_b: bool = False) -> Array:
    """The products c = a @ b of matrices that lie in vectors as `plan` (a `ProductPlan`) says, as a vector; float32 or float64.

    `transposed_a`: what lies in `a` are the transposes (k, m) of its matrices.
    """
    return kernel("grouped_products", "grouped_products", a)(a, b, plan, transposed_a, transposed_b)


@grouped_products.backward
def grouped_products_backward(g: Any, saved: Any, plan: Any, transposed_a: Any, transposed_b: Any) -> Gradients:
    return (
        _gradient_a(g, saved.b, plan, transposed_a, transposed_b) if saved.needs(0) else None,
        _gradient_b(g, saved.a, plan, transposed_a, transposed_b) if saved.needs(1) else None,
    )


def _gradient_a(g: Any, b: Any, plan: Any, transposed_a: bool, transposed_b: bool) -> Array:
    """g @ op(b)^T, or where the transposes lie there op(b) @ g^T."""
    if transposed_a:
        return grouped_products(b, g, plan.turned(1, 2, 0), transposed_b, True)
    return grouped_products(g, b, plan.turned(2, 1, 0), False, not transposed_b)


def _gradient_b(g: Any, a: Any, plan: Any, transposed_a: bool, transposed_b: bool) -> Array:
    """op(a)^T @ g, or where the transposes lie there g^T @ op(a)."""
    if transposed_b:
        return grouped_products(g, a, plan.turned(2, 0, 1), True, transposed_a)
    return grouped_products(a, g, plan.turned(0, 2, 1), not transposed_a, False)
