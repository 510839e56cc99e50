"""A module or function is run at several sizes, and its calls at all of them become one program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy

from dynograd.autograd.modes import no_grad
from dynograd.base import dtypes
from dynograd.base.random_streams import default_generator
from dynograd.compat.exporting import while_exporting
from dynograd.errors import GradientError, ProgramError
from dynograd.export.dynamic_shapes import Bounds, named_axes, sizes_to_record
from dynograd.export.encoding import Json, Packed, Ref, Tree, encoded
from dynograd.export.examples import Examples, bound
from dynograd.export.exported_program import ExportedProgram, Weight
from dynograd.export.formula_search import AmbiguousFormulas
from dynograd.export.merging import Merger
from dynograd.export.module_states import ModuleState
from dynograd.export.outputs import leaves, outputs_of, without_dataclasses
from dynograd.export.size_comparisons import FAILURES, turns_of
from dynograd.export.size_expressions import SizeExpression
from dynograd.export.tracing import Call, Trace, TracedBody, tracing
from dynograd.export.vocabulary import writes
from dynograd.nn.module import Module
from dynograd.nn.parameter import Parameter
from dynograd.nn.utils.rnn import PackedSequence
from dynograd.plans.reporting.naming import names_within
from dynograd.tensor.tensor import Tensor

__all__ = ["program_of"]

_MOST_RUNS = 16  # at further sizes, to tell formulas apart


def program_of(function: Any, args: Any, kwargs: dict[str, Any], dynamic_shapes: Any, draws: bool) -> ExportedProgram:
    """See `export`."""
    source = _Source(function, args if isinstance(args, (tuple, list)) else (args,), kwargs, draws)
    examples = source.examples
    axes, bounds = named_axes(examples.names, examples.shapes, list(source.parameters), dynamic_shapes)
    examples.take(axes)
    try:
        with tracing():
            recorded = _recorded(source, bounds)
            program = ExportedProgram(*_resolved(source, recorded, bounds))
            apart = _apart(source, recorded, bounds)
        _compare(source, program, [recorded[0], apart])
    finally:
        source.state.restore()
    return program


class _Source:
    """The function, and its example."""

    def __init__(self, function: Any, args: Sequence[Any], kwargs: dict[str, Any], draws: bool) -> None:
        self.function, self.draws = function, draws
        is_module = isinstance(function, Module)
        self.name = type(function).__name__ if is_module else getattr(function, "__qualname__", type(function).__name__)
        if not callable(function):
            raise ProgramError(f"export: expected a Module or a function, got {type(function).__name__}.")
        self.parameters, self.args, self.kwargs = bound(function, args, kwargs, self.name)
        self.examples = Examples(self.parameters)
        if not self.examples.tensors:
            raise ProgramError(
                f"export: expected a tensor among the arguments of {self.name}, got none. Give an example: args=(x,)."
            )
        self.state = ModuleState(function)
        self.weights = names_within(function.__call__ if is_module else function)
        self.kinds = _kinds_of(function)
        self.known: list[Tensor] = []
        self.expressions: list[SizeExpression] = []

    def run(self, tensors: list[Any]) -> Tree:
        """The function's result on these tensors in the places of its own."""
        parameters = self.examples.with_tensors(tensors)
        args = [parameters[name] for name in self.args]
        return without_dataclasses(self.function(*args, **{name: parameters[name] for name in self.kwargs}))

    def trace(self, tensors: list[Any]) -> tuple[Trace, Any, tuple[int, int]]:
        """The calls of a run, its result, and the place in the random stream where it began."""
        state = default_generator.state()
        trace = Trace(list(tensors), self.weights, self.draws, self.known)
        with no_grad(), while_exporting(), trace:
            try:
                result = self.run(tensors)
            except GradientError as error:
                raise ProgramError(
                    f"export: {self.name} takes gradients while it runs, and a program has none ({error}) Write the derivative with ops."
                ) from error
        trace.check_end()
        return trace, result, state


def _kinds_of(function: Any) -> dict[int, str]:
    """The buffers of the module that it is, or whose method, by id; those that are not in its `state_dict()` are constants."""
    owner = function if isinstance(function, Module) else getattr(function, "__self__", None)
    modules = owner.modules() if isinstance(owner, Module) else ()
    return {
        id(buffer): "buffer"
        for module in modules
        for name, buffer in module._buffers.items()
        if buffer is not None and name not in module._non_persistent_buffers_set
    }


