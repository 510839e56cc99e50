"""Docstrings of PyTorch's names that do nothing or refuse here: what they do with their arguments, what they give, and a call."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

__all__ = ["explained", "refused"]

# Arguments that an example passes, by the parameter's name; of others, `fn`.
_ARGUMENTS = {
    "t": "dynograd.zeros(2)",
    "x": "dynograd.zeros(2)",
    "a": "dynograd.zeros(2)",
    "index": "0",
    "seed": "0",
    "device_type": '"cpu"',
    "inputs": "{}",
    "the_type": "int",
    "the_value": "3",
    "should_optimize": "True",
    "mode": "True",
    "override": "True",
    "enabled": "True",
    "m": "dynograd.nn.Linear(2, 1)",
    "f": '"model.pt"',
    "repo_or_dir": '"pytorch/vision"',
    "github": '"pytorch/vision"',
    "url": '"https://example.org/file"',
    "device": "0",
    "new_state": "None",
    "new_states": "[]",
    "symbolic_name": '"mine::op"',
    "symbolic_fn": "len",
    "opset_version": "9",
}


def explained(path: str, kind: Any, warns: bool, answer: Callable[..., Any], sentence: str) -> str:
    """The docstring of a row of `stubs.TABLE`."""
    code = answer.__code__
    count = code.co_argcount + code.co_kwonlyargcount
    parameters = [name for name in code.co_varnames[:count] if not name.startswith("_")]
    required = code.co_varnames[: code.co_argcount - len(answer.__defaults__ or ())]
    rest = code.co_varnames[count : count + bool(code.co_flags & 4) + bool(code.co_flags & 8)]
    call = f"dynograd.{path}({', '.join(_ARGUMENTS.get(name, 'len') for name in required)})"
    if not isinstance(kind, str):
        return refused(call, path, kind, sentence, [*parameters, *rest])
    returned = parameters[-1] if "the_value" in parameters else parameters[0] if parameters else None
    returned = None if returned in ("stance", "mode", "should_optimize") else returned
    text = f"{kind}: {sentence}{_arguments([*parameters, *rest], returned if kind != 'A constant' else None)}"
    if kind == "A constant":
        if required and required[0] == "a":
            return text
        value = answer(*[None for _ in required])
        shown = repr(value) if not repr(value).startswith("<") else ""
        line = f"\nReturns:\n    {shown or 'A context manager that changes nothing'}."
        return text + line + (f"\n\n>>> {call}" + (f"\n{shown}" if value is not None else "") if shown else "")
    return text + "\nReturns:\n    " + _given_back(path, warns, call, required, rest, returned)


def _given_back(path: str, warns: bool, call: str, required: Any, rest: Any, returned: Any) -> str:
    """Returns and example of what gives back its argument."""
    if "mode" in required or "should_optimize" in required or path.endswith("set_stance"):
        call = call if required else f'dynograd.{path}("force_eager")'
        return f"A context manager and decorator that changes nothing.\n\n>>> with {call}:\n...     1 + 1\n2"
    if path.endswith("substitute_in_graph"):
        return f"A decorator that gives back its function.\n\n{_quietly(warns, call + '(max) is max')}"
    if required:
        return f"`{returned}`, as it is.\n\n{_quietly(warns, call + ' == ' + _ARGUMENTS.get(returned, 'len'))}"
    if rest and not returned:
        return f"A decorator that gives back its function.\n\n{_quietly(warns, f'dynograd.{path}()(len) is len')}"
    return f"The function as it is, or a decorator that gives it back.\n\n{_quietly(warns, f'dynograd.{path}(len) is len')}"


def _quietly(warns: bool, comparison: str) -> str:
    if not warns:
        return f">>> {comparison}\nTrue"
    return f'>>> import warnings\n>>> with warnings.catch_warnings(action="ignore"):\n...     {comparison}\nTrue'


def _arguments(names: list[str], returned: str | None) -> str:
    others = ", ".join(name for name in names if name != returned)
    lines = [f"    {returned}: what comes back."] if returned else []
    lines += [f"    {others}: as PyTorch has them; they change nothing."] if others else []
    return "\n\nArgs:\n" + "\n".join(lines) if lines else "\n"


def refused(call: str, path: str, error: type[Exception], sentence: str, names: list[str]) -> str:
    """The docstring of what raises `error`, whatever it is called with; `call` is an example."""
    module = "" if error.__module__ == "builtins" else f"{error.__module__}."
    arguments = f"\n\nArgs:\n    {', '.join(names)}: as PyTorch has them." if names else "\n"
    package = re.match(r"[\w.]+(?=\.\w+\()", call)
    imported = f">>> import {package[0]}\n" if package else ""
    return (
        f"Refuses: {sentence}{arguments}\nReturns:\n    Nothing.\nRaises:\n    {error.__name__}: always.\n\n"
        f"{imported}>>> {call}\nTraceback (most recent call last):\n    ...\n{module}{error.__name__}: {path}: ..."
    )
