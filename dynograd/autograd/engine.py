"""The backward pass: collect the reachable nodes, visit them from the latest to the earliest, and hand gradients along the edges.

Iterative, so a chain of any length works. On arrays when nobody differentiates the gradient again; on tensors, recording the
tape, under `create_graph`. It knows no op: a node's `apply` (or `apply_graph`) does the arithmetic.
"""

from __future__ import annotations

from operator import attrgetter, itemgetter
from sys import getrefcount
from typing import Any

from dynograd import arrays
from dynograd.autograd.modes import MODES, recording
from dynograd.autograd.nodes import FREED, Hooks, Node, asked, traces
from dynograd.autograd.writes import last_write, written_since
from dynograd.base import dtypes
from dynograd.errors import GradientError, InplaceError
from dynograd.kernels import kernel
from dynograd.ops.reduce.deferred_sums import DeferredSum

__all__ = ["is_private", "run_backward"]

_by_time = attrgetter("seq")
_by_second = itemgetter(1)
_ALWAYS, _NEVER = -1, 1 << 62  # times before and behind all nodes

# References to a gradient in `_sum` and in `is_private` when the pass alone holds it, found out by `_calibrate`. 0: never write into it.
_private = _unshared = 0
_SMALL = 1 << 14  # below, a new array costs no more than these questions


def run_backward(
    roots: list[tuple[Any, Any]],
    *,
    retain_graph: bool = False,
    create_graph: bool = False,
    targets: list[Any] | None = None,
    hooks_of_leaves: bool = True,
    apart: list[tuple[Any, Any]] | None = None,
) -> list[Any] | None:
    """Sends each root's gradient back through the graph.

    Args:
        roots: (edge, gradient) pairs; gradients are arrays, or tensors under `create_graph`.
        targets: edges whose gradients are returned, in order (None where no path leads); leaves are then left alone.
            Without targets, leaves accumulate into `.grad`.
        hooks_of_leaves: False where the gradients that are returned go on to the leaves in an outer pass, which runs their hooks.
        apart: gets (leaf, part) of what comes to leaves among the targets and could be added to a gradient that is there at once: sums are the
            outer pass's then, in its order.
    """
    grads: dict[Any, Any] = {}
    for edge, g in roots:
        before = grads.get(edge)
        grads[edge] = g if before is None else before + g
    order: list[Any] = []
    leaves: dict[Any, int] = {}  # with the time of the earliest node, which is the last one to send to them
    for edge in grads:
        if edge.seq:
            order.append(edge)
        else:
            leaves[edge] = _NEVER
    seen = set(grads)
    for node in order:  # grows while it is read
        for edge in node.edges:
            if edge is None:
                continue
            if edge not in seen:
                seen.add(edge)
                if edge.seq:
                    order.append(edge)
                else:
                    leaves[edge] = node.seq
            elif not edge.seq and node.seq < leaves[edge]:
                leaves[edge] = node.seq
    order.sort(key=_by_time, reverse=True)
    mode, outer, outer_asked, recorder, plan = MODES.grad, MODES.task, asked.edges, MODES.recorder, MODES.plan
    task = Task(seen, targets is not None, grads)
    try:
        asked.edges = None
        MODES.grad = recording() if create_graph else 0
        MODES.recorder = MODES.plan = None
        notes = None if plan is None else plan.notes_of_backward(create_graph, targets)
        MODES.task = task
        if targets is None:
            arrivals = sorted(leaves.items(), key=_by_second, reverse=True)[::-1]  # the first one to arrive stands last
            order.append(_End)
            if notes is None:
                _visit(order, grads, retain_graph, create_graph, leaves=arrivals)
                task.edges = frozenset(leaves)  # who keeps the task does not keep the graph
            else:
                waiting = list(arrivals)
                try:
                    _visit(order, grads, retain_graph, create_graph, leaves=waiting, notes=notes)
                except BaseException:  # of what is not recorded leaves have what they would have had
                    for leaf, _ in reversed(arrivals[len(waiting) :]):
                        g = grads.pop(leaf, None)
                        if g is not None:
                            leaf.accumulate_grad(g.dense() if type(g) is DeferredSum else g)
                    raise
                task.edges = frozenset(leaves)
                for leaf, _ in reversed(arrivals):
                    g = grads.pop(leaf, None)
                    if g is not None:
                        notes.accumulate(leaf, g)
                    g = None
                notes.end(roots, retain_graph)
            while task.at_end:
                task.at_end.pop(0)()
            return None
        results: dict[Any, Any] = {}
        needed = _leading_to(order, targets)
        task.edges = asked.edges = needed.union(targets)
        _visit(order, grads, retain_graph, create_graph, set(targets), needed, results, notes, apart=apart)
        for leaf in dict.fromkeys(targets):
            if not leaf.seq and leaf in grads:
                g = grads.pop(leaf)
                if type(g) is DeferredSum:
                    g = g.dense()
                results[leaf] = leaf.run_hooks(g) if hooks_of_leaves else g
        return [results.get(target) for target in targets]
    finally:
        MODES.grad, MODES.task, MODES.recorder, MODES.plan = mode, outer, recorder, plan
        asked.edges = outer_asked


