"""The step of an optimizer in a walk: the kernels of all its groups, on gradients that are known to lie where the plan has put them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynograd.arrays import ndarray
from dynograd.autograd.writes import stamp_marks, stamp_whole
from dynograd.kernels import kernel
from dynograd.kernels.build import threads
from dynograd.optim import hooks
from dynograd.plans.handed import Handed
from dynograd.plans.optimizers.closures import is_usual
from dynograd.plans.optimizers.unchanged import unchanged_of
from dynograd.plans.watches import Watch

if TYPE_CHECKING:
    from dynograd.kernels.build.bound_calls_numba import Table

__all__ = ["OptimizerStep", "WalkedSteps"]

_PLAIN = (float, int, bool, str, type(None))


class OptimizerStep:
    """What `optimizer.step()` does where all parameters are updated together and have the plan's gradients.

    Args:
        optimizer: has taken its step in the recorded way before.
        gradients: of the path: (leaf, number of its gradient in the tree, the plan's array).
        handed: the tensors of the tree by number.
        line: of the program.
    """

    def __init__(self, optimizer: Any, gradients: list[tuple[Any, int, Any]], handed: list[Any], line: Any) -> None:
        self.optimizer, self.line = optimizer, line
        self.batches: list[_Batch] = []
        self.watch = Watch()
        self.usual = is_usual(optimizer)
        self.unchanged: Watch | None = None  # that all else is as it was when `_would_take` was asked last
        self.can_watch = True
        if not self.usual:
            return
        self.together, self.state, self.groups = optimizer._together(), optimizer.state, optimizer.param_groups
        by_leaf = {id(leaf): (number, array) for leaf, number, array in gradients}
        try:
            self.watch.items(self.groups)
            for group in self.groups:
                self._add(group, by_leaf, handed)
        except LookupError:  # what is not updated together, or has no gradient
            self.usual = False
        self.watch.close()
        self.table: Any = self._bound_table() if self.usual else None
        marked = [mark for batch in self.batches for mark in batch.batch.marks]
        self.stamps = None if any([region is not None for _, region in marked]) else [entry for entry, _ in marked]

    def _bound_table(self) -> Table | None:
        """The launches of all batches in one table; None: Python calls the kernel of each."""
        if not all([batch.bind() for batch in self.batches]):
            return None
        from dynograd.kernels.build.bound_calls_numba import Table

        launches = [launch for batch in self.batches for launch in batch.bound.launches]
        return Table(launches, threads.get_num_threads())

    def _add(self, group: dict[str, Any], by_leaf: dict[int, tuple[int, Any]], handed: list[Any]) -> None:
        watch, plan = self.watch, self.together.plans[id(group)]
        if plan.others or plan.waiting or group.get("differentiable") or group["params"] != plan.params:
            raise LookupError("parameters that are updated by themselves")
        watch.entry(group, "params")
        watch.items(group["params"])
        for batch in plan.batches:
            gradients, numbers = [], []
            for parameter, array in zip(batch.members, batch.arrays):
                number, gradient = by_leaf[id(parameter)]
                gradients.append(gradient)
                numbers.append(number)
                watch.field(parameter, "array", array)
                watch.field(parameter, "_grad", handed[number], number)
                watch.kind(number, handed[number], Handed)
                for name in plan.names:
                    states = self.state[parameter]
                    watch.entry(self.state, parameter)
                    watch.entry(states, name)
                    watch.field(states[name], "array", states[name].array)
            self.batches.append(_Batch(self.optimizer, group, plan, batch, gradients, numbers))

    def is_current(self) -> bool:
        """Whether it is the step that the optimizer would take now, with the numbers that its batches have read."""
        if not self.usual or not self.watch.holds():
            return False
        if self.unchanged is not None and self.unchanged.holds():
            return True
        if not self._would_take():
            return False
        self.unchanged = None
        if self.can_watch and all([batch.is_steady for batch in self.batches]):
            self.unchanged = unchanged_of(self.optimizer, self.together, self.batches)
            self.can_watch = self.unchanged is not None
        return True

    def _would_take(self) -> bool:
        """The same, of what `watch` does not know; batches read their numbers."""
        optimizer = self.optimizer
        if hooks.are_there(optimizer):
            return False
        own = optimizer.__dict__
        if "found_inf" in own or own.get("_plans") is not self.together:
            return False
        if optimizer.param_groups is not self.groups or optimizer.state is not self.state:
            return False
        plans = self.together.plans
        return all([batch.is_current(plans) for batch in self.batches])

    def run(self) -> bool:
        """Takes the step; False, and nothing is done, where something is not as it was."""
        if not self.is_current():
            return False
        if self.table is None:
            for batch in self.batches:
                batch.run()
        else:
            for batch in self.batches:
                batch.write_numbers()
            self.table.run()
        if self.stamps is not None:
            stamp_whole(self.stamps, self.line)
            return True
        for batch in self.batches:
            stamp_marks(batch.batch.marks, batch.gradients, self.line)
        return True


class WalkedSteps:
    """The part of a walk that makes them."""

    first: list[int]
    handed: list[Any]
    of_optimizers: list[Watch]
    path: Any
    watch_too: Any

    def optimizer_step(self, choice: Any, optimizer: Any) -> OptimizerStep:
        """What the optimizer does at this step of the record, on the gradients that leaves have there."""
        step = self._step_of(self.path, choice, optimizer)
        self.of_optimizers.append(step.watch)
        self.watch_too(step.watch)
        return step

    def load_steps(self: Any, path: Any) -> None:
        """Kernels by which optimizers take their steps in a walk are there when the first way with them is recorded."""
        before = [step.subject for other in self.paths if other is not path for step in _optimizer_steps(other)]
        for step in () if path.program.on_gpu else _optimizer_steps(path):
            if not any([step.subject is optimizer for optimizer in before]):
                before.append(step.subject)
                self._step_of(path, step, step.subject)

    def _step_of(self, path: Any, choice: Any, optimizer: Any) -> OptimizerStep:
        gradients = [
            (leaf, number, tensor.array)
            for leaf, number, tensor in path.gradients
            if self.first[number] < choice.number
        ]
        return OptimizerStep(optimizer, gradients, self.handed, choice.event.line)


def _optimizer_steps(path: Any) -> list[Any]:
    return [step for step in path.steps if step.event is not None and step.event.kind == "step"]


class _Batch:
    """Parameters that one kernel updates. `values` are the numbers of their gradients in the tree."""

    def __init__(
        self, optimizer: Any, group: dict[str, Any], plan: Any, batch: Any, gradients: list[Any], values: list[int]
    ) -> None:
        self.optimizer, self.group, self.plan, self.batch = optimizer, group, plan, batch
        self.gradients, self.values = gradients, values
        self.options: list[Any] = []
        self.is_steady = False  # the options are plain, and were the same when it was asked before
        self.numbers: tuple[Any, ...] = ()
        self.kernel: Any = None
        self.kernel_name = ""
        self.bound: Any = None  # what a compiled loop runs instead
        self.written: Any = None  # what the table has of the numbers, once they are written

    def bind(self) -> bool:
        """Whether the kernel's step can be bound to the gradients."""
        rule = self.optimizer.rule(self.group)
        if rule is not None and type(self.gradients[0]) is ndarray:
            from dynograd.kernels.optim.bound_steps_cpu import bound_step

            self.bound = bound_step(rule.kernel, self.batch.table, self.gradients)
        return self.bound is not None

    def is_current(self, plans: dict[int, Any]) -> bool:
        """Whether it can be updated; reads the group's options."""
        options = [*self.group.values()]
        self.is_steady = options == self.options
        if not self.is_steady:
            rule = self.optimizer.rule(self.group)
            if rule is None or rule.names != self.plan.names or self.group.get("differentiable"):
                return False
            self.kernel, self.numbers = kernel("optimizers", rule.kernel, self.gradients[0]), rule.numbers
            self.kernel_name = rule.kernel
            self.written = None
            self.options = options if all(map(_is_plain, self.group.items())) else []
        return plans.get(id(self.group)) is self.plan and not self.batch.new

    def write_numbers(self) -> None:
        """The table has these numbers: steps outside the plan may have written others."""
        table = self.batch.table
        if self.written is None or table.values is not self.written:
            self.bound.set_numbers(table, *self.numbers)
            self.written = table.values

    def run(self) -> None:
        if self.kernel(self.batch.table, self.gradients, *self.numbers) >= 0:
            raise AssertionError(f"{type(self.optimizer).__name__}: a gradient of a plan does not fit")


def _is_plain(option: tuple[str, Any]) -> bool:
    """Whether an option cannot change while it is the same object; the list of parameters is watched."""
    name, value = option
    return (
        name == "params"
        or type(value) in _PLAIN
        or (type(value) is tuple and all([type(part) in _PLAIN for part in value]))
    )
