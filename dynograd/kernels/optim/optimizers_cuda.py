"""Optimizer steps in place on a GPU: all parameters of a table in one launch, without waiting for the device.

Formulas and their order are PyTorch's; names and arguments those of `optimizers_cpu`. Step counters lie in host memory, or on the
device (`fused=True`, `capturable=True`): then a launch counts them, so that a step can be skipped (`found_inf`) or captured in a graph.
"""

from __future__ import annotations

from itertools import pairwise
from math import inf, log2, sqrt
from typing import Any

import numpy

from dynograd.arrays import cuda_arrays
from dynograd.arrays.cuda_arrays import CudaArray, operations
from dynograd.kernels.build.launch_arguments_cuda import Double
from dynograd.kernels.small.tables_cuda import NEW, Table, is_plain, kinds_of

_PARAMETER, _GRADIENT, _STATE, _STEP = 0, 1, 2, 5


class StepTable(Table):
    """The addresses of parameters, their states and (step by step) their gradients. Holds on to the arrays."""

    __slots__ = (
        "any_new",
        "gradients",
        "held",
        "host_steps",
        "layouts",
        "rates",
        "steps",
        "uniform",
        "vector",
        "width",
    )

    def __init__(
        self, parameters: list[Any], states: list[list[Any]], steps: list[Any] | None, new: list[bool]
    ) -> None:
        parameter = parameters[0]
        self.held = [*parameters, *[array for arrays in states for array in arrays], *(steps or ())]
        self.layouts = [array.layout for array in parameters]
        self.width = len(states)
        self.steps, self.any_new = steps, any(new)
        self.host_steps = steps is not None and type(steps[0]) is not CudaArray
        self.vector = _whole_of(steps) if self.host_steps else None
        self.uniform = self.vector is not None and bool((self.vector == self.vector[0]).all())
        self.gradients: Any = None
        self.rates: Any = None
        columns: list[list[Any]] = [[None] * len(parameters) for _ in range(6)]
        columns[_PARAMETER] = parameters
        for place, arrays in enumerate(states):
            columns[_STATE + place] = arrays
        super().__init__(parameter.dtype, parameter.device_index, columns, [array.size for array in parameters])
        self.host[:, NEW] = new
        if steps is not None and not self.host_steps:
            self.host[:, _STEP] = [array.pointer for array in steps]

    def begin(self, gradients: list[Any]) -> int:
        """Takes the gradients of this step; -1, or the number of the first that does not fit."""
        try:
            fit = [gradient.layout for gradient in gradients] == self.layouts
        except AttributeError:
            fit = False
        if not fit:
            for number, (gradient, layout) in enumerate(zip(gradients, self.layouts, strict=True)):
                if gradient is not None and (type(gradient) is not CudaArray or gradient.layout is not layout):
                    return number
        pointers = [
            0 if gradient is None else gradient.pointer or 16 for gradient in gradients
        ]  # an empty one has a step too
        if pointers != self.gradients or self.is_only_of_a_graph():
            self.host[:, _GRADIENT] = self.gradients = pointers
            self.send()
        return -1

    def send(self) -> None:
        super().send()
        if (
            self.steps is not None and not self.host_steps
        ):  # counters are single numbers: their alignment is of no concern
            self.aligned = not bool((self.host[:, :_STEP] & 15).any())
            self.constants["ALIGNED"] = self.aligned

    def forget_new(self) -> None:
        """All states have been written (a row without gradient is new no longer either: its state is 0)."""
        if self.any_new:
            self.any_new = False
            self.host[:, NEW] = 0
            self.send()

    def overlaps(self) -> bool:
        """Whether two of the arrays share memory: they then have to be updated one after the other."""
        spans = sorted(
            [
                (array.pointer, array.pointer + array.nbytes)
                for array in self.held
                if type(array) is CudaArray and array.size
            ]
        )
        return any([later[0] < earlier[1] for earlier, later in pairwise(spans)])


def step_table(
    parameters: list[Any], states: list[list[Any]], steps: list[Any] | None, new: list[bool]
) -> StepTable | None:
    """What the table steps work on, or None where they cannot: see `StepTable`."""
    if len({array.device_index for array in parameters}) > 1:
        return None
    if steps is not None:
        places = {type(step) is CudaArray for step in steps}
        if len(places) > 1 or (True in places and any([step.dtype != numpy.float32 for step in steps])):
            return None
    step_table = StepTable(parameters, states, steps, new)
    return None if step_table.overlaps() else step_table


