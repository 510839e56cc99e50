"""That an optimizer itself is as it was: its groups' options, its hooks, and what it updates together, looked at in one compiled call."""

from __future__ import annotations

from typing import Any

from dynograd.optim import hooks
from dynograd.plans.watches import Watch

__all__ = ["unchanged_of"]

_OWN = ("param_groups", "state", "_plans", "_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")


def unchanged_of(optimizer: Any, together: Any, batches: list[Any]) -> Watch | None:
    """A watch that holds as long as everything that is asked before a step has the answer that it has now; None: that cannot be watched.

    Args:
        optimizer: takes the step that a walk repeats.
        together: its plans.
        batches: of the step; all options of their groups are plain values.
    """
    own, watch = optimizer.__dict__, Watch()
    try:
        watch.length(own)  # a scaler of gradients adds `found_inf`
        for name in _OWN:
            watch.entry(own, name)
        for dict_of_hooks in hooks.all_of(optimizer):
            watch.length(dict_of_hooks)
        watch.entry(vars(together), "plans")
        for batch in batches:
            watch.length(batch.group)
            for name in batch.group:
                watch.entry(batch.group, name)
            watch.entry(together.plans, id(batch.group))
            watch.length(batch.batch.new)
    except LookupError:
        return None
    return watch.close()