class Task:
    """One running backward pass: the edges that it comes to, whether it gives gradients back instead of accumulating them,
    the gradients that are under way, and functions that are called when all leaves have theirs.
    """

    __slots__ = ("at_end", "edges", "gives", "grads")

    def __init__(self, edges: Any, gives: bool, grads: dict[Any, Any]) -> None:
        self.edges, self.gives, self.grads = edges, gives, grads
        self.at_end: list[Any] = []

    def settle(self) -> None:
        """Makes the sums that wait, before code of the user runs: it may write into what they are made of."""
        for g in self.grads.values():
            if type(g) is DeferredSum:
                g.so_far()


class _End:
    """What stands behind the last node of a pass."""

    seq = _ALWAYS


def _visit(
    order: list[Any],
    grads: dict[Any, Any],
    retain_graph: bool,
    create_graph: bool,
    kept: Any = (),
    needed: set[Any] | None = None,
    results: dict[Any, Any] | None = None,
    notes: Any = None,
    leaves: list[tuple[Any, int]] | None = None,
    apart: list[tuple[Any, Any]] | None = None,
) -> None:
    """Runs the nodes in order and drops what each has saved as soon as its rule has run.

    Each of `leaves` is given its gradient when the last node that sends to it has run: code that waits for it (a hook, an optimizer step,
    processes that add theirs) works while the pass goes on. With `notes` it is only taken from the list where these say so.
    """
    pop, get = grads.pop, grads.get
    observer = _Observed() if MODES.anomaly or observers else None
    add = _sum
    if notes is not None:
        observer, add = notes.rule, notes.add
    due = leaves[-1][1] if leaves else _ALWAYS
    for node in order:
        while leaves and node.seq < due:
            leaf = leaves.pop()[0]
            g = pop(leaf, None) if notes is None or notes.gives_at_once(leaf, order) else None
            if g is not None:
                leaf.accumulate_grad(g.dense() if type(g) is DeferredSum else g)
            due = leaves[-1][1] if leaves else _ALWAYS
        leaf = None
        g = pop(node, None)
        if g is None:
            continue
        hooks = node.hooks
        if hooks is not None:
            MODES.task.settle()
            g = through_hooks_of_tensor(hooks, g, create_graph)
            if g is None:  # a hook took it away
                continue
        if needed is not None:
            if node in kept:
                results[node] = g  # type: ignore[index]
            if node not in needed:
                continue
        if hooks is not None and hooks.prehooks:
            g = _through(list(hooks.prehooks.values()), g, create_graph)
            if g is None:
                continue
        if node.attrs is FREED:
            raise _freed_error(node)
        if last_write[0] > node.seq:
            _check_saved(node)
        try:
            if observer is not None:
                gradients = observer(node, g, create_graph)
            else:
                if create_graph:
                    gradients = node.apply_graph(g)
                elif (rule := node.rule) is not None:
                    gradients = rule(g, node, *node.attrs)
                else:
                    gradients = node.apply(g)
        except arrays.FLOATING_WARNINGS:
            rule = node.apply_graph if create_graph else node.apply
            gradients = arrays.quietly(rule, g) if observer is None else arrays.quietly(observer, node, g, create_graph)
        except Exception as error:
            _explain(error, node)
            raise
        if hooks is not None:
            for hook in list(hooks.after.values()):
                gradients = hook(gradients, g, create_graph)
        for edge, part in zip(node.edges, gradients):
            if edge is None or part is None:
                continue
            before = get(edge)
            if before is None:
                if not edge.seq and apart is not None and type(part) in arrays.array_types:
                    apart.append((edge, part))
                elif edge.seq or needed is not None or create_graph or not edge.adds_directly(part):
                    grads[edge] = part
                elif notes is not None:
                    notes.added(edge, part)
            elif create_graph:
                grads[edge] = before + part
            else:
                grads[edge] = add(before, part)
        gradients = part = before = None  # what went into `.grad` need not live through the next rule
        if not retain_graph:
            if node.drops:
                for name in node.drops:
                    setattr(node, name, None)
                node.attrs = FREED
            elif node.release is not None:
                node.release()


