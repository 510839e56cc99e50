"""Endings: what an optimizer does to gradients, or `clip_grad_norm_`, in the graph that computes them; learning rates and other numbers lie in
the device's memory.

A walk offers one where it comes to such a call; the piece that is computed then is captured with its launches behind those of its calls, so
that one start of a graph does both. What an optimizer has to be for that is what `OptimizerStep` watches.
"""

from __future__ import annotations

from typing import Any

from dynograd import arrays
from dynograd.arrays.cuda_arrays import CudaArray
from dynograd.autograd.writes import stamp_marks
from dynograd.base import dtypes
from dynograd.nn.utils.clip_grad import clip_on_gpu
from dynograd.plans.gpu.array_kinds import own_copy
from dynograd.plans.gpu.places import Bindings, Place
from dynograd.plans.optimizers.steps import OptimizerStep, WalkedSteps
from dynograd.tensor.tensor import Tensor

__all__ = ["BoundClipping", "BoundEnding", "Clipping", "Ending", "WalkedEndings"]


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
        self.name = f"step of {type(step.optimizer).__name__}"

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

    @property
    def results(self) -> list[CudaArray]:
        """What is compared."""
        return self.written

    def _take_back(self, before: list[CudaArray]) -> None:
        for array, copied in zip(self.written, before):
            array[...] = copied
        self.uncount()

    def uncount(self) -> None:
        """The step that was rehearsed, or started in vain, is not counted."""
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


class Clipping:
    """The clipping of gradients to a common norm.

    Args:
        calls: that are over before it.
        places: of the gradients.
    """

    name = "step of clip_grad_norm_"

    def __init__(self, calls: int, places: list[Place]) -> None:
        self.calls, self.places = calls, places
        self.refused = False
        self.limit = 0.0

    def bound(self) -> BoundClipping:
        """For another piece."""
        return BoundClipping(self)


class BoundClipping:
    """A clipping of the gradients of one piece; used as `BoundEnding` is."""

    written: tuple[CudaArray, ...] = ()  # beside gradients

    def __init__(self, ending: Clipping) -> None:
        self.ending = ending
        self.clip: Any = None

    def _gradients(self, bindings: Bindings) -> list[CudaArray]:
        gradients = [bindings.at(place) for place in self.ending.places]
        return [gradient for gradient in gradients if gradient.size]

    def rehearse(self, bindings: Bindings) -> list[Any]:
        """Clips gradients that are not those of graphs, by kernels as graphs have them, which loads these, and as it is written.

        Returns:
            the norm.
        """
        from dynograd.kernels.optim.bound_clips_cuda import BoundClip

        gradients = self._gradients(bindings)
        if not gradients:
            raise ValueError("no gradients")
        before = [gradient.copy() for gradient in gradients]
        self.clip = BoundClip(gradients)
        self.write_numbers()
        self.launch()
        for gradient, copied in zip(gradients, before):
            gradient[...] = copied
        return [clip_on_gpu(gradients, self.ending.limit).numpy()]

    @property
    def results(self) -> list[CudaArray]:
        """What is compared beside gradients."""
        return [self.clip.norm]

    def point(self, bindings: Bindings) -> None:
        self.clip.point(self._gradients(bindings))

    def launch(self) -> None:
        self.clip.launch()

    def send_rows(self) -> None:
        self.clip.send_rows()

    def write_numbers(self) -> None:
        self.clip.write_limit(self.ending.limit)

    def uncount(self) -> None:
        """Nothing is counted."""

    def stamp(self) -> None:
        """No node has saved gradients of leaves."""


class WalkedEndings(WalkedSteps):
    """The part of a walk that offers them."""

    assigned: set[int]
    done: int
    waiting: list[Any]

    def offer_ending(self, choice: Any, optimizer: Any, with_closure: bool) -> None:
        """The step of an optimizer comes next: the program may take it where it computes what comes before."""
        path, program = self.path, self.path.program
        program.has_stepped = False
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

    def clip(self: Any, parameters: list[Any], limit: float) -> Tensor | None:
        """`clip_grad_norm_` of gradients that are to be computed. Gives the norm; None: nothing is done."""
        path, number = self.path, self.at.number
        if not self.running or not path.program.on_gpu or self.waiting or not number:
            return None
        program, calls = path.program, path.events[number - 1].calls
        gradients = [p._grad for p in parameters if p._grad is not None]
        values = self._values_of(gradients)
        if not values or calls <= self.done:
            return None
        ending = program.endings.get((number, values))
        if ending is None:
            ending = program.endings[number, values] = self._clipping(calls, values)
        program.has_stepped = False
        ending.limit = limit
        program.ending = None if ending.refused else ending
        self.catch_up()
        if not self.has_stepped():
            return None
        self.boundary = number - 1  # what comes before cannot be run anew
        self.count_writes(values)
        norm = program.at.ending.clip.norm
        dtype = gradients[0].dtype
        return Tensor.wrap(own_copy(norm) if dtype is dtypes.float64 else arrays.cast(norm, dtype))

    def _clipping(self, calls: int, values: tuple[int, ...]) -> Clipping:
        """Where they may be written in place: nothing else lies there, and no later call reads them."""
        program = self.path.program
        at = dict(zip(self.path.numbers, program.places))
        places = [at[number] for number in values]
        ending = Clipping(calls, places)
        later = {region for call in program.calls[calls:] for region in call.reads}
        alone = all([type(place) is Place and place.region not in later for place in places])
        ending.refused = not alone or any([number in self.path.kin for number in values])
        return ending