def sgd_table_step(
    table: StepTable,
    gradients: list[Any],
    lr: float,
    momentum: float,
    dampening: float,
    weight_decay: float,
    nesterov: bool,
    maximize: bool,
    found_inf: Any = None,
) -> int:
    """One step of SGD for all parameters of a table; see `optimizers_cpu.sgd_table_step`.

    Args:
        found_inf: a float32 array of one element on the device; nothing is written when it is not 0.
    """
    from dynograd.kernels.optim.optimizers_triton import sgd_blocks

    bad = table.begin(gradients)
    if bad >= 0 or not table.blocks:
        return bad
    if found_inf is not None and table.any_new and dampening:  # whether the states are new next time depends on it
        if found_inf.item():
            return bad
        found_inf = None
    number = kinds_of(table.kind)[2]
    options = sgd_options(lr, momentum, dampening, weight_decay, nesterov, maximize)
    sgd_blocks(
        (table.blocks,),
        table.rows,
        table.places,
        table.rows if found_inf is None else found_inf,
        table.rows,
        *[number(option) for option in options],
        MOMENTUM=bool(momentum),
        SKIPS=found_inf is not None,
        STORED=False,
        **table.constants,
    )
    if found_inf is None:
        table.forget_new()
    return bad


def sgd_options(
    lr: float, momentum: float, dampening: float, weight_decay: float, nesterov: bool, maximize: bool
) -> tuple[float, ...]:
    """What `sgd_blocks` takes of them."""
    ahead, straight = (momentum, 1.0) if nesterov else (1.0, 0.0)
    return -1.0 if maximize else 1.0, weight_decay, momentum, 1.0 - dampening, ahead, straight, lr


def adam_table_step(
    table: StepTable,
    gradients: list[Any],
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    decoupled: bool,
    maximize: bool,
    found_inf: Any = None,
) -> int:
    """One step of Adam for all parameters of a table, whose step counters it counts; see `sgd_table_step`."""
    from dynograd.kernels.optim.optimizers_triton import adam_blocks

    bad = table.begin(gradients)
    if bad >= 0 or not table.blocks:
        return bad
    if found_inf is not None and table.host_steps:
        if found_inf.item():
            return bad
        found_inf = None
    rate, scale, own = _rates(table, gradients, lr, beta1, beta2, found_inf)
    number = kinds_of(table.kind)[2]
    options = (*adam_options(lr, beta1, beta2, eps, weight_decay, decoupled, maximize), rate, scale)
    adam_blocks(
        (table.blocks,),
        table.rows,
        table.places,
        table.rows if found_inf is None else found_inf,
        table.rows if own is None else own,
        table.rows,
        *[number(option) for option in options],
        HIGHEST=table.width > 2,
        OWN_RATES=own is not None,
        SKIPS=found_inf is not None,
        STORED=False,
        **table.constants,
    )
    return bad


def adam_options(
    lr: float, beta1: float, beta2: float, eps: float, weight_decay: float, decoupled: bool, maximize: bool
) -> tuple[float, ...]:
    """What `adam_blocks` takes of them, beside the rate and scale of each step."""
    shrink, decay = (1 - lr * weight_decay, 0.0) if decoupled else (1.0, weight_decay)
    return -1.0 if maximize else 1.0, shrink, decay, 1 - beta1, beta2, 1 - beta2, eps


def log_of(beta: float) -> float:
    """To base 2, as `count_steps` takes it."""
    return log2(beta) if beta else -inf


