"""Modules called side by side, each on its device and in a thread of its own."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

from dynograd import amp, cuda
from dynograd.autograd import inference_mode, is_grad_enabled, is_inference_mode_enabled, set_grad_enabled
from dynograd.base.random_streams import apart, default_generator
from dynograd.nn.module import Module
from dynograd.nn.parallel.comm import place_of
from dynograd.tensor.tensor import Tensor

__all__ = ["get_a_var", "parallel_apply"]


def get_a_var(obj: Any) -> Tensor | None:
    """The first tensor of a structure, None where it has none."""
    if isinstance(obj, Tensor):
        return obj
    values = obj.values() if isinstance(obj, dict) else obj if isinstance(obj, (list, tuple)) else ()
    return next((tensor for value in values if (tensor := get_a_var(value)) is not None), None)


def parallel_apply(
    modules: Sequence[Module],
    inputs: Sequence[Any],
    kwargs_tup: Sequence[dict[str, Any]] | None = None,
    devices: Sequence[Any] | None = None,
) -> list[Any]:
    """`modules[i](*inputs[i], **kwargs_tup[i])` for each i, each in a thread.

    Threads are in the caller's grad mode, autocast and streams. Each module has random numbers of its own: they depend on the place of the
    caller's stream, and not on which thread is faster.

    Args:
        modules: what is called.
        inputs: for each a tuple of arguments, or the only one.
        kwargs_tup: for each a dict of keyword arguments.
        devices: for each a device that is current while it runs; that of its first input unless given.
    Returns:
        A list of results.
    Raises:
        ValueError: not as many of one as of the other.
        What the first module that fails has raised, with its number and device.

    >>> double, half = (lambda x: 2 * x), (lambda x: x / 2)
    >>> dynograd.nn.parallel.parallel_apply([double, half], [tensor([1.0]), tensor([1.0])])
    [tensor([2.]), tensor([0.5000])]
    """
    count = len(modules)
    named = [{}] * count if kwargs_tup is None else kwargs_tup
    places = [None] * count if devices is None else [place_of(device) for device in devices]
    if not count == len(inputs) == len(named) == len(places):
        raise ValueError(
            f"parallel_apply: expected inputs, kwargs_tup and devices for each of {count} modules, got {len(inputs)}, {len(named)} and {len(places)}."
        )
    context = _Context()

    def call(number: int) -> object:
        positional = inputs[number] if isinstance(inputs[number], (list, tuple)) else (inputs[number],)
        place = places[number]
        if place is None:
            tensor = get_a_var((positional, named[number]))
            place = None if tensor is None else tensor.device
        with context.entered(number, place):
            try:
                return modules[number](*positional, **named[number])
            except Exception as error:
                error.add_note(f"in replica {number} on device {'of the caller' if place is None else place}")
                raise

    if count == 1:
        return [call(0)]
    with ThreadPoolExecutor(count, "replica") as threads:
        calls = [threads.submit(call, number) for number in range(count)]
    return [running.result() for running in calls]


class _Context:
    """What threads take over from the thread that begins them."""

    def __init__(self) -> None:
        self._grad, self._inference = is_grad_enabled(), is_inference_mode_enabled()
        self._autocast = [
            (kind, amp.get_autocast_dtype(kind), amp.is_autocast_enabled(kind)) for kind in ("cpu", "cuda")
        ]
        self._caches = amp.is_autocast_cache_enabled()
        self._stream = [cuda.current_stream(number) for number in range(cuda.device_count())]
        self._place = default_generator.key(1)

    def entered(self, number: int, place: Any) -> ExitStack:
        """The context in which module `number` runs on a device."""
        stack = ExitStack()
        key = hashlib.blake2b(f"{self._place[0]} {self._place[1]} {number}".encode(), digest_size=8)
        stack.enter_context(apart((int.from_bytes(key.digest(), "little"), 0)))
        if place is not None and place.type == "cuda":
            stack.enter_context(cuda.device(place))
            stack.enter_context(cuda.stream(self._stream[place.index]))
        for kind, dtype, enabled in self._autocast:
            stack.enter_context(amp.autocast(kind, dtype, enabled, self._caches))
        if self._inference:
            stack.enter_context(inference_mode())
        stack.enter_context(set_grad_enabled(self._grad))
        return stack
