"""Sums of products over named dims: `einsum`, `tensordot`, `inner`, `vdot`.

Everything becomes pairwise contractions of two tensors whose dims have labels: a view of each as a batch of matrices and one
`matmul`, or a broadcast product where nothing is summed. What has to be moved depends on labels and shapes alone and is remembered.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

from dynograd.arrays import Array
from dynograd.base.shapes import normalize_dim
from dynograd.errors import ShapeError
from dynograd.kernels.attention.any_size import is_alike_at_any_size
from dynograd.ops.elementwise.arithmetic import conj, mul
from dynograd.ops.layout.strides import diagonal
from dynograd.ops.layout.views import permuted, reshaped
from dynograd.ops.matmul.matmuls import dot, matmul
from dynograd.ops.op import composed
from dynograd.ops.precisions import narrowed
from dynograd.ops.reduce.reductions import sum as sum_dims

__all__ = ["bilinear", "einsum", "inner", "tensordot", "vdot"]

Labels = tuple[Any, ...]
Shape = tuple[int, ...]


@composed(out=None, functional=True)
def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Array:
    """`input1 @ weight[k] @ input2 + bias[k]` for every output feature k.

    Args:
        input1 (*, I), input2 (*, J): features, with the same leading dims.
        weight (K, I, J): a matrix for each output feature.
        bias (K): what is added.
    Returns:
        (*, K).
    Raises:
        ShapeError: sizes that do not fit.

    >>> dynograd.nn.functional.bilinear(tensor([1.0, 2.0]), tensor([3.0]), tensor([[[1.0], [1.0]]]))
    tensor([9.])
    """
    first, second, inner = tuple(input1.shape), tuple(input2.shape), tuple(weight.shape)
    if len(inner) != 3 or first[:-1] != second[:-1] or (first[-1], second[-1]) != inner[1:]:
        expected = inner[1:] if len(inner) == 3 else ("I", "J")
        raise ShapeError(
            f"bilinear: inputs of shapes {first} and {second}, expected (*, {expected[0]}) and (*, {expected[1]}) with the same leading dims for "
            f"a weight (K, I, J) of shape {inner}. Reshape them, or take a weight of shape (K, {first[-1]}, {second[-1]})."
        )
    if bias is not None and tuple(bias.shape) != inner[:1]:
        raise ShapeError(f"bilinear: bias of shape {tuple(bias.shape)} does not match {inner[0]} output features.")
    rows = matmul(input1, reshaped(permuted(weight, (1, 0, 2)), (inner[1], inner[0] * inner[2])))
    rows = reshaped(rows, (*first[:-1], inner[0], inner[2]))
    result = narrowed(sum_dims(rows * reshaped(input2, (*second[:-1], 1, second[-1])), len(first), False), rows)
    return result if bias is None else result + bias


@composed(out=None)
def einsum(equation: Any, *operands: Any) -> Array:
    """Products of all operands' elements, summed over the subscripts that the output lacks.

    Args:
        equation: a letter for each dim of each operand, and the output's: "bij,bjk->bik". A letter that an operand has twice takes
            its diagonal. "..." stands for further dims, which broadcast. Without "->" the output has the "..." and then, in
            alphabetical order, the letters that appear once.
        operands: tensors.
    Returns:
        A tensor with the dims of the output.
    Raises:
        ShapeError: an operand does not fit its letters, or sizes of a letter differ and none is 1.

    >>> dynograd.einsum("ij,jk->ik", tensor([[1.0, 2.0]]), tensor([[3.0], [4.0]]))
    tensor([[11.]])
    >>> dynograd.einsum("ii", tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor(5.)
    """
    if not isinstance(equation, str):
        equation, operands = _from_sublists((equation, *operands))
    elif len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    shapes = tuple([tuple(getattr(operand, "array", operand).shape) for operand in operands])
    if len(operands) == 2:
        direct = _direct(equation, shapes)
        if direct is not None:
            result = _multiplied(*operands, direct[0])
            return result if direct[1] is None else permuted(result, direct[1])
    inputs, output = _parsed(equation, shapes)
    tensors = []
    labels = []
    for tensor, own in zip(operands, inputs, strict=True):
        if len(set(own)) != len(own):
            tensor, own = _without_repeats(tensor, own)
        tensors.append(tensor)
        labels.append(own)
    if len(tensors) > 1:
        tensors, labels = _without_ones(tensors, labels)
    while len(tensors) > 1:
        first, second = (0, 1)
        if len(tensors) > 2 and not is_alike_at_any_size():
            first, second = _cheapest_pair(tuple(labels), tuple([tuple(x.shape) for x in tensors]), output)
        rest = [place for place in range(len(tensors)) if place not in (first, second)]
        keep = frozenset(output).union(*[labels[place] for place in rest])
        result, own = _contract(tensors[first], labels[first], tensors[second], labels[second], keep)
        tensors = [result, *[tensors[place] for place in rest]]
        labels = [own, *[labels[place] for place in rest]]
    return _as_output(tensors[0], labels[0], output)


@lru_cache(maxsize=1024)
def _direct(equation: str, shapes: tuple[Shape, ...]) -> tuple[_Plan, Shape | None] | None:
    """For two operands without repeated labels or broadcasting: how they are multiplied, and the order of the result's dims."""
    (first, second), output = _parsed(equation, shapes)
    sizes = dict(zip(first, shapes[0], strict=True))
    if len(set(first)) != len(first) or len(set(second)) != len(second):
        return None
    if any([sizes.get(label, size) != size for label, size in zip(second, shapes[1], strict=True)]):
        return None
    plan = _planned(first, second, *shapes, frozenset(output))
    return plan, None if plan.labels == output else tuple([plan.labels.index(label) for label in output])


def _as_output(tensor: Any, labels: Labels, output: Labels) -> Array:
    """The last operand summed over what the output lacks, with its dims in the output's order."""
    summed = tuple([place for place, label in enumerate(labels) if label not in output])
    if summed:
        tensor = sum_dims(tensor, summed, False)
        labels = tuple([label for label in labels if label in output])
    if labels == output:
        return tensor
    return permuted(tensor, tuple([labels.index(label) for label in output]))


def _without_repeats(tensor: Any, labels: Labels) -> tuple[Any, Labels]:
    """The diagonals over labels that stand twice."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            tensor = diagonal(tensor, 0, first, second)
            labels = (*[label for place, label in enumerate(labels) if place not in (first, second)], label)
    return tensor, labels


def _without_ones(tensors: list[Any], labels: list[Labels]) -> tuple[list[Any], list[Labels]]:
    """Dims of size 1 are dropped where another operand has more: there they broadcast."""
    large = {
        label
        for tensor, own in zip(tensors, labels, strict=True)
        for label, size in zip(own, tensor.shape, strict=True)
        if size != 1
    }
    for place, (tensor, own) in enumerate(zip(tensors, labels, strict=True)):
        kept = [(label, size) for label, size in zip(own, tensor.shape, strict=True) if size != 1 or label not in large]
        if len(kept) != len(own):
            tensors[place] = reshaped(tensor, tuple([size for _, size in kept]))
            labels[place] = tuple([label for label, _ in kept])
    return tensors, labels


# --- two operands --------------------------------------------------------------------------------------------------------


class _Arrangement(NamedTuple):
    """What is done to an operand, each step None where there is nothing to do."""

    summed: Shape | None
    order: Shape | None
    shape: Shape | None


class _Plan(NamedTuple):
    first: _Arrangement
    second: _Arrangement
    product: bool
    shape: Shape | None
    labels: Labels


def _contract(x: Any, first: Labels, y: Any, second: Labels, keep: frozenset) -> tuple[Any, Labels]:
    """The product of two operands, summed over the labels outside `keep`, and its labels."""
    plan = _planned(first, second, tuple(x.shape), tuple(y.shape), keep)
    return _multiplied(x, y, plan), plan.labels


def _multiplied(x: Any, y: Any, plan: _Plan) -> Array:
    function = mul if plan.product else matmul
    result = function(_arranged(x, plan.first), _arranged(y, plan.second))
    return result if plan.shape is None else reshaped(result, plan.shape)


def _arranged(tensor: Any, steps: _Arrangement) -> Array:
    summed, order, shape = steps
    if summed is not None:
        tensor = sum_dims(tensor, summed, False)
    if order is not None:
        tensor = permuted(tensor, order)
    return tensor if shape is None else reshaped(tensor, shape)


@lru_cache(maxsize=1024)
def _planned(first: Labels, second: Labels, shape1: Shape, shape2: Shape, keep: frozenset) -> _Plan:
    sizes = dict(zip(first, shape1, strict=True)) | dict(zip(second, shape2, strict=True))
    batch = [label for label in first if label in second and label in keep]
    inner = [label for label in first if label in second and label not in keep]
    left = [label for label in first if label not in second and label in keep]
    right = [label for label in second if label not in first and label in keep]
    labels = (*batch, *left, *right)
    final = tuple([sizes[label] for label in labels])

    def extents(names: list[Any]) -> Shape:
        return tuple([sizes[label] for label in names])

    if inner:
        groups = ((batch, left, inner), (batch, inner, right))
        shapes = [(*extents(a), prod(extents(b)), prod(extents(c))) for a, b, c in groups]
        result = (*extents(batch), prod(extents(left)), prod(extents(right)))
    else:
        groups = ((batch, left, []), (batch, [], right))
        shapes = [
            (*extents(batch), *extents(left), *(1,) * len(right)),
            (*extents(batch), *(1,) * len(left), *extents(right)),
        ]
        result = final
    steps = [
        _arrangement(own, shape, [label for group in chosen for label in group], target)
        for own, shape, chosen, target in zip((first, second), (shape1, shape2), groups, shapes, strict=True)
    ]
    return _Plan(steps[0], steps[1], not inner, None if result == final else final, labels)


def _arrangement(labels: Labels, shape: Shape, chosen: list[Any], target: Shape) -> _Arrangement:
    summed = tuple([place for place, label in enumerate(labels) if label not in chosen])
    kept = [label for label in labels if label in chosen]
    sizes = dict(zip(labels, shape, strict=True))
    order = tuple([kept.index(label) for label in chosen])
    now = tuple([sizes[label] for label in chosen])
    return _Arrangement(
        summed or None, None if order == tuple(range(len(order))) else order, None if now == target else target
    )


@lru_cache(maxsize=1024)
def _cheapest_pair(labels: tuple[Labels, ...], shapes: tuple[Shape, ...], output: Labels) -> tuple[int, int]:
    """The pair whose product is smallest, measured against the two that it replaces; of equals the one with the least work."""
    best: tuple[int, int] | None = None
    chosen = (0, 1)
    for first in range(len(labels)):
        for second in range(first + 1, len(labels)):
            others = set(output).union(*[own for place, own in enumerate(labels) if place not in (first, second)])
            sizes = dict(zip(labels[first], shapes[first], strict=True)) | dict(
                zip(labels[second], shapes[second], strict=True)
            )
            result = prod([size for label, size in sizes.items() if label in others])
            cost = (result - prod(shapes[first]) - prod(shapes[second]), prod(sizes.values()))
            if best is None or cost < best:
                best, chosen = cost, (first, second)
    return chosen


# --- reading an equation -------------------------------------------------------------------------------------------------


def _from_sublists(operands_and_sublists: tuple) -> tuple[str, tuple]:
    """(equation, operands) of the form einsum(x, [0, 1], y, [1, 2], [0, 2])."""
    pairs, output = (
        (operands_and_sublists[:-1], operands_and_sublists[-1])
        if len(operands_and_sublists) % 2
        else (operands_and_sublists, None)
    )
    if len(pairs) < 2:
        raise ValueError(
            "einsum: must provide at least one operand: einsum(equation, x, ...) or einsum(x, [0, 1], ...)."
        )

    def letters(numbers: Any) -> str:
        text = ""
        for number in numbers:
            if number is not Ellipsis and not (isinstance(number, int) and 0 <= number < 52):
                raise ValueError(
                    f"einsum: expected subscripts to be Ellipsis or numbers in the range [0, 52), got {number!r} in {numbers!r}."
                )
            text += "..." if number is Ellipsis else chr(ord("A") + number if number < 26 else ord("a") + number - 26)
        return text

    equation = ",".join([letters(numbers) for numbers in pairs[1::2]])
    return equation if output is None else f"{equation}->{letters(output)}", pairs[::2]


@lru_cache(maxsize=1024)
def _parsed(equation: str, shapes: tuple[Shape, ...]) -> tuple[tuple[Labels, ...], Labels]:
    """The labels of each operand and of the output: letters, and for "..." the numbers -n to -1."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")

    def wrong(text: str) -> ShapeError:
        return ShapeError(
            f"einsum: {text} The call was einsum({equation!r}) with shapes {', '.join(map(str, shapes)) or 'none'}."
        )

    if len(terms) != len(shapes) or not shapes:
        more = "fewer" if len(shapes) < len(terms) else "more"
        raise wrong(
            f"{more} operands were provided than specified in the equation: {len(shapes)} for {len(terms)} terms."
        )
    inputs = tuple(
        [
            _labels_of(term, len(shape), place, wrong)
            for place, (term, shape) in enumerate(zip(terms, shapes, strict=True))
        ]
    )
    sizes: dict[Any, int] = {}
    for place, (own, shape) in enumerate(zip(inputs, shapes, strict=True)):
        within: dict[Any, int] = {}
        for label, size in zip(own, shape, strict=True):
            if within.setdefault(label, size) != size:
                raise wrong(
                    f"subscript {label} is repeated for operand {place} but the sizes don't match, {size} != {within[label]}."
                )
            if size != 1 and sizes.get(label, 1) not in (1, size):
                name = "..." if isinstance(label, int) else label
                raise wrong(
                    f"subscript {name} has size {size} for operand {place} which does not broadcast with previously seen size "
                    f"{sizes[label]}."
                )
            sizes[label] = max(size, sizes.get(label, 1)) if size != 0 else 0
    hidden = sorted([label for label in sizes if isinstance(label, int)])
    if not arrow:
        count = [label for own in inputs for label in own]
        return inputs, (
            *hidden,
            *sorted([label for label in sizes if not isinstance(label, int) and count.count(label) == 1]),
        )
    _check_letters(right, wrong)
    before, dots, after = right.partition("...")
    output = (*before, *(hidden if dots else ()), *after)
    for label in output:
        if output.count(label) > 1:
            raise wrong(f"output subscript {label} appears more than once in the output.")
        if label not in sizes:
            raise wrong(f"output subscript {label} does not appear in the equation for any input operand.")
    return inputs, output


