"""`save` and `load`: nested dicts, lists, numbers, strings and tensors in a safetensors file. Nothing is ever unpickled, and what
PyTorch pickled is read by `torch_files`.

The tensors are ordinary safetensors entries, named by their place ("model.layer.weight"), so other tools read them. The structure
around them (`checkpoint_trees`) and a checksum per tensor stand in the file's metadata (`checkpoint_files`). A file is written beside
its target and moved over it when it is complete and on disk (`files`): a crash or a full disk leaves the old file as it was.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any

from dynograd import arrays
from dynograd.base.files import Source, Stream, open_ordinary, write_atomically
from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.base.signatures import without_private
from dynograd.saving import checkpoint_files, sharding
from dynograd.saving.checkpoint_trees import Reader, Writer
from dynograd.tensor.storages import TypedStorage, UntypedStorage
from dynograd.tensor.tensor import wrap

MAP_LOCATION = Any  # for annotations
DEFAULT_PROTOCOL = 2
_START = 1 << 16  # bytes that say of which kind a file is: those of an archive have a name in them

__all__ = [
    "add_safe_globals",
    "clear_safe_globals",
    "default_restore_location",
    "get_safe_globals",
    "load",
    "location_tag",
    "safe_globals",
    "save",
]


@without_private
def save(
    obj: Any,
    f: Any,
    pickle_module: object = None,
    pickle_protocol: int | None = None,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
    *,
    max_shard_size: int | str | None = None,
    format: str | None = None,
) -> None:
    """Writes `obj` to a path or an open binary file: as safetensors, or in the `format` of another library.

    Args:
        obj: tensors, numbers, strings, None, NumPy arrays, and lists, tuples and dicts of these: `state_dict()`s of models,
            optimizers and schedulers, or a dict of several. Objects of other classes are written as their parts, and read by programs that
            trust the class (`serialization.add_safe_globals`).
        f: path (written completely or not at all) or file object.
        pickle_module, pickle_protocol: of no effect, as nothing is pickled.
        max_shard_size: `f` is a folder, in which the tensors of a dict are spread over files of at most so many bytes ("5GB"), with
            the index that Hugging Face's libraries read too.
        format: "safetensors", which None means too; "pt", a file that PyTorch's `torch.load(weights_only=True)` reads; "npz", a dict of
            tensors for `numpy.load`. The name of the file decides nothing, and `load` reads all of them.
    Raises:
        CheckpointError: the file cannot be written; what was there before is untouched.
        TypeError: something in `obj` has no parts to write (a lambda, an open file), or the format has no place for it; the message
            names where it is.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "checkpoint.safetensors")
    >>> dynograd.save({"step": 3, "weight": tensor([1.0, 2.0])}, path)
    >>> dynograd.load(path)
    {'step': 3, 'weight': tensor([1., 2.])}
    """
    if format not in (None, "safetensors"):
        _save_as(format, obj, f, max_shard_size)
        return
    if max_shard_size is not None:
        sharding.save(obj, os.fspath(f), max_shard_size, save)
        return
    writer = Writer()
    tree = writer.text(obj)
    if hasattr(f, "write"):
        stream = Stream(f)
        checkpoint_files.write(writer.entries, tree, stream)
        stream.flush()
        return
    write_atomically(os.fspath(f), lambda output: checkpoint_files.write(writer.entries, tree, output))


def _save_as(format: str, obj: Any, f: Any, max_shard_size: Any) -> None:
    """Writes a file of another library."""
    if format not in ("pt", "npz"):
        raise ValueError(f"save: format is None, 'safetensors', 'pt' or 'npz', got {format!r}.")
    if max_shard_size is not None:
        raise ValueError(
            f"save: max_shard_size is for safetensors files, got format={format!r}. Leave one of them out."
        )
    from dynograd.saving import numpy_files, torch_file_writer

    write = torch_file_writer.write if format == "pt" else numpy_files.write
    if hasattr(f, "write"):
        stream = Stream(f)
        write(obj, stream)
        stream.flush()
        return
    write_atomically(os.fspath(f), lambda output: write(obj, output))


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: object = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: object,
) -> Any:
    """Reads what `save` wrote in any format, what PyTorch's `torch.save` wrote, or the shards of a folder. What a file is its bytes say, not its name.

    Other programs' safetensors files, NumPy's `.npz` and `.gguf` files come as a dict of tensors; those of the quantised types of `.gguf`
    are float32 (`saving.load_gguf` gives the metadata, too).

    No code in the file is ever run, so `weights_only` is always true in effect: a file that holds other things than tensors, numbers,
    strings, containers and NumPy arrays is refused, and the message names what it holds, unless the program trusts it
    (`add_safe_globals`). Files of PyTorch are read by path at the speed of a copy; tensors that shared memory share it again.

    Args:
        f: path or open binary file; a folder, or the path of an index such as model.safetensors.index.json, for all its shards.
        map_location: device for the tensors, or a dict from the names of devices they were saved on, or a function of (storage, name)
            whose result lies on the device (`lambda storage, name: storage`: the CPU); by default each goes back to the device
            it was saved on, to the CPU (with a warning) where there is no GPU.
        pickle_module, pickle_load_args: None or Python's `pickle`, `encoding` and its like; accepted for PyTorch's sake, and not used.
        weights_only: True and False are the same here.
        mmap: the memory of tensors is the file's, read when it is used and copied when it is written; checksums are not compared. NumPy's
            and `.gguf` files are read whole.
    Returns:
        What was saved; of a file that neither `save` nor PyTorch wrote, a dict of tensors.
    Raises:
        CheckpointError: not such a file, truncated, or a tensor's bytes are damaged (its name is given).
        FileNotFoundError: there is no such file.

    >>> import io
    >>> file = io.BytesIO()
    >>> dynograd.save(tensor([1.0, 2.0]), file)
    >>> _ = file.seek(0)
    >>> dynograd.load(file)
    tensor([1., 2.])
    """
    _check_arguments(f, pickle_module, weights_only, mmap, pickle_load_args)
    name = getattr(f, "name", "the given file") if hasattr(f, "read") else os.fspath(f)
    if map_location is not None and not callable(map_location) and not isinstance(map_location, dict):
        arrays.check_device("load", map_location)
    if hasattr(f, "read"):
        raw = bytes(f.read())
        return _read_file(raw, raw[:_START], str(name), None, map_location)
    if sharding.is_sharded(name):
        options: dict[str, Any] = {"weights_only": weights_only, "mmap": mmap}
        return sharding.Shards(name, lambda path: load(path, map_location, **options)).whole()
    with open_ordinary(name) as file:
        return _read_file(file, file.read(_START), name, name, map_location, bool(mmap))


def _read_file(file: Any, start: bytes, name: str, path: str | None, map_location: Any, mapped: bool = False) -> Any:
    """What is in a file, whose first bytes say of which kind it is."""
    reader = Reader(name, {}, map_location, _safe_globals)
    if start[:2] == b"PK" or start[:1] in (b"\x80", b"\x8a"):
        from dynograd.saving import numpy_files, torch_files

        if numpy_files.is_numpy_file(start):
            with Source(file, path) as source:
                return _on_device(numpy_files.read(source, name), reader)
        if torch_files.is_torch_file(start):
            return torch_files.read(file, name, reader.place, mapped, _safe_globals)
    with Source(file, path) as source:
        if start[:4] == b"GGUF":
            from dynograd.saving import gguf_files

            return _on_device(gguf_files.read(source, name).tensors, reader)
        pages = source.pages() if mapped else None
        reader.entries, tree = checkpoint_files.read(source, name, pages)
        return _on_device(reader.entries, reader) if tree is checkpoint_files.FOREIGN else reader.read(tree)


def _on_device(entries: dict[str, Any], reader: Reader) -> dict[str, Any]:
    """Tensors of arrays that a file without devices holds."""
    place = reader.place("cpu")
    return {key: wrap(arrays.to_device(entry, place)) for key, entry in entries.items()}


def _check_arguments(f: Any, pickle_module: Any, weights_only: Any, mmap: Any, others: dict[str, Any]) -> None:
    """Refuses what PyTorch's arguments of `load` cannot mean here."""
    if pickle_module is not None and getattr(pickle_module, "__name__", None) not in ("pickle", "_pickle"):
        raise ValueError(
            f"load: pickle_module={getattr(pickle_module, '__name__', pickle_module)} is not supported: dynograd unpickles nothing. Leave it "
            f"out; what needs that module is refused, and its name told."
        )
    for name, value in (("weights_only", weights_only), ("mmap", mmap)):
        if value not in (None, True, False):
            raise TypeError(f"load: {name} is True, False or None, got {value!r}.")
    if mmap and hasattr(f, "read"):
        raise ValueError(
            "load: f must be a file path in order to use the mmap argument, got an open file. Pass its path."
        )
    unknown = [name for name in others if name not in ("encoding", "errors", "fix_imports", "buffers")]
    if unknown:
        raise TypeError(
            f"load: got an unexpected keyword argument {unknown[0]!r}. It takes map_location, pickle_module, weights_only and mmap."
        )


