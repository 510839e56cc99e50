"""The form in which users call an op: `out=`, NumPy's names of arguments, and errors in the op's name.

The library itself calls ops directly. The functions under `dynograd.`, `dynograd.linalg.` and the like, and methods that name a dim, are
written here from an op's signature: they also take `axis` for `dim` and `keepdims` for `keepdim`, as PyTorch's do, and what fails
underneath because an argument is of a wrong type is told with the op and the argument.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Sequence
from typing import Any

from dynograd.base.generated_sources import run_written, written_later
from dynograd.base.signatures import Annotation, SignatureLater, annotations_of, shown_signature
from dynograd.errors import DtypeError
from dynograd.interpreter.override_protocol import ORDINARY, answer_of_foreign
from dynograd.interpreter.shared import argument_lines
from dynograd.ops.op import Op, prepare, registry
from dynograd.ops.readers import join
from dynograd.tensor.tensor import Tensor

ALIASES = {"dim": "axis", "keepdim": "keepdims"}
_KINDS = inspect.Parameter
_EXPLAINED = (AttributeError, TypeError, ValueError, IndexError, OverflowError)


class _Missing:
    """Stands for an argument that was not given."""

    def __repr__(self) -> str:
        return "<required>"


_MISSING = _Missing()
_NUMBERS = frozenset({bool, int, float, complex})
_NO_TENSORS = _NUMBERS | {str, bytes}


def public_form(
    function: Any, entry: Op, into: Callable[[], Any] | None = None, checked: bool = True
) -> Callable[..., Any]:
    """A function that calls an op's own and gets its code when it is first called, as those of ops do.

    Args:
        into: gives `into(out, *args, **kwargs)`, where the function has `out=`.
        checked: numbers in the place of tensors are refused; a method has its tensor.
    """
    name = entry.name

    def write() -> None:
        if known.written:
            return
        if entry.function is function:
            prepare(entry)
        parameters = _parameters(entry, into is not None)
        space.update({f"_default_{parameter.name}": parameter.default for parameter in parameters})
        space.update(
            _function=function,
            _into=into() if into is not None else None,
            _NUMBERS=_NUMBERS,
            _NO_TENSORS=_NO_TENSORS,
            _number_error=_number_error,
            _not_a_tensor=_not_a_tensor,
            _MISSING=_MISSING,
            _missing=_missing,
            _explained=_explained,
            _ORDINARY=ORDINARY,
            _answer_of_foreign=answer_of_foreign,
            _public=public,
        )

        def source() -> str:
            return _source(entry, into is not None, _refused_numbers(entry) if checked else ("", ""))

        known.give(run_written(title, {"function": source}, "function", space, {}, entry.is_of_the_library)[name])

    def choose(kwargs: dict[str, Any]) -> Callable[..., Any]:
        write()
        return public

    title = f"{'public' if checked else 'method'}/{name}"
    space: dict[str, Any] = {"__name__": "dynograd"}
    public = written_later(name, title, space, write, choose)
    public.__qualname__, public.__module__, public.__doc__ = name, "dynograd", function.__doc__
    public.__signature__ = SignatureLater(
        lambda: shown_signature(inspect.Signature(_parameters(entry, into is not None), __validate_parameters__=False))
    )
    public.op = entry
    known = join(public, title, written=False)
    return public


def method_form(entry: Op) -> Callable[..., Any]:
    """An op's function as a method: with NumPy's names where it names a dim. Views keep their own, which are called most."""
    family = entry.forward.__module__.rpartition(".")[2]
    of_another = entry.kind == "composed" and "other" in entry.parameter_names and entry.name.endswith("_as")
    views = family in ("views", "splits") and not entry.row["aliases"]
    if not of_another and (views or not _other_names(entry)):
        return entry.function
    return public_form(entry.function, entry, checked=False)


def explained(function: Any) -> Callable[..., Any]:
    """A function that is no op, with errors from underneath told as those of ops are."""
    names = list(annotations_of(function))

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for argument in args:
            if type(argument) not in ORDINARY:
                answer = answer_of_foreign(call, args, kwargs)
                if answer is not NotImplemented:
                    return answer
        try:
            return function(*args, **kwargs)
        except Exception as error:
            for name, alias in ALIASES.items():
                if alias in kwargs and name in names and alias not in names:
                    return call(
                        *args, **{name if keyword == alias else keyword: value for keyword, value in kwargs.items()}
                    )
            told = _explained(error, function.__name__, names, args, kwargs)
            if told is None:
                raise
            raise told from told.__cause__

    return call


def explained_of_tensors(functions: dict[str, Any]) -> dict[str, Any]:
    """These functions by name; those whose first argument is a tensor, `explained`."""
    return {
        name: explained(function)
        if isinstance(function, types.FunctionType)
        and next(iter(annotations_of(function)), "") in ("input", "A", "self", "v")
        else function
        for name, function in functions.items()
    }


def _parameters(entry: Op, has_out: bool) -> list[inspect.Parameter]:
    """The op's parameters, then `out` and the other names that it takes."""
    operands = list(entry.public_signature.parameters.values())
    extra = [_KINDS("out", _KINDS.KEYWORD_ONLY, default=None, annotation=Annotation("Any"))] if has_out else []
    extra += [
        _KINDS(alias, _KINDS.KEYWORD_ONLY, default=None, annotation=Annotation("Any"))
        for alias in _other_names(entry).values()
    ]
    at = len(operands) - 1 if operands and operands[-1].kind is _KINDS.VAR_KEYWORD else len(operands)
    return [*operands[:at], *extra, *operands[at:]]