def through_hooks_of_tensor(hooks: Hooks, g: Any, create_graph: bool) -> object:
    """What a tensor's hooks make of its gradient: all get the same object, with what one has put on it, until one returns another."""
    is_tensor = hasattr(g, "requires_grad")
    g = _through(list(hooks.before.values()), g, create_graph)
    if not is_tensor and hasattr(g, "requires_grad"):
        g = g.array
    return g if g is None else _through(list(hooks.last.values()), g, create_graph)


def _through(hooks: list[Any], g: Any, create_graph: bool) -> object:
    """What the hooks make of a gradient, None if one takes it away."""
    for hook in hooks:
        g = hook(g, create_graph)
        if g is None:
            break
    return g


# Called as `observer(node, g, rule)` in place of `rule(g)`, the node's rule on the gradient that comes: profilers, debuggers. Only the latest
# is asked; it asks the one before it.
observers: list[Any] = []


class _Observed:
    """Runs a node's rule while someone looks on: observers, and anomaly mode, which stops at NaN."""

    def __init__(self) -> None:
        self.anomaly = MODES.anomaly

    def __call__(self, node: Node, g: Any, create_graph: bool) -> Any:
        rule = node.apply_graph if create_graph else node.apply
        gradients = observers[-1](node, g, rule) if observers else rule(g)
        if self.anomaly:
            _check_finite(node, gradients)
        return gradients


def _sum(total: Any, part: Any) -> Any:
    """total + part; in the memory of `total`, if it is large and nobody but the pass has it."""
    if type(part) not in arrays.array_types or type(total) not in arrays.array_types:
        return _sum_of_others(total, part)
    if total.size < _SMALL:
        sum_ = total + part
        return sum_ if type(sum_) in arrays.array_types else arrays.as_result(sum_)
    if (
        getrefcount(total) <= _private
        and type(total) is type(part)
        and total.shape == part.shape
        and total.dtype == part.dtype
        and arrays.owns_memory(total)
    ):
        kernel("gradients", "add_into", total)(total, part)
        return total
    return _new_sum(total, part)


def _sum_of_others(total: Any, part: Any) -> Any:
    """total + part where one is no array: parts of a multi-output op, numbers, sparse gradients."""
    if type(part) is DeferredSum:  # knows sparse gradients, which do not know it
        total, part = part, total
    for left, right in ((total, part), (part, total)):
        add = getattr(left, "plus_gradient", None)
        if add is not None:
            return add(right)
    sum_ = total + part
    return sum_ if type(sum_) in arrays.array_types else arrays.as_result(sum_)


