"""The state of an optimizer as PyTorch lays it out: parameters are numbers, counted through the groups."""

from __future__ import annotations

from collections import defaultdict
from copy import deepcopy
from typing import Any

from dynograd import arrays
from dynograd.base import devices, dtypes
from dynograd.errors import ShapeError, StateDictError
from dynograd.tensor.tensor import Tensor, wrap

__all__ = ["new_step", "packed", "unpacked"]

# Entries of a group that are no options of its optimizer; schedules add more.
_OF_OTHERS = {"params", "param_names", "initial_lr", "max_lr", "min_lr", "base_momentum", "max_momentum", "swa_lr"}


def new_step(group: dict[str, Any], p: Tensor | None = None) -> Tensor:
    """A step counter at 0, in the dtype and (with `fused` or `capturable`) on the device of `p` as PyTorch has it."""
    with_kernel = _counts_on_device(group)
    wide = dtypes.get_default_dtype() is dtypes.float64 and not with_kernel
    device = arrays.device_of(p.array) if with_kernel and p is not None else devices.cpu
    return wrap(arrays.zeros((), dtypes.float64 if wide else dtypes.float32, device))


def _counts_on_device(group: dict[str, Any]) -> bool:
    return bool(group.get("fused") or group.get("capturable"))


def packed(optimizer: Any) -> dict[str, Any]:
    """State and groups with numbers in the parameters' place."""
    numbers: dict[int, int] = {}
    groups = []
    start = 0
    for group in optimizer.param_groups:
        for number, p in enumerate(group["params"], start):
            numbers.setdefault(id(p), number)
        start += len(group["params"])
        options = {option: value for option, value in group.items() if option != "params"}
        groups.append(options | {"params": [numbers[id(p)] for p in group["params"]]})
    state = {numbers[id(key)] if isinstance(key, Tensor) else key: value for key, value in optimizer.state.items()}
    return {"state": state, "param_groups": groups}


def unpacked(optimizer: Any, loaded: dict[str, Any]) -> tuple[defaultdict, list[dict[str, Any]]]:
    """The state by parameter and the groups with parameters, checked against the optimizer's."""
    if "state" not in loaded or "param_groups" not in loaded:
        raise StateDictError(
            f"load_state_dict: expected a dict with 'state' and 'param_groups', got the keys {[*loaded][:6]}. "
            f"Pass what optimizer.state_dict() returned."
        )
    _check_form(loaded["state"], loaded["param_groups"])
    groups, saved = optimizer.param_groups, deepcopy(loaded["param_groups"])
    if len(groups) != len(saved):
        raise ValueError(
            f"load_state_dict: loaded state dict has a different number of parameter groups: expected {len(groups)}, got {len(saved)}. "
            f"Build the optimizer with the same groups."
        )
    for position, other in enumerate(saved):
        _check_options(optimizer, position, other)
    by_number: dict[Any, tuple[Tensor, dict[str, Any]]] = {}
    for position, (group, other) in enumerate(zip(groups, saved)):
        if len(group["params"]) != len(other["params"]):
            raise ValueError(
                f"load_state_dict: loaded state dict contains a parameter group that doesn't match the size of optimizer's group: "
                f"group {position} has {len(group['params'])} parameters, the loaded one {len(other['params'])}."
            )
        by_number |= {number: (p, other) for number, p in zip(other["params"], group["params"])}
    state: defaultdict[Any, Any] = defaultdict(dict)
    for number, entry in loaded["state"].items():
        if number not in by_number:
            state[number] = entry
            continue
        p, group = by_number[number]
        state[p] = _fitted(p, entry, group, None, optimizer.counters)
        if optimizer.elementwise:
            _check_shapes(number, p, state[p], optimizer.counters)
    for group, other in zip(groups, saved):
        other["params"] = group["params"]
        if "param_names" in group:
            other.setdefault("param_names", group["param_names"])
    return state, saved


def _check_form(state: Any, groups: Any) -> None:
    """Refuses what no optimizer's `state_dict()` is: another dict of a file, say."""
    if not isinstance(state, dict):
        raise StateDictError(f"load_state_dict: expected 'state' to be a dict of dicts, got a {type(state).__name__}.")
    for number, entry in state.items():
        if not isinstance(entry, dict) and not isinstance(number, str):
            raise StateDictError(
                f"load_state_dict: expected the state of parameter {number} to be a dict, got a {type(entry).__name__}."
            )
    if not isinstance(groups, (list, tuple)):
        raise StateDictError(
            f"load_state_dict: expected 'param_groups' to be a list of dicts, got a {type(groups).__name__}."
        )
    for position, group in enumerate(groups):
        if not isinstance(group, dict) or not isinstance(group.get("params"), (list, tuple)):
            raise StateDictError(
                f"load_state_dict: expected group {position} to be a dict with a list 'params', got {str(group)[:80]}. Pass what "
                f"optimizer.state_dict() returned."
            )
        odd = [number for number in group["params"] if not isinstance(number, (int, str))]
        if odd:
            raise StateDictError(
                f"load_state_dict: expected numbers of parameters in group {position}, got a {type(odd[0]).__name__}."
            )


def _check_options(optimizer: Any, position: int, saved: dict[str, Any]) -> None:
    """Refuses a group of another kind of optimizer: it lacks options of ours and has some that we do not know."""
    missing = [option for option in optimizer.defaults if option not in saved]
    unknown = [
        option for option in saved if option not in optimizer.param_groups[position] and option not in _OF_OTHERS
    ]
    if missing and unknown:
        raise StateDictError(
            f"load_state_dict: group {position} lacks the options {missing} of {type(optimizer).__name__} and has {unknown}: it was saved by "
            f"another optimizer. Build the one that was saved."
        )


def _fitted(p: Tensor, value: Any, group: dict[str, Any], name: Any, counters: tuple[str, ...]) -> Any:
    """A copy of a state's value, its tensors in the dtype that `p` wants."""
    if isinstance(value, Tensor) and value.is_sparse:
        return value.with_entries(_fitted(p, value._values(), group, name, counters))  # type: ignore[attr-defined]
    if isinstance(value, Tensor):
        value = value.array
    if arrays.is_array(value):
        counts = name in counters
        return wrap(_in_dtype(p, _brought(p, value, group, counts), group, counts))
    if isinstance(value, dict):
        return {key: _fitted(p, inner, group, key, counters) for key, inner in value.items()}
    if isinstance(value, (list, tuple, set)):
        return type(value)(_fitted(p, inner, group, None, counters) for inner in value)
    return value


def _brought(p: Tensor, array: Any, group: dict[str, Any], counts: bool) -> Any:
    """A copy on the parameter's device; step counters that no kernel counts stay where they are."""
    device = arrays.device_of(p.array)
    if arrays.device_of(array) == device or (counts and not _counts_on_device(group)):
        return arrays.copy(array)
    return arrays.to_device(array, device)


def _in_dtype(p: Tensor, array: Any, group: dict[str, Any], counts: bool) -> Any:
    if counts:
        return arrays.cast(array, dtypes.float32) if group.get("fused") or group.get("capturable") else array
    return arrays.cast(array, p.dtype) if p.is_floating_point() else array


def _check_shapes(number: Any, p: Tensor, state: dict[str, Any], counters: tuple[str, ...]) -> None:
    for name, value in state.items():
        if name not in counters and isinstance(value, Tensor) and value.array.shape != p.array.shape:
            raise ShapeError(
                f"load_state_dict: {name} of parameter {number} has shape {tuple(value.array.shape)}, but the parameter has shape "
                f"{tuple(p.array.shape)}. Is the state of another model, or are the parameters in another order?"
            )