def _labels_of(term: str, rank: int, place: int, wrong: Any) -> Labels:
    _check_letters(term, wrong)
    before, dots, after = term.partition("...")
    named = len(before) + len(after)
    if named > rank or (not dots and named < rank):
        ellipsis = "" if dots or named > rank else " and no ellipsis was given"
        raise wrong(
            f"the number of subscripts in the equation ({named}) does not match the number of dimensions ({rank}) for operand "
            f"{place}{ellipsis}."
        )
    return (*before, *range(named - rank, 0), *after)


def _check_letters(term: str, wrong: Any) -> None:
    letters = term.replace("...", "", 1)
    for letter in letters:
        if not (letter.isascii() and letter.isalpha()):
            raise wrong(
                f"invalid subscript given: {letter!r} in {term!r}, subscripts must be in [a-zA-Z] or one '...'."
            )


# --- by the place of dims ------------------------------------------------------------------------------------------------


@composed()
def tensordot(a: Any, b: Any, dims: Any = 2) -> Array:
    """The sum of products over pairs of dims; the others of `a`, then of `b`, remain.

    Args:
        a, b: tensors.
        dims: how many of the last dims of `a` go with the first of `b`, or two lists of dims.
    Returns:
        The other dims of `a`, then those of `b`.
    Raises:
        ShapeError: sizes of a pair differ and none is 1.

    >>> dynograd.tensordot(tensor([[1.0, 2.0]]), tensor([[3.0], [4.0]]), dims=1)
    tensor([[11.]])
    """
    rank1, rank2 = len(a.shape), len(b.shape)
    dims = dims.tolist() if hasattr(dims, "tolist") else dims
    if isinstance(dims, int):
        if not 0 <= dims <= min(rank1, rank2):
            raise ShapeError(
                f"tensordot: expects dims >= 0 and at most the number of dimensions of both, but got dims={dims} for shapes "
                f"{tuple(a.shape)} and {tuple(b.shape)}."
            )
        first, second = list(range(rank1 - dims, rank1)), list(range(dims))
    else:
        first, second = ([dim] if isinstance(dim, int) else list(dim) for dim in dims)
        first = [normalize_dim("tensordot", dim, rank1) for dim in first]
        second = [normalize_dim("tensordot", dim, rank2) for dim in second]
    if len(first) != len(second) or len(set(first)) != len(first) or len(set(second)) != len(second):
        raise ShapeError(
            f"tensordot: both dimension lists should have the same length and name each dim once, got {first} and {second}."
        )
    first_labels, second_labels = list(range(rank1)), list(range(rank1, rank1 + rank2))
    for place, other in zip(first, second, strict=True):
        if a.shape[place] != b.shape[other] and 1 not in (a.shape[place], b.shape[other]):
            raise ShapeError(
                f"tensordot: contracted dimensions need to match, but first has size {a.shape[place]} in dim {place} and second has size "
                f"{b.shape[other]} in dim {other}: shapes {tuple(a.shape)} and {tuple(b.shape)}."
            )
        second_labels[other] = place
    output = (
        *[label for label in first_labels if label not in second_labels],
        *[label for label in second_labels if label >= rank1],
    )
    tensors, labels = _without_ones([a, b], [tuple(first_labels), tuple(second_labels)])
    result, own = _contract(tensors[0], labels[0], tensors[1], labels[1], frozenset(output))
    result = _as_output(result, own, output)
    return narrowed(result, a) if a.dtype == b.dtype else result  # sums of integers stay in their dtype


