"""Attention in tiles: the noted kernels, with tasks that a kernel writes, so that they are the same launches for any sizes; within sequences of
different lengths with tasks that are dealt out anew where the lengths are others."""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.kernels.attention.attentions_tasks import ragged_tasks
from dynograd.kernels.build import threads
from dynograd.kernels.build.launches import Launch
from dynograd.plans.calls import Call
from dynograd.plans.lowering import layouts
from dynograd.plans.lowering.bound import assistance
from dynograd.plans.lowering.forms import Lowered, arguments_of

__all__: list[str] = []

_TASKS, _BOUNDS = 1, 2  # arguments of `attentions_numba.forward` and `backward`, by place
_DRAWS = {"op": 12, "rule": 13}  # where seed and offset stand
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
    return Lowered(launches, draw=arguments[_DRAWS[call.kind]])


# --- sequences of different lengths ---------------------------------------------------------------------------------------------

_SIZES = 3  # of the same for rows of different lengths
_MOST_ROWS, _MOST_KEYS = 1, 2  # of the sizes among them


@assistance("op", "varlen_attention")
def _ragged_attention(call: Call) -> Lowered | None:
    return _dealt_anew(call, arguments_of(call), call.inputs[0].shape[1], 0)


@assistance("rule", "varlen_attention")
def _ragged_attention_rule(call: Call) -> Lowered | None:
    node = call.node
    arguments = dict(zip(node.op.static_names, node.attrs)) | {
        name: getattr(node, name) for name in ("offsets_q", "offsets_k")
    }
    heads, shared = node.query.shape[1], node.key.shape[1]
    return _dealt_anew(call, arguments, heads, heads // max(shared, 1))


def _dealt_anew(call: Call, arguments: dict[str, Any], heads: int, step: int) -> Lowered | None:
    if len(call.launches) != 1 or arguments["p"]:
        return None
    launch, offsets = call.launches[0], (arguments["offsets_q"], arguments["offsets_k"])
    tasks = _Tasks(launch, offsets, heads, step, bool(arguments["ends"]), max(arguments["window"][1], 0))
    examples = [numpy.arange(array.size) * tokens // (array.size - 1) for array, tokens in zip(offsets, _tokens(call))]
    tasks.deal(*examples)
    return Lowered([tasks.launch], check=tasks, places=list(zip(offsets, examples)))


def _tokens(call: Call) -> tuple[int, int]:
    query, key = call.inputs[:2] if call.kind == "op" else (call.node.query, call.node.key)
    return query.shape[0], key.shape[0]


class _Tasks:
    """The tasks of a launch, for the offsets that are there when it is called. There is room for those of any offsets."""

    def __init__(self, launch: Launch, offsets: tuple[Any, Any], heads: int, step: int, ends: bool, reach: int) -> None:
        self.offsets, self.parts, self.known = offsets, launch.count, (b"", b"")
        self.options = heads, step, ends, reach, launch.count
        arguments = list(launch.arguments)
        # A head that is much of the work is cut in as many as there are parts.
        most = heads * (offsets[0].size - 1 + 2 * self.parts * (self.parts - 1))
        self.rows, self.bounds = numpy.zeros((most, 11), numpy.int64), numpy.zeros(self.parts + 1, numpy.int64)
        self.sizes = arguments[_SIZES].copy()
        arguments[_TASKS], arguments[_BOUNDS], arguments[_SIZES] = self.rows, self.bounds, self.sizes
        self.launch = Launch(launch.kernel, tuple(arguments), launch.count, launch.parts, launch.kept)

    def __call__(self) -> None:
        first, second = self.offsets
        known = first.tobytes(), second.tobytes()
        if known != self.known:
            self.deal(first, second)
            self.known = known

    def deal(self, first: Any, second: Any) -> None:
        tasks = ragged_tasks(first, second, *self.options)
        self.rows[: len(tasks.rows)], self.bounds[...] = tasks.rows, tasks.bounds
        self.sizes[_MOST_ROWS], self.sizes[_MOST_KEYS] = tasks.most_rows, tasks.most_keys