# --- classes that a file may name ---------------------------------------------------------------------------------------------


def default_restore_location(storage: TypedStorage | UntypedStorage, location: str) -> TypedStorage | UntypedStorage:
    """A storage on a device, as `load` puts it there: for a `map_location` of one's own.

    Args:
        storage: what `map_location` is called with.
        location: "cpu", "cuda" or "cuda:1".
    Returns:
        The storage itself if it lies there, else a copy.

    >>> storage = tensor([1.0, 2.0]).storage()
    >>> dynograd.serialization.default_restore_location(storage, "cpu") is storage
    True
    """
    place = arrays.check_device("default_restore_location", location)
    if storage.device == place:
        return storage
    return storage.cpu() if place.type == "cpu" else storage.cuda(place)


def location_tag(storage: TypedStorage | UntypedStorage) -> str:
    """The device of a storage, as `map_location` is told it.

    Args:
        storage: a storage.
    Returns:
        "cpu", or "cuda:0" and the like.

    >>> dynograd.serialization.location_tag(tensor([1.0]).untyped_storage())
    'cpu'
    """
    return str(storage.device)


_safe_globals: list[Any] = []


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Trusts classes and functions: from here on `load` makes objects of them again. A pair (class, "name in the file") is for a class that has moved.

    Args:
        safe_globals: classes, functions, or pairs.

    >>> import collections, io
    >>> file = io.BytesIO()
    >>> dynograd.save({"words": collections.UserList(["a", "b"])}, file)
    >>> _ = file.seek(0)
    >>> with dynograd.serialization.safe_globals([collections.UserList]):
    ...     type(dynograd.load(file)["words"])
    <class 'collections.UserList'>
    """
    _safe_globals.extend(trusted for trusted in safe_globals if trusted not in _safe_globals)


def get_safe_globals() -> list[Any]:
    """What `add_safe_globals` was given.

    Returns:
        A list of classes and functions.

    >>> dynograd.serialization.get_safe_globals()
    []
    """
    return list(_safe_globals)


def clear_safe_globals() -> None:
    """Forgets the classes that `add_safe_globals` was given.

    >>> dynograd.serialization.clear_safe_globals()
    """
    _safe_globals.clear()


@contextlib.contextmanager
def safe_globals(safe_globals: list[Any]) -> Any:
    """Remembers the classes inside the block.

    Args:
        safe_globals: as for `add_safe_globals`.
    Returns:
        A context manager.

    >>> with dynograd.serialization.safe_globals([set]):
    ...     dynograd.serialization.get_safe_globals()
    [<class 'set'>]
    """
    before = list(_safe_globals)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        _safe_globals[:] = before


_show_plainly(globals())
