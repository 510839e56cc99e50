"""The tree of a checkpoint: what is not a tensor, as JSON, with references to the tensors, which are stored beside it by name.

A plain value stands for itself, a list for a list; everything else is {"kind": ..., ...}. Only the kinds of `Reader` are built,
from numbers and strings. Objects of other classes are built of those alone that the program trusts (`objects`): a file cannot run code.
"""

from __future__ import annotations

import json
import operator
import warnings
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from dynograd import arrays, cuda
from dynograd.base import devices, dtypes
from dynograd.base.shapes import Size
from dynograd.errors import CheckpointError, DeviceError, user_level
from dynograd.saving import objects
from dynograd.tensor.tensor import Tensor, wrap

__all__ = ["Reader", "Writer"]

_PLAIN = (bool, int, str, type(None))
_KEYS = (str, int, float, bool, type(None))
_DICTS = (dict, OrderedDict)
_DEEPEST = 100
_MOST_BITS = 14_000  # Python reads integers of up to 4300 digits
_TAKEN = ("__metadata__", "dynograd.tree")


class Writer:
    """Walks an object: tensors become entries, everything else a JSON tree that refers to them."""

    def __init__(self) -> None:
        self.entries: dict[str, Any] = {}
        self.seen: dict[Any, str] = {}
        self.numbers: dict[int, tuple[int, Any]] = {}
        """Of objects, by `id`: their number in the file, and the object itself, which must live meanwhile."""
        self.depth = 0

    def text(self, value: Any) -> str:
        """The JSON of `describe`."""
        return json.dumps(self.describe(value, ""), separators=(",", ":"))

    def describe(self, value: Any, path: str) -> Any:
        """JSON for `value`: plain values as they are, everything else as {"kind": ...}."""
        if hasattr(type(value), "__dynograd_rows__"):
            return self._describe_rows(value, path)
        if isinstance(value, Tensor):
            description: dict[str, Any] = {"kind": "tensor", "name": self._store(value.array, path)}
            if value.requires_grad and value.is_leaf:
                description["requires_grad"] = True
            if value.is_cuda:
                description["device"] = str(value.device)
            if type(value).__name__ == "Parameter":
                description["parameter"] = True
            if value.dtype.is_complex:
                description["complex"] = value.dtype.name
            return description
        if type(value) in _PLAIN:
            if type(value) is int and value.bit_length() > _MOST_BITS:
                raise TypeError(
                    f"save: {path or 'the object'} is an integer of {value.bit_length()} bits, at most {_MOST_BITS} are stored. "
                    f"Save it as a string."
                )
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
        if self.depth == _DEEPEST:
            raise TypeError(
                f"save: {path[:60]}... lies more than {_DEEPEST} lists and dicts deep, or in itself. Save it flat, as lists of numbers."
            )
        self.depth += 1
        try:
            if type(value) in _DICTS:
                return self._describe_dict(value, path)
            if type(value) in (list, tuple, set):
                return self._describe_items(value, path)
            return self._describe_object(value, path)
        finally:
            self.depth -= 1

    def _describe_object(self, value: Any, path: str) -> Any:
        """A class or function by its name, any other object by the name of its class and its parts."""
        name = objects.global_name(value)
        if name is not None:
            return {"kind": "global", "name": name}
        if id(value) in self.numbers:
            return {"kind": "again", "number": self.numbers[id(value)][0]}
        try:
            parts = objects.parts_of(value)
        except Exception as error:
            raise self._no_data(value, path, f" ({error})") from None
        name = objects.global_name(parts.maker)
        if name is None:
            raise self._no_data(value, path)
        arguments = [self.describe(entry, _join(path, str(place))) for place, entry in enumerate(parts.arguments)]
        self.numbers[id(value)] = len(self.numbers), value  # what is below may refer to it
        description: dict[str, Any] = {"kind": "object", "number": self.numbers[id(value)][0], "of": name}
        description |= {"arguments": arguments} if arguments else {}
        description |= {"keywords": self.describe(parts.keywords, path)} if parts.keywords else {}
        description |= {"call": True} if not parts.is_new else {}
        description |= {"state": self.describe(parts.state, path)} if parts.state is not None else {}
        description |= {"items": self._describe_items(parts.items, path)} if parts.items else {}
        description |= {"pairs": self._describe_dict(dict(parts.pairs), path)} if parts.pairs else {}
        return description

    def _no_data(self, value: Any, path: str, why: str = "") -> TypeError:
        hint = (
            "Save its state_dict() instead."
            if hasattr(value, "state_dict")
            else "Convert it to numbers, strings or tensors."
        )
        kind = type(value).__name__
        return TypeError(f"save: {path or 'the object'} is a {kind}, which is not data{why}. {hint}")

    def _describe_rows(self, value: Any, path: str) -> Any:
        """A ragged tensor: its packed elements, and where rows begin (or their shapes, with several ragged dims)."""
        part = value.partition
        description = {
            "kind": "ragged",
            "values": self.describe(value.packed, _join(path, "values")),
            "dim": value.place,
        }
        if value.place:
            return {**description, "offsets": self._store(part.offsets, _join(path, "offsets"))}
        return {**description, "sizes": self._store(part.sizes, _join(path, "sizes")), "fixed": list(part.fixed)}

    def _describe_items(self, value: Any, path: str) -> Any:
        items = [self.describe(entry, _join(path, str(place))) for place, entry in enumerate(value)]
        return items if type(value) is list else {"kind": type(value).__name__, "items": items}

    def _describe_dict(self, value: dict, path: str) -> Any:
        items = []
        plain = all([type(key) in _KEYS for key in value])
        for key, entry in value.items():
            items.append([key if plain else self.describe(key, path), self.describe(entry, _join(path, str(key)))])
        description: dict[str, Any] = {"kind": "dict", "items": items}
        if not plain:
            description["keys"] = "described"
        if isinstance(value, OrderedDict):
            description["ordered"] = True
            if hasattr(value, "_metadata"):
                description["metadata"] = self.describe(dict(value._metadata), _join(path, "_metadata"))
        return description

    def _store(self, array: Any, path: str) -> str:
        """Adds the array as an entry (once, however often it occurs) and gives its name."""
        plain = arrays.to_numpy(array)
        where = (str(arrays.device_of(array)), arrays.address_of(array), array.shape, array.strides, array.dtype.str)
        key = where if plain.size else None
        if key is not None and key in self.seen:
            return self.seen[key]
        kind = dtypes.of_array(plain)
        name = (path or "tensor").encode("utf-8", "replace").decode()
        while name in self.entries or name in _TAKEN:
            name += "_"
        if kind.is_complex:
            plain = arrays.contiguous(plain).view(kind.to_real().numpy).reshape(*plain.shape, 2)
        plain = arrays.contiguous(plain)
        self.entries[name] = plain
        if key is not None:
            self.seen[key] = name
        return name


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


