"""Folders of a model as Hugging Face's libraries keep them: `config.json`, and `model.safetensors` or shards of it with their index.

The files are those that transformers' `save_pretrained` writes of the same tensors, byte for byte: the same cuts between shards, the same
order within them, and the metadata {"format": "pt"}. Tensors that share memory are written once; the metadata say which other names they
have, as `safetensors.torch.save_model` has it.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any, NamedTuple

from dynograd import arrays
from dynograd.base.files import open_ordinary, write_atomically
from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.errors import CheckpointError
from dynograd.saving import checkpoint_files, sharding
from dynograd.tensor.tensor import Tensor

__all__ = ["ModelFolder", "load_folder", "save_folder"]

CONFIG = "config.json"
_LONGEST_CONFIG = 1 << 26
_SHARD = re.compile(r"model-\d{5}-of-\d{5}\.safetensors")


class ModelFolder(NamedTuple):
    """What a folder of a model holds.

    Args:
        tensors: by name, as `load_state_dict` takes them.
        config: what config.json says; None where there is no such file.

    >>> tensors, config = dynograd.saving.ModelFolder({"weight": tensor([1.0])}, {"model_type": "tiny"})
    """

    tensors: dict[str, Any]
    config: dict[str, Any] | None


def load_folder(folder: str | os.PathLike[str], map_location: Any = None, *, mmap: bool = True) -> ModelFolder:
    """The tensors and the configuration of a model's folder, such as a download from the Hugging Face hub.

    Args:
        folder: with model.safetensors, or shards and model.safetensors.index.json; PyTorch's pytorch_model.bin and its index are read too.
        map_location: device for the tensors, as in `load`.
        mmap: the tensors' memory is that of the safetensors files, read when it is used and copied when it is written; False reads all
            now.
    Returns:
        (tensors, config), two dicts.
    Raises:
        CheckpointError: no weights are there, a file is damaged, one that the index names is missing or lies outside of the folder.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> dynograd.saving.save_folder({"weight": tensor([1.0, 2.0])}, folder, {"model_type": "tiny"})
    ['model.safetensors']
    >>> dynograd.saving.load_folder(folder)
    ModelFolder(tensors={'weight': tensor([1., 2.])}, config={'model_type': 'tiny'})
    """
    from dynograd.saving.serialization import load

    path = os.fspath(folder)
    if not os.path.isdir(path):
        raise CheckpointError(
            f"load_folder: {path} is no folder. Pass the one that has config.json; `dynograd.load` reads single files."
        )
    tensors = sharding.Shards(
        path, lambda file: load(file, map_location, mmap=mmap and file.endswith(".safetensors"))
    ).whole()
    if not isinstance(tensors, dict):
        raise CheckpointError(
            f"load_folder: {path} holds a {type(tensors).__name__}, expected tensors by name. `dynograd.load` reads it."
        )
    return ModelFolder(tensors, _config(os.path.join(path, CONFIG)))


def _config(path: str) -> dict[str, Any] | None:
    if not os.path.exists(path):
        return None
    try:
        if os.path.getsize(path) > _LONGEST_CONFIG:
            raise ValueError(f"{os.path.getsize(path)} bytes")
        with open_ordinary(path, "load_folder") as file:
            config = json.loads(file.read())
        if not isinstance(config, dict):
            raise ValueError(f"a {type(config).__name__}, expected names and values")
    except CheckpointError:
        raise
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"load_folder: {path} is damaged ({str(error)[:100]}). Use another copy.") from None
    return config


def save_folder(
    model: Any,
    folder: str | os.PathLike[str],
    config: dict[str, Any] | None = None,
    *,
    max_shard_size: int | str = "5GB",
) -> list[str]:
    """Writes a model's folder, which transformers' `from_pretrained` and every other library of the hub reads.

    What an interrupted writer leaves is the old model, or a folder that lacks its index and is refused; never parts of both. Shards
    that are not of the new model are removed.

    Args:
        model: a module, or a dict of tensors by name such as its `state_dict()`.
        folder: made if it is not there.
        config: what config.json is to say; None leaves that file as it is.
        max_shard_size: the most bytes of tensors in a file, or a text such as "5GB"; a larger tensor has a file of its own.
    Returns:
        The names of the files with weights.
    Raises:
        CheckpointError: a file cannot be written.
        TypeError: something else than dense tensors of a dtype that safetensors has, or a config that is not plain data.

    >>> import os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> dynograd.saving.save_folder(dynograd.nn.Linear(2, 3), folder, max_shard_size=24)
    ['model-00001-of-00002.safetensors', 'model-00002-of-00002.safetensors']
    >>> sorted(os.listdir(folder))[-1]
    'model.safetensors.index.json'
    """
    path, limit = os.fspath(folder), sharding.size_of(max_shard_size)
    tensors = model.state_dict() if hasattr(model, "state_dict") else model
    entries, tied = _entries(tensors)
    counted = model.parameters() if hasattr(model, "parameters") else [tensors[name] for name in entries]
    text = _text_of(config)
    os.makedirs(path, exist_ok=True)
    shards = _shards(entries, limit)
    try:
        for number, names in enumerate(shards):
            metadata = {other: name for other, name in tied.items() if name in names}
            sharding.write_part(path, number, {name: entries[name] for name in names}, {**metadata, "format": "pt"})
    except BaseException:
        sharding.remove_parts(path, len(shards))
        raise
    if text is not None:
        write_atomically(os.path.join(path, CONFIG), lambda output: output.write(text), "save_folder")
    sizes = {
        "total_parameters": sum([each.numel() for each in counted]),
        "total_size": sum([each.nbytes for each in entries.values()]),
    }
    files = sharding.name_parts(path, shards, sizes, sort_keys=True)
    for name in os.listdir(path):
        if name not in files and (_SHARD.fullmatch(name) or (len(files) > 1 and name == sharding.ALONE[0])):
            os.unlink(os.path.join(path, name))
    return files


def _text_of(config: dict[str, Any] | None) -> bytes | None:
    if config is None:
        return None
    try:
        if not isinstance(config, dict):
            raise TypeError(f"got {type(config).__name__}")
        return (json.dumps(config, indent=2, sort_keys=True, allow_nan=False) + "\n").encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(
            f"save_folder: config is a dict of plain values by name, which JSON has ({error}). Of transformers' configs pass config.to_dict()."
        ) from None


def _entries(tensors: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """Arrays on the CPU by name, and of further names of tied tensors the first one."""
    if not isinstance(tensors, dict):
        raise TypeError(f"save_folder: expected a module or a dict of tensors by name, got {type(tensors).__name__}.")
    entries: dict[str, Any] = {}
    tied: dict[str, str] = {}
    first: dict[Any, str] = {}
    for name, tensor in tensors.items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor) or hasattr(type(tensor), "__dynograd_rows__"):
            raise TypeError(
                f"save_folder: expected dense tensors by name, but {str(name)[:60]!r} is a {type(tensor).__name__}. `dynograd.save` writes "
                f"other things."
            )
        if tensor.layout.name != "strided" or not checkpoint_files.has_name(tensor.dtype):
            raise TypeError(
                f"save_folder: {name[:60]!r} is {tensor.layout.name} and of {tensor.dtype}, which safetensors does not have. Convert it: "
                f"x.to_dense(), or torch.view_as_real(x) of complex numbers."
            )
        memory = sharding.memory_of(tensor)
        if memory is not None and memory in first:
            tied[name] = first[memory]
            continue
        first[memory] = name
        entries[name] = arrays.contiguous(arrays.to_numpy(tensor.array))
    return entries, tied


def _shards(entries: dict[str, Any], limit: int) -> list[list[str]]:
    """The names of the tensors in each file, as `huggingface_hub` divides them: in their order, too large ones by themselves."""
    shards: list[list[str]] = []
    names: list[str] = []
    size = 0
    for name, array in entries.items():
        if array.nbytes > limit:
            shards.append([name])
            continue
        if size + array.nbytes > limit:
            shards.append(names)
            names, size = [], 0
        names.append(name)
        size += array.nbytes
    return [*shards, names] if names or not shards else shards


_show_plainly(globals())
