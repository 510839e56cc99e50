"""Chains on the tape: the way back of a fused cell's groups, and of what they share.

Each group's node runs its kernels and leaves the gradients of products in the chain's rows; the chain's node comes after all of them
and gives the weights theirs, by one product each.
"""

from __future__ import annotations

from typing import Any

import numpy

from dynograd import arrays
from dynograd.arrays import buffers
from dynograd.autograd.modes import MODES, recording
from dynograd.autograd.nodes import Node
from dynograd.interpreter.history import alias_of
from dynograd.kernels import kernel
from dynograd.tensor.tensor import wrap
from dynograd.transforms.autobatch.fuse.operands import Rows
from dynograd.transforms.autobatch.fuse.plans import GRADIENT, OUTPUT, ROWS_OF, Stage
from dynograd.transforms.autobatch.fuse.spans import Chain, Span, ready
from dynograd.transforms.autobatch.fuse.tracing import Product
from dynograd.transforms.autobatch.group.rows import BUFFERED, RowParts, new_node


class Pass:
    """What one backward pass has gathered in a chain's rows."""

    def __init__(self, plan: Any, rows: int) -> None:
        self.plan, self.rows, self.task = plan, rows, MODES.task
        self.arrays: dict[Any, Any] = {}
        self.done: list[tuple[int, int]] = []

    def lasting(self, target: Any) -> Any:
        target = self.plan.aliases.get(target, target)
        array = self.arrays.get(target)
        if array is None:
            plan = self.plan
            array = self.arrays[target] = buffers.empty((self.rows, plan.widths[target]), plan.recipe.dtype)
        return array

    def close(self) -> None:
        """Rows of groups that no gradient came to are zeros."""
        at = 0
        for start, stop in [*sorted(self.done), (self.rows, self.rows)]:
            if start > at:
                for array in self.arrays.values():
                    array[at:start] = 0
            at = stop


def pass_of(span: Span) -> Pass:
    """What the running pass gathers in the chain of `span`, which is about to send its gradients."""
    chain = span.chain
    last_pass: Pass | None = chain.last_pass
    if last_pass is None or last_pass.task is not MODES.task:
        last_pass = chain.last_pass = Pass(chain.plan, chain.rows)
    last_pass.done.append((span.start, span.stop))
    return last_pass


class Backward:
    """One span's way back in a pass."""

    def __init__(self, span: Span, state: Pass, outputs: dict[int, Any]) -> None:
        self.span, self.state, self.outputs = span, state, outputs
        self.arrays: dict[Any, Any] = {}

    def given(self, key: Any) -> Any:
        """The gradient under the key of a seed, or of a target."""
        span, plan = self.span, self.span.chain.plan
        if key in self.arrays:
            return self.arrays[key]
        if key in plan.lasting:
            return self.state.lasting(key)[span.start : span.stop]
        if key[0] == OUTPUT:
            output = self.outputs.get(key[1])
            size = max(1, span.chain.form.kinds[key[1]].size)
            if output is None:
                output = numpy.zeros((span.count, size), plan.recipe.dtype)
            output = self.arrays[key] = ready(arrays.as_result(output).reshape(span.count, size))
            return output
        raise KeyError(key)

    def run(self, stages: list[Stage]) -> None:
        span, chain = self.span, self.span.chain
        plan, recipe = chain.plan, chain.recipe
        for stage in stages:
            for number in stage.products:
                product = recipe.products[number]
                key = ROWS_OF, plan.inputs.index(product.input)
                g = self.given((GRADIENT, product.result.leaf))
                weight = chain.shared[product.weight]
                turned = weight.T if product.plain else weight
                operands = g.reshape(-1, turned.shape[0])
                g_input = kernel("matmuls", "matmul_forward", operands)(operands, turned).reshape(span.count, -1)
                before = self.arrays.get(key)
                self.arrays[key] = ready(g_input) if before is None else before + g_input
            outputs = []
            for target in stage.targets:
                if target in plan.lasting:
                    outputs.append(self.state.lasting(target)[span.start : span.stop])
                else:
                    result = self.arrays[target] = numpy.empty((span.count, plan.widths[target]), recipe.dtype)
                    outputs.append(result)
            span.run_kernel(stage, outputs, self)

    def of_operands(self, half: Any, operands: dict[int, Rows]) -> dict[int, list[tuple[Any, int]]]:
        """Their gradients as (array, begin) pairs that are summed."""
        return {
            number: [(self.given(target), begin) for target, begin in half.gradients.get(number, ())]
            for number, operand in operands.items()
            if operand.edges
        }