def _other_names(entry: Op) -> dict[str, str]:
    """Parameter -> its other name, for those that the op does not take itself."""
    names = entry.parameter_names
    own = entry.row["aliases"]
    known = ALIASES | own if own else ALIASES
    return {name: known[name] for name in names if name in known and known[name] not in names}


def _source(entry: Op, has_out: bool, refused: tuple[str, str]) -> str:
    """The code: other names, missing arguments, numbers where PyTorch takes none, `out`, then the op."""
    name, signature, aliases = entry.name, entry.public_signature, _other_names(entry)
    parameters: list[str] = []
    call: list[str] = []
    positional: list[str] = []
    keywords: list[str] = []
    required: list[str] = []
    starred = False
    for entry_parameter in _parameters(entry, has_out):
        if entry_parameter.name not in signature.parameters:  # `out` and other names
            if not starred:
                parameters.append("*")
                starred = True
            parameters.append(f"{entry_parameter.name}=None")
            continue
        text = entry_parameter.name
        if entry_parameter.kind is _KINDS.VAR_POSITIONAL:
            starred = True
            parameters.append(f"*{text}")
            positional.append(f"*{text}")
            call.append(f"*{text}")
            continue
        if entry_parameter.kind is _KINDS.VAR_KEYWORD:
            parameters.append(f"**{text}")
            keywords.append(f"**{text}")
            call.append(f"**{text}")
            continue
        default = "" if entry_parameter.default is entry_parameter.empty else f"=_default_{text}"
        if not default and (required or text in aliases):
            required.append(text)
            default = "=_MISSING"
        if entry_parameter.kind is _KINDS.KEYWORD_ONLY:
            if not starred:
                parameters.append("*")
                starred = True
            keywords.append(f"'{text}': {text}")
            call.append(f"{text}={text}")
        else:
            positional.append(text)
            call.append(text)
        parameters.append(text + default)
    lines = [f"def {name}({', '.join(parameters)}):"]
    for parameter, alias in aliases.items():
        lines += [f"    if {alias} is not None:", f"        {parameter} = {alias}"]
    if required:
        listed = ", ".join([f"{name}={name}" for name in required])
        lines += [
            f"    if {' or '.join([f'{name} is _MISSING' for name in required])}:",
            f"        raise _missing({name!r}, {listed})",
        ]
    operands = _operands(entry)
    if operands:
        everything = f"({''.join(name + ', ' for name in positional)}), {{{', '.join(keywords)}}}"
        lines += [
            f"    if {' or '.join([f'type({operand}) not in _ORDINARY' for operand in operands])}:",
            f"        answer = _answer_of_foreign(_public, {everything})",
            "        if answer is not NotImplemented:",
            "            return answer",
        ]
    test, error = refused
    if test:
        lines += [f"    if {test}:", f"        raise {error}"]
    packed = f"({''.join(name + ', ' for name in positional)}), {{{', '.join(keywords)}}}"
    run = [f"return _function({', '.join(call)})"]
    unset = [
        keyword
        for keyword in keywords
        if keyword.startswith("'") and signature.parameters[keyword.split("'")[1]].default is None
    ]
    if any([name.startswith("*") for name in positional]) and keywords and len(unset) == len(keywords):
        names = [text.split("'")[1] for text in unset]  # a call with sizes alone costs a third less without names
        test = " and ".join([f"{name} is None" for name in names])
        run = [f"if {test}:", f"    return _function({', '.join(positional)})", *run]
    if has_out:
        run = ["if out is None:", *[f"    {line}" for line in run], f"return _into(out, {', '.join(call)})"]
    lines += ["    try:", *[f"        {line}" for line in run], "    except Exception as error:"]
    lines += [f"        told = _explained(error, {name!r}, {list(signature.parameters)!r}, {packed})"]
    lines += ["        if told is None:", "            raise", "        raise told from told.__cause__"]
    return "\n".join(lines) + "\n"


