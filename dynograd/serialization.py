"""`save` and `load`: nested dicts, lists, numbers, strings and tensors in a safetensors file. Nothing is ever unpickled, and what
PyTorch pickled is read by `torch_files`.

The tensors are ordinary safetensors entries, named by their place ("model.layer.weight"), so other tools read them. The structure
around them and a checksum per tensor stand in the file's metadata as JSON. A file is written beside its target and moved over it when
it is complete and on disk: a crash or a full disk leaves the old file as it was.
"""

from __future__ import annotations

import contextlib
import json
import os
import warnings
import zlib
from collections import OrderedDict
from typing import Any

from dynograd import arrays, cuda, devices, dtypes
from dynograd.errors import CheckpointError
from dynograd.shapes import Size
from dynograd.tensor import Tensor, wrap

__all__ = ["add_safe_globals", "clear_safe_globals", "get_safe_globals", "load", "safe_globals", "save"]

_FORMAT = 1
_KEY = "dynograd"
_PLAIN = (bool, int, str, type(None))


def save(obj: Any, f: Any) -> None:
    """Writes `obj` to a path or an open binary file.

    Args:
        obj: tensors, numbers, strings, None, NumPy arrays, and lists, tuples and dicts of these: `state_dict()`s of models,
            optimizers and schedulers, or a dict of several.
        f: path (written completely or not at all) or file object.
    Raises:
        CheckpointError: the file cannot be written; what was there before is untouched.
        TypeError: something in `obj` is not data; the message names its place.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "checkpoint.safetensors")
    >>> dynograd.save({"step": 3, "weight": tensor([1.0, 2.0])}, path)
    >>> dynograd.load(path)
    {'step': 3, 'weight': tensor([1., 2.])}
    """
    from safetensors.numpy import save as to_bytes

    writer = _Writer()
    tree = writer.describe(obj, "")
    header = json.dumps({"format": _FORMAT, "tree": tree, "crc32": writer.checksums}, separators=(",", ":"))
    raw = to_bytes(writer.entries, metadata={_KEY: header})
    if hasattr(f, "write"):
        f.write(raw)
        return
    _write_atomically(os.fspath(f), raw)


