"""`save_run` and `load_run`: everything that a program needs to continue as if it had not stopped, in one file, or the last and the best
of them in a folder.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import warnings
from dataclasses import dataclass, field
from numbers import Real
from os import PathLike
from typing import Any

from dynograd.base.files import Source, open_ordinary
from dynograd.errors import CheckpointError, user_level
from dynograd.runs.parts import RESERVED, Parts, check_names, load_states, states_of
from dynograd.runs.random_states import global_state, set_global_state
from dynograd.runs.ranks import Ranks
from dynograd.runs.shards import read_shards, remove_file, remove_shards, write_shards
from dynograd.saving import checkpoint_files, serialization
from dynograd.saving.checkpoint_trees import Reader

__all__ = ["SavedRun", "load_run", "save_run", "saved_runs"]

_NAME = re.compile(r"save-(\d{6,})-step-(\d+)\.safetensors")
_VERSION = 1


@dataclass
class SavedRun:
    """A run as it was saved: what `load_run` returns.

    Args:
        path: the file.
        step, score, extra: as they were given to `save_run`.
        parts: the names of what the file holds.

    >>> import os, tempfile
    >>> path = dynograd.save_run(os.path.join(tempfile.mkdtemp(), "run.safetensors"), extra=[1], step=3)
    >>> saved = dynograd.load_run(path)
    >>> saved.step, saved.extra
    (3, [1])
    """

    path: str
    step: int | None = None
    score: float | None = None
    extra: Any = None
    parts: tuple[str, ...] = field(default=())
    """Names of what is in the file beside `extra`."""


def save_run(
    path: str | PathLike[str],
    *,
    model: Any = None,
    optimizer: Any = None,
    scheduler: Any = None,
    scaler: Any = None,
    loader: Any = None,
    generator: Any = None,
    extra: Any = None,
    step: int | None = None,
    score: float | None = None,
    keep_last: int | None = None,
    keep_best: int | None = None,
    best: str = "max",
    **others: Any,
) -> str:
    """Saves the state of everything given, and of the random generators, and returns the path of the file.

    Every argument may be one object, or a list, tuple or dict of them. The global generators of dynograd (all devices draw from it),
    Python's `random` and NumPy are saved without being named. The file is written completely or not at all. Of several processes
    (`dynograd.distributed`) all call it, and write a part each into a folder beside the file.

    Args:
        path: the file; with `keep_last` or `keep_best`, or where it is one, a folder that gets a file for each save.
        model, optimizer, scheduler, scaler, loader, others: what has `state_dict()` and `load_state_dict()`; `others` by any name.
        generator: random generators of your own (dynograd's, NumPy's `Generator` or `RandomState`, Python's `random.Random`).
        extra: numbers, strings, tensors, and lists and dicts of them, as for `save`.
        step: the number of steps that were done.
        score: how good the model is now; finite, or None.
        keep_last: how many of the newest files stay in the folder.
        keep_best: how many of those with the best `score` stay there beside them.
        best: "max" or "min": which scores are good.
    Raises:
        CheckpointError: the file cannot be written; what was there before is untouched.
        TypeError: a part has no state.
    Returns:
        The path of the file.

    >>> import os, tempfile
    >>> model = dynograd.nn.Linear(2, 1)
    >>> path = os.path.join(tempfile.mkdtemp(), "run.safetensors")
    >>> _ = dynograd.save_run(path, model=model, extra={"epoch": 3}, step=100)
    >>> found = dynograd.load_run(path, model=model)
    >>> found.step, found.extra
    (100, {'epoch': 3})
    """
    named = dict(
        model=model, optimizer=optimizer, scheduler=scheduler, scaler=scaler, loader=loader, generator=generator
    )
    parts = check_names("save_run", named | others)
    _check_rotation(step, score, keep_last, keep_best, best)
    return write_run(
        path, parts, global_state(), extra, step, score, keep_last=keep_last, keep_best=keep_best, best=best
    )


def write_run(
    path: Any,
    parts: Parts,
    random: Any,
    extra: Any,
    step: int | None,
    score: float | None,
    *,
    keep_last: int | None = None,
    keep_best: int | None = None,
    best: str = "max",
    about: Any = None,
) -> str:
    """`save_run`; `about` is kept beside step and score. With several processes all of them call it."""
    target, ranks = os.fspath(path), Ranks()
    about = {"version": _VERSION, "step": step, "score": score, **(about or {})}

    def write(file: str) -> None:
        if ranks:
            write_shards(file, ranks, parts, random, extra, about)
            return
        serialization.save({"run": about, **states_of(parts), "random": random, "extra": extra}, file)
        remove_shards(file)

    if keep_last is None and keep_best is None and not os.path.isdir(target):
        write(target)
        return target
    with _told("save_run", target):
        os.makedirs(target, exist_ok=True)
    older = saved_runs(target)
    number = 1 + max([_number(file) for file in older], default=0)
    newest = os.path.join(target, f"save-{number:06d}-step-{0 if step is None else step}.safetensors")
    write(newest)
    if (keep_last is not None or keep_best is not None) and ranks.rank == 0:
        _rotate([newest, *older], keep_last, keep_best, best)
    return newest


def saved_runs(folder: str | PathLike[str]) -> list[str]:
    """The files that `save_run` has written to a folder, the newest first.

    Args:
        folder: its path.
    Returns:
        A list of paths; empty where there is no such folder.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> for step in (1, 2, 3):
    ...     _ = dynograd.save_run(folder, extra=step, step=step, keep_last=2)
    >>> len(dynograd.runs.saved_runs(folder))
    2
    """
    names = [name for name in os.listdir(folder) if _NAME.fullmatch(name)]
    return [os.path.join(os.fspath(folder), name) for name in sorted(names, key=_number, reverse=True)]


def load_run(
    path: str | PathLike[str],
    *,
    model: Any = None,
    optimizer: Any = None,
    scheduler: Any = None,
    scaler: Any = None,
    loader: Any = None,
    generator: Any = None,
    best: str | None = None,
    random: bool = True,
    map_location: Any = None,
    **others: Any,
) -> SavedRun:
    """Gives every object its state out of a file of `save_run`, and the random generators theirs; returns the rest.

    Nothing is changed before the whole file has been read and its checksums are right. What is not asked for is left in the file.

    Args:
        path: the file, or the folder: then the newest file, and an older one (with a warning) where that is damaged.
        model, optimizer, scheduler, scaler, loader, generator, others: the objects, as for `save_run`.
        best: "max" or "min": of a folder the file with the best score instead of the newest.
        random: put the global random generators back too; False for a model that is only to be used.
        map_location: as in `load`.
    Returns:
        A `SavedRun`: step, score, extra and the path of the file.
    Raises:
        FileNotFoundError: there is nothing saved there.
        CheckpointError: the file is damaged, is no run, or lacks a part that is asked for.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "run.safetensors")
    >>> _ = dynograd.save_run(path, model=dynograd.nn.Linear(2, 1), step=100)
    >>> dynograd.load_run(path, model=dynograd.nn.Linear(2, 1)).step
    100
    """
    named = dict(
        model=model, optimizer=optimizer, scheduler=scheduler, scaler=scaler, loader=loader, generator=generator
    )
    parts = check_names("load_run", named | others)
    saved_run, whole = read_run(path, best, map_location)
    load_states(parts, {name: whole[name] for name in saved_run.parts}, repr(saved_run.path))
    if random:
        set_global_state(whole["random"])
    return saved_run


def read_run(path: Any, best: str | None = None, map_location: Any = None) -> tuple[SavedRun, dict[str, Any]]:
    """(what `load_run` returns, the whole content) of a file or the newest whole file of a folder."""
    target = os.fspath(path)
    candidates = saved_runs(target) if os.path.isdir(target) else [target]
    if not candidates or not os.path.exists(candidates[0]):
        raise FileNotFoundError(f"load_run: nothing is saved at {target!r}. Check the path, or begin with save_run.")
    if best is not None:
        _check_rotation(None, None, None, None, best)
        candidates = _by_score(candidates, best) or candidates
    damaged: CheckpointError | None = None
    for candidate in candidates:
        try:
            return _read_file(candidate, map_location)
        except CheckpointError as error:
            if len(candidates) == 1:
                raise
            damaged = damaged or error
            warnings.warn(f"load_run: {error} Trying the one before.", stacklevel=user_level())
    assert damaged is not None
    raise CheckpointError(
        f"load_run: none of the {len(candidates)} files in {target!r} is whole; the newest: {damaged}"
    ) from damaged


def _read_file(path: str, map_location: Any) -> tuple[SavedRun, dict[str, Any]]:
    whole = serialization.load(path, map_location)
    about = whole.get("run") if isinstance(whole, dict) else None
    if (
        not isinstance(about, dict)
        or type(about.get("version")) is not int
        or not {"step", "score"} <= set(about)
        or not {"random", "extra"} <= set(whole)
    ):
        raise CheckpointError(
            f"load_run: {path} is a checkpoint, but not of save_run. Read it with dynograd.load, and load_state_dict."
        )
    if about["version"] > _VERSION:
        raise CheckpointError(
            f"load_run: {path} has version {about['version']} of runs, this dynograd reads {_VERSION}. Update dynograd."
        )
    if "shards" in about:
        whole = read_shards(path, whole, map_location)
        if not {"random", "extra"} <= set(whole):
            raise CheckpointError(f"load_run: {path} is damaged: its parts lack 'random' or 'extra'. Use an older run.")
    names = tuple([name for name in whole if name not in RESERVED])
    return SavedRun(path, about["step"], about["score"], whole["extra"], names), whole


def _rotate(files: list[str], keep_last: int | None, keep_best: int | None, best: str) -> None:
    """Removes the files that are neither among the newest nor among the best; the newest stays always."""
    kept = set(files[: max(1, keep_last or 1)])
    if keep_best:
        kept |= set(_by_score(files, best)[:keep_best])
    for file in files:
        if file not in kept:
            with contextlib.suppress(OSError):
                remove_file(file)


def _by_score(files: list[str], best: str) -> list[str]:
    """Those that have a score, the best first, the newest of equals first."""
    scores = {file: _score(file) for file in files}
    sign = 1 if best == "min" else -1
    return sorted([file for file in files if scores[file] is not None], key=lambda file: sign * scores[file])


def _score(path: str) -> Any:
    """The score in a file's header; None for a file without one, or that cannot be read."""
    try:
        with open_ordinary(path) as file, Source(file, path) as source:
            tree = checkpoint_files.metadata_of(source, path)
        if tree is None:  # too long for the header
            about = serialization.load(path, "cpu")["run"]
        else:
            about = Reader(path, {}).read(next(value for key, value in tree["items"] if key == "run"))
        score = about["score"]
    except (OSError, CheckpointError, TypeError, KeyError, StopIteration, ValueError):
        return None
    return score if isinstance(score, Real) else None


def _number(path: str) -> int:
    match = _NAME.fullmatch(os.path.basename(path))
    assert match is not None
    return int(match[1])


def _check_rotation(step: Any, score: Any, keep_last: Any, keep_best: Any, best: str) -> None:
    if step is not None and (not isinstance(step, int) or step < 0):
        raise ValueError(f"save_run: expected step >= 0 or None, got {step!r}.")
    if score is not None and not (isinstance(score, Real) and math.isfinite(score)):
        raise ValueError(
            f"save_run: expected a finite number as score, got {score!r}. Pass score=None, or loss.item()."
        )
    for name, value in (("keep_last", keep_last), ("keep_best", keep_best)):
        if value is not None and (not isinstance(value, int) or value < 1):
            raise ValueError(f"save_run: expected {name} >= 1 or None, got {value!r}.")
    if best not in ("max", "min"):
        raise ValueError(f"best: expected 'max' or 'min', got {best!r}.")


@contextlib.contextmanager
def _told(who: str, path: str) -> Any:
    try:
        yield
    except OSError as error:
        raise CheckpointError(
            f"{who}: could not make the folder {path!r}: {error.strerror or error}. Check the path and its permissions."
        ) from error
