"""Attention in tiles: the noted kernels, with tasks that a kernel writes, so that they are the same launches for any sizes."""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.kernels.build import threads
from dynograd.kernels.build.launches import Launch
from dynograd.plans.calls import Call
from dynograd.plans.lowering import layouts
from dynograd.plans.lowering.bound import assistance
from dynograd.plans.lowering.forms import Lowered, arguments_of

__all__: list[str] = []

_TASKS, _BOUNDS = 1, 2  # arguments of `attentions_numba.forward` and `backward`, by place
_NUMBERS = 11  # of a task


@assistance("op", "scaled_dot_product_attention")
def _attention(call: Call) -> list[Launch]:
    arguments = arguments_of(call)
    return _with_tasks(call, arguments["query"], arguments["key"], 0)


@assistance("rule", "scaled_dot_product_attention")
def _attention_rule(call: Call) -> list[Launch]:
    query, key = call.node.query, call.node.key
    return _with_tasks(call, query, key, _heads(query) // _heads(key))


def _heads(array: Any) -> int:
    return int(array.shape[-3]) if array.ndim > 2 else 1


def _with_tasks(call: Call, query: Any, key: Any, step: int) -> list[Launch]:
    from dynograd.kernels.attention import attentions_numba, dense_tasks_numba

    tiled = (*attentions_numba.forward.values(), *attentions_numba.backward.values())
    places = [place for place, launch in enumerate(call.launches) if any([launch.kernel is kernel for kernel in tiled])]
    if len(places) != 1 or not isinstance(query, numpy.ndarray) or not isinstance(key, numpy.ndarray):
        return call.launches
    (place,) = places
    launch = call.launches[place]
    batch = int(query.shape[0]) if query.ndim == 4 else 1
    heads, parts = _heads(query), threads.get_num_threads()
    tasks = layouts.scratch((batch * heads // (step or 1) * (1 if step else parts), _NUMBERS), numpy.int64)
    bounds = layouts.scratch((parts + 1,), numpy.int64)
    written = (batch, heads, step, int(query.shape[-2]), int(key.shape[-2]), parts, tasks, bounds)
    arguments = list(launch.arguments)
    arguments[_TASKS], arguments[_BOUNDS] = tasks, bounds
    launches = list(call.launches)
    launches[place : place + 1] = [
        Launch(dense_tasks_numba.write_tasks, written, 1),
        Launch(launch.kernel, tuple(arguments), parts, launch.parts, launch.kept),
    ]
    return Lowered(launches)
