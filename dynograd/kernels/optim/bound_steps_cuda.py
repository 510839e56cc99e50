"""The step of a table on gradients that stay where they are, as launches for a CUDA graph, which read their numbers from the device's memory."""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.arrays import cuda_arrays
from dynograd.arrays.cuda_arrays import CudaArray
from dynograd.cuda import copies
from dynograd.kernels.build.launch_arguments_cuda import Double
from dynograd.kernels.optim.optimizers_cuda import (
    StepTable,
    adam_options,
    counted_rates,
    log_of,
    sgd_options,
)
from dynograd.kernels.small.tables_cuda import ADDRESSES, NEW, kinds_of

__all__ = ["BoundStep", "bound_step"]

_GRADIENT, _STEP = 1, 5  # columns of a row
_LOGS = 7  # where the learning rate and the logarithms of betas stand among the numbers, for kernels that count
_RATES = 16  # and the rate and scale of each row


class BoundStep:
    """The step of a table. `point` and `launch` may be captured; `send_rows` comes behind that, `write_numbers` before each start.

    Args:
        name: of a kernel of `optimizers_cuda`.
        table: of the parameters.
    """

    def __init__(self, name: str, table: StepTable) -> None:
        self.is_adam, self.table = name == "adam_table_step", table
        self._rows = table.host.copy()
        self._rows[:, NEW] = 0
        self.rows = cuda_arrays.from_numpy(self._rows, table.device)
        self._numbers = numpy.zeros(_RATES + 2 * table.count)
        self._at = self._numbers.ctypes.data
        self._sent = self._numbers.copy()
        self.numbers = cuda_arrays.from_numpy(self._numbers, table.device)
        self.rates = self.numbers[_RATES:]
        if self.is_adam and not table.host_steps:
            self.rates = cuda_arrays.empty((2 * table.count,), kinds_of(table.kind)[1], table.device)
        self._options: tuple[Any, ...] = ()

    @property
    def written(self) -> list[CudaArray]:
        """What a step writes on the device."""
        return [array for array in self.table.held if type(array) is CudaArray and array.size]

    @property
    def counters(self) -> list[numpy.ndarray]:
        """What the host counts."""
        return list(self.table.steps or ()) if self.table.host_steps else []

    def point(self, gradients: list[CudaArray]) -> None:
        """From now on it reads these gradients.

        Raises:
            ValueError: one is laid out otherwise than its parameter.
        """
        if [gradient.layout for gradient in gradients] != self.table.layouts:
            raise ValueError("a gradient of another layout than its parameter")
        self._rows[:, _GRADIENT] = [gradient.pointer or 16 for gradient in gradients]

    def send_rows(self) -> None:
        """Tells the device where they are."""
        copies.from_host(self.rows.pointer, self._rows.ctypes.data, self._rows.nbytes, self.table.device)

    def write_numbers(self, *options: Any) -> None:
        """The options of the next step, which is counted."""
        table, numbers = self.table, self._numbers
        if options != self._options:
            self._options = options
            values = adam_options(*options) if self.is_adam else sgd_options(*options)
            numbers[: len(values)] = values
        if self.is_adam:
            lr, beta1, beta2, *_ = options
            if table.host_steps:
                rates = counted_rates(table, [True] * table.count, lr, beta1, beta2)
                numbers[_RATES:].reshape(-1, 2)[...] = rates
            else:
                numbers[_LOGS : _LOGS + 3] = lr, log_of(beta1), log_of(beta2)
        if not numpy.array_equal(numbers, self._sent):
            copies.from_host(self.numbers.pointer, self._at, numbers.nbytes, table.device)
            self._sent[...] = numbers

    def launch(self) -> None:
        """Takes the step."""
        from dynograd.kernels.optim import optimizers_triton as kernels

        table, rows, numbers = self.table, self.rows, self.numbers
        if not table.blocks:
            return
        columns = ADDRESSES if table.steps is None or table.host_steps else _STEP
        constants = {**table.constants, "ALIGNED": not bool((self._rows[:, :columns] & 15).any())}
        nothing = kinds_of(table.kind)[2](0.0)
        common = (table.blocks,), rows, table.places, rows
        if not self.is_adam:
            kernels.sgd_blocks(
                *common, numbers, *[nothing] * 7, MOMENTUM=table.width > 0, SKIPS=False, STORED=True, **constants
            )
            return
        if not table.host_steps:
            blocks = -(-table.count // 128)
            kernels.count_steps(
                (blocks,), rows, rows, self.rates, numbers, table.count, *[Double(0.0)] * 3,
                SKIPS=False, STORED=True, BLOCK=128,
            )  # fmt: skip
        kernels.adam_blocks(
            *common, self.rates, numbers, *[nothing] * 9,
            HIGHEST=table.width > 2, OWN_RATES=True, SKIPS=False, STORED=True, **constants,
        )  # fmt: skip


def bound_step(name: str, table: Any) -> BoundStep | None:
    """The step of a table; None where momenta are new, or its kernel reads no numbers from the device."""
    if name == "adam_table_step" or (name == "sgd_table_step" and not table.any_new):
        return BoundStep(name, table)
    return None
