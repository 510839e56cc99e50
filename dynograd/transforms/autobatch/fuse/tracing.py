"""The body of a cell, run once on tensors without values: which products with weights, and which arithmetic on rows, it is made of.

A `Quantity` is a tensor of the body in one row. Those that come from memory are leaves: operands, vectors that all rows share, products.
Products with a weight end a stage: what they give is a leaf of the next one (`level`), and arithmetic that a later stage uses is
stored. What the body does beyond the rules of `lowering.py` raises `NotFused`, with the reason; then its ops run one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from dynograd.interpreter import TENSORS
from dynograd.interpreter.shared import F32, F64
from dynograd.kernels.rows.row_expressions import Expressions
from dynograd.kernels.rows.row_spreads import Spread, filled, of_leaf
from dynograd.ops.op import Op
from dynograd.tensor.tensor import wrap
from dynograd.transforms.autobatch.record.watching import origin_of
from dynograd.transforms.batching.batched import Batched, Level, make_batched
from dynograd.transforms.batching.calls import run_op

OPERAND, SHARED, PRODUCT, STORED, SEED = "operand", "shared", "product", "stored", "seed"
LOWERED: dict[str, Callable[..., Any]] = {}  # `lowering.py` fills it


class NotFused(Exception):
    """Why a body is not one fused kernel."""


class Quantity:
    """A tensor of the body in one row. `rule` gives, from its gradient, those of `inputs`; a leaf has its number and no rule."""

    __slots__ = ("grad", "inputs", "leaf", "level", "number", "rule", "truth", "uses", "value")

    def __init__(self, number: int, value: Spread, inputs: tuple, rule: Any, truth: bool) -> None:
        self.number, self.value, self.inputs, self.rule, self.truth = number, value, inputs, rule, truth
        self.level = max([operand.level for operand in inputs], default=0)
        self.grad = rule is not None and any([operand.grad for operand in inputs])
        self.uses: frozenset[int] = frozenset().union(*[operand.uses for operand in inputs]) if inputs else frozenset()
        self.leaf: int | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape


class Product:
    """`input @ weight.T + bias`, or `input @ weight` (`plain`), of the rows of `input`; `result` is the leaf that it gives."""

    __slots__ = ("bias", "input", "plain", "result", "weight")

    def __init__(self, input: Quantity, weight: int, bias: int | None, plain: bool, result: Quantity) -> None:
        self.input, self.weight, self.bias, self.plain, self.result = input, weight, bias, plain, result


class Shared:
    """A tensor that the body takes from outside. `transposed`: it uses the transposed view of it."""

    __slots__ = ("kind", "leaf", "tensor", "transposed")

    def __init__(self, tensor: Any, transposed: bool) -> None:
        self.tensor, self.transposed = tensor, transposed
        self.kind = tensor.array.shape, tensor.array.dtype, bool(tensor._requires_grad)
        self.leaf: Quantity | None = None  # where it is an operand of arithmetic


class Recipe:
    """What a trace has found."""

    def __init__(self, dtype: Any, known: dict[int, Any]) -> None:
        self.dtype, self.known = dtype, known
        self.table = Expressions()
        self.quantities: list[Quantity] = []
        self.leaves: list[tuple[str, Any]] = []  # for each leaf its kind, and what it is of
        self.operands: list[Quantity] = []
        self.shared: list[Shared] = []
        self.products: list[Product] = []
        self.stored: dict[Quantity, Quantity] = {}
        self.outputs: list[Quantity] = []

    def made(self, value: Spread, inputs: tuple = (), rule: Any = None, truth: bool = False) -> Quantity:
        quantity = Quantity(len(self.quantities), value, inputs, rule, truth)
        self.quantities.append(quantity)
        return quantity

    def leaf(self, kind: str, of: Any, shape: tuple[int, ...], grad: bool, truth: bool = False) -> Quantity:
        number = len(self.leaves)
        self.leaves.append((kind, of))
        result = self.made(of_leaf(self.table, number, shape), truth=truth)
        result.leaf, result.grad = number, grad
        return result

    def is_free(self, quantity: Quantity) -> bool:
        """Whether it is a part of leaves, without arithmetic."""
        nodes = self.table.nodes
        return all([nodes[expression][0] in ("load", "point", "number") for expression in quantity.value.expressions()])

    def at_level(self, inputs: tuple[Quantity, ...]) -> tuple[Quantity, ...]:
        """Operands of one op: those of earlier stages are stored."""
        level = max([operand.level for operand in inputs], default=0)
        return tuple(
            [operand if operand.level == level or self.is_free(operand) else self.kept(operand) for operand in inputs]
        )

    def kept(self, quantity: Quantity) -> Quantity:
        leaf = self.stored.get(quantity)
        if leaf is None:
            leaf = self.stored[quantity] = self.leaf(STORED, quantity, quantity.shape, quantity.grad, quantity.truth)
            leaf.inputs, leaf.level, leaf.uses = (quantity,), quantity.level, quantity.uses
        return leaf

    def op(self, value: Spread, inputs: tuple[Quantity, ...], rule: Any, truth: bool = False) -> Quantity:
        """What an op makes of `inputs` (of one level: see `at_level`)."""
        if value.lanes.size > _MOST_LANES or len(self.table.nodes) > _MOST_EXPRESSIONS:
            raise NotFused("its arithmetic is too long for one kernel")
        return self.made(value, inputs, rule, truth)

    def quantity(self, value: Any) -> Quantity:
        """An operand of an op: a traced tensor, one from outside, or a number."""
        if type(value) is Traced:
            return value.quantity
        if isinstance(value, (bool, int, float)):
            return self.made(filled(self.table, value))
        shared = self.shared_of(value)
        if shared.transposed or shared.kind[1] is not self.dtype:
            raise NotFused(f"it uses a tensor of dtype {shared.tensor.dtype} in arithmetic on {self.dtype}")
        if shared.leaf is None:
            shared.leaf = self.leaf(SHARED, shared, tuple(shared.kind[0]), shared.kind[2])
        return shared.leaf

    def shared_of(self, value: Any) -> Shared:
        if type(value) not in TENSORS:
            raise NotFused(f"it uses a {type(value).__name__} from outside")
        tensor, transposed = origin_of(value, self.known)
        if tensor is None:
            raise NotFused("it makes a tensor from tensors that are not its arguments")
        for shared in self.shared:
            if shared.tensor is tensor and shared.transposed == transposed:
                return shared
        self.shared.append(Shared(tensor, transposed))
        return self.shared[-1]


_MOST_LANES, _MOST_EXPRESSIONS = 64, 4000


class Traced(Batched):
    """A tensor of the body while it is traced."""

    __slots__ = ()
    quantity: Quantity
    recipe: Recipe

    def detach(self) -> Any:
        quantity = self.quantity
        op = self.recipe.op(quantity.value, (quantity,), None, quantity.truth)
        return traced(self.recipe, self.level, self.inner.detach(), op)

    def detach_(self) -> Any:
        raise NotFused("it detaches in place")

    data = property(lambda self: _refuse("it uses .data"))

    @staticmethod
    def __dynograd_op__(op: Op, arguments: dict[str, Any]) -> Any:
        return run_traced(op, arguments)

    @staticmethod
    def __dynograd_in_turn__(function: Any, args: tuple, kwargs: dict) -> Any:
        raise NotFused(f"{function.__name__} has no fused form")

    @staticmethod
    def __dynograd_function__(function: Any, args: tuple, kwargs: dict) -> Any:
        raise NotFused(f"the autograd.Function {function.__name__} has no fused form")

    @staticmethod
    def __dynograd_write__(target: Any, value: Any, who: str, write: Any) -> Any:
        raise NotFused(f"{who} writes in place")


def _refuse(why: str) -> Any:
    raise NotFused(why)


def traced(recipe: Recipe, level: Level, inner: Any, quantity: Quantity) -> Traced:
    result: Any = object.__new__(Traced)
    result._meta = None
    result.level, result.inner, result.recipe, result.quantity = level, inner, recipe, quantity
    return result


def run_traced(op: Op, arguments: dict[str, Any]) -> Any:
    """An op of the body: its shapes from stand-ins, its meaning from the rule."""
    first = next(value for value in _values(op, arguments) if type(value) is Traced)
    recipe, level = first.recipe, first.level
    rule = LOWERED.get(op.name) or (LOWERED["elementwise"] if op.kind == "elementwise" else None)
    if rule is None:
        if op.decomposition is None:
            raise NotFused(f"{op.name} has no fused form")
        return op.decomposition(**arguments)

    def plain(value: Any) -> Any:
        if type(value) is Traced:
            return make_batched(level, value.inner)
        return [plain(element) for element in value] if type(value) in (list, tuple) else value

    result = run_op(op, {name: plain(value) if name in op.array_names else value for name, value in arguments.items()})
    outputs = list(result) if isinstance(result, tuple) else [result]
    traced_quantity = rule(recipe, op, arguments)
    quantities = list(traced_quantity) if isinstance(result, tuple) else [traced_quantity]
    values = []
    for output, quantity in zip(outputs, quantities, strict=True):
        shape, kind = tuple(output.shape), output.inner.array.dtype
        if shape != quantity.shape or (kind is not recipe.dtype if not quantity.truth else kind.kind != "b"):
            raise NotFused(f"{op.name} gives {kind}{list(shape)}")
        values.append(traced(recipe, level, output.inner, quantity))
    if not isinstance(result, tuple):
        return values[0]
    return type(result)(*values) if hasattr(result, "_fields") else tuple(values)


def _values(op: Op, arguments: dict[str, Any]) -> Any:
    for name in op.array_names:
        value = arguments[name]
        if name == op.list_name:
            yield from value
        else:
            yield value


def trace(form: Any, known: dict[int, Any]) -> Recipe:
    """The recipe of a cell's form; `known` are the tensors that its body may reach from outside, by id.

    Raises:
        NotFused: the body has something without a rule.
    """
    floats = {operand.dtype for operand in form.inputs}
    if len(floats) != 1 or not floats <= {F32, F64} or {kind.dtype for kind in form.kinds} != floats:
        raise NotFused("its arguments and results are not all of one dtype, float32 or float64")
    (dtype,) = floats
    recipe = Recipe(dtype, known)
    with Level(2, "error") as level:
        operands = []
        for number, kind in enumerate(form.inputs):
            leaf = recipe.leaf(OPERAND, number, kind.shape, kind.grad)
            leaf.uses = frozenset([number])
            recipe.operands.append(leaf)
            stand_in = wrap(numpy.full((2, *kind.shape), 0.25, kind.dtype))
            stand_in._requires_grad = kind.grad
            operands.append(traced(recipe, level, stand_in, leaf))
        args, kwargs = form.arguments(operands)
        result = form.cell.body(*args, **kwargs)
        for leaf in form.results(result):
            if type(leaf) is not Traced:
                raise NotFused("a result is the same for all calls")
            if leaf.quantity.truth:
                raise NotFused("a result is a truth")
            recipe.outputs.append(leaf.quantity)
    return recipe
