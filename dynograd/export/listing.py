"""What is in a program, as text: its inputs, outputs, weights and calls; and the calls as Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dynograd.export.encoding import FLOATING

if TYPE_CHECKING:
    from dynograd.export.exported_program import ExportedProgram

__all__ = ["code_of", "listing"]

_WIDEST = 100
_VALUES, _FUNCTIONS = "vabcdeuw", "fgh"  # letters of values and functions, by how deep they are
_FLOATING = {
    "real": "float({})",
    "share": "1 / ({})",
    "root": "({}) ** 0.5",
    "root_share": "1 / ({}) ** 0.5",
    "power": "({}) ** -0.5",
    "log": "math.log({})",
}


def listing(program: ExportedProgram) -> str:
    """Its inputs, dims, weights and calls, a line each."""
    weights = program.weights
    elements = sum([weight.tensor.numel() for weight in weights])
    size = sum([weight.tensor.nbytes for weight in weights])
    kinds = ", ".join(
        [f"{count} {name}" for name, count in Counter([_plain(node.name) for node in program.nodes]).most_common()]
    )
    lines = [
        f"{program.name}: {len(program.nodes)} calls ({kinds})",
        f"{len(weights)} weights, {elements:,} numbers, {size:,} bytes"
        + "; it draws random numbers" * bool(program.spec["draws"]),
        "inputs:",
        *[f"  {each.name}: {each}" for each in program.arguments.inputs],
        "outputs:",
        *[f"  {each.name}: {each}" for each in program.outputs],
    ]
    if program.dims:
        lines += ["dims:", *[f"  {name}: {bounds}" for name, bounds in program.dims.items()]]
    lines += ["weights:"] * bool(weights)
    for weight in weights:
        shape = ", ".join(map(str, weight.tensor.shape))
        lines.append(
            f"  {weight.name}: {weight.tensor.dtype.name}({shape}), {weight.tensor.nbytes:,} bytes, {weight.kind}"
        )
    names = _names_of(program)
    lines += [
        "calls:",
        *_lines([node.spec for node in program.nodes], names, program, "  ", with_places=True),
    ]
    return "\n".join([*lines, f"  return {_shown(program.spec['result'], names, program)}"])


def code_of(program: ExportedProgram) -> str:
    """The calls as a function."""
    names = _names_of(program)
    parameters = ", ".join(program.arguments.spec)
    types = "; ".join([str(each) for each in program.arguments.inputs])
    lines = [f"def {_identifier(program.name)}({parameters}):  # {types}"]
    lines += _lines([node.spec for node in program.nodes], names, program, "    ")
    return "\n".join([*lines, f"    return {_shown(program.spec['result'], names, program)}"])


def _identifier(name: str) -> str:
    last = name.rpartition(".")[2]
    return last if last.isidentifier() else "program"


def _names_of(program: ExportedProgram) -> list[str]:
    inputs = [each.name for each in program.arguments.inputs]
    weights = [f"weights[{weight.name!r}]" for weight in program.weights]
    count = program.count - len(inputs) - len(weights)
    return [*inputs, *weights, *[f"v{number}" for number in range(count)]]


def _lines(
    calls: list[Any],
    names: list[str],
    program: ExportedProgram,
    indent: str,
    depth: int = 0,
    with_places: bool = False,
) -> Iterator[str]:
    """A line for each call, behind those of the functions that it is given."""
    count = 0
    for name, args, kwargs, results, place in calls:
        shown = []
        for value in (*args, *kwargs.values()):
            if type(value) is dict and value.keys() == {"body"}:
                shown.append(f"{_FUNCTIONS[depth % len(_FUNCTIONS)]}{count}")
                count += 1
                yield from _body_lines(shown[-1], value["body"], names, program, indent, depth + 1, with_places)
            else:
                shown.append(_shown(value, names, program))
        named = [f"{key}={text}" for key, text in zip(kwargs, shown[len(args) :])]
        call = _call(name, shown[: len(args)], named)
        target = "" if results is None else f"{_targets(results, names)} = "
        yield f"{indent}{target}{call}{f'   # {place}' * bool(place and with_places)}"


def _body_lines(
    name: str, body: Any, names: list[str], program: ExportedProgram, indent: str, depth: int, with_places: bool
) -> Iterator[str]:
    inputs, captured, calls, result = body
    letter = _VALUES[depth % len(_VALUES)]
    own = [f"{letter}{number}" for number in range(inputs)]
    values = [*own, *[_shown(value, names, program) for value in captured]]
    last = max([number for call in calls for number in _numbers_in(call[3])], default=len(values) - 1)
    values += [f"{letter}{number - len(captured)}" for number in range(len(values), last + 1)]
    yield f"{indent}def {name}({', '.join(own)}):"
    yield from _lines(calls, values, program, indent + "    ", depth, with_places)
    yield f"{indent}    return {_shown(result, values, program)}"


def _numbers_in(results: Any) -> Iterator[int]:
    for part in results if type(results) is list else [results]:
        if type(part) is list:
            yield from _numbers_in(part)
        elif part is not None:
            yield part


def _call(name: str, arguments: list[str], named: list[str]) -> str:
    space, _, last = _plain(name).rpartition(".")
    if space == "Tensor" and last in ("T", "H", "mT", "mH", "imag", "real", "data"):
        return f"{arguments[0]}.{last}"
    if space == "Tensor":
        return f"{arguments[0]}.{last}({', '.join([*arguments[1:], *named])})"
    return f"torch.{_plain(name)}({', '.join([*arguments, *named])})"


def _plain(name: str) -> str:
    return name.removesuffix(".public").removeprefix("torch.")


def _targets(results: Any, names: list[str]) -> str:
    if type(results) is int:
        return names[results]
    if results is None:
        return "_"
    parts = ", ".join([_targets(part, names) for part in results])
    return f"({parts},)" if len(results) == 1 else f"({parts})"


def _shown(value: Any, names: list[str], program: ExportedProgram) -> str:
    if type(value) is list:
        text = f"[{', '.join(_parts(value, names, program))}]"
    elif type(value) is not dict:
        text = repr(value)
    else:
        text = _shown_dict(value, names, program)
    return text if len(text) <= _WIDEST else f"{text[:_WIDEST]}..."


def _parts(values: list[Any], names: list[str], program: ExportedProgram) -> Iterator[str]:
    return (_shown(part, names, program) for part in values)


def _shown_dict(value: dict[str, Any], names: list[str], program: ExportedProgram) -> str:
    ((kind, content),) = value.items()
    if kind == "value":
        return names[content]
    if kind == "number" or kind in FLOATING:
        text = str(program.numbers[content])
        return text if kind == "number" else _FLOATING[kind].format(text)
    if kind in ("tuple", "size"):
        parts = list(_parts(content, names, program))
        return f"({', '.join(parts)}{',' * (len(parts) == 1)})"
    if kind == "packed":
        return f"PackedSequence({', '.join(_parts(content, names, program))})"
    if kind == "dict":
        return f"{{{', '.join([': '.join(_parts(pair, names, program)) for pair in content])}}}"
    if kind == "slice":
        start, stop, step = [_shown(part, names, program) if part is not None else "" for part in content]
        return f"slice({start or None}, {stop or None}, {step or None})"
    if kind == "float":
        return f"float({content!r})"
    if kind == "complex":
        return f"complex({content[0]}, {content[1]})"
    return "..." if kind == "ellipsis" else repr(content) if kind == "device" else f"torch.{content}"
