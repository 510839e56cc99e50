"""Functions written to stand before another one with its signature: no tuple of arguments and no dict to make at each call."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any

from dynograd.base.generated_sources import run_source

__all__ = ["standing_before"]


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
    if any([one.kind is not one.POSITIONAL_OR_KEYWORD or one.name.startswith("own_") for one in parameters]):
        return None
    space = {"__name__": "dynograd", **names}
    heads = []
    for one in parameters:
        heads.append(one.name if one.default is one.empty else f"{one.name}=own_default_{one.name}")
        space[f"own_default_{one.name}"] = one.default
    arguments = ", ".join([one.name for one in parameters])
    first, _, others = arguments.partition(", ")
    texts = {"ARGS": arguments, "FIRST": first, "ARGS_AFTER_FIRST": others}
    lines = re.sub(r"\b(ARGS|FIRST|ARGS_AFTER_FIRST)\b", lambda found: texts[found[0]], lines)
    source = f"def own_made({', '.join(heads)}):\n{lines}"
    title = f"before {getattr(function, '__name__', 'a function')}"
    return functools.wraps(function)(run_source(source, title, space)["own_made"])