class _Recorded:
    """One run: its sizes, and what it called and gave."""

    def __init__(self, source: _Source, sizes: dict[str, int], turn: int) -> None:
        self.asked, self.turn = sizes, turn
        tensors = source.examples.at(sizes, turn)
        self.trace, self.result, self.state = source.trace(tensors)
        self.described = _described(self.trace, self.result, source.name)
        self.trace.let_go()
        self.sizes = source.examples.sizes(tensors)


def _recorded(source: _Source, bounds: dict[str, Bounds]) -> list[_Recorded]:
    """Runs at the sizes to record, and at size 1 of each dim. A dim at whose size 1 the program goes another way begins where it no longer does."""
    example = source.examples.wanted_sizes()
    source.known = source.trace(source.examples.at(example, 0))[0].outside  # what is results once, in the first call
    bounds_of_all = {name: bounds.get(name, Bounds()) for name in example}
    samples = sizes_to_record(example, bounds_of_all) if example else [{}, {}]
    far = sizes_to_record(example, bounds_of_all, far=True)[-1] if example else {}
    recorded = [_Recorded(source, samples[0], 0)]
    for turn, sizes in enumerate(samples[1:], start=1):
        recorded.append((turn == 3 and _run_if_it_can(source, far, turn)) or _run(source, sizes, turn, samples[0]))
    _add_turns(source, recorded, bounds, bounds_of_all)
    for name, size in [(name, example[name]) for name in bounds]:
        if bounds[name].least <= 1 < size:
            bounds[name].least = _least(source, recorded, example, name, size)
    return recorded


def _add_turns(source: _Source, recorded: list[_Recorded], bounds: dict[str, Bounds], known: dict[str, Bounds]) -> None:
    """Runs at sizes where comparisons of sizes turn over. A dim at whose larger sizes the program goes another way ends where it does not yet."""
    samples = [run.asked for run in recorded]
    first = recorded[0]

    def example_at(sizes: dict[str, int]) -> Callable[[], object]:
        tensors = source.examples.at(sizes, 0)
        return lambda: _run_while_exporting(source, tensors)

    turns, source.expressions = turns_of(
        example_at,
        samples if samples[0] else [],
        lambda sizes: all([known[name].has(size) for name, size in sizes.items()]),
    )
    for turn in turns:
        run = _run_if_it_can(source, turn.sizes, len(recorded))
        if run is None:
            continue
        if _calls_of(run) == _calls_of(first):
            recorded.append(run)
            continue
        name = next((name for name, size in turn.sizes.items() if size > first.asked[name]), None)
        if name in bounds:
            bounds[name].most = _most(source, first, name, turn.sizes[name], bounds[name].most)


def _run_while_exporting(source: _Source, tensors: list[Any]) -> object:
    with while_exporting():
        return source.run(tensors)


def _most(source: _Source, first: _Recorded, name: str, other: int, most: int | None) -> int:
    """The largest size of a dim, below another one, up to which the program goes the same way."""
    size, other = first.asked[name], other if most is None else min(other, most + 1)
    while other - size > 1:
        middle = (size + other) // 2
        run = _run_if_it_can(source, {**first.asked, name: middle}, 0)
        size, other = (middle, other) if run is None or _calls_of(run) == _calls_of(first) else (size, middle)
    return size


def _calls_of(run: _Recorded) -> list[Any]:
    """The functions that a run calls."""
    return list(_names_of(run.trace.calls))


def _names_of(calls: list[Call]) -> Iterator[Any]:
    for call in calls:
        yield call.name, len(call.args), *call.kwargs
        for argument in (*call.args, *call.kwargs.values()):
            if isinstance(argument, TracedBody):
                yield from _names_of(argument.calls)


def _run(source: _Source, sizes: dict[str, int], turn: int, first: dict[str, int]) -> _Recorded:
    try:
        return _Recorded(source, sizes, turn)
    except ProgramError:
        raise
    except Exception as error:
        raise ProgramError(
            f"export: {source.name} runs at the example's sizes {first}, and not at {sizes}: {type(error).__name__}: {error} "
            f"Bound the dims, Dim('n', min=1, max=64), say what they are multiples of, 16 * Dim('n'), or leave them out of dynamic_shapes."
        ) from error


def _run_if_it_can(source: _Source, sizes: dict[str, int], turn: int) -> _Recorded | None:
    try:
        return _Recorded(source, sizes, turn)
    except FAILURES as error:
        if isinstance(error, ProgramError):
            raise
        return None


