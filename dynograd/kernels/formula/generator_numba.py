"""Elementwise kernels made from formulas: loops over rows of large arrays, and NumPy ufuncs for small ones.

The row form serves every layout with one text: a flat array is cut into rows of equal length (the last may be shorter), other
arrays have rows of their own, and each operand says how far its rows lie apart. Kinds of operands, one letter each:

    F   a row of as many elements as the result's
    B   one element for each row
    S   one number for the whole call
    W   the result's own old elements (computing in place)

Rows do not depend on how they are dealt out to threads, so neither do the bits. Importing this loads Numba.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba import carray, types

from dynograd.base.generated_sources import run_source
from dynograd.kernels.build.compiling_numba import PIPELINE, PIPELINE_STAMP, _KernelCache, _stamp_of, compile_source
from dynograd.kernels.build.targets_numba import KernelFunction
from dynograd.kernels.formula import (
    angles_numba,
    arcs_numba,
    formulas,
    incomplete_gammas_numba,
    logarithms_numba,
    math_numba,
    normal_numba,
    polynomials_numba,
    quotients_numba,
    special_numba,
)
from dynograd.kernels.formula.formulas import Tree
from dynograd.kernels.formula.formulas_numba import to_numba

_FUNCTIONS = (
    math_numba,
    logarithms_numba,
    normal_numba,
    arcs_numba,
    special_numba,
    quotients_numba,
    incomplete_gammas_numba,
    polynomials_numba,
)
_NAMES: dict[str, Any] = {name: getattr(module, name) for module in _FUNCTIONS for name in module.__all__}
_NAMES |= {name: getattr(angles_numba, name) for name in angles_numba.__all__}
_NAMES |= {"np": np, "carray": carray, "sqrt": np.sqrt, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc}
_NAMES |= {"copysign": np.copysign}
_ANGLES = frozenset({*angles_numba.__all__, "**"})
_KEY = _stamp_of(logarithms_numba.log) + _stamp_of(normal_numba.erf)  # each with that of math_numba
_KEY += _stamp_of(arcs_numba.asin)
_KEY += _stamp_of(special_numba.lgamma) + _stamp_of(quotients_numba.mod)
_KEY += _stamp_of(incomplete_gammas_numba.igamma) + _stamp_of(polynomials_numba.hermite)


def row_kernel(
    name: str,
    trees: tuple[Tree, ...],
    operands: tuple[str, ...],
    kinds: str,
    statics: tuple[str, ...],
    dtype: str,
    truths: frozenset[str] = frozenset(),
) -> Any:
    """A chunked kernel over rows that computes `trees` into one array each.

    Its arguments: the results; for each operand its flat array and the distances of its rows (F, B), or its value (S);
    the statics' values; columns, rows of the inner dim, elements in all. Row r of an operand begins at
    `r // inner * first + r % inner * second`. Operands of kind W have no argument.
    """
    arguments = [f"o{index}" for index in range(len(trees))]
    casts, rows, loads = [], [], []
    renamed = {text: formulas.name(f"v_{text}") for text in (*operands, *statics)}
    for index, (text, kind) in enumerate(zip(operands, kinds, strict=True)):
        at = f"outer * f{index} + inside * s{index}"
        if kind == "S":
            arguments.append(f"n{index}")
            casts.append(
                f"    v_{text} = n{index}"
                + (" != 0\n" if text in truths else f"\n    v_{text} = np.{dtype}(v_{text})\n")
            )
        elif kind == "W":
            loads.append(f"            v_{text} = q0[i]\n")
        else:
            arguments += [f"a{index}", f"f{index}", f"s{index}"]
            if kind == "B":
                rows.append(f"        v_{text} = a{index}[{at}]\n")
            else:
                rows.append(f"        b{index} = {at}\n        p{index} = a{index}[b{index} : b{index} + width]\n")
                loads.append(f"            v_{text} = p{index}[i]\n")
    for text in statics:
        arguments.append(f"c_{text}")
        casts.append(f"    v_{text} = np.{dtype}(c_{text})\n")
    rows += [f"        q{index} = o{index}[at : at + width]\n" for index in range(len(trees))]
    bools = {f"v_{text}" for text in truths}
    body = _body([formulas.substitute(tree, renamed) for tree in trees], dtype, bools, "            ")
    title = f"{name}_{kinds}"
    source = (
        f"def {title}({', '.join(arguments)}, columns, inner, total, start, stop):\n"
        f"{''.join(casts)}"
        f"    for row in range(start, stop):\n"
        f"        outer = row // inner\n"
        f"        inside = row - outer * inner\n"
        f"        at = row * columns\n"
        f"        width = min(columns, total - at)\n"
        f"{''.join(rows)}"
        f"        for i in range(width):\n"
        f"{''.join(loads)}{body}"
    )
    key = _KEY if formulas.functions_in(*trees).isdisjoint(_ANGLES) else _KEY + _stamp_of(angles_numba.tan)
    return compile_source(source, title, _NAMES, chunk=True, noalias=True, exact=True, key=key)


def _body(trees: list[Tree], dtype: str, truths: set[str], indent: str, target: str = "q{index}[i]") -> str:
    named, results = formulas.shared(trees)
    lines = []
    for text, tree in named:
        lines.append(f"{indent}{text} = {to_numba(tree, dtype, truths)}\n")
        if formulas.is_truth(tree, truths):
            truths = truths | {text}
    for index, tree in enumerate(results):
        lines.append(f"{indent}{target.format(index=index)} = {to_numba(tree, dtype, truths)}\n")
    return "".join(lines)


# --- ufuncs ------------------------------------------------------------------------------------------------------------------

_LOOP = types.void(types.CPointer(types.voidptr), types.CPointer(types.intp), types.CPointer(types.intp), types.voidptr)


def ufunc(
    name: str, tree: Tree, operands: tuple[str, ...], kinds: str, result: str, numbers: tuple[str, ...] = ()
) -> Any:
    """A NumPy ufunc that computes `tree`: `kinds` and `result` are the dtypes of its one loop as letters (`"?ff"` and `"f"`).

    Its vector code is for arrays without gaps; for the operands `numbers` it is for 0-d arrays. The result may be the first operand.
    """
    letters = kinds + result
    sizes = [np.dtype(letter).itemsize for letter in letters]
    names = [np.dtype(letter).name.replace("bool", "bool_") for letter in letters]
    dtype = names[-1] if names[-1] != "bool_" else names[0]
    arrays = [*(f"x{index}" for index in range(len(operands))), "o"]
    renamed = {text: formulas.name(f"v_{text}") for text in operands}
    truths = {f"v_{text}" for text, kind in zip(operands, kinds, strict=True) if kind == "?"}
    body = [formulas.substitute(tree, renamed)]
    steps = [0 if text in numbers else size for text, size in zip((*operands, ""), sizes, strict=True)]
    lines = [f"def {name}(args, dims, steps, data):\n    n = dims[0]\n"]
    lines.append(f"    if {' and '.join(f'steps[{index}] == {step}' for index, step in enumerate(steps))}:\n")
    for index, array in enumerate(arrays):
        lines.append(f"        {array} = carray(args[{index}], ({'n' if steps[index] else '1'},), np.{names[index]})\n")
    for index, text in enumerate(operands):
        if text in numbers:
            lines.append(f"        v_{text} = x{index}[0]\n")
    rows = [(f"v_{text}", f"x{index}[i]") for index, text in enumerate(operands) if text not in numbers]

    def loop(loads: list[tuple[str, str]], indent: str) -> list[str]:
        lines_of_loop = [f"{indent}for i in range(n):\n", *[f"{indent}    {text} = {load}\n" for text, load in loads]]
        return [*lines_of_loop, _body(body, dtype, truths, f"{indent}    ", "o[i]")]

    if (
        kinds[0] == result and operands[0] not in numbers
    ):  # told apart, or the compiler takes care of overlaps by scalar code
        lines.append("        if x0.ctypes.data == o.ctypes.data:\n")
        lines += loop([(rows[0][0], "o[i]"), *rows[1:]], "            ")
        lines.append("            return\n")
    lines += loop(rows, "        ")
    lines.append("        return\n    for i in range(n):\n")
    lines += [
        f"        {array} = carray(address(args[{index}], i * steps[{index}]), (1,), np.{names[index]})\n"
        for index, array in enumerate(arrays)
    ]
    lines += [f"        v_{text} = x{index}[0]\n" for index, text in enumerate(operands)]
    lines.append(_body(body, dtype, truths, "        ", "o[0]"))
    function = _compiled_loop("".join(lines), name)
    if function is None:
        return _by_vectorize(name, tree, operands, names, dtype, truths)
    from numba.np.ufunc import _internal

    codes = [np.dtype(letter).num for letter in letters]
    return _internal.fromfunc(
        name, "", [function.address], [codes], len(operands), 1, [None], [function], _internal.PyUFunc_None
    )


@numba.extending.intrinsic
def _address(typing_context, pointer, offset):  # type: ignore[no-untyped-def]
    def code(context, builder, signature, values):  # type: ignore[no-untyped-def]
        return builder.gep(values[0], [values[1]])

    return types.voidptr(types.voidptr, types.intp), code


def _compiled_loop(source: str, name: str) -> Any:
    """The C function of a ufunc's loop, cached like every kernel; None where this Numba lacks a part that it takes."""
    try:
        space = dict(_NAMES, __name__=__name__, address=_address)
        run_source(source, f"ufunc {name}", space)
        function = space[name]
        function.dynograd_source = source
        options = {"error_model": "numpy", "nopython": True}
        loop = KernelFunction(function, (_LOOP.args, _LOOP.return_type), locals={}, options=options, **PIPELINE)
        loop._cache = _KernelCache(function, f"ufunc exact {_KEY} {PIPELINE_STAMP}")
        loop.compile()
    except (AttributeError, TypeError):
        return None
    return loop


def _by_vectorize(
    name: str, tree: Tree, operands: tuple[str, ...], names: list[str], dtype: str, truths: set[str]
) -> Any:
    source = f"def {name}({', '.join(f'v_{text}' for text in operands)}):\n"
    renamed = {text: formulas.name(f"v_{text}") for text in operands}
    source += _body([formulas.substitute(tree, renamed)], dtype, truths, "    ", "found") + "    return found\n"
    space = dict(_NAMES, __name__=__name__)
    run_source(source, f"ufunc {name}", space)
    arguments = [getattr(types, kind.replace("bool_", "boolean")) for kind in names]
    vectorized = numba.vectorize([arguments[-1](*arguments[:-1])])(space[name])
    return getattr(vectorized, "ufunc", vectorized)
