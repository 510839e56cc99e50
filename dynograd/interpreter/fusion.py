"""Formulas of the table as loops: the forward of an elementwise op, and its whole backward, as one pass over large arrays.

A derivative's text names other elementwise ops; with their formulas in place of the names it is one scalar expression, and the
gradients of all operands become one kernel. Where an expression has no scalar code, or a dtype none, the op's own kernel
and the text do the work.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy

from dynograd import kernels
from dynograd.arrays import CudaArray, buffers, ndarray, quietly
from dynograd.interpreter.shared import F32, F64
from dynograd.kernels import kernel, module_of
from dynograd.kernels.build.batch_invariance import batch_invariant
from dynograd.kernels.build.sizes import LOOP_OF_ONE_PASS
from dynograd.kernels.elementwise import loops_cpu, ufuncs
from dynograd.kernels.elementwise.loops_cpu import Loop
from dynograd.kernels.formula import formulas
from dynograd.kernels.formula.formulas import Definition, Tree
from dynograd.kernels.formula.formulas_numpy import plain_function
from dynograd.ops.op import Op, registry

# Long formulas lie in files of their own, which are read when they are first needed: `bessel_i0e` is `i0e` in `bessel_formulas`.
_FAR_FORMULAS = ("airy_", "bessel_", "error_")


@cache
def definition_of(name: str) -> Definition | None:
    """The formula of the elementwise op `name`; None when it is not one, or when backends must know it themselves."""
    op = registry.get(name)
    if op is None and name.startswith(_FAR_FORMULAS):
        family, _, rest = name.partition("_")
        texts = module_of(f"{family}_formulas")
        return Definition(("input",), formulas.parse(getattr(texts, rest)))
    if op is None or op.kind != "elementwise" or op.formula is None:
        return None
    tree = formulas.parse(op.formula)
    if tree.head == name or tree == formulas.parse(f"{name}({', '.join(op.signature.parameters)})"):
        return None
    return Definition(tuple(op.signature.parameters), tree)


def expression(text: str) -> Tree:
    """A formula's or derivative's text as one scalar expression in the vocabulary of formulas."""
    return formulas.inline(formulas.parse(text), definition_of)


@cache
def _forward(name: str) -> Loop | None:
    op = registry[name]
    if op.kind != "elementwise" or op.formula is None or op.promote in ("integer", "logical") or name in _WITHOUT_LOOP:
        return None
    truths = frozenset(op.array_names[:1] if op.promote == "select" else ())
    return Loop(name, op.array_names, op.static_names, (expression(op.formula),), truths)


class _OpFormulas:
    """For backends that make all their elementwise kernels of formulas; see `kernels.op_formulas`."""

    def forward(self, name: str) -> tuple | None:
        op = registry.get(name)
        if op is None or op.kind != "elementwise" or op.formula is None:
            return None
        truths = op.array_names if op.promote == "logical" else op.array_names[:1] if op.promote == "select" else ()
        return op.array_names, op.static_names, (expression(op.formula),), frozenset(truths), op.promote

    def backward(self, name: str) -> tuple | None:
        op = registry[name]
        texts = op.derivative or ()
        names, trees, _, truths = _backward_trees(op, texts, tuple([text is not None for text in texts]))
        return (("g", *names), op.static_names, trees, truths, op.promote) if trees else None

    def names(self) -> list[str]:
        return [name for name, op in registry.items() if op.kind == "elementwise"]


kernels.op_formulas[:] = [_OpFormulas()]


def least_size(op: Op, fast: Any) -> int:
    """The number of elements from which `large_of(op)` is the faster one; 0 when there is none."""
    loop = _forward(op.name)
    if loop is None or not (loop.supports(F32) or loop.supports(F64)):
        return _KEPT if isinstance(fast, numpy.ufunc) and not op.static_names else 0
    return loops_cpu.least_size(loop, isinstance(fast, numpy.ufunc) or op.name in ufuncs.VECTORISED)


# Elements from which NumPy's own functions write into kept memory (float32: where `buffers` begins to keep it).
_KEPT = 1 << 16
# NumPy gives zeros for nothing; negative places want a division, as their kernel does it.
_WITHOUT_LOOP = frozenset({"zeroed", "round_decimals"})


def large_of(op: Op, fast: Any) -> Callable[..., Any]:
    """The op on large arrays, `large(operands..., statics...)`: its loop, or the kernel `fast` where no loop fits."""
    loop = _forward(op.name)
    if loop is None or not (loop.supports(F32) or loop.supports(F64)):
        return _kept(fast)
    count = len(op.array_names)
    plain = _kept(fast) if isinstance(fast, numpy.ufunc) else fast
    # NumPy's function of float64 where the op's kernel has code of its own for float32 alone.
    whole = plain_function(loop.trees[0], op.array_names) if not loop.supports(F64) and not op.static_names else None
    of_float64 = plain if whole is None else _kept(getattr(numpy, whole))
    native = isinstance(fast, numpy.ufunc) and loop is not None and loop.cost > 3 and not loops_cpu.uses_libm(loop)
    quotients = loop is not None and loop.checked
    flat = op.name in ufuncs.FLAT

    def large(*arguments: Any) -> Any:
        operands = arguments[:count]
        kind = operands[-1].dtype
        if flat and operands[0].size < LOOP_OF_ONE_PASS:  # one pass too, and sooner begun
            shape = operands[0].shape
            if all([operand.shape == shape or not operand.ndim for operand in operands]):
                return fast(*arguments)
        if batch_invariant():  # the kernel for small arrays takes any size
            return fast(*arguments)
        if quotients and kind is F32 and not loops_cpu.quotients_fit(operands):
            return fast(*arguments)
        if kind is F32 or (kind is F64 and not native):
            try:
                result = loop(operands, arguments[count:])
            except (TypeError, ValueError):  # statics that are no numbers; shapes that do not broadcast
                result = None
            if result is not None:
                return result[0]
        return of_float64(*arguments) if kind is F64 else plain(*arguments)

    return large


def _kept(function: Any) -> Callable[..., Any]:
    """A NumPy function that writes large results into kept memory."""
    kinds: dict[Any, Any] = {}

    def kept(*operands: Any) -> Any:
        first = operands[0]
        shape, kind = first.shape, first.dtype
        for operand in operands:
            if operand.dtype is not kind or (operand.shape != shape and operand.ndim) or not operand.flags.c_contiguous:
                return function(*operands)
        result = kinds.get(kind)
        if result is None:
            result = kinds[kind] = function(*[numpy.ones((), kind) for _ in operands]).dtype
        return function(*operands, out=buffers.empty(shape, result))

    return kept


def into_of(op: Op, like: Any) -> tuple[Any, int, Any]:
    """How to compute the op into its first operand, or a `target`: (NumPy's function for it or None, `least`, `compute`).

    From `least` elements on, and where NumPy has no function, `compute(operands, statics, target)` does it; False where it cannot.
    """
    fast = kernel("elementwise", op.name, like)
    least = least_size(op, fast)
    loop = _forward(op.name)
    native = isinstance(fast, numpy.ufunc) and not op.static_names

    def compute(operands: list[Any], statics: tuple, target: Any = None) -> bool:
        if target is None:
            target = operands[0]
        kind = target.dtype
        if loop is not None and target.size >= least > 0:
            if kind is F32:
                fits = not loop.checked or loops_cpu.quotients_fit(operands)
            else:
                fits = kind is F64 and not (native and loop.cost > 3 and not loops_cpu.uses_libm(loop))
            if fits and loop(operands, statics, target) is not None:
                return True
        if native or not (kind is F32 or kind is F64):
            return False
        result = quietly(fast, *operands, *statics)
        if result.shape != target.shape or result.dtype != kind:
            return False
        numpy.copyto(target, result)
        return True

    return fast if native else None, (least or sys.maxsize) if native else 0, compute


def backward_of(op: Op) -> Callable[..., Any]:
    """`fused(node, g)` gives the gradients by one kernel, in the operands' common shape; None where the texts must do it."""
    texts = op.derivative or ()
    loops: dict[Any, Any] = {}
    on_gpu: dict[Any, Any] = {}

    def fused(node: Any, g: Any) -> Any:
        if type(g) is CudaArray:
            return _fused_on_gpu(op, on_gpu, node, g)
        kind = g.dtype
        if kind is not F32 and kind is not F64:
            return None
        edges = node.edges
        needs = tuple([edge is not None for edge in edges]) if len(edges) > 1 else (True,)
        try:
            names, loop, places = loops[needs]
        except KeyError:
            names, loop, places = loops[needs] = _backward_loop(op, texts, needs)
        if loop is None:
            return None
        operands = [g]
        for name in names:
            value = getattr(node, name)
            if type(value) is not ndarray or (value.dtype is not kind and name not in loop.truths):
                return None
            operands.append(value)
        try:
            result = loop(operands, node.attrs if op.static_names else ())
        except (TypeError, ValueError):
            return None
        if result is None:
            return None
        return [None if place is None else g if place < 0 else result[place] for place in places]

    return fused


def least_backward(op: Op) -> int:
    """The number of elements from which `backward_of` pays on the CPU."""
    texts = op.derivative or ()
    _, whole, _ = _backward_loop(op, texts, tuple([text is not None for text in texts]))
    return sys.maxsize if whole is None else loops_cpu.least_size(whole, native=False)


def _fused_on_gpu(op: Op, loops: dict[Any, Any], node: Any, g: Any) -> Any:
    """The gradients by one kernel in `g`'s dtype, computed in float32 for half types; None where the texts must do it."""
    edges = node.edges
    needs = tuple([edge is not None for edge in edges]) if len(edges) > 1 else (True,)
    try:
        names, loop, places, calls = loops[needs]
    except KeyError:
        from dynograd.kernels.elementwise.loops_cuda import CudaLoop

        names, trees, places, truths = _backward_trees(op, op.derivative or (), needs)
        loop = CudaLoop(f"{op.name}_backward", ("g", *names), op.static_names, trees, truths) if trees else None
        loops[needs] = names, loop, places, {}
        names, loop, places, calls = loops[needs]
    if loop is None:
        return None
    operands = [g, *[getattr(node, name) for name in names]]
    if op.static_names:
        operands += node.attrs
    key = tuple([operand.layout if type(operand) is CudaArray else type(operand) for operand in operands])
    call = calls.get(key)
    if call is None:
        if g.dtype.kind == "c" or any(
            [type(operand) not in (CudaArray, int, float) for operand in operands[: len(names) + 1]]
        ):
            return None
        from dynograd.kernels.elementwise.loops_cuda import compute_type

        count = len(names) + 1
        kinds = [g.dtype] * len(loop.trees)
        prepared_loop = loop.prepared(operands[:count], tuple(operands[count:]), kinds, compute_type(g.dtype))
        if len(calls) > 1000:
            calls.clear()
        call = calls[key] = prepared_loop.run
    result = call(*operands)
    if len(loop.trees) == 1:
        return [None if place is None else g if place < 0 else result for place in places]
    return [None if place is None else g if place < 0 else result[place] for place in places]


def _backward_loop(op: Op, texts: tuple, needs: tuple[bool, ...]) -> tuple:
    """(names of saved arrays, loop, for each operand which result it gets: -1 for `g` itself, None for no gradient)."""
    names, trees, places, truths = _backward_trees(op, texts, needs)
    if not trees:
        return (), None, ()
    loop = Loop(f"{op.name}_backward", ("g", *names), op.static_names, trees, truths)
    return names, loop if loop.supports(F32) else None, places


def _backward_trees(op: Op, texts: tuple, needs: tuple[bool, ...]) -> tuple:
    """(names of saved arrays, trees, places, truths); no trees where the texts are as good."""
    trees: list[Tree] = []
    places: list[int | None] = []
    for text, needed in zip(texts, needs, strict=True):
        if text is None or not needed:
            places.append(None)
            continue
        tree = expression(text)
        if tree == formulas.name("g"):
            places.append(-1)
        else:
            if tree not in trees:
                trees.append(tree)
            places.append(trees.index(tree))
    if not trees or any(tree.head == "number" for tree in trees):
        return (), (), (), frozenset()
    used = formulas.names_in(*trees)
    names = tuple(name for name in (*op.array_names, "output") if name in used)
    if used - set(names) - {"g"} - set(op.static_names):
        return (), (), (), frozenset()
    truths = frozenset(op.array_names[:1] if op.promote == "select" else ()) & set(names)
    return names, tuple(trees), tuple(places), truths