class Arrived:
    """What a group sends to its chain's node: its gradients are in their places. Of tensors, parts by the place of the edge."""

    def __init__(self, parts: dict[int, Any] | None = None) -> None:
        self.parts = parts or {}

    def __add__(self, other: Any) -> Any:
        for place, part in other.parts.items():
            self.parts[place] = self.parts[place] + part if place in self.parts else part
        return self


class GroupNode(Node):
    """A group of a chain on the tape. `edges` are its chain's node and the slabs of its operands."""

    __slots__ = ("span", "weights")
    saved_names = ("weights", "operands")

    @property
    def operands(self) -> list[Any]:
        """Memory of operands that the way back reads."""
        return self.span.read_again(self.span.chain.plan.second.backward)

    def apply(self, g: Any) -> Any:
        half = self.span.chain.plan.second
        back = Backward(self.span, pass_of(self.span), g.parts)
        back.run(half.backward)
        return (Arrived(), *gradients_of(self.span.operands, back.of_operands(half, self.span.operands)))

    def apply_graph(self, g: Any) -> Any:
        span = self.span
        sent, by_number = through_ops(span, span.operands, 0, span.count, g.parts)
        return (Arrived(sent), *_given_graph(span.operands, by_number, 0, span.count))

    def op_name(self) -> str:
        return self.span.chain.form.label


class ChainNode(Node):
    """A chain on the tape: `edges` are the shared tensors that require grad, then the slabs of its early operands."""

    __slots__ = ("chain", "weights")
    saved_names = ("weights", "operands")

    @property
    def operands(self) -> list[Any]:
        """Memory of operands that the way back reads."""
        chain = self.chain
        return Span(chain, 0, chain.rows, {}, {}).read_again(chain.plan.first.backward)

    def apply(self, g: Any) -> Any:
        chain, recipe, plan = self.chain, self.chain.recipe, self.chain.plan
        state = chain.last_pass
        assert state is not None
        chain.last_pass = None
        state.close()
        whole = Span(chain, 0, chain.rows, {}, {})
        back = Backward(whole, state, {})
        back.run(plan.first.backward)
        sums: dict[int, Any] = {}
        columns: dict[Any, Any] = {}

        def add(place: int, part: Any) -> None:
            sums[place] = part if place not in sums else sums[place] + part

        places = {place for place, shared in enumerate(self.shared()) if self.needs(place) and shared is not None}
        where = {shared: place for place, shared in enumerate(self.shared())}
        for product in recipe.products:
            key: Any = (GRADIENT, product.result.leaf)
            key = plan.aliases.get(key, key)
            if key not in state.arrays:
                continue
            weight, bias = where.get(product.weight), where.get(product.bias)
            result = state.arrays[key]
            if weight in places:
                add(weight, _weight_gradient(chain, product, result))
            if bias in places:
                width = chain.shared[product.bias].shape[0]
                known = columns.get((key, width))
                if known is None:
                    known = columns[key, width] = _column_sums(result.reshape(-1, width))
                else:
                    known = known.copy()  # it becomes a gradient of another parameter
                add(bias, known)
        for leaf, parts in plan.shared_sums.items():
            number = recipe.shared.index(recipe.leaves[leaf][1])
            place = where.get(number)
            if place not in places:
                continue
            for target, begin in parts:
                array = state.arrays.get(target)
                if array is not None:
                    size = chain.shared[number].size
                    add(place, _column_sums(array[:, begin : begin + size]).reshape(chain.shared[number].shape))
        results = [sums.get(place) for place in range(len(self.shared()))]
        return (*results, *gradients_of(chain.early, back.of_operands(plan.first, chain.early)))

    def shared(self) -> list[int]:
        return [number for number, parameter in enumerate(self.chain.recipe.shared) if parameter.kind[2]]

    def apply_graph(self, g: Any) -> Any:
        return tuple([g.parts.get(place) for place in range(len(self.edges))])

    def op_name(self) -> str:
        return self.chain.form.label


def edges_of(operands: dict[int, Rows]) -> list[Any]:
    """The edges of operands in order; operands of one arena have theirs together, at the first of them."""
    edges: list[Any] = []
    for members in _by_arena(operands):
        edges += dict.fromkeys([edge for member in members for edge in operands[member].edges])
    return edges


def _by_arena(operands: dict[int, Rows]) -> list[list[int]]:
    by_arena: dict[Any, list[int]] = {}
    for number, operand in operands.items():
        if operand.edges:
            by_arena.setdefault(number if operand.arena is None else operand.arena, []).append(number)
    return list(by_arena.values())