def _new_sum(total: Any, part: Any) -> Any:
    return kernel("gradients", "add", total)(total, part)


def _leading_to(order: list[Any], targets: list[Any]) -> set[Any]:
    """The nodes from which a target can be reached (targets themselves only when another target lies behind them)."""
    reaches = set(targets)
    needed: set[Any] = set()
    for node in reversed(order):
        for edge in node.edges:
            if edge is not None and edge in reaches:
                reaches.add(node)
                needed.add(node)
                break
    return needed


def _check_saved(node: Node) -> None:
    for name in node.saved_names:
        value = getattr(node, name)
        for array in value if isinstance(value, (tuple, list)) else (value,):
            if not arrays.is_array(array):
                continue
            line = written_since(array, node.seq)
            if line is not None:
                raise InplaceError(
                    f"backward of {node.op_name()}: one of the variables needed for gradient computation has been modified by "
                    f"an inplace operation: its {name} of shape {tuple(array.shape)} was written by {line}, after "
                    f"{node.op_name()} had saved it{_where(node)}. Use the out-of-place form there, or clone() before writing."
                )


def _freed_error(node: Node) -> GradientError:
    return GradientError(
        f"backward of {node.op_name()}: Trying to backward through the graph a second time, but what {node.op_name()} had saved "
        f"was freed by the first backward{_where(node)}. Pass retain_graph=True to the first backward, or build the graph again."
    )


def _where(node: Node) -> str:
    line = traces.get(node)
    return f" (forward at {line})" if line else ""


def _explain(error: BaseException, node: Node) -> None:
    line = traces.get(node)
    hint = f"recorded at {line}" if line else "run inside autograd.detect_anomaly() to see the line that recorded it"
    error.add_note(f"in the backward of {node.op_name()}; {hint}")


def _check_finite(node: Node, gradients: Any) -> None:
    if not MODES.check_nan:
        return
    for position, part in enumerate(gradients):
        part = part.so_far() if type(part) is DeferredSum else getattr(part, "entries", part)  # of a sparse gradient
        array = getattr(part, "array", part)
        if arrays.is_array(array) and arrays.has_nan(array):
            raise GradientError(
                f"backward of {node.op_name()}: Function '{node.name()}' returned nan values in its {position}th output"
                f"{_where(node)}. Look at the forward values there (0/0, log(0), sqrt(0), inf - inf)."
            )


# --- who holds a gradient: reference counts, calibrated by real backward passes over a leaf that only counts -------------------


class _Probe:
    """A leaf that only counts references, to learn what an array that nobody else holds looks like to `accumulate_grad`."""

    seq = 0
    edges = ()

    def adds_directly(self, part: Any) -> bool:
        return False

    def accumulate_grad(self, g: Any) -> None:
        global _unshared
        _unshared = getrefcount(g)


class _ProbeNode(Node):
    __slots__ = ()

    def apply(self, g: Any) -> Any:
        return tuple([g + 1 for _ in self.edges])


def is_private(g: Any) -> bool:
    """Whether the engine alone holds the array `g`, so that it may become `.grad` without a copy."""
    # one more reference than the probe saw: this function's own parameter
    return type(g) in arrays.array_types and arrays.owns_memory(g) and getrefcount(g) <= _unshared + 1


def _calibrate() -> None:
    global _sum
    probe, start = _Probe(), arrays.full((1,), 1.0, dtypes.float32)
    run_backward([(_node(1, probe), start)])
    sum_of_pass, _sum = _sum, _count_sum
    try:
        run_backward([(_node(3, _node(2, probe), _node(1, probe)), start)])
    finally:
        _sum = sum_of_pass


def _count_sum(total: Any, part: Any) -> Any:
    global _private
    _private = getrefcount(total)
    return total


def _node(seq: int, *edges: Any) -> Node:
    node = _ProbeNode()
    node.edges, node.seq, node.hooks, node.attrs = edges, seq, None, None
    return node


_calibrate()
