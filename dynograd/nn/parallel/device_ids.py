"""The GPU that DistributedDataParallel is told of by `device_ids`, and inputs on their way to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from dynograd.base import devices
from dynograd.nn.module import Module
from dynograd.nn.parallel.scatter_gather import is_namedtuple
from dynograd.nn.utils.rnn import PackedSequence
from dynograd.tensor.tensor import Tensor

__all__ = ["device_of", "moved"]

T = TypeVar("T")


def device_of(module: Module, device_ids: Sequence[Any], output_device: Any) -> devices.device | None:
    """The one device of `module` that `device_ids` names, to which inputs are to be moved; None where it names none."""
    used = {parameter.device for parameter in module.parameters()}
    if len({device.type for device in used}) > 1:
        raise ValueError(
            f"DistributedDataParallel's input module must be on the same type of devices, but input module parameters locate in "
            f"{sorted(map(str, used))}. Move it with module.to(device)."
        )
    if len(device_ids) > 1:
        raise ValueError(
            f"DistributedDataParallel: device_ids can only be None or contain a single element, got {list(device_ids)}. Each process has "
            f"its own GPU."
        )
    if not device_ids and output_device is None:
        return None
    if len(used) > 1 or not next(iter(used)).type == "cuda":
        raise ValueError(
            f"DistributedDataParallel device_ids and output_device arguments only work with single-device GPU modules, but got device_ids "
            f"{list(device_ids)}, output_device {output_device}, and module parameters {sorted(map(str, used))}. Leave them out."
        )
    own = next(iter(used))
    for name, value in [("device_ids", value) for value in device_ids] + [("output_device", output_device)]:
        if value is None:
            continue
        device = devices.device("cuda", value) if isinstance(value, int) else devices.device(value)
        if device != own:
            raise ValueError(
                f"DistributedDataParallel: the module is on {own}, got {name}={value!r}. Move it there before, with module.to({str(device)!r})."
            )
    return own


def moved(value: T, device: devices.device) -> T:
    """The same value with all tensors in it on a device: those of tuples, lists and dicts too."""
    result: Any = value
    kind: Any = type(value)
    if isinstance(value, (Tensor, PackedSequence)):
        result = value.to(device)
    elif is_namedtuple(value):
        result = kind(*[moved(part, device) for part in result])
    elif isinstance(value, (tuple, list)):
        result = kind([moved(part, device) for part in value])
    elif isinstance(value, dict):
        result = kind([(key, moved(part, device)) for key, part in value.items()])
    return result
