"""NumPy's names of arguments: where PyTorch takes `axis` for `dim` and `keepdims` for `keepdim`, so do we.

PyTorch's own names are all here too: those of each overload in its stubs.

(It also takes `x`, `a`, `x1` for `input` and `x2` for `other`; these are not here, for each name would slow every call down.)

Every function and method of PyTorch's op database is called with the samples that it has, each argument by its name and one of them by the
other name. `argument_names_known.txt` lists what torch takes and we refuse. From the top folder:

    python -m tests.parity.argument_names NAME...     what is refused in these entries
    python -m tests.parity.argument_names --write     runs everything and writes argument_names_known.txt anew
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from tests.parity.database import known_of
from tests.parity.op_database import ENTRIES, FORWARD_DTYPES, dtypes_of, samples_of
from tests.parity.op_database_twins import converted, twin

__all__ = ["KNOWN", "refused"]

KNOWN_FILE = Path(__file__).with_name("argument_names_known.txt")
HEADER = (
    "# Names of arguments that PyTorch takes and we refuse: entry | function or method and name. Lines only go away.\n"
)
OTHER_NAMES = {"dim": ["axis"], "keepdim": ["keepdims"]}


def refused(name: str) -> set[str]:
    """What torch takes in an entry and we do not, as `function axis` or `method axis`."""
    entry = ENTRIES[name]
    result: set[str] = set()
    try:
        samples = samples_of(entry, dtypes_of(entry, FORWARD_DTYPES)[0], most=8)
        forms = {"function": (entry.op, twin(entry.op, entry.name))}
        if entry.method_variant is not None:
            forms["method"] = entry.method_variant, twin(entry.method_variant, entry.name)
        if entry.inplace_variant is not None:
            forms["inplace"] = entry.inplace_variant, twin(entry.inplace_variant)
    except Exception:  # the op database says what is missing
        return result
    for form, (theirs, ours) in forms.items():
        for sample in samples:
            if isinstance(sample.input, torch.Tensor) or form == "function":
                for alias, args, kwargs in _calls(ours, sample, form):
                    if f"{form} {alias}" not in result and _refused(theirs, ours, args, kwargs):
                        result.add(f"{form} {alias}")
    for form, (theirs, ours) in forms.items():
        for args, kwargs in _as_in_the_stubs(entry.name, form, samples):
            called = ", ".join(kwargs)
            if f"{form} {called}" not in result and _refused(theirs, ours, args, kwargs):
                result.add(f"{form} {called.replace(', ', ' ')}")
    return result


@functools.cache
def _stubs() -> dict[str, dict[str, list[list[str]]]]:
    """The names of parameters of each overload, by form and function, as PyTorch's stubs have them."""
    folder = Path(torch.__file__).parent / "_C"
    functions = ast.parse((folder / "_VariableFunctions.pyi").read_text()).body
    (tensor,) = [
        node
        for node in ast.parse((folder / "__init__.pyi").read_text()).body
        if isinstance(node, ast.ClassDef) and node.name == "TensorBase"
    ]
    results: dict[str, dict[str, list[list[str]]]] = {"function": {}, "method": {}}
    for form, body in (("function", functions), ("method", tensor.body)):
        for node in body:
            if isinstance(node, ast.FunctionDef):
                names = [posonlyarg.arg for posonlyarg in (*node.args.posonlyargs, *node.args.args)]
                results[form].setdefault(node.name, []).append(names)
    results["inplace"] = {name[:-1]: names for name, names in results["method"].items() if name.endswith("_")}
    return results


def _as_in_the_stubs(name: str, form: str, samples: list[Any]) -> Iterator[tuple[tuple, dict[str, Any]]]:
    """The samples' calls with all arguments by name, a tensor whose method is called excepted."""
    for names in _stubs()[form].get(name, ()):
        for sample in samples:
            fixed: tuple = () if form == "function" else (sample.input,)
            rest = (sample.input, *sample.args)[len(fixed) :]
            expected = names[len(fixed) :]
            if not rest or not expected or (fixed and not isinstance(sample.input, torch.Tensor)):
                continue
            packed = dict(zip(expected, rest))
            if len(rest) > len(expected):
                packed[expected[-1]] = tuple(rest[len(expected) - 1 :])
            if not packed.keys() & sample.kwargs.keys():
                yield fixed, packed | sample.kwargs


def _calls(function: Any, sample: Any, form: str) -> Iterator[tuple[str, tuple, dict[str, Any]]]:
    """A sample's call with arguments by name, once for each other name of one of them."""
    try:
        signature = inspect.signature(function)
        arguments = signature.bind(sample.input, *sample.args, **sample.kwargs).arguments
    except (TypeError, ValueError):
        return
    kinds = [signature.parameters[name].kind for name in arguments]
    if any(kind in (kind.VAR_POSITIONAL, kind.VAR_KEYWORD) for kind in kinds):
        return
    names = list(arguments)
    for name in names[form != "function" :]:
        for alias in OTHER_NAMES.get(name, ()):
            place = names.index(name)
            by_name = {alias if element == name else element: arguments[element] for element in names[place:]}
            yield alias, tuple(arguments[name] for name in names[:place]), by_name


def _refused(theirs: Any, ours: Any, args: tuple, kwargs: dict[str, Any]) -> bool:
    met: dict[int, Any] = {}
    copies = torch.utils._pytree.tree_map(
        lambda one: one.clone() if isinstance(one, torch.Tensor) else one, (args, kwargs)
    )
    try:
        own = converted(args, met), converted(kwargs, met)
        theirs(*copies[0], **copies[1])
    except Exception:
        return False
    try:
        ours(*own[0], **own[1])
    except TypeError as error:
        return "argument" in str(error)
    except Exception:
        return False
    return False


KNOWN = known_of(KNOWN_FILE, ", ")


def main() -> int:
    warnings.simplefilter("ignore")
    writing = "--write" in sys.argv
    chosen = [element for element in sys.argv[1:] if element != "--write"] or list(ENTRIES)
    lines = []
    for name in chosen:
        result = refused(name)
        if result:
            lines.append(f"{name} | {', '.join(sorted(result))}")
            print(lines[-1], flush=True)
    if writing:
        KNOWN_FILE.write_text(HEADER + "\n".join(lines) + "\n")
    print(f"{len(chosen) - len(lines)} of {len(chosen)} entries take all names")
    return 0


if __name__ == "__main__":
    sys.exit(main())
