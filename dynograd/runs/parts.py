"""The parts of a run (model, optimizer, loader, ...) and their states. A part is an object with `state_dict`, a generator of random
numbers, or a list, tuple or dict of these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynograd.data import DataLoader
from dynograd.errors import CheckpointError
from dynograd.runs.random_states import is_generator, set_state, state_of

__all__ = ["RESERVED", "Parts", "check_names", "divided", "load_states", "put_in", "rank_state", "size_of", "states_of"]

Parts = dict[str, Any]
RESERVED = ("run", "random", "extra")


def check_names(who: str, parts: Parts) -> Parts:
    """The parts that were given (None: not given).

    Raises:
        TypeError: one is neither of the things that have a state.
        ValueError: a name that the file needs for itself.
    """
    for name in RESERVED:
        if name in parts:
            raise ValueError(f"{who}: the name {name!r} is taken by the run itself. Call that part otherwise.")
    named = {name: value for name, value in parts.items() if value is not None}
    for name, value in named.items():
        _walk(value, name, lambda part, place: _check_part(who, part, place))
    return named


def states_of(parts: Parts) -> dict[str, Any]:
    """The state of each part, in the shape in which it was given."""
    return {name: _walk(named_part, name, lambda part, place: _state(part)) for name, named_part in parts.items()}


def size_of(state: Any) -> int:
    """The bytes of all tensors and arrays in a state."""
    if isinstance(state, dict):
        return sum([size_of(entry) for entry in state.values()])
    if isinstance(state, (list, tuple)):
        return sum([size_of(entry) for entry in state])
    return int(getattr(state, "nbytes", 0))


def load_states(parts: Parts, states: dict[str, Any], where: str) -> None:
    """Gives each part its state.

    Raises:
        CheckpointError: a part is not in the file, or another number of objects; nothing is changed then.
    """
    pairs: list[tuple[Any, Any, str]] = []
    for name, named_part in parts.items():
        if name not in states:
            raise CheckpointError(
                f"load_run: {where} has no {name!r}, only {', '.join(map(repr, states)) or 'nothing'}. Save it too, or leave it out here."
            )
        _pair(named_part, states[name], name, where, pairs)
    for part, state, place in pairs:
        try:
            _load(part, state)
        except Exception as error:
            error.add_note(f"while load_run gave {place} ({type(part).__name__}) its state from {where}")
            raise


def _walk(parts: Any, place: str, action: Callable[[Any, str], Any]) -> Any:
    if isinstance(parts, dict) and not hasattr(parts, "state_dict"):
        return {key: _walk(value, f"{place}.{key}", action) for key, value in parts.items()}
    if isinstance(parts, (list, tuple)) and not hasattr(parts, "state_dict"):
        return [_walk(value, f"{place}.{number}", action) for number, value in enumerate(parts)]
    return action(parts, place)


def _check_part(who: str, part: Any, place: str) -> None:
    if is_generator(part):
        return
    for method in ("state_dict", "load_state_dict"):
        if not callable(getattr(part, method, None)):
            raise TypeError(
                f"{who}: {place} is a {type(part).__name__}, which has no {method}(). Give modules, optimizers, schedulers, scalers, "
                f"loaders or generators (or lists and dicts of them), and plain data as extra=."
            )


def _state(part: Any) -> Any:
    if is_generator(part):
        return state_of(part)
    return {"slices": [part.state_of_slices()]} if hasattr(part, "state_of_slices") else part.state_dict()


def _load(part: Any, state: Any) -> None:
    if is_generator(part):
        set_state(part, state)
    elif hasattr(part, "load_state_of_slices") and isinstance(state, dict) and "slices" in state:
        part.load_state_of_slices(state["slices"])
    else:
        part.load_state_dict(state)


def divided(parts: Parts) -> tuple[dict[str, Any], dict[str, Any]]:
    """(the states that all processes have alike, in the shape of the parts, with None for others; the states of this process's own, by place)."""
    own: dict[str, Any] = {}

    def action(part: Any, place: str) -> dict[str, Any] | None:
        is_own = is_generator(part) or hasattr(part, "state_of_slices") or isinstance(part, DataLoader)
        if not is_own:
            return _state(part)
        own[place] = _state(part)
        return None

    return {name: _walk(named_part, name, action) for name, named_part in parts.items()}, own


def put_in(states: dict[str, Any], place: str, state: Any) -> None:
    """Puts a state where `divided` has left None."""

    def put(value: Any, rest: str) -> bool:
        pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, entry in pairs:
            if rest == str(key) and entry is None:
                value[key] = state
                return True
            if rest.startswith(f"{key}.") and put(entry, rest[len(str(key)) + 1 :]):
                return True
        return False

    if not put(states, place):
        raise CheckpointError(f"load_run: there is no place for the state {place!r}: the file is damaged.")


def rank_state(states: list[Any], digests: list[int], rank: int, size: int, place: str, path: str) -> dict[str, Any]:
    """Of the states that processes had of their own, the one for a process: slices of all, else that of its rank, or of any if all are alike."""
    if isinstance(states[0], dict) and "slices" in states[0]:
        return {"slices": [entry for state in states for entry in state["slices"]]}
    if len(states) == size:
        return states[rank]
    if len(set(digests)) == 1:
        return states[0]
    raise CheckpointError(
        f"load_run: {path} was saved by {len(states)} processes, each with another state of {place!r}, and there are {size} now. Go on with "
        f"{len(states)}, or train with distributed.VirtualShards, by which all have the same."
    )


def _pair(part: Any, state: Any, place: str, where: str, pairs: list[tuple[Any, Any, str]]) -> None:
    if hasattr(part, "state_dict") or not isinstance(part, (dict, list, tuple)):
        pairs.append((part, state, place))
        return
    keys = list(part) if isinstance(part, dict) else list(range(len(part)))
    there = list(state) if isinstance(state, dict) else list(range(len(state))) if isinstance(state, list) else None
    if there is None or isinstance(part, dict) != isinstance(state, dict) or set(keys) != set(there):
        raise CheckpointError(
            f"load_run: {place} is a {type(part).__name__} of {keys}, but {where} holds {_kind(state, there)}. Give load_run what save_run "
            f"was given."
        )
    for key in keys:
        _pair(part[key], state[key], f"{place}.{key}", where, pairs)


def _kind(state: Any, there: Any) -> str:
    return f"one {type(state).__name__}" if there is None else f"a {type(state).__name__} of {there[:8]}"
