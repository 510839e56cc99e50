"""Ctrl-C in the midst of a step: wherever Python looks for signals, and at random moments.

Python looks for signals when a function begins, behind each call of a function that is not written in Python, and when a loop begins anew. The
first two are what `sys.setprofile` sees: there the signal is raised, one place of a step after the other. Left out is the beginning of
`__exit__`: a `with torch.no_grad():` that is interrupted in the first instruction of its end never comes to it, in no library. A moment that falls
there is put off.
In finalizers Python drops exceptions: who sees nothing happen presses Ctrl-C again, and so it is here.
"""

from __future__ import annotations

import random
import shutil
import signal
import sys
import tempfile
import traceback
import weakref
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import dynograd as torch
from tests.soak.models import MODELS, Model
from tests.soak.states import Disturbed
from tests.soak.states import plain as numbers_of


def _saving() -> Model:
    """A step, and a checkpoint that is written and read: a whole one, whatever became of the step before."""
    perceptron, folder = MODELS["perceptron"](), tempfile.mkdtemp()
    path = Path(folder) / "checkpoint.safetensors"

    def step(n: int) -> Any:
        if path.exists():
            torch.load(path)
        loss = perceptron.step(n)
        torch.save({"model": perceptron.things[0].state_dict(), "step": n}, path)
        return loss, numbers_of(torch.load(path))

    weakref.finalize(step, shutil.rmtree, folder, ignore_errors=True)
    return Model(step, perceptron.things)


_SOON = 1e-5  # seconds

INTERRUPTED: dict[str, Callable[[], Model]] = {
    name: MODELS[name]
    for name in (
        "perceptron",
        "transformer",
        "packed LSTM",
        "ragged rows",
        "trees, autobatch",
        "autocast",
        "checkpoints",
        "sparse embedding",
        "loader, 2 workers",
        "compiled perceptron",
        "compiled LSTM",
        "compiled ragged rows",
    )
} | {"saving": _saving}


def begins_to_exit(frame: FrameType | None) -> bool:
    """Whether the frame is at the first instruction of an `__exit__`, in which nothing of it has been done yet."""
    return frame is not None and frame.f_code.co_name == "__exit__" and frame.f_lineno == frame.f_code.co_firstlineno


class Presses:
    """Interrupts a call once, or again while Python drops the interrupt."""

    def __init__(self) -> None:
        self.where = ""

    def begin(self) -> None:
        """The call begins."""
        raise NotImplementedError

    def press_again(self) -> None:
        """An interrupt was dropped: there is to be another."""
        raise NotImplementedError

    def end(self) -> None:
        """The call has ended."""
        raise NotImplementedError

    def run(self, function: Callable[[], Any]) -> bool:
        """Whether the call was interrupted."""
        hook = sys.unraisablehook

        def dropped(unraisable: Any) -> None:
            if isinstance(unraisable.exc_value, KeyboardInterrupt):
                self.press_again()
            else:
                hook(unraisable)

        sys.unraisablehook = dropped
        handler = signal.signal(
            signal.SIGINT, signal.default_int_handler
        )  # a shell starts programs behind it without one
        try:
            self.begin()
            function()
            self.end()
        except KeyboardInterrupt:
            return True
        finally:
            sys.unraisablehook = hook
            self.end()
            signal.signal(signal.SIGINT, handler)
        return False


class Places(Presses):
    """Counts the places of a call where Python looks for signals, and raises one at a chosen place."""

    def __init__(self, place: int = -1) -> None:
        super().__init__()
        self.place, self.count = place, 0

    def __call__(self, frame: Any, event: str, argument: Any) -> None:
        if event not in ("call", "c_return") or frame.f_code.co_filename == __file__:
            return
        if event == "call" and begins_to_exit(frame):
            return
        self.count += 1
        if self.count == self.place:
            sys.setprofile(None)
            self.where = f"{event} {getattr(argument, '__name__', '')} at {traceback.format_stack(frame, 4)}"
            signal.raise_signal(signal.SIGINT)

    def begin(self) -> None:
        sys.setprofile(self)

    def press_again(self) -> None:
        self.place = self.count + 1
        sys.setprofile(self)

    def end(self) -> None:
        sys.setprofile(None)


class Moment(Presses):
    """Raises the signal after so many seconds, if the call still goes on then."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds, self.goes_on = seconds, False

    def _ring(self, number: int, frame: FrameType | None) -> None:
        if self.goes_on and begins_to_exit(frame):
            signal.setitimer(signal.ITIMER_REAL, _SOON)
        elif self.goes_on:
            self.goes_on = False
            self.where = f"{traceback.format_stack(frame, 4)}"
            signal.default_int_handler(number, frame)

    def begin(self) -> None:
        self._before = signal.signal(signal.SIGALRM, self._ring)
        self.press_again()

    def press_again(self) -> None:
        self.goes_on = True
        signal.setitimer(signal.ITIMER_REAL, self.seconds)

    def end(self) -> None:
        self.goes_on = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._before)


def interrupt(name: str, count: int, seed: int = 0) -> tuple[int, int, list[str]]:
    """Interrupts steps of a model `count` times, at places that Python looks at and at moments in turn.

    Returns:
        How many places a step has, how many calls were interrupted, and what was wrong.
    """
    numbers = random.Random(seed)
    disturbed = Disturbed(name, INTERRUPTED[name])
    places = disturbed.count(Places())
    interrupted, told, tries = 0, [], 0
    while interrupted < count and tries < 10 * count:
        tries += 1
        way = (
            Places(numbers.randint(1, places)) if interrupted % 2 else Moment(numbers.uniform(1e-4, disturbed.seconds))
        )
        ended = []
        problems = disturbed.problems(lambda step: ended.append(way.run(step)))  # noqa: B023 - called at once
        interrupted += ended[0]
        if problems:
            told.append(f"{name}, interrupted at {way.where}: {'; '.join(problems)}")
            break  # what comes behind starts from a state that is wrong
    return places, interrupted, told