def _resolved(
    source: _Source, recorded: list[_Recorded], bounds: dict[str, Bounds]
) -> tuple[dict[str, Any], list[Weight]]:
    """What `_merged` gives, after runs at further sizes where several formulas fit a number."""
    settled: list[dict[str, int]] = []
    for _ in range(_MOST_RUNS):
        try:
            return _merged(source, recorded, bounds, settled)
        except AmbiguousFormulas as ambiguous:
            settled.append(ambiguous.sizes)
            sizes = {name: ambiguous.sizes[name] for name in recorded[0].asked}
        if all([bounds.get(name, Bounds()).has(size) for name, size in sizes.items()]):
            run = _run_if_it_can(source, sizes, len(recorded))
            recorded += [run] if run else []
    return _merged(source, recorded, bounds)


def _apart(source: _Source, recorded: list[_Recorded], bounds: dict[str, Bounds]) -> _Recorded:
    """A run at sizes of which nothing was learnt, as far as the dims have others."""
    sizes = {}
    for number, (name, size) in enumerate(recorded[0].asked.items()):
        most = bounds[name].most if name in bounds else None
        known = {run.asked[name] for run in recorded}
        others = [*range(size + 2 + number % 3, size + 40), *range(size, 0, -1)]
        sizes[name] = next((other for other in others if other not in known and (most is None or other <= most)), size)
    return _Recorded(source, sizes, len(recorded) + 1)


def _least(source: _Source, recorded: list[_Recorded], example: dict[str, int], name: str, size: int) -> int:
    """The least size of a dim at which the program goes the same way, as far as there is one from which on it does."""
    other = 0
    while size - other > 1:
        middle = (size + other) // 2 if other else 1
        if _goes_the_same_way(source, recorded, {**example, name: middle}):
            size = middle
        else:
            other = middle
    return size


def _goes_the_same_way(source: _Source, recorded: list[_Recorded], sizes: dict[str, int]) -> bool:
    """Whether a run at these sizes calls what the others call. It is one of them from now on."""
    try:
        run = _Recorded(source, sizes, 0)
        _merged(source, [*recorded, run], {})
    except ProgramError:
        return False
    except FAILURES:  # the function says so when it is called with that size
        return True
    recorded.insert(1, run)
    return True


def _merged(
    source: _Source,
    recorded: list[_Recorded],
    bounds: dict[str, Bounds],
    settled: list[dict[str, int]] | None = None,
) -> tuple[dict[str, Any], list[Weight]]:
    """The JSON value of the program, and its weights."""
    examples = source.examples
    count = len(examples.tensors)
    traces = [run.trace for run in recorded]
    merger = Merger(
        source.name, [run.sizes for run in recorded], count, len(traces[0].outside), settled, source.expressions
    )
    calls = merger.calls([trace.calls for trace in traces])
    result = merger.result([run.described for run in recorded])
    calls, result, kept = _needed(calls, result, count, len(traces[0].outside))
    weights = _weights(source, traces, kept)
    dims = {name: [bounds.get(name, Bounds(0)).least, bounds.get(name, Bounds()).most] for name in recorded[0].sizes}
    spec = {
        "name": source.name,
        "dims": dims,
        "inputs": examples.inputs(),
        "arguments": [[name, encoded(value)] for name, value in examples.described()],
        "weights": [[weight.name, weight.kind] for weight in weights],
        "numbers": [formula.as_json() for formula in merger.formulas],
        "nodes": calls,
        "result": result,
        "outputs": outputs_of([run.result for run in recorded], [run.sizes for run in recorded]),
        "draws": any([trace.draws for trace in traces]),
        "default_dtype": dtypes.get_default_dtype().name,
    }
    return spec, weights


def _described(trace: Trace, result: Tree, name: str) -> Tree:
    if isinstance(result, Tensor):
        return Ref(trace.number_of(result))
    if isinstance(result, PackedSequence):
        return Packed(tuple([_described(trace, part, name) for part in result]))
    if isinstance(result, (list, tuple)):
        parts = [_described(trace, part, name) for part in result]
        return parts if isinstance(result, list) else tuple(parts)
    if isinstance(result, dict):
        return {key: _described(trace, part, name) for key, part in result.items()}
    try:
        encoded(result)
    except TypeError as error:
        raise ProgramError(
            f"export: {name} gives {error}, which a file cannot hold. Return tensors and numbers, in lists, tuples or dicts."
        ) from None
    return result