@composed(method=True, tensors="input other")
def inner(input: Any, other: Any) -> Array:
    """The sum of products over the last dims; a number multiplies.

    Args:
        input (*, N), other (*, N): tensors.
    Returns:
        The dims of `input` without the last, then those of `other` without the last.
    Raises:
        ShapeError: the last sizes differ.

    >>> dynograd.inner(tensor([1.0, 2.0]), tensor([[3.0, 4.0], [5.0, 6.0]]))
    tensor([11., 17.])
    """
    if not len(input.shape) or not len(other.shape):
        return mul(input, other)
    if input.shape[-1] != other.shape[-1]:
        raise ShapeError(
            f"inner: the last dimension must match on both input tensors but got shapes {tuple(input.shape)} and {tuple(other.shape)}."
        )
    return tensordot(input, other, ([-1], [-1]))


@composed(method=True, out="exact", ragged="each")
def vdot(input: Any, other: Any) -> Array:
    """The inner product of two vectors, the first one conjugated.

    Args:
        input (N,), other (N,): vectors.
    Returns:
        A tensor without dims.

    >>> dynograd.vdot(tensor([1.0, 2.0]), tensor([3.0, 4.0]))
    tensor(11.)
    """
    if getattr(input, "array", input).dtype.kind == "c":
        input = conj(input)
    return dot(input, other)