def _rates(
    table: StepTable, gradients: list[Any], lr: float, beta1: float, beta2: float, found_inf: Any
) -> tuple[float, float, Any]:
    """Counts the steps: the rate and scale that all rows have, or an array with those of each."""
    if not table.host_steps:
        from dynograd.kernels.optim.optimizers_triton import count_steps

        if table.rates is None:
            table.rates = cuda_arrays.empty((table.count, 2), kinds_of(table.kind)[1], table.device)
        count_steps(
            (-(-table.count // 128),),
            table.rows,
            table.rows if found_inf is None else found_inf,
            table.rates,
            table.rows,
            table.count,
            *[Double(number) for number in (lr, log_of(beta1), log_of(beta2))],
            SKIPS=found_inf is not None,
            STORED=False,
            BLOCK=128,
        )
        return 0.0, 1.0, table.rates
    rates = counted_rates(table, [gradient is not None for gradient in gradients], lr, beta1, beta2)
    if isinstance(rates, tuple):
        return rates[0], rates[1], None
    return 0.0, 1.0, cuda_arrays.from_numpy(rates.astype(kinds_of(table.kind)[1]), table.device)


def counted_rates(
    table: StepTable, stepped: list[bool], lr: float, beta1: float, beta2: float
) -> tuple[float, float] | numpy.ndarray:
    """Counts the steps that the host counts: the rate and scale of all rows, or an array with those of each."""
    steps: Any = table.steps
    if table.vector is not None and all(stepped):
        table.vector += 1
        counts = [table.vector.item(0)] if table.uniform else table.vector.tolist()
    else:
        table.uniform = False
        counts = [numpy.add(count, 1, count).item() for count, steps_now in zip(steps, stepped) if steps_now]
    if not counts:
        return 0.0, 1.0
    if len(set(counts)) == 1:
        return lr / (1 - beta1 ** counts[0]), sqrt(1 - beta2 ** counts[0])
    wide = numpy.array([max(float(count), 1.0) for count in steps])
    return numpy.stack([lr / (1 - beta1**wide), numpy.sqrt(1 - beta2**wide)], axis=1)


def _whole_of(steps: Any) -> Any:
    """The array that counters are the elements of, in order; None where there is none."""
    base = steps[0].base
    if type(base) is not numpy.ndarray or base.shape != (len(steps),) or any([step.base is not base for step in steps]):
        return None
    places = [step.__array_interface__["data"][0] for step in steps]
    start = base.__array_interface__["data"][0]
    return base if places == [start + k * base.itemsize for k in range(len(steps))] else None


# --- one parameter -----------------------------------------------------------------------------------------------------------------


def sgd_step(
    parameter: Any,
    gradient: Any,
    momentum_buffer: Any,
    lr: float,
    momentum: float = 0.0,
    dampening: float = 0.0,
    weight_decay: float = 0.0,
    nesterov: bool = False,
    maximize: bool = False,
    first: bool = False,
) -> None:
    """One step of SGD, written into `parameter` and `momentum_buffer`; see `optimizers_cpu.sgd_step`."""
    if first and momentum:
        momentum_buffer.fill(0)
    with _RowMajor(parameter, *([momentum_buffer] if momentum else [])) as whole:
        table = StepTable(whole[:1], [[number] for number in whole[1:]], None, [first])
        sgd_table_step(table, [_like(gradient, whole[0])], lr, momentum, dampening, weight_decay, nesterov, maximize)


def adam_step(
    parameter: Any,
    gradient: Any,
    exp_avg: Any,
    exp_avg_sq: Any,
    max_exp_avg_sq: Any,
    step: float,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float = 0.0,
    decoupled: bool = False,
    maximize: bool = False,
) -> None:
    """One step of Adam, written into `parameter` and the moments; see `optimizers_cpu.adam_step`."""
    moments = [exp_avg, exp_avg_sq] if max_exp_avg_sq is None else [exp_avg, exp_avg_sq, max_exp_avg_sq]
    with _RowMajor(parameter, *moments) as whole:
        counter = numpy.array(step - 1, numpy.float64)
        table = StepTable(whole[:1], [[number] for number in whole[1:]], [counter], [False])
        operands = [_like(gradient, whole[0])]
        adam_table_step(table, operands, lr, beta1, beta2, eps, weight_decay, decoupled, maximize)


class _RowMajor:
    """Arrays as tables want them: themselves, or copies that are written back."""

    def __init__(self, *arrays: Any) -> None:
        kind = arrays[0].dtype
        self.arrays = arrays
        self.whole = [array if is_plain(array) and array.dtype == kind else array.astype(kind) for array in arrays]

    def __enter__(self) -> list[Any]:
        return self.whole

    def __exit__(self, *error: Any) -> None:
        for array, used in zip(self.arrays, self.whole, strict=True):
            if used is not array:
                operations.copy_into(array, used)


def _like(gradient: Any, parameter: Any) -> Any:
    return gradient if gradient.layout is parameter.layout else gradient.astype(parameter.dtype)
