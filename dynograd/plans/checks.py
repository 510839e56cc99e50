"""Checks of values that a step has still to compute: they are made when it has computed them, and nothing is computed earlier for their sake.

An index that must be in range, a parameter of a distribution that must be positive: the check changes nothing unless it fails. So a walk
notes it, and makes it as soon as something else wants values: a read, an optimizer, a write into what is not the step's, the end.
"""

from __future__ import annotations

import dis
import functools
import inspect
import itertools
from collections.abc import Callable
from types import CodeType
from typing import Any

from dynograd.autograd.modes import MODES
from dynograd.autograd.nodes import caller, line_text
from dynograd.plans.recording import Recording

__all__ = ["WalkedChecks"]


class WalkedChecks:
    """The part of a walk that makes them."""

    at: Any
    first: list[int]
    handed: list[Any]
    path: Any
    running: bool
    where: Callable[[int], Any]

    def forget_checks(self) -> None:
        """A step begins."""
        # (number of the step before which the program asked, number of the value, the check, the program's line)
        self.waiting: list[tuple[int, int, Callable[[Any], Any], Any]] = []
        self.checked: set[int] = set()  # values of this step that were to be checked

    def check_when_known(self, tensor: Any, check: Callable[[Any], Any]) -> bool:
        """Notes that `check` is to get the array of a recorded tensor. False: whoever asks makes it now."""
        number = tensor.value.number
        if not self.running or MODES.plan is not self or self.handed[number] is not tensor:
            return False
        self.checked.add(number)
        if self.first[number] >= self.at.number or not self._stays(number, self.path) or _is_caught():
            return False
        self.waiting.append((self.at.number, number, check, caller(2)))
        return True

    def may_go_over(self, path: Any) -> bool:
        """Whether checks that wait can be made on another way."""
        return all([self._stays(number, path) for _, number, _, _ in self.waiting])

    def _stays(self, number: int, path: Any) -> bool:
        """Whether the plan leaves a value where it is to the end of the step."""
        if path.program.on_gpu or number in path.gone:
            return False
        return bool(path.lasts.get(number, -1) >= len(path.program.calls))

    def make_checks(self) -> None:
        """Makes those that wait: all that they look at has been computed."""
        waiting, self.waiting = self.waiting, []  # what a failing one says may ask for more of the step
        for number, value, check, line in waiting:
            self._make(check, self.where(value), number, line)

    def make_checks_before(self, number: int) -> None:
        """The step is run anew, and what comes before this number has been: what was checked before it is checked now."""
        waiting, self.waiting = self.waiting, []
        while waiting and waiting[0][0] <= number:
            place, value, check, line = waiting.pop(0)
            self._make(check, self.handed[value].array, place, line)
        self.waiting = waiting

    def _make(self, check: Callable[[Any], Any], array: Any, number: int, line: Any) -> None:
        try:
            check(array)
        except Exception as error:
            self._take_back(number)
            error.add_note(
                f"compile: this was checked when the step had been computed; the check belongs to {line_text(line)}"
            )
            raise

    def _take_back(self: Any, number: int) -> None:
        """Leaves have no gradients of backward passes behind the check: the program as it is written does not come there."""
        for step in self.path.steps[number : self.at.number]:
            if step.event.kind == "backward":
                for place, _, had in step.subject:
                    if not had:
                        self._outside_now(step.path, place)._grad = None

    def keep_checked(self, recording: Recording) -> None:
        """The step was run anew: the new record knows what is checked."""
        for number in self.checked:
            recording.note_checked(self.handed[number].array)


def _is_caught() -> bool:
    """Whether the program catches errors between the compiled function and here: then it expects this one here."""
    frame = inspect.currentframe()
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module == "dynograd.plans.compiling":
            break
        if not module.startswith("dynograd") and _catches(frame.f_code, frame.f_lasti):
            return True
        frame = frame.f_back
    return False


@functools.lru_cache(maxsize=4096)
def _catches(code: CodeType, place: int) -> bool:
    """Whether this place of the code stands in a `try`; blocks of `with` pass errors on."""
    bytecode = dis.Bytecode(code)
    entries = [entry for entry in bytecode.exception_entries if entry.start <= place < entry.end]
    if not entries:
        return False
    instructions = list(bytecode)
    behind = {before.offset: after.opname for before, after in itertools.pairwise(instructions)}
    names = {instruction.offset: instruction.opname for instruction in instructions}
    return any(
        [
            names.get(entry.target) == "PUSH_EXC_INFO" and behind.get(entry.target) != "WITH_EXCEPT_START"
            for entry in entries
        ]
    )
