"""The search for what made a loss or a weight NaN: steps are repeated from a good copy, with every op watched."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy

from dynograd import arrays
from dynograd.data import DataLoader, IterableDataset
from dynograd.data.positions import Tasks, beginnings, restore
from dynograd.data.seeding import Undisturbed, draw_seed
from dynograd.errors import NonFiniteError
from dynograd.runs.origins import Origin, Tracer, kinds_of
from dynograd.runs.parts import states_of
from dynograd.runs.snapshots import array_of, non_finite
from dynograd.tensor.tensor import Tensor

if TYPE_CHECKING:
    from dynograd.runs.run import Run

__all__ = ["Search", "is_finite", "problem_of", "words_of"]


class Search:
    """Repeats the steps up to the one whose loss was not finite.

    Args:
        step, epoch, batch: where that was seen.
    """

    def __init__(self, step: int, epoch: int, batch: int) -> None:
        self.step, self.epoch, self.batch = step, epoch, batch
        self.tracer = Tracer()
        self.given: Any = None
        self.before: dict = {}

    def start(self, run: Run) -> None:
        """The run is back at the copy: from here on ops are watched."""
        self.before = non_finite(states_of(_of_weights(run)))
        self.tracer.start()

    def begin(self, batch: Any) -> None:
        """A step begins."""
        self.given = batch
        self.tracer.forget()

    def end(self, run: Run) -> None:
        """A step whose loss was finite is over; `run.step` has counted it.

        Raises:
            NonFiniteError: a weight is not finite now, or the step that was bad has come out well this time.
        """
        nonfinite = {
            place: counts
            for place, counts in non_finite(states_of(_of_weights(run))).items()
            if counts != self.before.get(place)
        }
        if not nonfinite and run.step <= self.step:
            return
        self.stop()
        run.step -= 1
        run.batch -= 1
        if not nonfinite:
            raise problem_of(
                run,
                f"the loss of step {self.step} was not finite, but came out finite when the steps were repeated: something besides the parts "
                f"of the run decides it (a file, the clock, another generator, an object that is not among the parts). Give Run all that "
                f"has a state",
            )
        first = ".".join(map(str, next(iter(nonfinite))))
        origin = self.tracer.backward
        if origin is None:
            story = (
                "no gradient was, so it came in optimizer.step(): look at learning rate, eps and the optimizer's state"
            )
            raise problem_of(
                run,
                f"the loss is finite, but {first} no longer is after the step; {story}",
                Origin("optimizer.step", None, ""),
            )
        raise problem_of(run, f"the loss is finite, but {first} no longer is after the step: {origin.story}", origin)

    def found(self, run: Run, loss: Any) -> NonFiniteError:
        """The error that names what made this loss."""
        self.stop()
        origin = self.tracer.origin_of(loss, lambda tensor: self._name_of(run, tensor))
        if origin is not None:
            return problem_of(run, f"the loss is {words_of(loss)}: {origin.story}", origin)
        inputs = [(place, tensor) for place, tensor in _places(self.given, "batch") if kinds_of(tensor)]
        if inputs:
            place, tensor = inputs[0]
            return problem_of(run, f"the loss is {words_of(loss)}: {place} holds {_first(tensor)}")
        return problem_of(
            run,
            f"the loss is {words_of(loss)}, and no op was seen that made it: it was computed outside of dynograd, from values that were read",
        )

    def stop(self) -> None:
        self.tracer.stop()

    def _name_of(self, run: Run, tensor: Any) -> str:
        for place, tensor_at_place in _places(self.given, "batch"):
            if tensor_at_place is tensor or _overlap(tensor_at_place, tensor):
                return f"{place} ({_first(tensor_at_place)})"
        for place, tensor_at_place in _named_weights(_of_weights(run)):
            if tensor_at_place is tensor or _overlap(tensor_at_place, tensor):
                return f"{place} ({_first(tensor_at_place)})"
        return f"a tensor of shape {tuple(tensor.shape)} that no op made ({_first(tensor)})"


def is_finite(value: Any) -> bool:
    """Whether a number, a tensor, or all in a list or dict of them are finite."""
    if isinstance(value, Tensor):
        array = array_of(value)
        return array is None or arrays.is_finite(array)
    if isinstance(value, dict):
        return all([is_finite(entry) for entry in value.values()])
    if isinstance(value, (list, tuple)):
        return all([is_finite(entry) for entry in value])
    return math.isfinite(value)


def problem_of(run: Run, said: str, origin: Origin | None = None) -> NonFiniteError:
    """The error at the run's present step."""
    indices = indices_of(run.loader, run.batch)
    samples = (
        "" if indices is None else f" of samples {indices if len(indices) <= 16 else str(indices[:16])[:-1] + ', ...]'}"
    )
    error = NonFiniteError(f"step {run.step} (epoch {run.epoch}, batch {run.batch}{samples}): {said}.")
    error.step, error.batch, error.indices = run.step, run.batch, indices
    if origin is not None:
        error.op, error.line = origin.op, origin.line
    return error


