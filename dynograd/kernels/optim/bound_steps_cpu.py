"""The step of a table on gradients that stay where they are, as launches that a compiled loop runs without Python: see `bound_step`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from dynograd.kernels.build import threads
from dynograd.kernels.build.launches import Launch
from dynograd.kernels.optim.optimizer_tables_cpu import set_adam, set_sgd, work_of
from dynograd.kernels.small.object_fields import FIELDS
from dynograd.kernels.small.tables_cpu import StepTable

__all__ = ["BoundStep", "bound_step"]


class BoundStep(NamedTuple):
    """`set_numbers(table, *numbers)` comes before the launches: they read the options of a step from the table."""

    set_numbers: Callable[..., None]
    launches: list[Launch]


def bound_step(name: str, table: StepTable, gradients: list[Any]) -> BoundStep | None:
    """The launches of a step.

    Args:
        name: of a kernel of `optimizer_tables_cpu`.
        table: of the parameters.
        gradients: an array for each; the caller keeps them.
    Returns:
        None where Python computes between the kernels of a step, states are new, or a gradient does not fit its parameter.
    """
    if name not in _STEPS or table.new is not None:
        return None
    from dynograd.kernels.optim.optimizers_numba import BLOCKS
    from dynograd.kernels.small.tables_numba import read_gradients

    rows = table.rows.copy()
    if read_gradients(id(gradients), FIELDS, table.dtype, table.options.itemsize, rows, table.ranges) >= 0:
        return None
    set_numbers, passes = _STEPS[name]
    chosen = passes[table.width]
    launches = [_counting(table, rows)] if set_numbers is set_adam else []
    parts = threads.parts(work_of(table, chosen))
    launches.append(Launch(BLOCKS[chosen], (rows, table.rates, table.options), table.blocks, parts))
    return BoundStep(set_numbers, launches)


def _counting(table: StepTable, rows: Any) -> Launch:
    import numba

    from dynograd.kernels.optim.optimizers_numba import count_adam

    arguments = rows, table.rates, table.numbers
    count_adam.compile(tuple([numba.typeof(argument) for argument in arguments]))
    return Launch(count_adam, arguments, -1)


# How a kernel takes its numbers, and its passes by how many states a parameter has.
_STEPS: dict[str, tuple[Callable[..., None], dict[int, str]]] = {
    "sgd_table_step": (set_sgd, {0: "plain", 1: "momentum"}),
    "adam_table_step": (set_adam, {2: "adam", 3: "amsgrad"}),
}
