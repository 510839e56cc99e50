"""Who keeps a tensor, or the memory of an array, alive: variables, attributes, containers, and graphs that wait for backward."""

from __future__ import annotations

import gc
import re
import sys
import types
from collections.abc import Iterator
from typing import Any

from dynograd import arrays
from dynograd.autograd.nodes import FREED, Node, traces
from dynograd.debug.recording import array_of
from dynograd.debug.texts import short
from dynograd.tensor.tensor import Tensor

__all__ = ["who_holds"]

_DEEP = 20  # containers around each other
_MOST = 20_000  # objects that are looked at
_UNNAMED = ("__builtins__", "__warningregistry__")


def living(kind: type) -> list[Any]:
    """All objects of a class, or of those that come from it."""
    return [thing for thing in gc.get_objects() if issubclass(type(thing), kind)]


def who_holds(tensor: Any) -> list[str]:
    """What keeps a tensor and its memory alive.

    Args:
        tensor: a tensor, or the array of one.
    Returns:
        Texts such as "losses[3], a variable of train (train.py:12)", "saved by ExpBackward0 (model.py:8) for the gradient of total, a variable
        of main (train.py:30)". What no variable leads to is told as the objects that hold it.
    Raises:
        TypeError: it is neither.

    >>> losses = [dynograd.ones(2)]
    >>> dynograd.debug.who_holds(losses[0])[0].startswith("losses[0], a variable of")
    True
    """
    if not isinstance(tensor, Tensor) and not arrays.is_array(tensor):
        raise TypeError(f"who_holds: expected a tensor, got {type(tensor).__name__}.")
    owner = arrays.base_of(array_of(tensor) if isinstance(tensor, Tensor) else tensor)
    names = _variables()
    texts = []
    tensors = [tensor] if isinstance(tensor, Tensor) else []
    tensors += [other for other in living(Tensor) if other is not tensor and _owner_of(other) is owner]
    nodes = [node for node in living(Node) if getattr(node, "attrs", FREED) is not FREED and _saves(node, owner)]
    for other in tensors:
        texts += _paths_to(other, names, {id(tensors), id(nodes)})
    for node in nodes:
        line = traces.get(node)
        place = f" ({short(line)})" if line else ""
        losses = [path for loss in _results_behind(node) for path in _paths_to(loss, names, {id(tensors), id(nodes)})]
        texts.append(
            f"saved by {node.name()}{place} for the gradient of {losses[0] if losses else 'a tensor that no variable leads to'}"
        )
    return list(dict.fromkeys(texts))


def _owner_of(tensor: Tensor) -> arrays.Array | None:
    if tensor.device.type == "meta" or type(tensor).__name__ == "Lazy":
        return None
    array = array_of(tensor)
    return arrays.base_of(array) if arrays.is_array(array) else None


def _saves(node: Node, owner: Any) -> bool:
    for name in node.saved_names:
        value = getattr(node, name, None)
        for part in value if isinstance(value, (tuple, list)) else (value,):
            if arrays.is_array(part) and part.ndim is not None and arrays.base_of(part) is owner:
                return True
    return False


def _results_behind(node: Node) -> Iterator[Tensor]:
    """Living tensors whose graph has the node."""
    behind: dict[int, list[Node]] = {}
    tensors: dict[int, list[Tensor]] = {}
    for other in living(Node):
        for edge in getattr(other, "edges", ()):
            behind.setdefault(id(edge), []).append(other)
    for tensor in living(Tensor):
        if type(tensor).__name__ != "Lazy" and tensor.node is not None:
            tensors.setdefault(id(tensor.node), []).append(tensor)
    seen, waiting = {id(node)}, [node]
    for reached in waiting:
        yield from tensors.get(id(reached), ())
        for following in behind.get(id(reached), ()):
            if id(following) not in seen:
                seen.add(id(following))
                waiting.append(following)