def indices_of(loader: Any, number: int) -> list | None:
    """Which samples are in batch `number` of the epoch that is under way; None where that cannot be told: its order is drawn again."""
    if not isinstance(loader, DataLoader) or isinstance(loader.dataset, IterableDataset):
        return None
    state = loader.state_dict()
    if not state["in_progress"] or "sampler" in state:
        return None
    batched, now = loader.batch_sampler is not None, beginnings(loader)
    with Undisturbed():
        try:
            restore(loader, state["beginnings"], with_global=True)
            draw_seed(loader.generator)  # as the epoch did when it began
            tasks = Tasks(loader.batch_sampler if batched else loader.sampler, batched)
            indices_at = next((indices for place, indices, _ in tasks if place == number), None)
        finally:
            restore(loader, now, with_global=False)
    return None if indices_at is None else list(indices_at) if batched else [indices_at]


def _overlap(tensor: Any, other: Any) -> bool:
    first, second = array_of(tensor), array_of(other)
    return first is not None and second is not None and arrays.may_overlap(first, second)


def _of_weights(run: Run) -> dict[str, Any]:
    return {name: part for name, part in run.parts.items() if name not in ("loader", "generator")}


def _named_weights(parts: Any, place: str = "") -> list[tuple[str, Any]]:
    if callable(getattr(parts, "named_parameters", None)):
        named = [*parts.named_parameters(), *parts.named_buffers()]
        return [(f"{place}.{name}", part) for name, part in named]
    items = parts.items() if isinstance(parts, dict) else enumerate(parts) if isinstance(parts, (list, tuple)) else ()
    return [
        weight for name, part in items for weight in _named_weights(part, f"{place}.{name}" if place else str(name))
    ]


def _places(value: Any, place: str) -> list[tuple[str, Any]]:
    """(place, tensor) of all tensors in a batch."""
    if isinstance(value, Tensor):
        return [(place, value)]
    if isinstance(value, dict):
        return [at_place for key, entry in value.items() for at_place in _places(entry, f"{place}[{key!r}]")]
    if isinstance(value, (list, tuple)):
        return [at_place for number, entry in enumerate(value) for at_place in _places(entry, f"{place}[{number}]")]
    return []


def _first(tensor: Any) -> str:
    plain = numpy.asarray(arrays.to_numpy(array_of(tensor)))
    bad = numpy.argwhere(~numpy.isfinite(plain))
    if not len(bad):
        return "finite now"
    first = [int(number) for number in bad[0]]
    return f"{plain[tuple(first)]} at index {first}, {len(bad)} of {plain.size}"


def words_of(loss: Any) -> str:
    """A loss, for a message."""
    try:
        return str(float(loss))
    except (TypeError, ValueError, RuntimeError):
        return "not finite"
