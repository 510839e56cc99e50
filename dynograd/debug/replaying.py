"""A step of a run again, as it was: from the last state before it, under the debugger."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from dynograd.debug.recording import provenance
from dynograd.debug.stepping import stepping
from dynograd.errors import CheckpointError
from dynograd.runs.parts import load_states
from dynograd.runs.random_states import set_global_state
from dynograd.runs.run import Run
from dynograd.runs.saving import read_run, saved_runs
from dynograd.runs.snapshots import copied

__all__ = ["replay"]


def replay(
    run: Run,
    step: int,
    train: Callable[[Any], Any],
    *,
    loader: Any = None,
    debugger: stepping | provenance | None = None,
) -> object:
    """Does one step of a run again, with the weights, the optimizer's state, the batch and the random numbers that it had, under the debugger.

    The run goes back to the last state at or before the step: a copy in memory, a saved file, or where it is now. The steps from there are
    done again, and nothing is saved. Afterwards the run is where it was.

    Args:
        run: the `Run`; one that was just made continues where the program ended, or died.
        step: which, from 0: the number that `run.check` and its `NonFiniteError` name.
        train: takes a batch and does a step: the body of your loop.
        loader: what gives the batches; the run's own by default.
        debugger: what is on while the step runs; the default is `debug.stepping()`, which stops at each node of backward.
            `debug.provenance()` stops nowhere, and `explain` tells about the step.
    Returns:
        What `train` gave in that step.
    Raises:
        CheckpointError: there is no state from which the step can be reached.

    >>> model = dynograd.nn.Linear(1, 1)
    >>> optimizer = dynograd.optim.SGD(model.parameters(), lr=0.1)
    >>> run = dynograd.Run(None, model=model, optimizer=optimizer, snapshot_every=2)
    >>> def train(x):
    ...     optimizer.zero_grad()
    ...     loss = model(x).square().mean()
    ...     loss.backward()
    ...     optimizer.step()
    ...     return loss.item()
    >>> batches = [tensor([[1.0]]), tensor([[2.0]]), tensor([[3.0]])]
    >>> losses = [train(batch) for _ in run.epochs(1) for batch in run.steps(batches)]
    >>> dynograd.debug.replay(run, 1, train, loader=batches, debugger=dynograd.debug.provenance()) == losses[1]
    True
    """
    if step < 0:
        raise ValueError(f"replay: expected step >= 0, got {step}.")
    now = copied({**run._content(), "extra": run.extra})
    kept = run.path, run._snapshot_every, run._left, run._in_step
    run.path, run._snapshot_every, run._left = None, 0, None
    try:
        _go_to(run, kept[0], step)
        return _repeat(run, step, train, loader, debugger or stepping())
    finally:
        run.path, run._snapshot_every, run._left, run._in_step = kept
        load_states(run.parts, now["states"], "the state before replay")
        set_global_state(now["random"])
        run._set_place(now["place"], now["extra"])


def _go_to(run: Run, path: str | None, step: int) -> None:
    """Gives the run the last state at or before the step."""
    snapshot = run._snapshots.before(step)
    saved = next((state for state in map(read_run, _files(path)) if (state[0].step or 0) <= step), None)
    steps = {
        "copy": -1 if snapshot is None else snapshot.step,
        "file": -1 if saved is None else saved[0].step or 0,
        "here": run.step if run.step <= step and not run._in_step else -1,
    }
    nearest = max(steps, key=lambda name: steps[name])
    if steps[nearest] < 0:
        there = sorted([*[copy.step for copy in run._snapshots.held], run.step])
        raise CheckpointError(
            f"replay: expected a state at or before step {step}; there are states of the steps {there}. Make the Run with keep_last= or "
            f"snapshot_every=, so that earlier ones are kept."
        )
    if nearest == "copy":
        assert snapshot is not None
        run._jump = snapshot, None
        run._go_back()
        run._jump = None
    elif nearest == "file":
        assert saved is not None
        saved_run, whole = saved
        load_states(run.parts, {name: whole[name] for name in saved_run.parts}, repr(saved_run.path))
        set_global_state(whole["random"])
        run._set_place(saved_run.extra["place"], saved_run.extra["extra"])


def _files(path: str | None) -> list[str]:
    if path is None or not os.path.exists(path):
        return []
    return saved_runs(path) if os.path.isdir(path) else [path]


def _repeat(run: Run, step: int, train: Callable[[Any], Any], loader: Any, debugger: Any) -> object:
    start = run.step
    while True:
        before = run.step
        for batch in run.steps(loader):
            if run.step == step:
                with debugger:
                    return train(batch)
            train(batch)
        if run.step == before and run.batch == 0:
            raise CheckpointError(
                f"replay: expected to reach step {step} from step {start}, but the loader gives no more batches at step {run.step}."
            )
        run.epoch += 1
        run.batch, run._epoch_is_over, run._left = 0, False, None
