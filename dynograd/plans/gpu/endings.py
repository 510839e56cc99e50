"""Endings: the step of an optimizer in the graph that computes its gradients, with learning rates and other numbers in the device's memory.

A walk offers one where it comes to the step; the piece that is computed then is captured with the launches of the step behind its calls, so
that one start of a graph does both. What the step has to be for that is what `OptimizerStep` watches.
"""

from __future__ import annotations

from typing import Any

from dynograd.arrays.cuda_arrays import CudaArray
from dynograd.autograd.writes import stamp_marks
from dynograd.plans.gpu.places import Bindings, Place
from dynograd.plans.optimizer_steps import OptimizerStep, WalkedSteps

__all__ = ["BoundEnding", "Ending", "WalkedEndings"]


class Ending:
    """The step of an optimizer at a place of the record.

    Args:
        number: of the event.
        calls: that are over before it.
        step: what it does.
        places: of the gradients, for each batch of parameters.
    """

    def __init__(self, number: int, calls: int, step: OptimizerStep, places: list[list[Place | CudaArray]]) -> None:
        self.number, self.calls, self.step, self.places = number, calls, step, places
        self.refused = not step.usual

    def is_current(self) -> bool:
        """Whether the optimizer would take this step now."""
        return not self.refused and self.step.is_current()

    def bound(self) -> BoundEnding | None:
        """For another piece; None, and it is not offered again, where there are no such kernels."""
        from dynograd.kernels.optim.bound_steps_cuda import bound_step

        steps = [bound_step(batch.kernel_name, batch.batch.table) for batch in self.step.batches]
        if any([step is None for step in steps]):
            self.refused = True
            return None
        return BoundEnding(self, steps)


class BoundEnding:
    """An ending on the gradients of one piece."""

    def __init__(self, ending: Ending, steps: list[Any]) -> None:
        self.ending, self.steps = ending, steps
        self.batches = ending.step.batches
        self.written = [array for step in steps for array in step.written]
        self._counters = [counter for step in steps for counter in step.counters]
        self._counts: list[Any] = []

    def _gradients(self, bindings: Bindings) -> list[list[CudaArray]]:
        return [[bindings.at(place) for place in places] for places in self.ending.places]

    def rehearse(self, bindings: Bindings) -> list[Any]:
        """Takes the step as it is written, and once more as graphs will, on gradients that are not theirs, which loads the kernels.

        Returns:
            what the first has written. What it wrote into, and counted, is again what it was.
        """
        before = [array.copy() for array in self.written]
        self._counts = [counter.copy() for counter in self._counters]
        for batch, gradients in zip(self.batches, self._gradients(bindings)):
            if batch.kernel(batch.batch.table, gradients, *batch.numbers) >= 0:
                raise ValueError("a gradient that does not fit its parameter")
        expected = [array.numpy() for array in self.written]
        self._take_back(before)
        self.point(bindings)
        self.send_rows()
        self.write_numbers()
        self.launch()
        self._take_back(before)
        return expected

    def _take_back(self, before: list[CudaArray]) -> None:
        for array, copied in zip(self.written, before):
            array[...] = copied
        self.uncount()

    def uncount(self) -> None:
        """The step that was rehearsed is not counted."""
        for counter, count in zip(self._counters, self._counts):
            counter[...] = count

    def point(self, bindings: Bindings) -> None:
        for step, gradients in zip(self.steps, self._gradients(bindings)):
            step.point(gradients)

    def launch(self) -> None:
        for step in self.steps:
            step.launch()

    def send_rows(self) -> None:
        for step in self.steps:
            step.send_rows()

    def write_numbers(self) -> None:
        """Those of the moment: the step is taken next."""
        for batch, step in zip(self.batches, self.steps):
            step.write_numbers(*batch.numbers)

    def stamp(self) -> None:
        """The step was taken."""
        for batch in self.batches:
            stamp_marks(batch.batch.marks, batch.gradients, self.ending.step.line)


class WalkedEndings(WalkedSteps):
    """The part of a walk that offers them."""

    done: int
    waiting: list[Any]

    def offer_ending(self, choice: Any, optimizer: Any, with_closure: bool) -> None:
        """The step of an optimizer comes next: the program may take it where it computes what comes before."""
        path, program = self.path, self.path.program
        if not program.on_gpu:
            return
        program.ending, program.has_stepped = None, False
        if with_closure or self.waiting or choice.event.calls <= self.done:
            return
        ending = program.endings.get(choice.number)
        if ending is None:
            step = self.optimizer_step(choice, optimizer)
            places = dict(zip(path.numbers, program.places))
            by_batch = [[places[number] for number in batch.values] for batch in step.batches]
            ending = program.endings[choice.number] = Ending(choice.number, choice.event.calls, step, by_batch)
        if ending.is_current():
            program.ending = ending

    def has_stepped(self) -> bool:
        """Whether the step that was offered is taken."""
        return self.path.program.on_gpu and bool(self.path.program.has_stepped)
