"""Rules of fused cells: what each op means in one row, and how a gradient goes back through it.

Elementwise ops have one rule, made of their formulas; the others move pieces, sum, or multiply by a weight.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

from dynograd.interpreter.fusion import expression
from dynograd.kernels.formula import formulas
from dynograd.kernels.rows import row_spreads as rows
from dynograd.kernels.rows.row_spreads import Spread
from dynograd.ops.op import Op, registry
from dynograd.transforms.autobatch.fuse.tracing import LOWERED, PRODUCT, NotFused, Product, Quantity, Recipe, Traced


def rule(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers the rule of ops: from (recipe, op, arguments by name) to a Quantity, or several."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            LOWERED[name] = function
        return function

    return register


def operands(recipe: Recipe, *values: Any) -> tuple[Quantity, ...]:
    return recipe.at_level(tuple([recipe.quantity(value) for value in values]))


# --- elementwise ---------------------------------------------------------------------------------------------------------------


@cache
def _trees(name: str) -> tuple[Any, tuple]:
    op = registry[name]
    texts = op.derivative or ()
    assert op.formula is not None
    return expression(op.formula), tuple([None if text is None else expression(text) for text in texts])


@rule("elementwise")
def elementwise(recipe: Recipe, op: Op, arguments: dict[str, Any]) -> Quantity:
    if op.formula is None or op.promote in ("integer",):
        raise NotFused(f"{op.name} has no formula")
    try:
        tree, derivatives = _trees(op.name)
    except ValueError:
        raise NotFused(f"{op.name} has no scalar formula") from None
    table = recipe.table
    constants: dict[str, Spread] = {}
    for name in op.static_names:
        value = arguments[name]
        if value is None and op.name in ("clamp", "within"):
            value = -math.inf if name == "min" else math.inf
        if not isinstance(value, (bool, int, float)):
            raise NotFused(f"{op.name} has the argument {name}={value!r}")
        constants[name] = rows.filled(table, value)
    names = op.array_names
    inputs = operands(recipe, *[arguments[name] for name in names])
    known = {**constants, **{name: operand.value for name, operand in zip(names, inputs, strict=True)}}
    unknown = formulas.functions_in(tree) - _VOCABULARY
    if unknown or formulas.names_in(tree) - set(known):
        raise NotFused(f"{op.name} has no scalar formula")
    value = rows.elementwise(table, tree, known)
    truth = op.promote in ("compare", "logical") or formulas.is_truth(
        tree, [name for name, operand in zip(names, inputs, strict=True) if operand.truth]
    )

    def back(g: Spread) -> list[Spread | None]:
        result: list[Spread | None] = []
        for operand, derivative in zip(inputs, derivatives, strict=True):
            if derivative is None or not operand.grad:
                result.append(None)
                continue
            if formulas.functions_in(derivative) - _VOCABULARY:
                raise NotFused(f"the derivative of {op.name} has no scalar formula")
            used = formulas.names_in(derivative)
            have = {name: part for name, part in {**known, "output": value, "g": g}.items() if name in used}
            have["g"] = g
            part = rows.elementwise(table, derivative, have, "g")
            result.append(rows.fitted(table, part, operand.shape))
        return result

    differentiable = len(derivatives) == len(inputs) and not truth
    if any([operand.grad for operand in inputs]) and not truth and not differentiable:
        raise NotFused(f"{op.name} has no derivative by formula")
    return recipe.op(value, inputs, back if differentiable else None, truth)


# What `row_expressions_numba` can write.
_VOCABULARY = frozenset(
    "+ - * / ** neg < <= > >= == != && || ! select exp exp2 expm1 log log2 log10 log1p sqrt sin cos tan atan sinh cosh tanh erf erfc "
    "sigmoid log1pexp normal_cdf normal_pdf normal_gate normal_gate_slope floor ceil trunc round abs sign max min fmax fmin "
    "isnan isinf isfinite".split()
)


# --- pieces --------------------------------------------------------------------------------------------------------------------


def moved(
    recipe: Recipe, source: Quantity, value: Spread | None, back: Callable[[Spread], Spread], what: str
) -> Quantity:
    """A view of `source`."""
    if value is None:
        raise NotFused(f"{what} has no fused form")
    return recipe.op(value, (source,), lambda g: [back(g)], source.truth)


@rule("basic_index")
def basic_index(recipe: Recipe, op: Op, arguments: dict[str, Any]) -> Quantity:
    return _slice(recipe, recipe.quantity(arguments["input"]), tuple(arguments["index"]))


def _slice(recipe: Recipe, source: Quantity, index: tuple) -> Quantity:
    value = rows.index_of(recipe.table, source.value, index)
    return moved(
        recipe,
        source,
        value,
        lambda g: rows.placed(recipe.table, g, source.shape, index),
        f"an index {index} of {list(source.shape)}",
    )


@rule("unbind")
def unbind(recipe: Recipe, op: Op, arguments: dict[str, Any]) -> list[Quantity]:
    source = recipe.quantity(arguments["input"])
    dim = arguments["dim"] % len(source.shape)
    return [_slice(recipe, source, (*(slice(None),) * dim, place)) for place in range(source.shape[dim])]


@rule("split_with_sizes")
def split_with_sizes(recipe: Recipe, op: Op, arguments: dict[str, Any]) -> list[Quantity]:
    quantity = recipe.quantity(arguments["input"])
    before, result, at = (slice(None),) * (arguments["dim"] % len(quantity.shape)), [], 0
    for size in arguments["split_sizes"]:
        result.append(_slice(recipe, quantity, (*before, slice(at, at + size))))
        at += size
    return result


@rule("view")
def view(recipe: Recipe, op: Op, arguments: dict[str, Any]) -> Quantity:
    source, shape = recipe.quantity(arguments["input"]), tuple(arguments["shape"])
    table = recipe.table
    if -1 in shape:
        size = math.prod(source.shape) // max(1, -math.prod(shape))
        shape = tuple([size if part == -1 else part for part in shape])
    return moved(
        recipe,
        source,
        rows.reshaped(table, source.value, shape),
        lambda g: rows.reshaped(table, g, source.shape),
        "view",
    )


@rule("expand")
def expand(recipe: Recipe, op: Op, arguments: dict[str, Any]) -> Quantity:
    source, shape = recipe.quantity(arguments["input"]), tuple(arguments["shape"])
    old = (*(1,) * (len(shape) - len(source.shape)), *source.shape)
    shape = tuple([size if part == -1 else part for part, size in zip(shape, old, strict=True)])
    table = recipe.table
    value = rows.broadcast(table, source.value, shape)
    return moved(recipe, source, value, lambda g: rows.fitted(table, g, source.shape), "expand")


@rule("permute")
def permute(recipe: Recipe, op: Op, arguments: dict[str, Any]) -> Quantity:
    source, dims = recipe.quantity(arguments["input"]), tuple(arguments["dims"])
    inverse = tuple([dims.index(place) for place in range(len(dims))])

    def back(g: Spread) -> Spread:
        result = rows.permuted(g, inverse)
        assert result is not None
        return result

    return moved(recipe, source, rows.permuted(source.value, dims), back, f"permute{dims} of {list(source.shape)}")


@rule("clone")
def clone(recipe: Recipe, op: Op, arguments: dict[str, Any]) -> Quantity:
    quantity = recipe.quantity(arguments["input"])
    return moved(recipe, quantity, quantity.value, lambda g: g, "clone")


@rule("cat")
def cat(recipe: Recipe, op: Op, arguments: dict[str, Any]) -> Quantity:
    inputs = operands(recipe, *arguments["tensors"])
    rank = len(inputs[0].shape)
    axis = arguments["dim"] % rank
    sizes = [operand.shape[axis] for operand in inputs]

    def back(g: Spread) -> list[Spread | None]:
        result: list[Spread | None] = []
        at = 0
        for size in sizes:
            index = (*(slice(None),) * axis, slice(at, at + size))
            result.append(rows.index_of(recipe.table, g, index))
            at += size
        return result

    return recipe.op(
        rows.joined([operand.value for operand in inputs], axis),
        inputs,
        back,
        all([operand.truth for operand in inputs]),
    )


@rule("stack")
def stack(recipe: Recipe, op: Op, arguments: dict[str, Any]) -> Quantity:
    inputs = operands(recipe, *arguments["tensors"])
    axis = arguments["dim"] % (len(inputs[0].shape) + 1)
    value = rows.stacked(recipe.table, [operand.value for operand in inputs], axis)
    if value is None:
        raise NotFused("stack along a new last dim has no fused form")

    def back(g: Spread) -> list[Spread | None]:
        before = (slice(None),) * axis
        return [rows.index_of(recipe.table, g, (*before, place)) for place in range(len(inputs))]

    return recipe.op(value, inputs, back, all([operand.truth for operand in inputs]))


# --- reductions ----------------------------------------------------------------------------------------------------------------


def _dims(dim: Any, rank: int) -> list[int]:
    if dim is None or dim == ():
        return list(range(rank))
    return sorted({dim % rank for dim in (dim if isinstance(dim, (tuple, list)) else (dim,))}) if rank else []


def total(recipe: Recipe, value: Spread, dims: list[int], keepdim: bool, head: str = "sum") -> Spread:
    rank = len(value.shape)
    shape = value.shape
    for axis in dims:
        if axis == rank - 1:
            value = rows.reduced(recipe.table, head, value, True)
        else:
            value = rows.reduced_lanes(recipe.table, head, value, axis, True)
    if keepdim:
        return value
    return rows.reshaped(recipe.table, value, tuple([size for axis, size in enumerate(shape) if axis not in dims]))


def _kept(shape: tuple[int, ...], dims: list[int]) -> tuple[int, ...]:
    return tuple([1 if axis in dims else size for axis, size in enumerate(shape)])


def _formula(recipe: Recipe, text: str, **names: Spread) -> Spread:
    return rows.elementwise(recipe.table, formulas.parse(text), names, "g" if "g" in names else None)


@rule("sum", "mean")
def summed(recipe: Recipe, op: Op, arguments: dict[str, Any]) -> Quantity:
    quantity = recipe.quantity(arguments["input"])
    if quantity.truth:
        raise NotFused(f"{op.name} of truths has no fused form")
    dims, keepdim = _dims(arguments["dim"], len(quantity.shape)), bool(arguments["keepdim"])
    count = math.prod([quantity.shape[axis] for axis in dims])
    table = recipe.table
    scale = rows.filled(table, 1.0 / count if op.name == "mean" else 1.0)
    value = _formula(recipe, "x * k", x=total(recipe, quantity.value, dims, keepdim), k=scale)

    def back(g: Spread) -> list[Spread | None]:
        kept = rows.reshaped(table, _formula(recipe, "g * k", g=g, k=scale), _kept(quantity.shape, dims))
        return [rows.broadcast(table, kept, quantity.shape)]

    return recipe.op(value, (quantity,), back)


@rule("softmax", "log_softmax")
def softmax(recipe: Recipe, op: Op, arguments: dict[str, Any]) -> Quantity:
    quantity = recipe.quantity(arguments["input"])
    dims = _dims(arguments["dim"], len(quantity.shape))
    top = total(recipe, quantity.value, dims, True, "max")
    powers = _formula(recipe, "exp(x - top)", x=quantity.value, top=top)
    whole = total(recipe, powers, dims, True)
    if op.name == "softmax":
        value = _formula(recipe, "e / s", e=powers, s=whole)
    else:
        value = _formula(recipe, "x - top - log(s)", x=quantity.value, top=top, s=whole)

    def back(g: Spread) -> list[Spread | None]:
        if op.name == "softmax":
            along = total(recipe, _formula(recipe, "g * y", g=g, y=value), dims, True)
            return [_formula(recipe, "y * (g - along)", g=_full(recipe, g), y=value, along=along)]
        along = total(recipe, g, dims, True)
        return [_formula(recipe, "g - exp(y) * along", g=_full(recipe, g), y=value, along=along)]

    return recipe.op(value, (quantity,), back)


def _full(recipe: Recipe, g: Spread) -> Spread:
    """A gradient whose zeros are numbers, for rules in which zeros give something else."""
    return rows.elementwise(recipe.table, formulas.parse("x"), {"x": g})


@rule("logsumexp")
def logsumexp(recipe: Recipe, op: Op, arguments: dict[str, Any]) -> Quantity:
    quantity = recipe.quantity(arguments["input"])
    dims, keepdim = _dims(arguments["dim"], len(quantity.shape)), bool(arguments["keepdim"])
    top = total(recipe, quantity.value, dims, True, "max")
    whole = total(recipe, _formula(recipe, "exp(x - top)", x=quantity.value, top=top), dims, True)
    wide = _formula(recipe, "top + log(s)", top=top, s=whole)
    shape = tuple([size for axis, size in enumerate(quantity.shape) if keepdim or axis not in dims])
    value = rows.reshaped(
        recipe.table, wide, quantity.shape if not dims else _kept(quantity.shape, dims) if keepdim else shape
    )

    def back(g: Spread) -> list[Spread | None]:
        kept = rows.reshaped(recipe.table, g, _kept(quantity.shape, dims))
        return [_formula(recipe, "g * exp(x - y)", g=kept, x=quantity.value, y=wide)]

    return recipe.op(value, (quantity,), back)


# --- products ------------------------------------------------------------------------------------------------------------------


def product(recipe: Recipe, input: Any, weight: Any, bias: Any, plain: bool) -> Quantity:
    """Rows times a weight of two dims that all rows share."""
    quantity = recipe.quantity(input)
    matrix = recipe.shared_of(weight)
    plain = plain != matrix.transposed
    if matrix.kind[1] is not recipe.dtype:
        raise NotFused(f"its weight is {matrix.tensor.dtype} and its rows {recipe.dtype}")
    begin = None if bias is None else recipe.shared_of(bias)
    inner, width = matrix.kind[0] if plain else matrix.kind[0][::-1]
    if begin is not None and (begin.kind[0] != (width,) or begin.transposed or begin.kind[1] is not recipe.dtype):
        raise NotFused(f"a bias of shape {list(begin.kind[0])} has no fused form")
    if quantity.truth or not quantity.shape or quantity.shape[-1] != inner:
        raise NotFused(f"a product of {list(quantity.shape)} and {list(matrix.kind[0])} has no fused form")
    places = recipe.shared.index(matrix), None if begin is None else recipe.shared.index(begin)
    grad = quantity.grad or matrix.kind[2] or (begin is not None and begin.kind[2])
    leaf = recipe.leaf(PRODUCT, len(recipe.products), (*quantity.shape[:-1], width), grad)
    leaf.level, leaf.uses = quantity.level + 1, quantity.uses
    recipe.products.append(Product(quantity, *places, plain, leaf))
    return leaf


@rule("linear")
def linear(recipe: Recipe, op: Op, arguments: dict[str, Any]) -> Quantity:
    input, weight, bias = arguments["input"], arguments["weight"], arguments["bias"]
    if type(input) is not Traced or type(weight) is Traced or type(bias) is Traced or weight.ndim != 2:
        raise NotFused("linear with a weight of each row has no fused form")
    return product(recipe, input, weight, bias, False)


@rule("matmul")
def matmul(recipe: Recipe, op: Op, arguments: dict[str, Any]) -> Quantity:
    x, y = arguments["input"], arguments["other"]
    if type(x) is Traced and type(y) is not Traced and y.ndim == 2:
        return product(recipe, x, y, None, True)
    if type(y) is Traced and type(x) is not Traced and x.ndim == 2 and y.ndim == 1:
        return product(recipe, y, x, None, False)
    left, right = operands(recipe, x, y)
    table = recipe.table
    if len(right.shape) == 1 and left.shape:  # rows of `left`, each times the vector
        value = total(recipe, _formula(recipe, "x * y", x=left.value, y=right.value), [len(left.shape) - 1], False)

        def back(g: Spread) -> list[Spread | None]:
            wide = rows.reshaped(table, g, (*left.shape[:-1], 1))
            to_right = rows.fitted(table, _formula(recipe, "g * x", g=wide, x=left.value), right.shape)
            return [_formula(recipe, "g * y", g=wide, y=right.value), to_right]

        return recipe.op(value, (left, right), back)
    if len(left.shape) == 1 and len(right.shape) == 2:  # the sum of the rows of `right`, each times a number
        column = rows.reshaped(table, left.value, (*left.shape, 1))
        value = total(recipe, _formula(recipe, "x * y", x=column, y=right.value), [0], False)

        def back_of_row(g: Spread) -> list[Spread | None]:
            wide = rows.reshaped(table, g, (1, *g.shape))
            dots = total(recipe, _formula(recipe, "g * y", g=wide, y=right.value), [1], False)
            return [dots, _formula(recipe, "g * x", g=wide, x=column)]

        return recipe.op(value, (left, right), back_of_row)
    raise NotFused(f"a product of {list(left.shape)} and {list(right.shape)} in each row has no fused form")


# --- recurrent steps -----------------------------------------------------------------------------------------------------------


def _blocks(recipe: Recipe, source: Quantity, count: int) -> list[Quantity]:
    """The parts of the last dim, all of one width."""
    width = source.shape[-1] // count
    return [_slice(recipe, source, (Ellipsis, slice(part * width, (part + 1) * width))) for part in range(count)]


def _apply(recipe: Recipe, name: str, *inputs: Any) -> Quantity:
    op = registry[name]
    return elementwise(recipe, op, dict(zip(op.array_names, [_Given(operand) for operand in inputs], strict=True)))


def _Given(source: Any) -> Any:
    result: Any = object.__new__(Traced)
    result.quantity = source
    return result


@rule("lstm_step")
def lstm_step(recipe: Recipe, op: Op, arguments: dict[str, Any]) -> list[Quantity]:
    gates, cell = operands(recipe, arguments["input"], arguments["cell"])
    i, f, u, o = _blocks(recipe, gates, 4)
    i, f, u, o = [
        _apply(recipe, name, value) for name, value in zip(("sigmoid", "sigmoid", "tanh", "sigmoid"), (i, f, u, o))
    ]
    new = _apply(recipe, "add", _apply(recipe, "mul", f, cell), _apply(recipe, "mul", i, u))
    return [_apply(recipe, "mul", o, _apply(recipe, "tanh", new)), new]


@rule("gru_step")
def gru_step(recipe: Recipe, op: Op, arguments: dict[str, Any]) -> Quantity:
    x, h, hidden = operands(recipe, arguments["input"], arguments["other"], arguments["hidden"])
    x_r, x_z, x_n = _blocks(recipe, x, 3)
    h_r, h_z, h_n = _blocks(recipe, h, 3)
    r = _apply(recipe, "sigmoid", _apply(recipe, "add", x_r, h_r))
    z = _apply(recipe, "sigmoid", _apply(recipe, "add", x_z, h_z))
    n = _apply(recipe, "tanh", _apply(recipe, "add", x_n, _apply(recipe, "mul", r, h_n)))
    return _apply(recipe, "add", n, _apply(recipe, "mul", z, _apply(recipe, "sub", hidden, n)))
