"""Rows and elements picked by indices."""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.onnx.writers.calls import Call, writer

__all__: list[str] = []


@writer("embedding")
def embedding(call: Call) -> str:
    return call.node("Gather", [call.input("weight"), call.input("indices")], axis=0)


@writer("gather")
def gather(call: Call) -> str:
    return call.node("GatherElements", [call.input("input"), call.input("index")], axis=call.axis())


@writer("scatter")
def scatter(call: Call) -> str:
    return _scattered(call)


@writer("scatter_add")
def scatter_add(call: Call) -> str:
    return _scattered(call, reduction="add")


def _scattered(call: Call, **options: Any) -> str:
    if call.shapes("index") != call.shapes("src"):
        raise call.refused("of more values than indices")
    names = [call.input(name) for name in ("input", "index", "src")]
    return call.node("ScatterElements", names, axis=call.axis(), **options)


@writer("one_hot")
def one_hot(call: Call) -> str:
    count = call.static("num_classes")
    if count < 0:
        raise call.refused("without num_classes, which then depends on values,")
    values = call.constant([0, 1], numpy.int64)
    return call.node("OneHot", [call.input("input"), call.constant(count, numpy.int64), values], axis=-1)
