"""Sums of losses of values against wanted ones, and their gradients, each in one pass over CudaArrays of one shape.

A loss is two row programs, `<name>_loss` and `<name>_loss_backward` (see `row_formulas.py`), run over all elements as one row; its
parts' sums are added in an order that follows from the size alone.
"""

from __future__ import annotations

from typing import Any

from dynograd.kernels.reduce.reducing_cuda import reduced
from dynograd.kernels.rows.folding_cuda import one_row
from dynograd.kernels.rows.row_programs_cuda import part_sums, run


def pays(input: Any, target: Any) -> bool:
    """Whether the kernels here take these arrays."""
    return (
        type(target) is type(input)
        and input.dtype == target.dtype
        and input.shape == target.shape
        and input.dtype.kind in "fV"
        and input.size > 0
    )


def loss_forward(name: str, input: Any, target: Any, parameter: float, reduction: str) -> Any:
    """The sum or the mean of the losses, 0-d."""
    sums = part_sums(f"{name}_loss", [one_row(input), one_row(target), float(parameter)])
    finish = ("divide", input.size) if reduction == "mean" else ("none", 0)
    return reduced("sum", sums, None, False, input.dtype, sums.dtype, finish=finish[0], parameter=finish[1])


def loss_backward(name: str, g: Any, input: Any, target: Any, parameter: float, reduction: str) -> Any:
    """Gradient of the input; `g` stays in device memory."""
    share = 1 / input.size if reduction == "mean" else 1.0
    arrays = [one_row(input), one_row(target), float(parameter), share, g]
    return run(f"{name}_loss_backward", arrays)[0].reshape(input.shape)