def _variables() -> dict[int, tuple[str, str]]:
    """(name, whose variable it is) of what variables of running functions and of modules of the program refer to."""
    names: dict[int, tuple[str, str]] = {}
    running: list[types.FrameType | None] = list(sys._current_frames().values())
    for frame in running:
        while frame is not None:
            if not _is_ours(frame.f_globals.get("__name__", "")):
                code = frame.f_code
                line = short(f"{code.co_filename}:{frame.f_lineno}")
                where = line if code.co_name == "<module>" else f"{code.co_name} ({line})"
                for name, value in list(frame.f_locals.items()):
                    if name not in _UNNAMED:
                        names.setdefault(id(value), (name, where))
            frame = frame.f_back
    for module in list(sys.modules.values()):
        if isinstance(module, types.ModuleType) and not _is_ours(module.__name__):
            for name, value in list(vars(module).items()):
                if not isinstance(value, (types.ModuleType, type, types.FunctionType)) and name not in _UNNAMED:
                    names.setdefault(id(value), (name, f"module {module.__name__}"))
    return names


def _is_ours(name: str) -> bool:
    return name == "dynograd" or name.startswith("dynograd.")


def _paths_to(thing: Any, names: dict[int, tuple[str, str]], hidden: set[int]) -> list[str]:
    """Ways from variables to an object: `losses[3], a variable of train (train.py:12)`."""
    paths: list[str] = []
    seen = {id(thing)}
    waiting: list[tuple[Any, str, int]] = [(thing, "", 0)]
    looked = 0
    last = None
    while waiting and looked < _MOST:
        thing, path, depth = waiting.pop(0)
        looked += 1
        name = names.get(id(thing))
        if name is not None:
            paths.append(f"{_plain(name[0] + path)}, a variable of {name[1]}")
            continue
        referrers = [
            referrer
            for referrer in gc.get_referrers(thing)
            if id(referrer) not in seen
            and id(referrer) not in hidden
            and referrer is not waiting
            and not isinstance(referrer, types.FrameType)
            and not _is_of_this_search(referrer)
        ]
        if depth == _DEEP:
            continue
        for referrer in referrers:
            seen.add(id(referrer))
            step = _step(referrer, thing)
            if step is None:
                continue
            last = _plain(f"a {type(referrer).__name__}{step}{path}")
            waiting.append((referrer, f"{step}{path}", depth + 1))
    return paths or ([last] if last else [])


def _is_of_this_search(referrer: Any) -> bool:
    """Tuples and lists that the search itself holds things in."""
    return type(referrer) is tuple and len(referrer) == 3 and type(referrer[1]) is str and type(referrer[2]) is int


def _plain(path: str) -> str:
    """Attributes as one writes them: `net.0.weight` for what goes through the dicts of objects and modules."""
    path = re.sub(r"\{\w+\}\['(\w+)'\]", r".\1", path)
    path = re.sub(r"\.(_modules|_parameters|_buffers)\['([\w.]+)'\]", r".\2", path)
    return re.sub(r"\{(\w+)\}", r" (\1) ", path)


def _step(holder: Any, thing: Any) -> str | None:
    """How a holder refers to a thing: `[3]`, `.weight`, `{Net}` for an object whose dict refers to it; None for what tells nothing."""
    if isinstance(holder, dict):
        key = next((key for key, value in holder.items() if value is thing), None)
        return f"[{key!r}]" if key is not None else None
    if isinstance(holder, (list, tuple)):
        number = next((number for number, entry in enumerate(holder) if entry is thing), None)
        return None if number is None else f"[{number}]"
    if isinstance(holder, Tensor):
        return ".grad" if holder._grad is thing else None
    variables = getattr(holder, "__dict__", None)
    if isinstance(variables, dict) and not isinstance(holder, types.FunctionType):
        name = next((name for name, value in variables.items() if value is thing), None)
        if name is not None:
            return f".{name}"
    return f"{{{type(holder).__name__}}}"