def _operands(entry: Op) -> list[str]:
    """The parameters that may be of a type that takes functions over: operands of ops, what composed functions cannot do without."""
    if entry.kind != "composed":
        return [name for name in entry.array_names if name != entry.list_name]
    return [
        parameter.name
        for parameter in entry.public_signature.parameters.values()
        if parameter.kind is _KINDS.POSITIONAL_OR_KEYWORD
        and (parameter.default is parameter.empty or parameter.name == "other")
        and str(parameter.annotation) == "Any"
    ]


def _refused_numbers(entry: Op) -> tuple[str, str]:
    """The test of a public function's operands for numbers that PyTorch refuses, and the error; nothing where all may be numbers."""
    name, parameters = entry.name, list(entry.signature.parameters)
    first = parameters[0] if parameters else ""
    tensors = entry.row["tensors"]
    if tensors:
        operands = tensors.split()
        if len(operands) > 1:
            return _number_test(name, operands, " or ", "Tensors")
        return f"type({first}) in _NUMBERS", f"_number_error({name!r}, 'a Tensor first', {', '.join(parameters[:2])})"
    pairs = entry.kind == "elementwise" and len(entry.array_names) == 2
    if (pairs or name in ("float_power", "pow")) and tensors is None:
        return _number_test(name, parameters[:2], " and ", "at least one Tensor")
    if _first_is_a_tensor(entry, parameters):
        return f"type({first}) in _NO_TENSORS", f"_not_a_tensor({name!r}, {first!r}, {first})"
    return "", ""


def _number_test(name: str, operands: Sequence[str], junction: str, names: str) -> tuple[str, str]:
    test = junction.join([f"type({operand}) in _NUMBERS" for operand in operands])
    if name in ("addcmul", "addcdiv"):  # the old form has a number in the place of `tensor1`
        test = f"tensor3 is None and ({test})"
    return test, f"_number_error({name!r}, {names!r}, {', '.join(operands)})"


