"""How an op moves tangents: its own rule, itself when it is linear, its derivative text, or its backward taken twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dynograd import arrays
from dynograd.autograd.modes import MODES, enable_grad
from dynograd.base.generated_sources import run_source
from dynograd.interpreter import named_outputs
from dynograd.interpreter.history import in_its_own_place
from dynograd.ops.layout.broadcasting import convert, stretch
from dynograd.ops.op import Op, registry
from dynograd.tensor import honest
from dynograd.tensor.tensor import Tensor, wrap
from dynograd.transforms.batching.batched import Batched, make_batched

__all__ = ["by_two_backwards", "tangents_of"]


def tangents_of(op: Op, primals: dict[str, Any], tangents: dict[str, Any], out: Any) -> list[Any]:
    """The tangent of each output (None where it does not move) from those of the array arguments (None where they do not)."""
    outputs = list(out) if isinstance(out, tuple) else [out]
    if op.jvp_rule is not None and not (MODES.honest and op.kind != "elementwise" and not op.linear):
        statics = [primals[name] for name in op.static_names]
        jvp_rule = op.jvp_rule(
            tuple(tangents[name] for name in op.array_names), ForwardSaved(op, primals, out), *statics
        )
        ways = list(jvp_rule) if isinstance(out, tuple) else [jvp_rule]
    elif op.linear:
        jvp_rule = op.function(**{**primals, **_moving(op, primals, tangents)})
        ways = list(jvp_rule) if isinstance(out, tuple) else [jvp_rule]
    elif op.kind == "elementwise":
        ways = [_by_text(op, primals, tangents, out)]
    else:
        ways = _by_backward(op, primals, tangents)
    return [
        None if way is None or output.array.dtype.kind not in "fcV" else shaped(way, output)
        for way, output in zip(ways, outputs, strict=True)
    ]


class ForwardSaved:
    """What an op's own `jvp` rule sees: its arguments, `output`, and the shapes and dtypes that it declared to save."""

    __slots__ = ("op", "output", "primals")

    def __init__(self, op: Op, primals: dict[str, Any], output: Any) -> None:
        self.op, self.primals, self.output = op, primals, output

    def __getattr__(self, name: str) -> Any:
        primals = self.primals
        if name in primals:
            return primals[name]
        owner, _, what = name.rpartition("_")
        if owner in primals and what in ("shape", "dtype"):
            value = primals[owner]
            if owner == self.op.list_name:
                return [getattr(tensor.array, what) for tensor in value]
            return None if value is None else getattr(value.array, what)
        raise AttributeError(f"{self.op.name}.jvp reads saved.{name}, which is no argument of the op")


def _moving(op: Op, primals: dict[str, Any], tangents: dict[str, Any]) -> dict[str, Any]:
    """Arguments of a linear op: tangents, zeros for arguments that do not move, and integer arguments as they are."""

    def moving(primal: Any, tangent: Any) -> Any:
        if tangent is not None:
            return tangent
        array = getattr(primal, "array", primal)
        if primal is None or not arrays.is_array(array) or array.dtype.kind not in "fcV":
            return primal
        return wrap(arrays.zeros_like(array))

    return {
        name: [moving(*pair) for pair in zip(primals[name], tangents[name], strict=True)]
        if name == op.list_name
        else moving(primals[name], tangents[name])
        for name in op.array_names
    }


def shaped(way: Any, like: Tensor) -> Any:
    """A tangent stretched and converted to the shape and dtype of what it belongs to."""
    if way.shape != like.shape:
        way = stretch(way, tuple(like.shape))
    if way.dtype is not like.dtype:
        way = convert(way, like.dtype)
    return way


def clone(tensor: Tensor) -> Any:
    return registry["clone"].function(tensor)


def packed(op: Op, result: Any) -> Any:
    """The outputs as the op gives them: under their names."""
    return named_outputs(op)(*result)


# --- elementwise ops -----------------------------------------------------------------------------------------------------------

_texts: dict[str, list[Any]] = {}


def _by_text(op: Op, primals: dict[str, Any], tangents: dict[str, Any], out: Tensor) -> Any:
    """The sum, over the arguments that move, of the derivative text with the tangent for `g`."""
    functions = _texts.get(op.name)
    if functions is None:
        functions = _texts[op.name] = _compiled(op)
    total: Any = None
    for name, function in zip(op.array_names, functions, strict=True):
        way = tangents[name]
        if way is None or function is None:
            continue
        part = function(way, out, **primals)
        if MODES.honest:
            part = honest.masked_tangent(part, way, lambda primal, move=function: move(primal, out, **primals))
        total = part if total is None else total + part
    return total


