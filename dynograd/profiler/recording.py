"""The listener that takes the time: one Event for each range, nested as they ran."""

from __future__ import annotations

import threading
import weakref
from time import perf_counter_ns
from typing import Any

from dynograd import arrays, cuda
from dynograd.autograd.modes import MODES
from dynograd.autograd.nodes import frame_at
from dynograd.ops.op import registry
from dynograd.profiler.events import Event, EventList
from dynograd.tensor.tensor import Tensor

__all__ = ["Recorder"]


class Recorder:
    """Takes the time of ranges while `on`; notes what is asked for: "shapes", "memory", "stack", "flops", "device"."""

    def __init__(self, noted: frozenset[str]) -> None:
        self.noted = noted
        self.on = True
        self.begun = perf_counter_ns()
        self.events: list[Event] = []
        self.local = threading.local()
        self.stacks: weakref.WeakKeyDictionary[Any, list[str]] = weakref.WeakKeyDictionary()
        """Of nodes: the lines of the ops that they belong to."""

    def begin(self, kind: str, name: str, args: tuple) -> Any:
        if not self.on:
            return None
        event = Event(kind, name, threading.get_native_id())
        noted = self.noted
        if noted:
            if args and kind == "op" and ("shapes" in noted or "flops" in noted):
                event.input_shapes = [_shape(argument) for argument in args]
            if "memory" in noted and kind == "op":
                event.operands = _memories(args)
            if "stack" in noted:
                event.stack = self.stacks.get(args[0]) or _user_stack() if kind == "backward" else _user_stack()
            if "device" in noted:
                event.device_marks = [_device_mark(), None]
        open_ones = self._open()
        if open_ones:
            event.cpu_parent = open_ones[-1]
            open_ones[-1].cpu_children.append(event)
        open_ones.append(event)
        self.events.append(event)
        event.start = (perf_counter_ns() - self.begun) / 1000
        return event

    def end(self, mark: Any, result: Any) -> None:
        if mark is None:
            return
        now = (perf_counter_ns() - self.begun) / 1000
        mark.end = now
        open_ones = self._open()
        if mark in open_ones:
            del open_ones[open_ones.index(mark) :]
        noted = self.noted
        if "stack" in noted and mark.kind == "op" and MODES.recorder is None:
            for node in _nodes_of(result):
                self.stacks.setdefault(node, mark.stack)
        if "device" in noted and mark.device_marks is not None:
            mark.device_marks[1] = _device_mark()
        if mark.kind == "op" and result is not None:
            if "memory" in noted:
                mark.memory = max(
                    0, _new_bytes(result, mark.operands) - sum(child.cpu_memory_usage for child in mark.cpu_children)
                )
                mark.operands = []
            if "flops" in noted:
                mark.flops = _flops(mark.name, mark.input_shapes, result)

    def _open(self) -> list[Event]:
        try:
            return self.local.open
        except AttributeError:
            self.local.open = []
            return self.local.open

    def finished(self) -> EventList:
        """The events that have ended; times on the device are read now."""
        listed = EventList(event for event in self.events if event.end)
        listed.noted = self.noted
        if "device" in self.noted:
            cuda.synchronize()
            for event in listed:
                if event.device_marks is not None and all(event.device_marks):
                    event.device_time_total = 1000 * event.device_marks[0].elapsed_time(event.device_marks[1])
        return listed


def _nodes_of(result: Any) -> list[Any]:
    """The nodes that an op has recorded for its results."""
    if isinstance(result, (list, tuple)):
        return [node for part in result for node in _nodes_of(part)]
    node = getattr(result, "grad_fn", None) if isinstance(result, Tensor) else None
    return [] if node is None else [node]


def _shape(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_shape(entry) for entry in value if hasattr(entry, "shape")]
    return list(value.shape) if hasattr(value, "shape") else []


def _memories(args: Any) -> list[Any]:
    """What owns the memory of the operands."""
    memories = []
    for value in args:
        if isinstance(value, (list, tuple)):
            memories += _memories(value)
        else:
            array = value.array if isinstance(value, Tensor) else value
            if arrays.is_array(array):
                memories.append(arrays.base_of(array))
    return memories


def _new_bytes(result: Any, operands: list[Any]) -> int:
    """The bytes of what lies in no operand's memory."""
    if isinstance(result, (list, tuple)):
        return sum(_new_bytes(part, operands) for part in result)
    array = result.array if isinstance(result, Tensor) else result
    if not arrays.is_array(array) or getattr(array, "ndim", 0) is None:
        return 0
    memory = arrays.base_of(array)
    return 0 if any([memory is operand for operand in operands]) else array.nbytes


def _user_stack() -> list[str]:
    """The user's frames, the nearest first."""
    frame: Any = frame_at(3)
    lines = []
    while frame is not None and len(lines) < 32:
        if not frame.f_globals.get("__name__", "").startswith("dynograd"):
            code = frame.f_code
            lines.append(f"{code.co_filename}({frame.f_lineno}): {code.co_name}")
        frame = frame.f_back
    return lines


def _device_mark() -> Any:
    mark = cuda.Event(enable_timing=True)
    mark.record()
    return mark


def _flops(name: str, shapes: list[Any], result: Any) -> int:
    """Multiplications and additions of products, convolutions and sums of two; 0 for the rest."""
    count = getattr(result, "size", 0) if not isinstance(result, Tensor) else result.numel()
    if callable(count) or not count:
        return 0
    sized = [shape for shape in shapes if shape]
    entry = registry.get(name)
    work = None if entry is None else entry.row["work"]
    if work == "product" and sized:
        inner = sized[1] if name in ("addmm", "baddbmm") and len(sized) > 1 else sized[0]
        return 2 * count * inner[-1]
    if work == "convolution" and len(sized) > 1:
        weight = 1
        for size in sized[1][1:]:
            weight *= size
        return 2 * count * weight
    return count if name in ("add", "mul") else 0
