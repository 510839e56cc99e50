"""Elementwise computations on large arrays: one pass over memory, by kernels that `generator_numba` makes from formulas.

`Loop` looks at the arrays: which dims can be taken together, which operands repeat, which are better copied first. Results lie in
memory in the order of the operands (as NumPy's do) and come from kept buffers. Which kernel runs follows from dtypes, shapes and
strides alone. Numba is loaded by the first kernel.
"""

from __future__ import annotations

import math
from typing import Any

import numpy

from dynograd.arrays import buffers
from dynograd.kernels.build import threads
from dynograd.kernels.build.sizes import (
    LOOP_OF_ONE_PASS,
    LOOP_OF_PASSES,
    LOOP_OF_PASSES_WITH_EXPONENTIALS,
    LOOP_OF_TWO_PASSES,
    LOOP_WITH_EXPONENTIALS,
)
from dynograd.kernels.formula import formulas
from dynograd.kernels.formula.formulas import Tree

# A simple operation on an element in cache takes half of the time that `threads.GRAIN` supposes.
_PER_ELEMENT = 2

# Elements that one row of a flat array has: 16 KiB of float32, so that rows of all operands lie in the first cache.
_ROW = 1 << 12
# Rows shorter than this would cost more to begin than to compute; what repeats is then written out.
_SHORT = 64

_SIMPLE = frozenset(
    "+ - * / neg < <= > >= == != && || ! select max min fmax fmin abs sqrt floor ceil trunc round sign copysign "
    "isnan isinf isfinite hypot".split()
)
_VECTOR = frozenset(
    "exp exp2 expm1 log log2 log10 log1p log1pexp tanh erf sigmoid "
    "normal_cdf normal_pdf normal_gate normal_gate_slope".split()
)
# Of float32 alone: in float64 NumPy's vector code is better.
_VECTOR_OF_FLOAT32 = frozenset("asin acos atan atan2".split())
_SCALAR = frozenset(
    "erfc erfinv lgamma digamma polygamma zeta igamma igammac chebyshev gegenbauer hermite laguerre spherical_bessel".split()
)
# Of float64 by libm, in parts on all threads: NumPy has no vector code for them either.
_BY_LIBM = frozenset("sin cos mod fmod floor_divide".split())
# Of float32 where `quotients_fit`.
_QUOTIENTS = frozenset("mod fmod floor_divide".split())
# By NumPy (but for float32 what `_VECTOR_OF_FLOAT32` says), whose vector code is faster; plans compute them, too: see `angles_numba`.
LEFT_TO_NUMPY = frozenset("sin cos tan asin acos atan atan2 sinh cosh asinh acosh atanh **".split())
# What NumPy and compiled code need not compute to the same bits.
COSTLY = _VECTOR | _VECTOR_OF_FLOAT32 | _SCALAR | _BY_LIBM
_WHOLE = frozenset("+ - * neg < <= > >= == != && || ! select max min & | ^ ~".split())
_FLOATS = ("float32", "float64")
_EXPONENTS = (-2, -1, -0.5, 0, 0.5, 1, 2, 3)
_BOOL = numpy.dtype(numpy.bool_)
_ALL_ROWS = [*("F" * count for count in range(8))]
_TWO_GRAINS = 2 * threads.GRAIN


