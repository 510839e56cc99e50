"""Layers whose `forward` is one op on the input and parameters: calls that are in the table are recorded without the way through Python code.

What might send a call another way is compared: the parameters, and the function under the op's name. Where code is put over functions
(by autocast, a profiler, a mode of `__torch_function__`), modules look anew for what they know of their calls.
"""

from __future__ import annotations

import functools
from typing import Any

from dynograd.autograd.modes import MODES
from dynograd.base.generated_sources import run_source
from dynograd.ops.op import registry
from dynograd.ops.readers import is_read
from dynograd.transforms.autobatch.record.pending import Lazy
from dynograd.transforms.autobatch.record.recorder import OFTEN, Recorder
from dynograd.transforms.autobatch.record.recording import extend
from dynograd.transforms.autobatch.record.sequences import MISS, layer
from dynograd.transforms.autobatch.record.writing import records


def layer_of(module: Any) -> Any:
    """`quick(input)`: records a call of the module that is in the table, and raises one of `NOT_QUICK` for any other; None for other modules."""
    name, names, space = getattr(type(module).forward, "recorded_as", (None, (), {}))
    parameters = module._parameters
    if name is None or not all([name in parameters for name in names]):
        return None
    op, face = registry[name], space.get(name)
    if face is None or (face is not op.function and is_read(face)) or is_read(op.function, above="recorder"):
        return None
    if not (op.written or records(op)):
        return None
    return MAKERS[name](module) if name in MAKERS else _maker(op, names)(parameters, space, face)


MAKERS: dict[str, Any] = {}  # op -> `layer_of` for its layers, where they are recorded in another way


@functools.lru_cache(maxsize=1000)
def _maker(op: Any, names: tuple[str, ...]) -> Any:
    """`made(parameters, space, face)`: `quick` for a layer with these parameters, which calls `face`, under the op's name in `space`."""
    assert not op.static_names and len(op.array_names) == 1 + len(names) and op.outputs is None and not op.view
    own = [f"own_{name}" for name in names]
    changed = [f"parameters[{name!r}] is not {value}" for name, value in zip(names, own)]
    changed.append(f"space[{op.name!r}] is not face")
    same = [
        "step.a0 is input",
        *[f"step.a{place} is parameters[{name!r}]" for place, name in enumerate(names, start=1)],
        "step.grad == MODES.grad",
        f"space[{op.name!r}] is face",
    ]
    lines = [
        "def made(parameters, space, face):",
        "    def quick(input):",
        "        recorder = MODES.recorder",
        "        step = recorder.at",
        "        if step is not None:",
        f"            if step.of is op and {' and '.join(same)}:",
        "                recorder.at = step.next",
        "                return step.result",
        f"            result = layer(recorder, op, {', '.join(['input', *[f'parameters[{name!r}]' for name in names]])})",
        "            if result is not miss:",
        "                return result",
        "        if type(input) is not Lazy:",
        "            raise TypeError",
        "        key = quick, MODES.grad, input.pending",
        "        found = recorder.table.get(key)",
        "        if found is None:",
        f"            given = {', '.join(f'parameters[{name!r}]' for name in names) + ',' if names else '()'}",
        "            found = recorder.table[key] = entered(recorder, op, input.pending, given)",
        f"        {', '.join([*own, 'add', 'base', 'next_row', 'out'])} = found",
        f"        if {' or '.join(changed)}:",
        "            raise KeyError",
        "        add(base + input.row)",
        "        made = new(Lazy)",
        "        made.pending = out",
        "        made.row = row = next_row()",
        f"        if row & {OFTEN} == {OFTEN}:",
        "            recorder.check_size()",
        "        return made",
        "    return quick",
    ]
    known = dict(
        __name__=__name__, op=op, entered=_entered, layer=layer, miss=MISS, MODES=MODES, Lazy=Lazy, new=object.__new__
    )
    return run_source("\n".join(lines) + "\n", f"autobatched layer of {op.name}", known)["made"]


def _entered(recorder: Recorder, op: Any, port: Any, parameters: tuple) -> tuple:
    """The parameters, and what the op's own entry has for the input and the result.

    Raises:
        KeyError: there is none.
    """
    shared = [parameter if parameter is None else recorder.shared[id(parameter)] for parameter in parameters]
    key = op, MODES.grad, port, *shared
    entry = recorder.table.get(key) or extend(recorder, key, (True,) * (1 + len(shared)))
    if entry is None:
        raise KeyError
    return *parameters, entry[0], entry[1], *entry[-2:]
