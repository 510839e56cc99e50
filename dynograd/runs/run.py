"""`Run`: a training loop that continues where it was killed, can go back in time, and finds what made a loss NaN."""

from __future__ import annotations

import copy
import os
import signal
import time
from collections.abc import Callable, Iterator
from os import PathLike
from typing import Any

from dynograd.distributed.starting import is_of_this_job, told_by
from dynograd.errors import CheckpointError
from dynograd.runs.nonfinite import Search, is_finite, problem_of, words_of
from dynograd.runs.parts import check_names, load_states, size_of, states_of
from dynograd.runs.random_states import global_state, set_global_state
from dynograd.runs.ranks import Ranks
from dynograd.runs.saving import _check_rotation, read_run, saved_runs, write_run
from dynograd.runs.schedule import Schedule
from dynograd.runs.shards import bytes_of_run, remove_file
from dynograd.runs.snapshots import Snapshot, Snapshots, copied
from dynograd.runs.stopping import StopRequests
from dynograd.tensor.tensor import Tensor

__all__ = ["Run"]


class Run:
    """Everything that a training loop must not lose, and the loop's place in it.

    A run that is started again with the same arguments continues after the last step that was saved, within an epoch too, and comes
    to the same bits as one that was never interrupted; the number of the loader's workers may be another.

    Of several processes (`dynograd.distributed`) all make the run, behind `init_process_group`, and save, stop and go back after the same
    step; `extra` is saved by the first one.

    `step` counts the steps that are done, `epoch` the epochs, `batch` the batches of this epoch; `extra` is yours: a dict of numbers,
    strings and tensors that is saved too. `resumed` says whether this is a continuation.

    Args:
        path: file of the run, or a folder with `keep_last` or `keep_best`. None: nothing is saved or resumed.
        model, optimizer, scheduler, scaler, loader, generator, others: as for `save_run`.
        extra: what `run.extra` begins with.
        config: what must be the same when the run is continued (seed, sizes, ...): data, compared on resume.
        save_every: save after so many steps, however long that takes.
        save_seconds: save when so many seconds have passed. Without it and `save_every`: after each epoch, and within epochs every
            60 seconds. Both more seldom where saving would take more than `save_share` of the time or write more than `save_rate`
            (but a folder of `keep_last` or `keep_best` gets each epoch). The end and signals are always saved, and nothing is when
            no step was done since the last save.
        save_share: the most of the run's time that saving by time takes, 0 to 1. None: any.
        save_rate: the most bytes a second that saving by time writes on average. None: any.
        keep_last, keep_best, best: as for `save_run`; the score is `run.score`, which you set.
        snapshot_every: copy everything in memory after so many steps, for `rewind` and `check`. 0: never.
        snapshots: how many copies are kept.
        stop_on: signals that save and end the program after the step that is running.
        fresh: begin anew even if there is something to continue; the next save takes its place. What a job has saved that the launcher
            starts again (`--restarts`) is continued all the same.
    Raises:
        CheckpointError: what is at `path` is damaged, of another `config`, or no run.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "run.safetensors")
    >>> model = dynograd.nn.Linear(1, 1)
    >>> optimizer = dynograd.optim.SGD(model.parameters(), lr=0.1)
    >>> with dynograd.Run(path, model=model, optimizer=optimizer, save_every=2) as run:
    ...     for epoch in run.epochs(2):
    ...         for x in run.steps([tensor([[1.0]]), tensor([[2.0]])]):
    ...             loss = model(x).square().mean()
    ...             optimizer.zero_grad()
    ...             loss.backward()
    ...             optimizer.step()
    >>> run.step, run.epoch
    (4, 2)
    """

    def __init__(
        self,
        path: str | PathLike[str] | None,
        *,
        model: Any = None,
        optimizer: Any = None,
        scheduler: Any = None,
        scaler: Any = None,
        loader: Any = None,
        generator: Any = None,
        extra: dict[str, Any] | None = None,
        config: object = None,
        save_every: int | None = None,
        save_seconds: float | None = None,
        save_share: float | None = 0.02,
        save_rate: float | None = 10e6,
        keep_last: int | None = None,
        keep_best: int | None = None,
        best: str = "max",
        snapshot_every: int = 0,
        snapshots: int = 3,
        stop_on: tuple[signal.Signals, ...] = (signal.SIGTERM,),
        fresh: bool = False,
        **others: Any,
    ) -> None:
        named = dict(
            model=model, optimizer=optimizer, scheduler=scheduler, scaler=scaler, loader=loader, generator=generator
        )
        _check_rotation(None, None, keep_last, keep_best, best)
        _check_copies(snapshot_every, snapshots)
        self._schedule = Schedule(save_every, save_seconds, save_share, save_rate, bool(keep_last or keep_best))
        self.parts = check_names("Run", named | others)
        self.path = None if path is None else os.fspath(path)
        self.loader = loader
        self.extra: dict[str, Any] = {} if extra is None else extra
        self.config = config
        self.step = self.epoch = self.batch = 0
        self.score: float | None = None
        self.resumed = False
        self._epoch_is_over = False
        self._saving = {"keep_last": keep_last, "keep_best": keep_best, "best": best}
        self._saved_step: tuple[int, int] | None = None
        self._snapshot_every, self._snapshots = snapshot_every, Snapshots(snapshots)
        self._stop = StopRequests(stop_on)
        self._ranks = Ranks()
        self._stopped: int | None = None  # the rank that a signal has stopped
        self._jump: tuple[Snapshot, Callable[[], Any] | None] | None = None
        self._search: Search | None = None
        self._left: tuple[Any, Iterator[Any]] | None = None
        self._in_step = False  # an error may leave a step half done
        if self.path is not None and _has_run(self.path) and (not fresh or is_of_this_job(_newest(self.path))):
            self._resume()
        self._check_place()

    # --- the loop -------------------------------------------------------------------------------------------------------------

    def epochs(self, count: int) -> Iterator[int]:
        """The numbers of the epochs that are still to be done, of `count`; the epoch that was interrupted comes first.

        Args:
            count: how many epochs the whole run has.
        Returns:
            An iterator of ints.

        >>> run = dynograd.Run(None, model=dynograd.nn.Linear(1, 1))
        >>> [epoch for epoch in run.epochs(2)]
        [0, 1]
        """
        while self.epoch < count:
            yield self.epoch
            if self._jump is not None:  # a rewind into an earlier epoch: what the loop did since does not count
                self._go_back()
                self._jump = None
                continue
            self.epoch += 1
            self.batch, self._epoch_is_over, self._left = 0, False, None
            self._boundary(epoch_is_over=True)

    def steps(self, loader: Any = None, until: int | None = None) -> Iterator[Any]:
        """The batches of this epoch that are still to be done. After the body of your loop the step counts as done: then the run is
        saved, copied or stopped if it is time to. (A step that you leave with `break` does not count.)

        Args:
            loader: anything to iterate over; the `loader` of the run by default. What has no `load_state_dict` is iterated from its
                beginning, and the batches that were done are passed over.
            until: stop when `step` is this.
        Returns:
            An iterator of the loader's batches.

        >>> run = dynograd.Run(None, model=dynograd.nn.Linear(1, 1))
        >>> for epoch in run.epochs(1):
        ...     for batch in run.steps(["a", "b"]):
        ...         print(run.step, batch)
        0 a
        1 b
        """
        loader = self.loader if loader is None else loader
        if loader is None:
            raise ValueError("Run.steps: there is no loader to iterate over. Pass one here or to Run(loader=...).")
        if self._snapshot_every and not self._snapshots.held:
            self._take_snapshot()
        while not self._epoch_is_over and self.step != until:
            epoch = self.epoch
            iterator = self._rest_of(loader)
            for batch in iterator:
                if self._search is not None:
                    self._search.begin(batch)
                self._in_step = True
                yield batch
                self._in_step = False
                self.step += 1
                self.batch += 1
                self._boundary()
                if self._jump is not None:
                    break
                if self.step == until:
                    self._left = loader, iterator  # the loader's place in the epoch lives as long as this
                    break
            else:
                self._epoch_is_over = True
            if self._jump is not None and epoch == self.epoch:
                self._jump = None
            elif self._jump is not None:
                return

    def check(self, loss: Tensor | float) -> bool:
        """Whether `loss` is finite. If it is not, the run goes back, after this step, to the last copy in memory without NaN, repeats
        the steps from there while it watches every op, and raises NonFiniteError, which names step, batch, op and your line.

        Args:
            loss: a tensor of one element or a number.
        Returns:
            True or False.

        >>> run = dynograd.Run(None, model=dynograd.nn.Linear(1, 1), snapshot_every=10)
        >>> run.check(tensor(1.0))
        True
        """
        own_is_finite = is_finite(loss)
        if not self._ranks.largest("Run.check", [not own_is_finite])[0]:
            return True
        if self._search is not None:
            if own_is_finite:
                raise problem_of(self, "the loss of another process is not finite: its error says which op it was")
            raise self._search.found(self, loss)
        start = self._snapshots.last_finite()
        if start is None:
            hint = (
                "the oldest copy in memory has NaN already: keep more with snapshots=, or check each step"
                if self._snapshots.held
                else "to find the op, make the Run with snapshot_every=100"
            )
            raise problem_of(self, f"the loss is {words_of(loss)}; {hint}")
        self._search = Search(self.step, self.epoch, self.batch)
        self._jump = start, None
        return False

    def rewind(self, step: int, then: Callable[[], Any] | None = None) -> int:
        """Goes back to the newest copy in memory that is not after `step`. `steps` goes on from there.

        What the body of your loop does after this does not count: the copy is put back once more when it is over.

        Args:
            step: the step to go back to, or before.
            then: called when everything is as it was, to do something else this time: lower the learning rate, draw a number.
        Returns:
            The step of the copy.
        Raises:
            ValueError: there is no such copy; the message lists those there are.
        """
        snapshot = self._snapshots.before(step)
        if snapshot is None:
            there = ", ".join(str(kept.step) for kept in self._snapshots.held) or "none"
            raise ValueError(
                f"Run.rewind: expected a step from which there is a copy, got {step}; there are copies of steps {there}. Make the Run with "
                f"snapshot_every= (here {self._snapshot_every}) and snapshots= (here {self._snapshots.most})."
            )
        self._jump = snapshot, then
        self._go_back()
        return snapshot.step

    # --- saving ---------------------------------------------------------------------------------------------------------------

    def save(self) -> str | None:
        """Saves now; call it between steps, for what is done in a step comes again when the run is continued.

        Returns:
            The path of the file; None for a run without a path.

        >>> run = dynograd.Run(None, model=dynograd.nn.Linear(1, 1))
        >>> run.save() is None
        True
        """
        if self.path is None:
            return None
        began = time.monotonic()
        written = write_run(
            self.path,
            self.parts,
            global_state(),
            {"extra": self.extra, "place": self._place(), "config": self.config},
            self.step,
            self.score,
            about={"run": True},
            **self._saving,  # type: ignore[arg-type]
        )
        self._schedule.note(began, bytes_of_run(written))
        self._saved_step = self.step, self.epoch
        return written

    def remove(self) -> None:
        """Removes what was saved, so that the next start begins anew.

        >>> dynograd.Run(None, model=dynograd.nn.Linear(1, 1)).remove()
        """
        if self.path is not None and self._ranks.rank == 0:
            files = saved_runs(self.path) if os.path.isdir(self.path) else [self.path]
            for file in files:
                if os.path.exists(file):
                    remove_file(file)
        self._ranks.gathered("Run.remove", None)
        self._saved_step = self.step, self.epoch

    def __enter__(self) -> Run:
        self._stop.__enter__()
        return self

    def __exit__(self, kind: Any, *error: Any) -> None:
        self._stop.__exit__()
        if self._search is not None:
            self._search.stop()
        if kind is None and self._saved_step != (self.step, self.epoch):
            self.save()

    def __repr__(self) -> str:
        return f"Run({self.path!r}, step={self.step}, epoch={self.epoch}, batch={self.batch})"

    # --- between two steps ------------------------------------------------------------------------------------------------------

    def _boundary(self, epoch_is_over: bool = False) -> None:
        if self._jump is not None:
            self._go_back()
            if self._search is not None:
                self._search.start(self)
            return
        if self._search is not None:
            self._search.end(self)
        if self._snapshot_every and not epoch_is_over and self.step % self._snapshot_every == 0:
            self._take_snapshot()
        saves = self.path is not None and self._is_time_to_save(epoch_is_over)
        stops = self._stop.signal
        self._ranks.note_step(self.step)
        if self._ranks:
            where = f"the end of epoch {self.epoch - 1}" if epoch_is_over else f"step {self.step - 1}"
            rank = -1 if stops is None else self._ranks.rank
            own = [
                stops or 0,
                rank,
                saves and self._ranks.rank == 0,
            ]  # clocks differ: the first one says when
            stop, self._stopped, save = self._ranks.largest(f"Run behind {where}", own)
            stops, saves = signal.Signals(stop) if stop else None, bool(save)
        if stops is not None:  # what comes meanwhile is for the next time, when all ranks hear of it
            self._stop.signal = stops
            self._save_and_stop()
        if saves:
            self.save()

    def _is_time_to_save(self, epoch_is_over: bool) -> bool:
        if self._search is not None:
            return False
        if self._saved_step == (self.step, self.epoch):
            return False
        return self._schedule.is_due(self.step, epoch_is_over, lambda: size_of(self._content()))

    def _save_and_stop(self) -> None:
        assert self._stop.signal is not None
        written = self.save()
        where = "" if written is None else f"; saved at step {self.step} in {written}"
        if self._stop.signal == signal.SIGINT:
            raise KeyboardInterrupt(f"stopped by {self._stop.signal.name}{where}")
        if self._ranks.rank == 0:
            print(f"stopped by {self._stop.signal.name}{where}", flush=True)
        raise told_by(SystemExit(128 + self._stop.signal), self._stopped, f"was stopped by {self._stop.signal.name}")

    def _rest_of(self, loader: Any) -> Iterator[Any]:
        left, self._left = self._left, None
        if left is not None and left[0] is loader:
            return left[1]
        iterator = iter(loader)
        if self.batch and not self._keeps(loader):
            for _ in range(self.batch):
                if next(iterator, iterator) is iterator:
                    break
        return iterator

    def _keeps(self, loader: Any) -> bool:
        """Whether the loader's place in the epoch is a part of this run."""
        registered = self.parts.get("loader")
        return any(
            own is loader
            for own in (
                registered.values()
                if isinstance(registered, dict)
                else registered
                if isinstance(registered, (list, tuple))
                else [registered]
            )
        )

    # --- states -----------------------------------------------------------------------------------------------------------------

    def _check_place(self) -> None:
        """All processes go on from the same place."""
        self._ranks.note_step(self.step)
        places = self._ranks.gathered("Run", (self.step, self.epoch, self.batch))
        if len(set(places)) > 1:
            raise CheckpointError(
                f"Run: processes find different things at {self.path!r}: (step, epoch, batch) of the ranks are {places}. Give a path that all "
                f"hosts share."
            )

    def _place(self) -> dict[str, Any]:
        return {
            "step": self.step,
            "epoch": self.epoch,
            "batch": self.batch,
            "over": self._epoch_is_over,
            "score": self.score,
        }

    def _content(self) -> dict[str, Any]:
        return {"states": states_of(self.parts), "random": global_state(), "place": self._place()}

    def _take_snapshot(self) -> None:
        self._snapshots.take(self.step, {**self._content(), "extra": self.extra})

    def _go_back(self) -> None:
        assert self._jump is not None
        snapshot, then = self._jump
        self._left = None
        content = copied(snapshot.content)
        load_states(self.parts, content["states"], f"the copy of step {snapshot.step}")
        set_global_state(content["random"])
        self._set_place(content["place"], content["extra"])
        if then is not None:
            then()

    def _set_place(self, place: dict[str, Any], extra: dict[str, Any]) -> None:
        self.step, self.epoch, self.batch = place["step"], place["epoch"], place["batch"]
        self._epoch_is_over, self.score = place["over"], place["score"]
        self.extra.clear()
        self.extra.update(extra)

    def _resume(self) -> None:
        saved_run, whole = read_run(self.path)
        if not whole["run"].get("run"):
            raise CheckpointError(
                f"Run: {saved_run.path} was written by save_run, which keeps no place in the loop. Continue it with load_run, or give another path."
            )
        config = copy.deepcopy(self.config)
        if saved_run.extra["config"] != config:
            raise CheckpointError(
                f"Run: {saved_run.path} was begun with {_difference(saved_run.extra['config'], config)}. Use the same to continue, fresh=True to "
                f"begin anew, or another path."
            )
        load_states(self.parts, {name: whole[name] for name in saved_run.parts}, repr(saved_run.path))
        set_global_state(whole["random"])
        self._set_place(saved_run.extra["place"], saved_run.extra["extra"])
        self.resumed = True
        self._saved_step = self.step, self.epoch


def _has_run(path: str) -> bool:
    return bool(saved_runs(path)) if os.path.isdir(path) else os.path.exists(path)


def _newest(path: str) -> str:
    return saved_runs(path)[0] if os.path.isdir(path) else path


def _difference(before: Any, now: Any) -> str:
    if isinstance(before, dict) and isinstance(now, dict):
        names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
        return ", ".join(f"{name}={before.get(name)!r}, now {now.get(name)!r}" for name in names)
    return f"config={before!r}, now {now!r}"


def _check_copies(snapshot_every: Any, snapshots: Any) -> None:
    for name, value, least in (("snapshot_every", snapshot_every, 0), ("snapshots", snapshots, 1)):
        if value is not None and (not isinstance(value, int) or value < least):
            raise ValueError(f"Run: expected {name} >= {least}, got {value!r}.")