def _needed(calls: list[list[Any]], result: Any, inputs: int, outside: int) -> tuple[list[list[Any]], Any, list[int]]:
    """The calls whose results somebody reads, with new numbers, and which of the tensors from outside these read."""
    used = set(_values_in(result))
    kept = []
    for call in reversed(calls):
        name, args, kwargs, results, _ = call
        if writes(name, kwargs) or used & set(_numbers(results)):
            used |= {*_values_in(args), *_values_in(kwargs)}
            kept.append(call)
    kept.reverse()
    weights = [number for number in range(outside) if inputs + number in used]
    renumbered = {number: number for number in range(inputs)}
    for number in weights:
        renumbered[inputs + number] = len(renumbered)
    for call in kept:
        for number in _numbers(call[3]):
            renumbered[number] = len(renumbered)
    changed = [
        [name, _renumbered(args, renumbered), _renumbered(kwargs, renumbered), _renamed(results, renumbered), line]
        for name, args, kwargs, results, line in kept
    ]
    return changed, _renumbered(result, renumbered), weights


def _values_in(value: Any) -> list[int]:
    if isinstance(value, dict):
        if len(value) == 1 and type(value.get("value")) is int:
            return [value["value"]]
        if value.keys() == {"body"}:
            return _values_in(value["body"][1])
        value = list(value.values())
    return [number for part in value for number in _values_in(part)] if isinstance(value, list) else []


def _numbers(results: Any) -> list[int]:
    return [results] if type(results) is int else [number for part in results or [] for number in _numbers(part)]


def _renumbered(value: Json, numbers: dict[int, int]) -> Json:
    if isinstance(value, list):
        return [_renumbered(part, numbers) for part in value]
    if isinstance(value, dict):
        if len(value) == 1 and type(value.get("value")) is int:
            return {"value": numbers[value["value"]]}
        if value.keys() == {"body"}:
            inputs, captured, *rest = value["body"]
            return {"body": [inputs, _renumbered(captured, numbers), *rest]}
        return {key: _renumbered(part, numbers) for key, part in value.items()}
    return value


def _renamed(results: Json, numbers: dict[int, int]) -> Json:
    if type(results) is int:
        return numbers[results]
    return None if results is None else [_renamed(part, numbers) for part in results]


def _weights(source: _Source, traces: list[Trace], kept: list[int]) -> list[Weight]:
    weights: list[Weight] = []
    taken: set[str] = set()
    for number in kept:
        tensors = [trace.outside[number] for trace in traces]
        first = tensors[0]
        named = source.weights.get(id(first), "")
        if not all([tensor is first or _same_bits(tensor, first) for tensor in tensors]):
            if assigned := source.state.assigned():
                raise ProgramError(
                    f"export: {source.name} assigns other tensors to {', '.join(assigned)} while it runs, and a program keeps nothing between its "
                    f"calls. Take what was there as an argument, and return what it becomes."
                )
            raise ProgramError(
                f"export: {source.name} reaches a tensor of shape {tuple(first.shape)} that is another one in each run ({named or 'without a name'}): "
                f"a result of something that is no function of dynograd, such as NumPy's. Say that with ops of dynograd, or give the tensor as "
                f"an input."
            )
        name, twice = named or f"constant_{number}", 1
        while name in taken:
            name, twice = f"{named or 'constant'}_{number}_{twice}", twice + 1
        taken.add(name)
        kind = "parameter" if isinstance(first, Parameter) else source.kinds.get(id(first), "constant")
        weights.append(Weight(name, kind, first.detach()))
    return weights


def _same_bits(first: Tensor, second: Tensor) -> bool:
    a, b = first.detach().array, second.detach().array
    return (
        a.dtype == b.dtype
        and a.shape == b.shape
        and numpy.ascontiguousarray(a).tobytes() == numpy.ascontiguousarray(b).tobytes()
    )


def _compare(source: _Source, program: ExportedProgram, runs: list[_Recorded]) -> None:
    """Runs the program beside what the function gave, on inputs with these values."""
    state = default_generator.state()
    for run in runs:
        default_generator.set_plain_state(run.state)
        parameters = source.examples.with_tensors(source.examples.at(run.asked, run.turn))
        try:
            result = program(
                *[parameters[name] for name in source.args], **{name: parameters[name] for name in source.kwargs}
            )
        finally:
            default_generator.set_plain_state(state)
        for (name, own), (_, expected) in zip(leaves(result), leaves(run.result), strict=True):
            if not _same_bits(getattr(own, "packed", own), getattr(expected, "packed", expected)):
                raise ProgramError(
                    f"export: result {name} of {source.name} at sizes {run.sizes} is not what the program gives: something in it is no function of "
                    f"its inputs, such as a counter or a clock. Take it out, or give it as an input."
                )
