"""The step of an optimizer in a walk: the kernels of all its groups, on gradients that are known to lie where the plan has put them."""

from __future__ import annotations

from typing import Any

from dynograd.autograd.writes import stamp_marks
from dynograd.kernels import kernel
from dynograd.optim.optimizer import Optimizer
from dynograd.plans.handed import Handed

__all__ = ["OptimizerStep"]


class OptimizerStep:
    """What `optimizer.step()` does where all parameters are updated together and have the plan's gradients.

    Args:
        optimizer: has taken its step in the recorded way before.
        gradients: of the path: (leaf, number of its gradient in the tree, the plan's array).
        line: of the program.
    """

    def __init__(self, optimizer: Any, gradients: list[tuple[Any, int, Any]], line: Any) -> None:
        self.optimizer, self.line = optimizer, line
        by_leaf = {id(leaf): (number, array) for leaf, number, array in gradients}
        self.batches: list[tuple[Any, ...]] = []
        self.leaves: list[tuple[Any, int]] = []
        self.usual = (
            type(optimizer).step.__wrapped__ is Optimizer.step.__wrapped__ and not optimizer._optimizer_step_pre_hooks
        )
        for group in optimizer.param_groups:
            plan = optimizer._together().plans.get(id(group)) if self.usual else None
            if plan is None or plan.others or plan.waiting or group.get("differentiable"):
                self.usual = False
                return
            for batch in plan.batches:
                self.usual = self.usual and all([id(p) in by_leaf for p in batch.members])
                if self.usual:
                    self.leaves += [(p, by_leaf[id(p)][0]) for p in batch.members]
                    self.batches.append((group, plan, batch, [by_leaf[id(p)][1] for p in batch.members]))

    def run(self, handed: list[Any]) -> bool:
        """Takes the step; False, and nothing is done, where something is not as it was."""
        optimizer = self.optimizer
        if not self.usual or "found_inf" in optimizer.__dict__ or optimizer._optimizer_step_pre_hooks:
            return False
        if len(optimizer.param_groups) != len(self.batches) or optimizer._optimizer_step_post_hooks:
            return False
        for leaf, number in self.leaves:
            grad = leaf._grad
            if grad is not handed[number] or type(grad) is not Handed:
                return False
        plans, ready = optimizer._together().plans, []
        for group, plan, batch, arrays in self.batches:
            rule = optimizer.rule(group)
            if plans.get(id(group)) is not plan or batch.new or not plan.is_current(optimizer, group, rule):
                return False
            ready.append((batch, arrays, rule))
        for batch, arrays, rule in ready:
            if kernel("optimizers", rule.kernel, arrays[0])(batch.table, arrays, *rule.numbers) >= 0:
                raise AssertionError(f"{type(optimizer).__name__}: a gradient of a plan does not fit")
            stamp_marks(batch.marks, arrays, self.line)
        return True
