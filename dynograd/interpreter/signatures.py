"""Functions written to stand before another one with its signature: no tuple of arguments and no dict to make at each call."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any

from dynograd.base.generated_sources import run_source


def standing_before(function: Any, lines: str, names: dict[str, Any]) -> Callable[..., Any] | None:
    """A function with `function`'s parameters and the body `lines`; None where it has other than plain ones.

    Args:
        lines: source in which ARGS stands for the arguments in order, FIRST for the first one, ARGS_AFTER_FIRST for the others. Names of
            its own begin with `own_`.
        names: what it uses besides.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None
    if any(
        [
            parameter.kind is not parameter.POSITIONAL_OR_KEYWORD or parameter.name.startswith("own_")
            for parameter in parameters
        ]
    ):
        return None
    space = {"__name__": "dynograd", **names}
    heads = []
    for parameter in parameters:
        heads.append(
            parameter.name if parameter.default is parameter.empty else f"{parameter.name}=own_default_{parameter.name}"
        )
        space[f"own_default_{parameter.name}"] = parameter.default
    arguments = ", ".join([parameter.name for parameter in parameters])
    first, _, others = arguments.partition(", ")
    texts = {"ARGS": arguments, "FIRST": first, "ARGS_AFTER_FIRST": others}
    lines = re.sub(r"\b(ARGS|FIRST|ARGS_AFTER_FIRST)\b", lambda result: texts[result[0]], lines)
    source = f"def own_made({', '.join(heads)}):\n{lines}"
    title = f"before {getattr(function, '__name__', 'a function')}"
    return functools.wraps(function)(run_source(source, title, space)["own_made"])