def _write_atomically(path: str, raw: bytes) -> None:
    """Puts `raw` at `path`: temporary file, fsync, rename, fsync of the folder."""
    folder = os.path.dirname(os.path.abspath(path))
    temporary = os.path.join(folder, f".{os.path.basename(path)}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        was = "the file that was there is untouched" if os.path.exists(path) else "nothing was written"
        raise CheckpointError(
            f"save: could not write {len(raw)} bytes to {path!r}: {error.strerror or error}; {was}. Check the folder and free space."
        ) from error
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


class _Writer:
    """Walks an object: tensors become entries, everything else a JSON tree that refers to them."""

    def __init__(self) -> None:
        self.entries: dict[str, Any] = {}
        self.checksums: dict[str, int] = {}
        self.seen: dict[Any, str] = {}

    def describe(self, value: Any, path: str) -> Any:
        """JSON for `value`: plain values as they are, everything else as {"kind": ...}."""
        if isinstance(value, Tensor):
            found: dict[str, Any] = {"kind": "tensor", "name": self._store(value.array, path)}
            if value.requires_grad and value.is_leaf:
                found["requires_grad"] = True
            if value.is_cuda:
                found["device"] = str(value.device)
            if type(value).__name__ == "Parameter":
                found["parameter"] = True
            if value.dtype.is_complex:
                found["complex"] = value.dtype.name
            return found
        if isinstance(value, _PLAIN) and type(value) in _PLAIN:
            return value
        if type(value) is float:
            return value if value == value and abs(value) != float("inf") else {"kind": "float", "value": repr(value)}
        if arrays.is_array(value):
            array = arrays.as_result(value)
            kind = "array" if getattr(value, "shape", ()) or isinstance(value, arrays.ndarray) else "scalar"
            return {"kind": kind, "name": self._store(array, path)}
        if isinstance(value, complex):
            return {"kind": "complex", "value": [value.real, value.imag]}
        if isinstance(value, Size):
            return {"kind": "size", "items": list(value)}
        if isinstance(value, dtypes.dtype):
            return {"kind": "dtype", "value": value.name}
        if isinstance(value, devices.device):
            return {"kind": "device", "value": str(value)}
        if isinstance(value, bytes):
            return {"kind": "bytes", "value": value.hex()}
        if isinstance(value, dict):
            return self._describe_dict(value, path)
        if isinstance(value, (list, tuple, set)) and not hasattr(value, "_fields"):
            items = [self.describe(one, _join(path, str(place))) for place, one in enumerate(value)]
            return items if type(value) is list else {"kind": type(value).__name__, "items": items}
        hint = (
            "Save its state_dict() instead."
            if hasattr(value, "state_dict")
            else "Convert it to numbers, strings or tensors."
        )
        raise TypeError(f"save: {path or 'the object'} is a {type(value).__name__}, which is not data. {hint}")

    def _describe_dict(self, value: dict, path: str) -> Any:
        items = []
        for key, one in value.items():
            if isinstance(key, tuple) or not isinstance(key, (str, int, float, bool, type(None))):
                raise TypeError(
                    f"save: a key of {path or 'the dict'} is {key!r}; keys must be strings, numbers or None."
                )
            items.append([key, self.describe(one, _join(path, str(key)))])
        found: dict[str, Any] = {"kind": "dict", "items": items}
        if isinstance(value, OrderedDict):
            found["ordered"] = True
            if hasattr(value, "_metadata"):
                found["metadata"] = self.describe(dict(value._metadata), _join(path, "_metadata"))
        return found

    def _store(self, array: Any, path: str) -> str:
        """Adds the array as an entry (once, however often it occurs) and gives its name."""
        plain = arrays.to_numpy(array)
        where = (str(arrays.device_of(array)), arrays.address_of(array), array.shape, array.strides, array.dtype.str)
        key = where if plain.size else None
        if key is not None and key in self.seen:
            return self.seen[key]
        kind = dtypes.of_array(plain)
        name = path or "tensor"
        while name in self.entries:
            name += "_"
        if kind.is_complex:
            plain = arrays.contiguous(plain).view(kind.to_real().numpy).reshape(*plain.shape, 2)
        plain = arrays.contiguous(plain)
        self.entries[name] = plain
        self.checksums[name] = zlib.crc32(plain.view(dtypes.uint8.numpy) if plain.ndim else plain.tobytes())
        if key is not None:
            self.seen[key] = name
        return name


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Reads what `save` wrote, any safetensors file (then a dict of tensors), or what PyTorch's `torch.save` wrote.

    No code in the file is ever run, so `weights_only` is always true in effect: a file that holds other things than tensors, numbers,
    strings, containers and NumPy arrays is refused, and the message names what it holds. Files of PyTorch are read by path at the
    speed of a copy; tensors that shared memory share it again.

    Args:
        f: path or open binary file.
        map_location: device for the tensors, or a dict from the names of devices they were saved on, or a function of (storage, name)
            whose result lies on the device (`lambda storage, name: storage`: the CPU); by default each goes back to the device
            it was saved on, to the CPU (with a warning) where there is no GPU.
    Raises:
        CheckpointError: not such a file, truncated, or a tensor's bytes are damaged (its name is given).
        FileNotFoundError: there is no such file.
    """
    del pickle_module, mmap, pickle_load_args, weights_only
    name = getattr(f, "name", "the given file") if hasattr(f, "read") else os.fspath(f)
    if map_location is not None and not callable(map_location) and not isinstance(map_location, dict):
        arrays.check_device("load", map_location)
    if hasattr(f, "read"):
        raw = f.read()
        if _is_torch_file(raw[:32]):
            return _read_torch_file(bytes(raw), str(name), map_location)
    else:
        with open(name, "rb") as file:
            if _is_torch_file(file.read(32)):
                return _read_torch_file(file, str(name), map_location)
            file.seek(0)
            raw = file.read()
    entries = _read_entries(raw, str(name))
    header = _read_header(raw)
    if header is None:
        place = _Reader(entries, map_location).place("cpu")
        return {key: wrap(arrays.to_device(_array(entry), place)) for key, entry in entries.items()}
    if header.get("format") != _FORMAT:
        raise CheckpointError(
            f"load: {name} has checkpoint format {header.get('format')}, this dynograd reads format {_FORMAT}. Update dynograd."
        )
    for key, expected in header["crc32"].items():
        if key not in entries:
            raise CheckpointError(
                f"load: {name} lacks the tensor {key!r}: the file is incomplete. Use an older checkpoint."
            )
        found = zlib.crc32(entries[key]["data"])
        if found != expected:
            raise CheckpointError(
                f"load: {name} is damaged: the bytes of tensor {key!r} have checksum {found:08x}, expected {expected:08x}. "
                f"Use an older checkpoint."
            )
    return _Reader(entries, map_location).build(header["tree"])


def _is_torch_file(start: bytes) -> bool:
    if start[:2] != b"PK" and start[:1] not in (b"\x80", b"\x8a"):
        return False
    from dynograd import torch_files

    return torch_files.is_torch_file(start)


def _read_torch_file(file: Any, name: str, map_location: Any) -> Any:
    from dynograd import torch_files

    return torch_files.read(file, name, _Reader({}, map_location).place)


class _Reader:
    """Rebuilds the object from the JSON tree."""

    def __init__(self, entries: dict[str, Any], map_location: Any) -> None:
        self.entries, self.map_location = entries, map_location
        self.made: dict[str, Any] = {}

    def place(self, saved: str) -> devices.device:
        """Where a tensor goes that was saved on the device of that name."""
        wanted = self.map_location
        if isinstance(wanted, dict):
            wanted = wanted.get(saved)
        elif callable(wanted):
            from dynograd.storages import UntypedStorage

            wanted = getattr(wanted(UntypedStorage(0), saved), "device", None)
        if wanted is not None:
            return arrays.check_device("load", wanted)
        if saved != "cpu" and not cuda.is_available():
            warnings.warn(
                f"load: tensors were saved on {saved}, but no CUDA device is available here: they are on the CPU. "
                f"Pass map_location='cpu' to say so.",
                stacklevel=2,
            )
            return devices.cpu
        return arrays.check_device("load", saved)

    def build(self, tree: Any) -> Any:
        if isinstance(tree, list):
            return [self.build(one) for one in tree]
        if not isinstance(tree, dict):
            return tree
        return getattr(self, f"_{tree['kind']}")(tree)

    def _tensor(self, tree: dict) -> Any:
        name = tree["name"]
        key = (name, bool(tree.get("parameter")))
        if key in self.made:
            return self.made[key]  # type: ignore[index]
        array = _array(self.entries[name])
        if "complex" in tree:
            array = array.view(dtypes.as_dtype(tree["complex"]).numpy).reshape(array.shape[:-1])
        made = wrap(arrays.to_device(array, self.place(tree.get("device", "cpu"))))
        if tree.get("requires_grad"):
            made.requires_grad = True
        self.made[key] = made  # type: ignore[index]
        return made

    def _dict(self, tree: dict) -> Any:
        items = [(key, self.build(one)) for key, one in tree["items"]]
        if not tree.get("ordered"):
            return dict(items)
        made: Any = OrderedDict(items)
        if "metadata" in tree:
            made._metadata = OrderedDict(self.build(tree["metadata"]))
        return made

    def _array(self, tree: dict) -> Any:
        return _array(self.entries[tree["name"]])

    def _scalar(self, tree: dict) -> Any:
        return _array(self.entries[tree["name"]])[()]

    _float = staticmethod(lambda tree: float(tree["value"]))
    _complex = staticmethod(lambda tree: complex(*tree["value"]))
    _size = staticmethod(lambda tree: Size(tree["items"]))
    _dtype = staticmethod(lambda tree: dtypes.as_dtype(tree["value"]))
    _device = staticmethod(lambda tree: devices.device(tree["value"]))
    _bytes = staticmethod(lambda tree: bytes.fromhex(tree["value"]))

    def _tuple(self, tree: dict) -> Any:
        return tuple(self.build(one) for one in tree["items"])

    def _set(self, tree: dict) -> Any:
        return {self.build(one) for one in tree["items"]}


_SAFETENSORS = {
    "F64": dtypes.float64,
    "F32": dtypes.float32,
    "F16": dtypes.float16,
    "BF16": dtypes.bfloat16,
    "F8_E4M3": dtypes.float8_e4m3fn,
    "F8_E5M2": dtypes.float8_e5m2,
    "I64": dtypes.int64,
    "I32": dtypes.int32,
    "I16": dtypes.int16,
    "I8": dtypes.int8,
    "U8": dtypes.uint8,
    "U16": dtypes.uint16,
    "U32": dtypes.uint32,
    "U64": dtypes.uint64,
    "BOOL": dtypes.bool,
}


def _array(entry: Any) -> Any:
    kind = _SAFETENSORS.get(entry["dtype"])
    if kind is None:
        raise CheckpointError(
            f"load: a tensor has the safetensors dtype {entry['dtype']}, which dynograd does not have."
        )
    return arrays.from_bytes(entry["data"], tuple(entry["shape"]), kind)


def _read_entries(raw: bytes, name: str) -> dict[str, Any]:
    from safetensors import SafetensorError, deserialize

    try:
        return dict(deserialize(raw))
    except SafetensorError as error:
        raise CheckpointError(f"load: {name} {_diagnose(raw, error)}") from None


def _diagnose(raw: bytes, error: Exception) -> str:
    """What a file that is not safetensors seems to be, and what to do."""
    if not raw:
        return "is empty (0 bytes). Use an older checkpoint."
    if raw[:1] == b"\x80":
        return "is a pickle, which can run code, so it is not read. Convert it to safetensors where it was made."
    size = int.from_bytes(raw[:8], "little") if len(raw) >= 8 else 0
    if len(raw) >= 9 and raw[8:9] == b"{" and size < 1 << 32:
        return f"is truncated or damaged ({len(raw)} bytes; {error}). Use an older checkpoint."
    return f"is not a checkpoint: expected a safetensors file, got {len(raw)} bytes that start with {raw[:8]!r}."


def _read_header(raw: bytes) -> Any:
    size = int.from_bytes(raw[:8], "little")
    metadata = json.loads(raw[8 : 8 + size]).get("__metadata__") or {}
    return json.loads(metadata[_KEY]) if _KEY in metadata else None


# --- PyTorch's list of classes that unpickling may make; nothing is unpickled here, so it is only remembered --------------------

_safe_globals: list[Any] = []


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Remembers the classes; `load` makes none whatever is in the list."""
    _safe_globals.extend(one for one in safe_globals if one not in _safe_globals)


def get_safe_globals() -> list[Any]:
    """What `add_safe_globals` was given."""
    return list(_safe_globals)


def clear_safe_globals() -> None:
    """Forgets the classes."""
    _safe_globals.clear()


@contextlib.contextmanager
def safe_globals(safe_globals: list[Any]) -> Any:
    """Remembers the classes inside the block.

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