class Loop:
    """Formulas of some operands and static numbers, computed together in one pass; `Loop(...)(operands, statics)` gives arrays.

    Args:
        trees: one for each result.
        truths: the operands that are bool arrays.
    """

    __slots__ = (
        "_bounds",
        "_kernels",
        "_plans",
        "_results",
        "_special",
        "_supported",
        "_typed",
        "checked",
        "cost",
        "functions",
        "name",
        "operands",
        "statics",
        "trees",
        "truths",
    )

    def __init__(
        self,
        name: str,
        operands: tuple[str, ...],
        statics: tuple[str, ...],
        trees: tuple[Tree, ...],
        truths: frozenset[str] = frozenset(),
    ) -> None:
        self.name, self.operands, self.statics, self.truths = name, operands, statics, truths
        self.trees = tuple(_with_choices(formulas.simplify(tree), statics) for tree in trees)
        self.functions = formulas.functions_in(*self.trees)
        costly = len(self.functions & (_VECTOR | _VECTOR_OF_FLOAT32))
        self.cost = 1 + formulas.operations(*self.trees) // 4 + 3 * costly + 40 * len(self.functions & _SCALAR)
        self.cost += 10 * len(self.functions & _BY_LIBM)
        self.checked = len(self.trees) == 1 and self.trees[0].head in _QUOTIENTS
        self._typed = next((index for index, text in enumerate(operands) if text not in truths), 0)
        self._bounds = tuple(-math.inf if text == "min" else math.inf for text in statics)
        self._results = tuple(_BOOL if formulas.is_truth(tree, truths) else None for tree in self.trees)
        self._kernels: dict[tuple[str, str], Any] = {}
        self._plans: dict[Any, _Plan] = {}
        self._supported: dict[str, bool] = {}
        self._special: dict[tuple, Loop | None] | None = {} if self._exponents() else None

    def _exponents(self) -> bool:
        """Whether statics decide which code computes: they stand in exponents."""
        return bool(self.statics) and "**" in self.functions

    def supports(self, kind: Any) -> bool:
        """Whether there is scalar code for arrays of this dtype. In float64, functions are libm's."""
        supported = self._supported.get(kind.char)
        if supported is None:
            if kind.name in _FLOATS:
                known = _SIMPLE | _VECTOR | _SCALAR
                if kind.name == "float64":
                    known |= _BY_LIBM
                else:
                    known |= _VECTOR_OF_FLOAT32 | (_QUOTIENTS if self.checked else frozenset())
                supported = self.functions <= known or self._special is not None
            else:
                supported = kind.kind in "iu" and not self.statics and self.functions <= _WHOLE
            self._supported[kind.char] = supported
        return supported

    def with_statics(self, values: tuple[Any, ...]) -> Loop | None:
        """The loop for these values of the statics where they decide the code; None when there is none."""
        if self._special is None:
            return self
        if values not in self._special:
            if len(self._special) >= 64:
                return None
            self._special[values] = self._specialised(values)
        return self._special[values]

    def _with_numbers(self, values: tuple[Any, ...]) -> Loop:
        numbers = {text: formulas.number(float(value)) for text, value in zip(self.statics, values, strict=True)}
        trees = tuple(formulas.substitute(tree, numbers) for tree in self.trees)
        return type(self)(self.name, self.operands, (), trees, self.truths)

    def _specialised(self, values: tuple[Any, ...]) -> Loop | None:
        loop = self._with_numbers(values)
        for power in _powers(loop.trees):
            if power.parts[1].head != "number" or power.parts[1].parts[0] not in _EXPONENTS:
                return None
        loop.functions -= {"**"}
        return loop

    def __call__(self, operands: Any, statics: tuple[Any, ...] = (), out: Any = None) -> Any:
        """The results in a list, new arrays or (one) `out`, which may be one of the operands; None when no kernel fits."""
        if self._special is not None:
            loop = self.with_statics(statics)
            return None if loop is None else loop(operands, (), out)
        kind = operands[self._typed].dtype
        if not (self._supported.get(kind.char) or self.supports(kind)):
            return None
        if statics:
            statics = tuple(
                [bound if value is None else float(value) for value, bound in zip(statics, self._bounds, strict=True)]
            )
            if any([value != value for value in statics]):  # choices between NaN and a number would take the number
                return None
        shape = operands[0].shape
        for x in operands:
            if x.shape != shape or not x.flags.carray:
                return self._planned(operands, statics, kind, out)
        size = operands[0].size
        if out is None:
            kinds = _ALL_ROWS[len(operands)]
            results = [_new(shape, size, result or kind) for result in self._results]
            arguments = [result.ravel() for result in results]
            for x in operands:
                arguments += (x.ravel(), _ROW, 0)
        else:
            if not out.flags.carray or out.shape != shape or _overlaps(operands, out):
                return self._planned(operands, statics, kind, out)
            results, kinds, arguments = [out], "", [out.ravel()]
            for x in operands:
                if x is out:
                    kinds += "W"
                else:
                    kinds += "F"
                    arguments += (x.ravel(), _ROW, 0)
        self._launch(kind, kinds, arguments, statics, _ROW, 1, size)
        return results

    def _launch(
        self, kind: Any, kinds: str, arguments: list[Any], statics: tuple, columns: int, inner: int, total: int
    ) -> None:
        if not total:
            return
        kernel = self._kernels.get((kinds, kind.char))
        if kernel is None:
            from dynograd.kernels.formula import generator_numba

            kernel = self._kernels[kinds, kind.char] = generator_numba.row_kernel(
                self.name, self.trees, self.operands, kinds, self.statics, kind.name, self.truths
            )
        rows = -(-total // columns)
        work = total * self.cost // _PER_ELEMENT
        if work < _TWO_GRAINS:
            kernel.serial(*arguments, *statics, columns, inner, total, 0, rows)
        else:
            kernel(*arguments, *statics, columns, inner, total, count=rows, work=work)

    def _through_copy(self, operands: Any, statics: tuple, kind: Any, out: Any) -> Any:
        results = self._planned(operands, statics, kind, None)
        if out.shape != results[0].shape:
            raise ValueError(f"{self.name}: result of shape {results[0].shape} into an array of shape {out.shape}")
        numpy.copyto(out, results[0])
        return [out]

    # --- arrays that are not simply flat -------------------------------------------------------------------------------------

    def _planned(self, operands: Any, statics: tuple, kind: Any, out: Any) -> Any:
        key: tuple = (kind.char, *[(x.shape, x.strides) if x.ndim else None for x in operands])
        if out is not None:
            shape = numpy.broadcast_shapes(*[x.shape for x in operands])
            if out.shape != shape or not out.flags.writeable or _overlaps(operands, out):
                return self._through_copy(operands, statics, kind, out)
            key = (*key, (out.strides, tuple([x is out for x in operands])))
        plan = self._plans.get(key)
        if plan is None:
            if len(self._plans) > 500:
                self._plans.clear()
            plan = self._plans[key] = _Plan(operands, out, self.operands[0] == "g")
        if out is None:
            results = [_new(plan.moved, plan.size, result or kind) for result in self._results]
            arguments = [result.ravel() for result in results]
        elif plan.result_is_flat:
            arguments = [out.transpose(plan.order).ravel()]
        else:
            return self._through_copy(operands, statics, kind, out)
        for x, (form, first, second) in zip(operands, plan.forms, strict=True):
            if form is None:  # out itself
                continue
            if first is None:
                arguments.append(x.item())
            else:
                arguments += (form(x, plan), first, second)
        self._launch(kind, plan.kinds, arguments, statics, plan.columns, plan.inner, plan.size)
        if out is not None:
            return [out]
        return results if plan.back is None else [result.transpose(plan.back) for result in results]


class _Plan:
    """How to go through arrays of certain shapes and strides: rows, and for each operand (how to make its flat array, distances)."""

    __slots__ = (
        "back",
        "columns",
        "forms",
        "inner",
        "kinds",
        "moved",
        "order",
        "repeats",
        "result_is_flat",
        "size",
        "times",
    )

    def __init__(self, operands: Any, out: Any, backward: bool) -> None:
        shape = numpy.broadcast_shapes(*[x.shape for x in operands])
        self.size = size = math.prod(shape)
        # Gradients lie in memory as what was saved does: a gradient of another layout is brought into it here, once.
        leading = [*operands[1:], operands[0]] if backward else operands
        self.order = _order(leading if out is None else (out,), shape)
        self.moved = tuple(shape[axis] for axis in self.order)
        plain = self.order == tuple(range(len(shape)))
        self.back = None if plain else tuple(int(axis) for axis in numpy.argsort(self.order))
        self.result_is_flat = out is None or out.transpose(self.order).flags.c_contiguous
        self.times = self.repeats = 1
        dims = [axis for axis, count in enumerate(self.moved) if count > 1]
        counts = [self.moved[axis] for axis in dims]
        full = _row_major(counts)
        # An operand's distances along the dims; full ones too when it will be written out in the order of the result.
        strides: list[Any] = []
        forms: list[Any] = []
        for x in operands:
            if x is out or (x.size == 1 and size != 1):
                forms.append(None if x is out else _flat)
                strides.append(None)
                continue
            spread = _spread(x, self)
            own = [spread.strides[axis] // x.itemsize for axis in dims]
            odd = min(spread.strides, default=0) < 0 or any(spread.strides[axis] % x.itemsize for axis in dims)
            if odd or (own and own[-1] not in (0, 1)):
                forms.append(_written_out)
                own = full
            else:
                forms.append(_flat)
            strides.append(own)
        counts, strides = _collapsed(counts, strides)
        self.columns, self.inner = _ROW, 1
        if len(counts) > 3 or (len(counts) > 1 and counts[-1] < _SHORT):
            full = _row_major(counts)
            if len(counts) == 2 and all(own in (None, full, [0, 1]) for own in strides):
                # Many short rows with the same vector: several rows as one, with the vector written several times.
                self.times = _ROW // counts[1]
                self.columns = self.times * counts[1]
                for index, own in enumerate(strides):
                    if own == [0, 1]:
                        forms[index], strides[index] = _tiled, [0, 0, 1]
                    elif own is not None:
                        strides[index] = [self.columns, 0, 1]
            else:
                for index, own in enumerate(strides):
                    if own is not None and own != full:
                        # NumPy repeats numbers in a third of the time that it takes to copy rows of stride 0.
                        forms[index] = _repeated if own == [1, 0] and forms[index] is _flat else _written_out
                        strides[index] = full
                self.repeats = counts[-1]
                counts, strides = _collapsed(counts, strides)
        if self.times == 1:
            if len(counts) < 2:
                step = [None if own is None else (own or [1])[0] for own in strides]
                strides = [None if own is None else [_ROW * own, 0, own] for own in step]
            else:
                self.columns, self.inner = counts[-1], counts[-2]
                strides = [None if own is None else ([0, *own] if len(own) == 2 else own) for own in strides]
        self.kinds, self.forms = "", []
        for x, form, own in zip(operands, forms, strides, strict=True):
            if own is None:
                self.kinds += "W" if x is out else "S"
                self.forms.append((form, None, None))
            else:
                self.kinds += "F" if own[2] else "B"
                self.forms.append((form, own[0], own[1]))


def _order(operands: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The dims from the outermost to the innermost in memory, of the first operand that has all elements."""
    plain = tuple(range(len(shape)))
    for x in operands:
        if x.shape == shape:
            if x.flags.c_contiguous:
                return plain
            strides = x.strides
            if min(strides, default=0) > 0:
                return tuple(sorted(plain, key=lambda axis: -strides[axis]))
    return plain


def _spread(x: Any, plan: _Plan) -> Any:
    """The operand as a view with the result's dims, in the plan's order."""
    shape = [0] * len(plan.order)
    for place, axis in enumerate(plan.order):
        shape[axis] = plan.moved[place]
    return numpy.broadcast_to(x, shape).transpose(plan.order)


def _written_out(x: Any, plan: _Plan) -> Any:
    copy = buffers.empty(plan.moved, x.dtype)
    numpy.copyto(copy, _spread(x, plan))
    return copy.ravel()


def _tiled(x: Any, plan: _Plan) -> Any:
    return numpy.tile(_flat(x, plan), plan.times)  # of a vector that was expanded, the vector alone


def _repeated(x: Any, plan: _Plan) -> Any:
    return numpy.repeat(_flat(x, plan), plan.repeats)


def _flat(x: Any, plan: _Plan) -> Any:
    """A 1-d array over the elements of `x` in memory, and what lies between them."""
    if x.flags.carray:
        return x.ravel()
    if plan.back is not None and x.ndim == len(plan.order):
        x = x.transpose(plan.order)
    if not x.flags.c_contiguous:
        x = x[tuple([slice(0, 1) if step == 0 else slice(None) for step in x.strides])]
        length = 1 + sum([(count - 1) * step for count, step in zip(x.shape, x.strides, strict=True)]) // x.itemsize
        x = numpy.lib.stride_tricks.as_strided(x, (length,), (x.itemsize,))
    return _writeable(x).ravel()


def _row_major(counts: list[int]) -> list[int]:
    strides, step = [], 1
    for count in reversed(counts):
        strides.append(step)
        step *= count
    return strides[::-1]


def _collapsed(counts: list[int], strides: list[Any]) -> tuple[list[int], list[Any]]:
    """Neighbouring dims as one, where every operand goes through them in one step."""
    axis = len(counts) - 2
    counts = list(counts)
    strides = [None if own is None else list(own) for own in strides]
    while axis >= 0:
        if all(own is None or own[axis] == own[axis + 1] * counts[axis + 1] for own in strides):
            counts[axis] *= counts.pop(axis + 1)
            for own in strides:
                if own is not None:
                    own.pop(axis)
        axis -= 1
    return counts, strides


def _writeable(x: Any) -> Any:
    """The array as kernels know it: an array that must not be written is another type to Numba."""
    return x if x.flags.writeable else x.copy()


def least_size(loop: Loop, native: bool) -> int:
    """The number of elements from which the loop is faster than NumPy; `native`: NumPy has a function for it."""
    costly = loop.functions & COSTLY
    if native:
        return LOOP_WITH_EXPONENTIALS if costly else LOOP_OF_ONE_PASS
    if costly:
        return LOOP_OF_PASSES_WITH_EXPONENTIALS
    passes = formulas.operations(*loop.trees)
    return LOOP_OF_ONE_PASS if passes < 2 else LOOP_OF_TWO_PASSES if passes < 3 else LOOP_OF_PASSES


def quotients_fit(operands: Any) -> bool:
    """Whether float32 quotients are below 2**28, where `quotients_numba` is exact. False where there are NaN or infinities."""
    input, other = operands
    if not input.size or not other.size:
        return True
    low = other.min()
    if low <= 0:
        highest = other.max()
        low = -highest if highest < 0 else numpy.abs(other).min()
    high = max(input.max(), -input.min())
    return bool(float(high) < float(low) * 2.0**28)


def uses_libm(loop: Loop) -> bool:
    """Whether its float64 code is as good as NumPy's on one thread."""
    return bool(loop.functions & _BY_LIBM)


def _new(shape: tuple[int, ...], size: int, kind: Any) -> Any:
    return (numpy.empty if size * kind.itemsize < buffers.SMALLEST else buffers.empty)(shape, kind)


def _overlaps(operands: Any, out: Any) -> bool:
    """Whether an operand shares memory with `out` otherwise than by being it."""
    return any([x is not out and numpy.may_share_memory(x, out) for x in operands])


_SIGN = formulas.parse("x > 0 ? 1 : x < 0 ? -1 : 0")


def _with_choices(tree: Tree, statics: tuple[str, ...]) -> Tree:
    """The tree with signs as choices, and maxima and minima of something and a number: one comparison instead of two for NaN."""
    if tree.head in ("name", "number"):
        return tree
    parts = [_with_choices(part, statics) for part in tree.parts]
    if tree.head == "sign":
        return formulas.substitute(_SIGN, {"x": parts[0]})
    if tree.head in ("max", "min"):
        left, right = parts
        if right.head == "number" or (right.head == "name" and right.parts[0] in statics):
            beyond = formulas.call("<=", left, right) if tree.head == "max" else formulas.call("<=", right, left)
            return formulas.call("select", beyond, right, left)
    return formulas.call(tree.head, *parts)


def _powers(trees: tuple[Tree, ...]) -> list[Tree]:
    powers, waiting = [], list(trees)
    while waiting:
        tree = waiting.pop()
        if tree.head in ("name", "number"):
            continue
        if tree.head == "**":
            powers.append(tree)
        waiting += tree.parts
    return powers


def ufunc(
    name: str, tree: Tree, operands: tuple[str, ...], kinds: str, result: str, numbers: tuple[str, ...] = ()
) -> Any:
    """The NumPy ufunc of a formula for one combination of dtypes (`generator_numba.ufunc`); loads Numba."""
    from dynograd.kernels.formula import generator_numba

    return generator_numba.ufunc(name, _with_choices(tree, numbers), operands, kinds, result, numbers)