def _compiled(op: Op) -> list[Any]:
    space: dict[str, Any] = {entry.name: entry.function for entry in registry.values() if entry.kind != "composed"}
    functions = []
    for number, text in enumerate(op.derivative or ()):
        if text is None:
            functions.append(None)
            continue
        name = f"jvp_{number}"
        source = f"def {name}(g, output, {', '.join(op.signature.parameters)}):\n    return {text}\n"
        run_source(source, f"{name} of {op.name}", space)
        functions.append(space[name])
    return functions


# --- the backward, twice -------------------------------------------------------------------------------------------------------


def _by_backward(op: Op, primals: dict[str, Any], tangents: dict[str, Any]) -> list[Any]:
    moving: list[Any] = []
    ways: list[Any] = []
    places: list[tuple[str, int | None]] = []
    for name in op.array_names:
        if name == op.list_name:
            for number, way in enumerate(tangents[name]):
                if way is not None:
                    moving.append(primals[name][number])
                    ways.append(way)
                    places.append((name, number))
        elif tangents[name] is not None:
            moving.append(primals[name])
            ways.append(tangents[name])
            places.append((name, None))

    def again(*values: Any) -> Any:
        primals_now = dict(primals)
        if op.list_name:
            primals_now[op.list_name] = list(primals_now[op.list_name])
        for value, (name, number) in zip(values, places, strict=True):
            if number is None:
                primals_now[name] = value
            else:
                primals_now[name][number] = value
        return op.function(**primals_now)

    return by_two_backwards(again, moving, ways)


def by_two_backwards(function: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
    """Tangents of the outputs of `function(*primals)`.

    `u -> (gradients of the outputs times u)` is linear in u, so its own gradient, times the tangents, is the Jacobian times the
    tangents whatever u is.
    """
    recording = MODES.grad != 0 and any(is_recorded(primal) for primal in (*primals, *tangents))
    with enable_grad():
        inner = [fresh(primal) for primal in primals]
        gradient = function(*inner)
        outputs = list(gradient) if isinstance(gradient, (tuple, list)) else [gradient]
        places = [place for place, output in enumerate(outputs) if isinstance(output, Tensor) and output.requires_grad]
        seeds = []
        for place in places:
            # any value will do; a zero would be taken for "not selected"
            like = arrays.ones_like if MODES.honest else arrays.zeros_like
            seed = wrap(like(outputs[place].array))
            seed._requires_grad = True
            seeds.append(seed)
        gradients = Tensor.gradients([outputs[place] for place in places], inner, seeds, True) if places else []
        pairs = [(g, way) for g, way in zip(gradients, tangents, strict=False) if g is not None and g.requires_grad]
        ways = (
            Tensor.gradients([g for g, _ in pairs], seeds, [shaped(way, g) for g, way in pairs], recording)
            if pairs
            else [None] * len(seeds)
        )
    result: list[Any] = [None] * len(outputs)
    for place, way in zip(places, ways, strict=True):
        result[place] = way
    return result


def is_recorded(tensor: Any) -> bool:
    """Whether a derivative with respect to something outside may still be asked of `tensor`."""
    if not isinstance(tensor, Tensor):
        return False
    cls = type(tensor)  # of those that take over ops, a value that is still to come is a plain tensor otherwise
    return tensor.requires_grad or (hasattr(cls, "__dynograd_op__") and not hasattr(cls, "__dynograd_settle__"))


def fresh(tensor: Tensor) -> Any:
    """The same value with a place of its own on the tape, joined to the history that it has."""
    if type(tensor) is Batched:
        return make_batched(tensor.level, fresh(tensor.inner))
    if hasattr(tensor, "primal"):
        result: Any = object.__new__(type(tensor))
        result._meta = None
        result.level, result.primal, result.tangent = tensor.level, fresh(tensor.primal), tensor.tangent
        return result
    if hasattr(type(tensor), "__dynograd_rows__"):  # ragged: its packed elements have a place
        return tensor.with_packed(fresh(tensor.packed))
    return in_its_own_place(tensor)