def _first_is_a_tensor(entry: Op, parameters: list[str]) -> bool:
    """Whether a function needs a tensor first, as those made of ops and those that count its dims do; `add` does not, nor those whose
    operands are equals (`xlogy`)."""
    if (
        (entry.kind != "composed" and not argument_lines(entry))
        or parameters[:1] != ["input"]
        or entry.row["tensors"] == ""
    ):
        return False
    covered = registry.get(entry.name)
    equals = covered is not None and covered.kind == "elementwise" and len(covered.array_names) == 2
    return not equals and not {"other", "exponent"}.intersection(parameters)


# --- errors --------------------------------------------------------------------------------------------------------------------


def _missing(who: str, **named: Any) -> TypeError:
    lacking = [name for name, value in named.items() if value is _MISSING]
    shown = " and ".join([f"'{name}'" for name in lacking])
    return TypeError(f"{who}() missing {len(lacking)} required argument{'s' * (len(lacking) > 1)}: {shown}")


def _number_error(who: str, kinds: str, *values: Any) -> TypeError:
    shown = ", ".join([type(each).__name__ for each in values])
    return TypeError(
        f"{who}(): received an invalid combination of arguments - got ({shown}), but expected {kinds}. Make one with "
        f"dynograd.tensor(...)."
    )


def _not_a_tensor(who: str, name: str, value: Any) -> TypeError:
    return TypeError(
        f"{who}(): argument '{name}' must be Tensor, not {type(value).__name__}. Make one with dynograd.tensor(...) or "
        f"dynograd.as_tensor(...)."
    )


def _explained(error: Exception, who: str, names: list[str], args: tuple, kwargs: dict[str, Any]) -> Exception | None:
    """What to raise for an error from underneath an op: it names the op and the arguments. None: the error says enough itself.

    It has a cause only where that says more.
    """
    arguments = dict(zip(names, args)) | kwargs
    if len(args) > len(names):  # def f(*tensors)
        arguments[names[0]] = args
    if isinstance(error, AttributeError):
        of_arrays = error.name in ("array", "device", "dtype", "ndim", "numel", "shape", "size")
        for name, value in arguments.items():
            listed = value if isinstance(value, (list, tuple)) and value is not error.obj else (value,)
            for parameter in listed:
                same = parameter is error.obj or (of_arrays and type(parameter) is type(error.obj))
                if same and not isinstance(parameter, Tensor):
                    return _not_a_tensor(who, name, parameter)
        return None
    if isinstance(error, MemoryError):
        return None
    kind = type(error)
    if kind.__module__.startswith("numba."):  # no code can be compiled for these arguments
        shown = ", ".join(
            [f"{name} of {value.dtype}" for name, value in arguments.items() if isinstance(value, Tensor)]
        )
        others = {
            name: value for name, value in arguments.items() if value is not None and not isinstance(value, Tensor)
        }
        shown += "".join([f", {name}={_text(value)}" for name, value in others.items()])
        told = DtypeError(f"{who}: not implemented for {shown}. Convert to float32 or float64, or see docs/support.md.")
        told.__cause__ = error  # what could not be compiled
        return told
    if kind.__module__.startswith("numpy"):
        kind = TypeError if isinstance(error, TypeError) else ValueError
    if kind not in _EXPLAINED or who in str(error):
        return None
    shown = ", ".join([f"{name}={_text(value)}" for name, value in arguments.items() if value is not None])
    if kind is ValueError and "could not convert string" in str(error):
        kind = TypeError
    kind = ValueError if kind is OverflowError else kind
    return kind(f"{who}({shown}): {error}")


def _text(value: Any) -> str:
    if isinstance(value, Tensor):
        try:
            return f"Tensor of shape {tuple(value.shape)}"
        except (RuntimeError, ValueError):  # a lazy parameter has none yet
            return type(value).__name__
    if isinstance(value, (list, tuple)) and any([not isinstance(element, (int, float)) for element in value]):
        return f"{type(value).__name__} of {len(value)} {type(value[0]).__name__}s"
    text = repr(value) if isinstance(value, (bool, int, float, complex, str, list, tuple)) else type(value).__name__
    return text if len(text) < 60 else f"{text[:56]} ..."