class _OfTheCaller(Exception):
    """Carries an error of the function that was given as `map_location` past the handler for damaged trees."""


class Reader:
    """Rebuilds the object from the tree.

    Args:
        name: the file's, for messages.
        entries: arrays by name.
        map_location: as in `load`.
        trusted: classes and functions that the file may name.
    """

    def __init__(
        self, name: str, entries: dict[str, Any], map_location: Any = None, trusted: Sequence[Any] = ()
    ) -> None:
        self.name, self.entries, self.map_location = name, entries, map_location
        self.trusted = trusted
        self.made: dict[Any, Any] = {}
        self.objects: dict[int, Any] = {}
        self.depth = 0

    def read(self, tree: Any) -> Any:
        """The object.

        Raises:
            CheckpointError: the tree is not one that `Writer` makes.
        """
        try:
            return self.build(tree)
        except (CheckpointError, DeviceError):
            raise
        except _OfTheCaller as error:
            assert error.__cause__ is not None
            raise error.__cause__ from None
        except (TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError, RuntimeError) as error:
            said = f"{type(error).__name__}: {error}"
            raise CheckpointError(
                f"load: {self.name} is damaged: what it says about its structure cannot be read ({said:.200}). Use an older checkpoint."
            ) from error

    def place(self, saved: str) -> devices.device:
        """Where a tensor goes that was saved on the device of that name."""
        target = self.map_location
        if isinstance(target, dict):
            target = target.get(saved)
        elif callable(target):
            from dynograd.tensor.storages import UntypedStorage

            try:
                target = getattr(target(UntypedStorage(0), saved), "device", None)
            except Exception as error:
                raise _OfTheCaller from error
        if target is not None:
            return arrays.check_device("load", target)
        if saved != "cpu" and not cuda.is_available():
            warnings.warn(
                f"load: tensors were saved on {saved}, but no CUDA device is available here: they are on the CPU. "
                f"Pass map_location='cpu' to say so.",
                stacklevel=user_level(),
            )
            return devices.cpu
        return arrays.check_device("load", saved)

    def build(self, tree: Any) -> Any:
        if not isinstance(tree, (list, dict)):
            return tree
        if self.depth > 3 * _DEEPEST:
            raise ValueError(f"more than {_DEEPEST} lists and dicts deep")
        self.depth += 1
        try:
            return (
                [self.build(entry) for entry in tree]
                if isinstance(tree, list)
                else self.kinds[tree["kind"]](self, tree)
            )
        finally:
            self.depth -= 1

    def _tensor(self, tree: dict) -> Any:
        name = tree["name"]
        key = (name, bool(tree.get("parameter")))
        if key in self.made:
            return self.made[key]
        array = self.entries[name]
        if "complex" in tree:
            array = array.view(dtypes.as_dtype(tree["complex"]).numpy).reshape(array.shape[:-1])
        tensor = wrap(arrays.to_device(array, self.place(tree.get("device", "cpu"))))
        if tree.get("requires_grad"):
            tensor.requires_grad = True
        self.made[key] = tensor
        return tensor

    def _rows(self, tree: dict) -> Any:
        from dynograd.ragged.making import from_file

        values = self.build(tree["values"])
        offsets, sizes = [self.entries.get(tree.get(name, "")) for name in ("offsets", "sizes")]
        return from_file(values, tree["dim"], offsets, sizes, tree.get("fixed"))

    def _dict(self, tree: dict) -> Any:
        described = tree.get("keys") == "described"
        items = [(self.build(key) if described else key, self.build(entry)) for key, entry in tree["items"]]
        if not tree.get("ordered"):
            return dict(items)
        built: Any = OrderedDict(items)
        if "metadata" in tree:
            built._metadata = OrderedDict(self.build(tree["metadata"]))
        return built

    def _array(self, tree: dict) -> Any:
        return self.entries[tree["name"]]

    def _scalar(self, tree: dict) -> Any:
        return self.entries[tree["name"]][()]

    def _tuple(self, tree: dict) -> Any:
        return tuple([self.build(entry) for entry in tree["items"]])

    def _set(self, tree: dict) -> Any:
        return {self.build(entry) for entry in tree["items"]}

    def _global(self, tree: dict) -> Any:
        from dynograd.saving.torch_plain_values import PLAIN_CONSTANTS

        name = tree["name"]
        if name in PLAIN_CONSTANTS:
            return PLAIN_CONSTANTS[name]
        function = objects.own_function(name)
        return self._trusted(name) if function is None else function

    def _trusted(self, name: str) -> Any:
        layer = objects.own_layer(name)
        if layer is not None:
            return layer
        names = objects.trusted_names(self.trusted)
        if name not in names:
            raise CheckpointError(
                f"load: {self.name} holds an object of {name}, which is not data, and the program has not said that it trusts that class. If it "
                f"does: dynograd.serialization.add_safe_globals([{name.rpartition('.')[2]}]), with the class itself in the list. Nothing is "
                f"ever unpickled; weights_only=False changes nothing."
            )
        return names[name]

    def _object(self, tree: dict) -> Any:
        from dynograd.saving.torch_pickles import Machine
        from dynograd.saving.torch_plain_values import PLAIN_BUILDS, PLAIN_CALLS

        name = tree["of"]
        plain = PLAIN_CALLS.get(name)
        maker = self._trusted(name) if plain is None else None
        arguments = [self.build(entry) for entry in tree.get("arguments", ())]
        keywords = self.build(tree["keywords"]) if "keywords" in tree else {}
        try:
            if plain is not None:
                value = plain(Machine(b"", self.name), *arguments, **keywords)
            else:
                value = objects.new(maker, arguments, keywords, "call" not in tree)
            self.objects[tree["number"]] = value
            if "items" in tree:
                value.extend([self.build(entry) for entry in tree["items"]])
            for key, entry in self.build(tree["pairs"]).items() if "pairs" in tree else ():
                value[key] = entry
            if "state" in tree and plain is not None:
                PLAIN_BUILDS[type(value)](Machine(b"", self.name), value, self.build(tree["state"]))
            elif "state" in tree:
                objects.set_state(value, self.build(tree["state"]))
        except CheckpointError:
            raise
        except Exception as error:
            raise CheckpointError(
                f"load: {self.name} holds an object of {name} that cannot be made again ({type(error).__name__}: {error}). The class may have "
                f"changed since; save its state as a dict of numbers, strings and tensors."
            ) from error
        return value

    kinds = {
        "tensor": _tensor,
        "dict": _dict,
        "array": _array,
        "scalar": _scalar,
        "tuple": _tuple,
        "set": _set,
        "float": lambda self, tree: float(tree["value"]),
        "complex": lambda self, tree: complex(*tree["value"]),
        "size": lambda self, tree: Size([operator.index(length) for length in tree["items"]]),
        "dtype": lambda self, tree: dtypes.as_dtype(tree["value"]),
        "device": lambda self, tree: devices.device(tree["value"]),
        "bytes": lambda self, tree: bytes.fromhex(tree["value"]),
        "ragged": _rows,
        "global": _global,
        "object": _object,
        "again": lambda self, tree: self.objects[tree["number"]],
    }