def gradients_of(operands: dict[int, Rows], parts: dict[int, Any]) -> list[Any]:
    """Gradients for `edges_of(operands)`, from `Backward.of_operands`."""
    gradients: list[Any] = []
    for members in _by_arena(operands):
        arena = operands[members[0]].arena
        if arena is None:
            gradients.append(operands[members[0]].give(parts[members[0]]))
            continue
        for number in members:
            operands[number].give(parts[number])
        edges = dict.fromkeys([edge for member in members for edge in operands[member].edges])
        some = any([parts[number] for number in members])
        gradients += [RowParts([(BUFFERED, arena.buffer_of_pass())]) if some else None for _ in edges]
    return gradients


def _weight_gradient(chain: Chain, product: Product, g: Any) -> Any:
    """By one product of all rows."""
    weight = chain.shared[product.weight]
    array = chain.arrays[ROWS_OF, chain.plan.inputs.index(product.input)]
    left = g.reshape(-1, weight.shape[1 if product.plain else 0])
    right = array.reshape(-1, weight.shape[0 if product.plain else 1])
    multiply = kernel("matmuls", "matmul_forward", left)
    return multiply(right.T, left) if product.plain else multiply(left.T, right)


def _column_sums(array: Any) -> Any:
    return kernel("reductions", "sum", array)(array, (0,), False)


def node_of(chain: Chain) -> Any:
    shared = [shared.tensor for shared in chain.recipe.shared if shared.kind[2]]
    edges = [shared_operand.node or shared_operand for shared_operand in shared]
    edges += edges_of(chain.early)
    node = new_node(ChainNode, tuple(edges), None)
    node.chain, node.weights = chain, [shared.tensor.array for shared in chain.recipe.shared]
    return node


def through_ops(
    span: Span, operands: dict[int, Rows], start: int, stop: int, parts: dict[int, Any]
) -> tuple[dict[int, Any], dict[int, Any]]:
    """Gradients as tensors with a history: the body once more, op by op, on the operands as they are on the tape.

    Of rows `start` to `stop` of the span, whose outputs' gradients are `parts`: what its chain's node gets, and the operands' by number.
    """
    from dynograd.interpreter.differentiation import grad

    chain, form = span.chain, span.chain.form
    seeds: list[Any] = []
    first = span.start
    aliases: list[tuple[Any, Any]] = []
    for number, kind in enumerate(form.inputs):
        if number in operands:
            tensor = operands[number].tensor_of(start, stop)
        else:
            tensor = chain.early[number].tensor_of(first + start, first + stop)
        if kind.grad and tensor._requires_grad:
            alias = wrap(tensor.array)
            alias.node, alias._requires_grad = alias_of(tensor.node or tensor), True
            aliases.append((number, alias))
            tensor = alias
        seeds.append(tensor)
    edges = [alias.node.edges for _, alias in aliases]
    for _, alias in aliases:
        alias.node.edges = ()  # what comes to an operand stays there until it is handed on below
    shared = [shared.tensor for shared in chain.recipe.shared if shared.kind[2]]
    mode = MODES.grad
    MODES.grad = recording()
    try:
        outputs = form.on_rows(seeds, stop - start)
        outputs_and_parts = [
            (outputs[number], part) for number, part in parts.items() if outputs[number]._requires_grad
        ]
        gradients = grad(
            [output for output, _ in outputs_and_parts], [*[alias for _, alias in aliases], *shared], [part for _, part in outputs_and_parts],
            create_graph=True, allow_unused=True,
        )  # fmt: skip
    finally:
        MODES.grad = mode
        for (_, alias), edge in zip(aliases, edges, strict=True):
            alias.node.edges = edge
    sent: dict[int, Any] = {}
    for place, part in enumerate(gradients[len(aliases) :]):
        if part is not None:
            sent[place] = part
    by_number = {number: part for (number, _), part in zip(aliases, gradients)}
    for place, part in enumerate(_given_graph(chain.early, by_number, first + start, first + stop), len(shared)):
        if part is not None:
            sent[place] = part
    return sent, by_number


def _given_graph(operands: dict[int, Rows], parts: dict[int, Any], start: int, stop: int) -> list[Any]:
    """`gradients_of` as tensors, for rows `start` to `stop` of the operands."""
    result: list[Any] = []
    for members in _by_arena(operands):
        sums: dict[Any, Any] = dict.fromkeys([edge for member in members for edge in operands[member].edges])
        for number in members:
            for edge, part in operands[number].give_graph(parts.get(number), start, stop):
                sums[edge] = part if sums[edge] is None else sums[edge] + part
        result += sums.values()
    return result
