"""Runs of several processes on the disk: each process writes a part of the tensors and what is its own, and one small file makes them valid.

    run.safetensors                              the commit: which parts belong together, and all that is no tensor
    run.safetensors.shards/000007-00001-of-00004.safetensors

The parts are on the disk before the commit is moved to its place, and those of the run before are deleted behind that: whenever processes are
killed, the old run or the new one is there. Tensors that all processes have alike are divided among them; of others the first process's count.
Loaders, generators and slices of optimizers are each process's own.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import zlib
from typing import Any

from dynograd import arrays
from dynograd.base.files import Source, open_ordinary, write_atomically
from dynograd.errors import CheckpointError
from dynograd.runs.parts import Parts, divided, put_in, rank_state
from dynograd.runs.ranks import Ranks
from dynograd.saving import checkpoint_files, serialization
from dynograd.saving.checkpoint_trees import Reader, Writer

__all__ = ["bytes_of_run", "read_shards", "remove_file", "remove_shards", "write_shards"]

_NAME = re.compile(r"(\d{6,})-(\d{5})-of-(\d{5})\.safetensors")


def write_shards(target: str, ranks: Ranks, parts: Parts, random: Any, extra: Any, about: dict[str, Any]) -> None:
    """Saves a run of all processes at `target`; they call it together.

    Raises:
        CheckpointError: in all processes, if one of them could not write; what was there before is untouched.
    """
    call = f"save_run of {os.path.basename(target)!r}"
    common, own = divided(parts)
    writer, own_writer = Writer(), Writer()
    tree = writer.text({**common, "extra": extra})
    own = {**own, "random": random}
    own_tree = own_writer.describe({"own": own}, "random")
    folder = target + ".shards"
    sums = {name: zlib.crc32(arrays.bytes_of(entry)) for name, entry in writer.entries.items()}
    mine = {"number": 1 + _last(folder), "sums": sums, "own": {place: _digest(state) for place, state in own.items()}}
    everyone = ranks.gathered(call, mine)
    number = everyone[0]["number"]
    names = [f"{number:06d}-{rank:05d}-of-{ranks.size:05d}.safetensors" for rank in range(ranks.size)]
    owners = _owners(writer.entries, [entry["sums"] for entry in everyone])
    entries = {name: entry for name, entry in writer.entries.items() if owners.get(name) == ranks.rank}
    path = os.path.join(folder, names[ranks.rank])
    error: BaseException | None = None
    try:
        _make(folder)
        text = json.dumps(own_tree, separators=(",", ":"))
        write_atomically(
            path, lambda output: checkpoint_files.write({**entries, **own_writer.entries}, text, output), "save_run"
        )
    except CheckpointError as problem:
        error = problem
    try:
        ranks.raise_together(call, error)
    except CheckpointError:
        _unlink(path)
        raise
    if ranks.rank == 0:
        digests = {place: [entry["own"].get(place) for entry in everyone] for place in own}
        commit = {"run": {**about, "shards": names, "own": digests}, "random": None, "extra": None, "tree": tree}
        try:
            _check_there(folder, names)
            serialization.save(commit, target)
        except CheckpointError as problem:
            error = problem
    try:
        ranks.raise_together(call, error)
    except CheckpointError:
        if not ranks.largest(call, [ranks.rank == 0 and _names_in(target) == names])[0]:
            _unlink(path)
        raise
    if ranks.rank == 0:
        _remove_others(folder, set(names))


def read_shards(path: str, whole: dict[str, Any], map_location: Any) -> dict[str, Any]:
    """The content of a run, as a process of this rank is to have it.

    Raises:
        CheckpointError: a part is missing or damaged; or another number of processes has saved what each had of its own.
    """
    try:
        return _read_shards(path, whole, map_location)
    except CheckpointError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError) as error:
        raise CheckpointError(
            f"load_run: {path} is damaged: what it says of its parts cannot be read ({type(error).__name__}: {str(error)[:100]}). Use an "
            f"older run."
        ) from error


def _read_shards(path: str, whole: dict[str, Any], map_location: Any) -> dict[str, Any]:
    about, folder, ranks = whole["run"], path + ".shards", Ranks()
    entries: dict[str, Any] = {}
    own: list[Any] = []
    for name in about["shards"]:
        if not _NAME.fullmatch(str(name)):
            raise CheckpointError(f"load_run: {path} names the part {str(name)[:80]!r}, which is none: it is not read.")
        part = os.path.join(folder, name)
        try:
            with open_ordinary(part) as file, Source(file, part) as source:
                arrays_of_part, tree = checkpoint_files.read(source, part)
        except FileNotFoundError:
            raise CheckpointError(
                f"load_run: {path} was saved by {len(about['shards'])} processes, and the part {part} is missing. Copy the folder "
                f"{os.path.basename(folder)!r} too."
            ) from None
        own.append(Reader(part, arrays_of_part, map_location).read(tree)["own"])
        entries |= arrays_of_part
    content = Reader(path, entries, map_location).read(json.loads(whole["tree"]))
    for place in about["own"]:
        state = rank_state([states[place] for states in own], about["own"][place], ranks.rank, ranks.size, place, path)
        if place == "random":
            content["random"] = state
        else:
            put_in(content, place, state)
    return {"run": about, **content}


def bytes_of_run(path: str) -> int:
    """How many bytes a run has on the disk."""
    files, total = [path], 0
    with contextlib.suppress(FileNotFoundError):
        files += [entry.path for entry in os.scandir(path + ".shards")]
    for file in files:
        with contextlib.suppress(FileNotFoundError):  # of the run before, which the first process removes
            total += os.path.getsize(file)
    return total


def remove_file(path: str) -> None:
    """Removes a run, and the parts that belong to it."""
    os.unlink(path)
    remove_shards(path)


def remove_shards(path: str) -> None:
    """Removes the parts of a run that is one file now, or no more."""
    if os.path.isdir(path + ".shards"):
        shutil.rmtree(path + ".shards", ignore_errors=True)


def _make(folder: str) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise CheckpointError(
            f"save_run: could not make the folder {folder!r}: {error.strerror or error}. Check the path and its permissions."
        ) from error


def _last(folder: str) -> int:
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return max([int(match[1]) for name in names if (match := _NAME.fullmatch(name))], default=0)


def _owners(entries: dict[str, Any], sums: list[dict[str, int]]) -> dict[str, int]:
    """Which process writes which tensor: the first one what others have otherwise, and the rest by size."""
    loads = [0] * len(sums)
    owners = {}
    for name in sorted(entries, key=lambda name: (-arrays.bytes_of(entries[name]).nbytes, name)):
        is_common = all([entry.get(name) == sums[0].get(name) for entry in sums])
        owner = loads.index(min(loads)) if is_common else 0
        owners[name] = owner
        loads[owner] += arrays.bytes_of(entries[name]).nbytes
    return owners


def _digest(state: Any) -> int:
    """A checksum of a state, without what a loader has measured."""
    if isinstance(state, dict):
        state = {name: value for name, value in state.items() if name != "statistics"}
    writer = Writer()
    total = zlib.crc32(writer.text(state).encode())
    for entry in writer.entries.values():
        total = zlib.crc32(arrays.bytes_of(entry), total)
    return total


def _check_there(folder: str, names: list[str]) -> None:
    absent = [name for name in names if not os.path.exists(os.path.join(folder, name))]
    if absent:
        raise CheckpointError(
            f"save_run: {absent[0]} was written, but is not in {folder!r} as the first process sees it. Save on a file system that all hosts "
            f"share."
        )


def _names_in(target: str) -> list[str] | None:
    """The parts of the run that is there now."""
    try:
        return serialization.load(target, "cpu")["run"].get("shards")
    except (OSError, CheckpointError, KeyError, TypeError, AttributeError):
        return None


def _remove_others(folder: str, names: set[str]) -> None:
    for name in os.listdir(folder):
        if _NAME.fullmatch(name) and name not in names:
            _unlink(os.path.join(folder, name))


def _unlink(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)
