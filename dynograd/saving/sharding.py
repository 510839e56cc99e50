"""State_dicts spread over several files of a folder, as Hugging Face's libraries lay them out.

`model.safetensors.index.json` (or `pytorch_model.bin.index.json`) says which file holds which tensor: {"metadata": {"total_size":
bytes}, "weight_map": {tensor: file}}. The index is written last, so a folder is complete when it is there.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

from dynograd.base.files import open_ordinary, write_atomically
from dynograd.errors import CheckpointError
from dynograd.saving import checkpoint_files
from dynograd.tensor.tensor import Tensor

__all__ = ["Shards", "is_sharded", "memory_of", "name_parts", "remove_parts", "save", "size_of", "write_part"]

INDEX = "model.safetensors.index.json"
INDICES = (INDEX, "pytorch_model.bin.index.json")
ALONE = ("model.safetensors", "pytorch_model.bin")
_SHARD = re.compile(r"-\d{5}-of-(?!00001)\d{5}\.")  # in the name of one file of several
_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}
_LONGEST_INDEX = 1 << 28


def is_sharded(path: str) -> bool:
    """Whether the path is that of a folder or an index instead of a file with tensors."""
    return path.endswith(".index.json") or os.path.isdir(path)


class Shards:
    """The files of a folder, or those that an index names.

    Args:
        path: the folder, or its index.
        load: reads one file, given its path.
    Raises:
        CheckpointError: there is no index, it is damaged, or a file that it names is missing.
    """

    def __init__(self, path: str, load: Callable[[str], Any]) -> None:
        self.path, self.load = path, load
        self.folder = path if os.path.isdir(path) else os.path.dirname(path)
        self.names: dict[str, list[str]] = {}  # of the tensors in each file, in the order of the index
        index = self._index()
        if index is None:
            return
        for name, file in self._weight_map(index).items():
            self.names.setdefault(file, []).append(name)
        self.files = list(self.names)
        absent = [file for file in self.files if not os.path.isfile(os.path.join(self.folder, file))]
        if absent:
            raise self._error(
                f"lacks {len(absent)} of its {len(self.files)} files: {', '.join(absent[:5])}. Download or copy them too."
            )

    def _index(self) -> str | None:
        """The path of the index; None where the folder has one file with everything."""
        if not os.path.isdir(self.path):
            return self.path
        there = sorted(os.listdir(self.folder))
        for name in (*INDICES, *ALONE):
            if name in there:
                self.files = [name]
                return os.path.join(self.folder, name) if name in INDICES else None
        others = [name for name in there if name.endswith((".index.json", ".safetensors", ".bin", ".pt"))]
        if len(others) == 1 and not _SHARD.search(others[0]):
            self.files = others
            return os.path.join(self.folder, others[0]) if others[0].endswith(".json") else None
        contents = f"it has {', '.join((others or there)[:5])}" if there else "it is empty"
        raise self._error(
            f"has none of {', '.join((*INDICES, *ALONE))}: {contents}. Pass the path of a file or of an index."
        )

    def _weight_map(self, path: str) -> dict[str, str]:
        try:
            if os.path.getsize(path) > _LONGEST_INDEX:
                raise self._error(f"has an index of {os.path.getsize(path)} bytes: it is not read.")
            with open_ordinary(path) as file:
                weight_map = json.loads(file.read())["weight_map"]
        except (FileNotFoundError, CheckpointError):
            raise
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise self._error(
                f"has a damaged index ({type(error).__name__}: {str(error)[:100]}). Expected "
                f'{{"metadata": ..., "weight_map": {{tensor: file}}}}.'
            ) from None
        if not isinstance(weight_map, dict) or not all(isinstance(file, str) for file in weight_map.values()):
            raise self._error(
                f"has a damaged index: weight_map is a {type(weight_map).__name__}, expected names of files by tensor."
            )
        for file in weight_map.values():
            if not re.fullmatch(r"[^/\\\0:]+", file) or file in (".", ".."):
                raise self._error(f"names the file {file[:80]!r}, which lies outside of its folder: it is not read.")
        return weight_map

    def __iter__(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """(file, what it holds) one after the other."""
        for file in self.files:
            tensors = self.load(os.path.join(self.folder, file))
            names = self.names.get(file)
            if names is not None:
                if not isinstance(tensors, dict):
                    raise self._error(f"has a {type(tensors).__name__} in {file}, expected a dict of tensors.")
                absent = [name for name in names if name not in tensors]
                if absent:
                    raise self._error(
                        f"says that {absent[0]!r} is in {file}, which has other tensors ({', '.join(map(str, [*tensors][:3]))}): the files do not "
                        f"belong together. Download them again."
                    )
            yield file, tensors

    def whole(self) -> Any:
        """All tensors in one dict, in the order of the index; of a single file whatever it holds."""
        if not self.names:
            return next(iter(self))[1] if self.files else {}  # an index without tensors
        whole: dict[str, Any] = {}
        indexed = {name for names in self.names.values() for name in names}
        for file, tensors in self:
            whole |= {name: tensors[name] for name in self.names[file]}
            whole |= {
                name: tensor for name, tensor in tensors.items() if name not in indexed
            }  # second names of tied tensors
        return whole

    def _error(self, problem: str) -> CheckpointError:
        return CheckpointError(f"load: {self.path} {problem}")


def size_of(size: int | str) -> int:
    """Bytes: a number, or a text such as "5GB" or "200MiB"."""
    if isinstance(size, str):
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMG]I?B)?", size.strip().upper())
        if match is None:
            raise ValueError(f"max_shard_size: expected a number of bytes or a text such as '5GB', got {size!r}.")
        size = int(float(match[1]) * _UNITS[match[2] or ""])
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise ValueError(f"max_shard_size: expected a positive number of bytes, or a text such as '5GB', got {size!r}.")
    return size


def save(
    tensors: Any,
    folder: str,
    max_shard_size: int | str,
    write: Callable[[dict[str, Any], str], None],
    who: str = "save",
) -> list[str]:
    """Writes tensors into files of at most `max_shard_size` bytes of tensors each (a larger one has a file of its own), and the index.

    Args:
        tensors: a dict of tensors, or an iterable of (name, tensor), which may be made while it is read.
        write: writes one file, given a dict and its path.
    Returns:
        The names of the files; one, model.safetensors without an index, where everything fits.
    """
    limit = size_of(max_shard_size)
    os.makedirs(folder, exist_ok=True)
    named = _tied_together(tensors) if isinstance(tensors, dict) else tensors
    shard: dict[str, Any] = {}
    listed: list[str] = []
    in_file = total = 0
    parts: list[list[str]] = []
    last: Any = None

    def flush() -> None:
        if shard or not parts:
            write(shard, os.path.join(folder, _part(len(parts))))
            parts.append([*listed])
            shard.clear()
            listed.clear()

    for name, tensor in named:
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise TypeError(
                f"{who}: with max_shard_size, expected a dict of tensors by name, such as a state_dict(), but {str(name)[:60]!r} is a "
                f"{type(tensor).__name__}. Save other things into a file: save(obj, 'checkpoint.safetensors')."
            )
        if last is not None and memory_of(tensor) == last and name not in shard:
            shard[name] = tensor  # written once; the index has the first name, which other libraries read
            continue
        size, last = tensor.numel() * tensor.itemsize, memory_of(tensor)
        if shard and in_file + size > limit:
            flush()
            in_file = 0
        shard[name] = tensor
        listed.append(name)
        in_file, total = in_file + size, total + size
    flush()
    return name_parts(folder, parts, {"total_size": total})


def memory_of(tensor: Tensor) -> Any:
    """What tied tensors have in common; None for one without elements."""
    if not tensor.numel():
        return None
    return str(tensor.device), tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype


def _tied_together(tensors: dict[Any, Any]) -> Iterator[tuple[Any, Any]]:
    """The items, with those of the same memory after each other: they go into one file."""
    groups: dict[Any, list[Any]] = {}
    for name, value in tensors.items():
        memory = memory_of(value) if isinstance(value, Tensor) else None
        groups.setdefault(name if memory is None else memory, []).append((name, value))
    for group in groups.values():
        yield from group


def _part(number: int) -> str:
    return f".model-{number:05d}.part"


def write_part(folder: str, number: int, entries: dict[str, Any], metadata: dict[str, str]) -> None:
    """Writes a file of a model without anything of ours, which has its name by `name_parts` only."""
    path = os.path.join(folder, _part(number))
    write_atomically(path, lambda output: checkpoint_files.write_plain(entries, metadata, output), "save_folder")


def remove_parts(folder: str, count: int) -> None:
    """Removes files that have not got their names."""
    for number in range(count):
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(folder, _part(number)))


def name_parts(folder: str, parts: list[list[str]], sizes: dict[str, int], sort_keys: bool = False) -> list[str]:
    """Gives the files their names, which have their number in them, and writes the index.

    The old index is removed before the first file gets its name, so that it never speaks of files of two models.

    Args:
        parts: the names of the tensors in each file.
        sizes: what the index says of them all.
        sort_keys: order names in the index by their letters, as transformers does.
    """
    count = len(parts)
    names = [f"model-{number:05d}-of-{count:05d}.safetensors" for number in range(1, count + 1)]
    if count == 1:
        names = [ALONE[0]]
    index = os.path.join(folder, INDEX)
    if count > 1 and os.path.exists(index):
        os.unlink(index)
    for number, name in enumerate(names):
        os.replace(os.path.join(folder, _part(number)), os.path.join(folder, name))
    if count == 1:
        if os.path.exists(index):
            os.unlink(index)  # of what was there before
        return names
    weight_map = {tensor: name for name, tensors in zip(names, parts) for tensor in tensors}
    text = json.dumps({"metadata": sizes, "weight_map": weight_map}, indent=2, sort_keys=sort_keys) + "\n"
    write_atomically(index, lambda output: output.write(text.encode()))
    return names
