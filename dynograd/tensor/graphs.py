"""The recorded graph in users' hands (`dynograd.autograd.graph`): hooks of saved tensors and of nodes, gradient edges.

Nothing here costs anything until it is used: a context manager that watches what is saved is told of each new node by the one
question that every op asks anyway, whether it is recorded.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from dynograd import arrays
from dynograd.arrays import Array
from dynograd.autograd.modes import MODES, unwatch, watch
from dynograd.autograd.nodes import FREED, AccumulateGrad, Node, Partial, inspectors
from dynograd.autograd.packing import Packed, pack_node
from dynograd.autograd.replacements import check_replacement
from dynograd.autograd.writes import stamp, version
from dynograd.base.interrupts import InterruptSafe
from dynograd.errors import GradientError
from dynograd.interpreter.history import GraphSaved
from dynograd.interpreter.tensor_parts import Hooks, RemovableHandle, node_hooks
from dynograd.interpreter.view_history import edge_of
from dynograd.tensor.tensor import Tensor, wrap

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]


# --- saved tensors -----------------------------------------------------------------------------------------------------------


class _State(threading.local):
    disabled: str | None = None

    def __init__(self) -> None:
        self.stack: list[saved_tensors_hooks] = []


_state = _State()


class saved_tensors_hooks(InterruptSafe[None]):
    """Inside, each tensor that an op saves for backward goes through `pack_hook`, and comes back through `unpack_hook`.

    Of nested ones only the innermost is asked. Hooks see tensors without history; the history stays with the graph, so results of
    `unpack_hook` can be differentiated twice.

    Args:
        pack_hook: takes a tensor, gives anything; must not write into the tensor.
        unpack_hook: takes what `pack_hook` gave, and gives a tensor with the same values.

    >>> kept = []
    >>> x = tensor([2.0], requires_grad=True)
    >>> with dynograd.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or len(kept) - 1, lambda i: kept[i]):
    ...     y = x.exp()
    >>> len(kept)
    1
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook
        self._depths: list[int] = []  # of the stack, as it was entered

    def _enter(self) -> None:
        if _state.disabled is not None:
            raise RuntimeError(_state.disabled)
        self._depths.append(len(_state.stack))
        if not _state.stack:
            watch(_pack)
        _state.stack.append(self)

    def _leave(self) -> None:
        if self._depths:
            del _state.stack[self._depths[-1] :]
            if not _state.stack:
                unwatch(_pack)
            del self._depths[-1]

    def packed(self, array: Any) -> Packed:
        """What stands in the place of the saved `array`.

        Args:
            array: what an op saves.
        Returns:
            What the op keeps.
        """
        tensor = wrap(array)
        before = version(array)
        pack_hook = self.pack_hook(tensor)
        if version(array) != before:
            raise RuntimeError(
                "saved_tensors_hooks: A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook "
                "can not be modified by in-place operations as this can lead to unexpected side-effects. Work on tensor.clone()."
            )
        return Packed(pack_hook, functools.partial(self._unpacked, array.shape, tensor.dtype, tensor.device))

    def _unpacked(self, shape: Any, dtype: Any, device: Any, storage: Any) -> Array:
        tensor = self.unpack_hook(storage)
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"saved_tensors_hooks: Output of saved tensor unpack_hook expected to be a Tensor but got result of type "
                f"{type(tensor).__name__}."
            )
        array = tensor.array
        if array.shape != shape:
            if not _stretches(array.shape, shape):
                raise GradientError(
                    f"saved_tensors_hooks: unpack_hook gave a tensor of shape {tuple(array.shape)}, expected that of what was packed, "
                    f"{tuple(shape)}. Return a tensor with the same values."
                )
            array = arrays.broadcast_to(array, shape)
        if tensor.device != device:
            raise GradientError(
                f"saved_tensors_hooks: unpack_hook gave a tensor on {tensor.device}, expected {device}, where what was packed lay. Move "
                f"it there, e.g. tensor.to({str(device)!r})."
            )
        return arrays.cast(array, dtype)


def _stretches(shape: tuple[int, ...], whole: tuple[int, ...]) -> bool:
    missing = len(whole) - len(shape)
    return missing >= 0 and all([size in (1, full) for size, full in zip(shape, whole[missing:])])


def active_hooks() -> saved_tensors_hooks | None:
    """The hooks that saved tensors go through now."""
    return _state.stack[-1] if _state.stack else None


def _pack(node: Node) -> None:
    pack_node(node, _state.stack[-1].packed)


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Inside, `saved_tensors_hooks` is an error with this message.

    Args:
        error_message: the text of the error.
    Raises:
        RuntimeError: inside, when hooks are entered.

    >>> with dynograd.autograd.graph.disable_saved_tensors_hooks("not here"):
    ...     with dynograd.autograd.graph.save_on_cpu():
    ...         pass
    Traceback (most recent call last):
        ...
    RuntimeError: not here
    """
    if _state.stack:
        raise RuntimeError(error_message)
    before = _state.disabled
    _state.disabled = error_message
    try:
        yield
    finally:
        _state.disabled = before


class save_on_cpu(saved_tensors_hooks):
    """Inside, what ops save for backward waits in host memory and returns to its device for backward.

    Args:
        pin_memory: pinned host memory, whose copies need not wait.
        device_type: kept for compatibility.

    >>> x = tensor([2.0], requires_grad=True)
    >>> with dynograd.autograd.graph.save_on_cpu():
    ...     y = (x * x).sum()
    >>> y.backward()
    >>> x.grad
    tensor([4.])
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def to_host(tensor: Any) -> tuple[Any, Tensor]:
            if not tensor.is_cuda:
                return tensor.device, tensor.clone()
            cpu = tensor.cpu()
            return tensor.device, cpu.pin_memory() if pin_memory else cpu

        def back(packed: Any) -> Tensor:
            device, tensor = packed
            return tensor.to(device, non_blocking=pin_memory)

        super().__init__(to_host, back)


@contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[None]:
    """Inside, tensors that were saved for backward may be written to: every op saves a copy. Costs that memory.

    >>> x = tensor([3.0], requires_grad=True)
    >>> with dynograd.autograd.graph.allow_mutation_on_saved_tensors():
    ...     y = x * 1
    ...     z = y * y
    ...     _ = y.zero_()
    ...     z.backward()
    >>> x.grad
    tensor([6.])
    """
    with saved_tensors_hooks(lambda tensor: wrap(arrays.copy(tensor.array)), lambda tensor: tensor):
        yield


def increment_version(tensor: Tensor | Sequence[Tensor]) -> None:
    """Says that the memory of `tensor` (or of each in a list) was written, by code that dynograd does not see.

    Args:
        tensor: a tensor or a list of them. Backward through what has saved it is then an error.

    >>> x = tensor([1.0])
    >>> dynograd.autograd.graph.increment_version(x)
    """
    for operand in (tensor,) if isinstance(tensor, Tensor) else tensor:
        stamp(operand.array)


# --- edges and hooks of many -------------------------------------------------------------------------------------------------


class GradientEdge(NamedTuple):
    """Where a tensor's gradient goes: output `output_nr` of `node`. Stands for the tensor in `grad` and `backward`.

    Args:
        node: a node of the graph.
        output_nr: which of its outputs.
        ownership_token: what keeps the graph alive.

    >>> x = tensor([1.0], requires_grad=True)
    >>> dynograd.autograd.graph.get_gradient_edge(x * 2).output_nr
    0
    """

    node: Any
    output_nr: int
    ownership_token: Any = None


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The edge of `tensor`, which keeps the graph alive but not the tensor's values.

    Args:
        tensor: one that requires grad.
    Returns:
        A `GradientEdge`.
    Raises:
        GradientError: it does not require grad.

    >>> x = tensor([1.0], requires_grad=True)
    >>> edge = dynograd.autograd.graph.get_gradient_edge(x * 2)
    >>> dynograd.autograd.grad(edge, x)
    (tensor([2.]),)
    """
    if not isinstance(tensor, Tensor) or not tensor.requires_grad:
        raise RuntimeError(
            "get_gradient_edge: It is not possible to get the gradient edge for a Tensor that does not require gradients. "
            "Call requires_grad_() on it before the forward."
        )
    node = tensor.grad_fn
    outline = wrap(arrays.outline(tensor.array))
    return GradientEdge(AccumulateGrad(tensor) if node is None else node, tensor.output_nr, (_edge(tensor), outline))


def _edge(tensor: Tensor) -> Node | Tensor:
    edge = edge_of(tensor)
    return tensor if edge is None else edge


def register_multi_grad_hook(tensors: Sequence[Tensor], fn: Callable[..., Any], *, mode: str = "all") -> _Handles:
    """Calls `fn` once in each backward: with the gradients of all `tensors`, or (mode "any") with the first that is there.

    A tensor that a backward does not come to has None in its place.

    Args:
        tensors: tensors that require grad.
        fn: takes the list of gradients, or with mode "any" one gradient.
        mode: "all" or "any".
    Returns:
        A handle; `handle.remove()` takes the hook away.

    >>> x, y = tensor([1.0], requires_grad=True), tensor([2.0], requires_grad=True)
    >>> handle = dynograd.autograd.graph.register_multi_grad_hook([x, y], lambda grads: print(grads))
    >>> (x * y).sum().backward()
    (tensor([2.]), tensor([1.]))
    """
    if mode not in ("all", "any"):
        raise ValueError(f"register_multi_grad_hook: Expects mode to be one of ('all', 'any') but got {mode!r}.")
    edges = [_edge(tensor) for tensor in tensors]
    gradients_by_number: dict[int, Any] = {}  # of the running backward
    last: list[Any] = [None]
    lock = threading.Lock()

    def arrived(place: int) -> Callable[[Tensor], None]:
        def hook(g: Tensor) -> None:
            with lock:
                task = MODES.task
                if last[0] is not task:
                    last[0] = task
                    gradients_by_number.clear()
                    gradients_by_number["expected"] = sum(1 for edge in edges if edge in task.edges)  # type: ignore[index]
                    if mode == "any":
                        gradients_by_number["done"] = False  # type: ignore[index]
                if mode == "any":
                    ready = not gradients_by_number["done"]  # type: ignore[index]
                    gradients_by_number["done"] = True  # type: ignore[index]
                else:
                    gradients_by_number[place] = g
                    ready = len(gradients_by_number) - 1 == gradients_by_number["expected"]  # type: ignore[index]
                grads = tuple(gradients_by_number.get(number) for number in range(len(edges)))
                if ready:
                    last[0] = None if mode == "all" else task
                    if mode == "all":
                        gradients_by_number.clear()
            if ready:
                fn(g if mode == "any" else grads)

        return hook

    handles = [tensor.register_hook(arrived(place)) for place, tensor in enumerate(tensors)]
    return _Handles(handles)


class _Handles:
    """Several handles as one."""

    def __init__(self, handles: list[RemovableHandle]) -> None:
        self.handles = handles

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()

    def __enter__(self) -> _Handles:
        return self

    def __exit__(self, *error: Any) -> None:
        self.remove()


# --- nodes -------------------------------------------------------------------------------------------------------------------


def _tensors(parts: Any) -> tuple[Any, ...]:
    return tuple(part if part is None or isinstance(part, Tensor) else wrap(arrays.as_result(part)) for part in parts)


def _output_gradients(node: Node, g: Any) -> tuple[Any, ...]:
    if not isinstance(g, Partial):
        return _tensors((g,))
    count = len(getattr(node, "outputs_like", None) or g.parts)
    return _tensors(g.parts.get(number) for number in range(count))


def _replaced(who: str, hook: Any, old: Sequence[Any], new: Any, create_graph: bool) -> list[Any]:
    """What `hook` returned in the place of the gradients `old`, as the engine carries it."""
    if not isinstance(new, tuple):
        raise TypeError(
            f"{who}: expected tuple, but hook returned '{type(new).__name__}'. Return a tuple of {len(old)} gradients, or None."
        )
    if len(new) != len(old):
        raise GradientError(f"{who}: the hook returned {len(new)} gradients, expected {len(old)}.")
    for before, after in zip(old, new, strict=True):
        check_replacement(who, hook, before, after)
    return [tensor if tensor is None or create_graph else tensor.array for tensor in new]


def _register_hook(self: Node, fn: Callable[..., Any]) -> RemovableHandle:
    """Calls `fn(grad_inputs, grad_outputs)` after this node's rule; what it returns replaces the gradients of the inputs.

    Args:
        fn: a function of the gradients of the inputs and those of the outputs; what it returns takes the place of the first, unless
            it is None.
    Returns:
        A handle; `handle.remove()` takes the hook away.
    """

    def after(result: Any, g: Any, create_graph: bool) -> Any:
        grads = _tensors(result)
        new = fn(grads, _output_gradients(self, g))
        return result if new is None else _replaced("Node.register_hook", fn, grads, new, create_graph)

    return RemovableHandle(node_hooks(self).after, after)


def _register_prehook(self: Node, fn: Callable[..., Any]) -> RemovableHandle:
    """Calls `fn(grad_outputs)` before this node's rule; what it returns replaces them.

    Args:
        fn: a function of the gradients; what it returns takes their place, unless it is None.
    Returns:
        A handle; `handle.remove()` takes the hook away.
    """

    def before(g: Any, create_graph: bool) -> Any:
        grads = _output_gradients(self, g)
        new = fn(grads)
        if new is None:
            return g
        parts = _replaced("Node.register_prehook", fn, grads, new, create_graph)
        if isinstance(g, Partial):
            return Partial({number: part for number, part in enumerate(parts) if part is not None})
        return parts[0]

    return RemovableHandle(node_hooks(self).prehooks, before)


def _leaf_hook(self: AccumulateGrad, fn: Callable[..., Any]) -> RemovableHandle:
    """Calls `fn((), (gradient,))` when the gradient has been added to the leaf's `.grad`."""

    def after(result: Any, g: Any, create_graph: bool) -> None:
        new = fn((), _tensors((g,)))
        if new is not None:
            _replaced("AccumulateGrad.register_hook", fn, (), new, create_graph)

    return RemovableHandle(_leaf_hooks(self).after, after)


def _leaf_prehook(self: AccumulateGrad, fn: Callable[..., Any]) -> RemovableHandle:
    """Calls `fn((gradient,))` before the gradient is added to the leaf's `.grad`."""

    def before(g: Any, create_graph: bool) -> object:
        grads = _tensors((g,))
        new = fn(grads)
        return g if new is None else _replaced("AccumulateGrad.register_prehook", fn, grads, new, create_graph)[0]

    return RemovableHandle(_leaf_hooks(self).prehooks, before)


def _leaf_hooks(node: AccumulateGrad) -> Hooks:
    meta = node.variable.meta()
    if meta.hooks is None:
        meta.hooks = Hooks()
    return meta.hooks


_SAVED_NAMES = {"self": "input", "result": "output"}


def _add_saved(cls: type[Node]) -> None:
    """Gives a class of nodes what it saved under PyTorch's names: `_saved_self`, `_saved_other`, `_saved_result`, `_saved_dim`."""
    op = cls.op
    if op is None:
        return
    names = {name: name for name in (*cls.saved_names, *op.static_names)}
    names |= {shown: names[own] for shown, own in _SAVED_NAMES.items() if own in names}
    for shown, own in names.items():
        setattr(cls, f"_saved_{shown}", property(functools.partial(_saved, name=own)))


def _saved(self: Node, name: str) -> Any:
    if self.attrs is FREED:
        raise GradientError(
            f"_saved_{name}: Trying to access saved tensors of {self.name()} after they have already been freed. Pass "
            f"retain_graph=True to the backward."
        )
    op = self.op
    if name in op.static_names:
        return self.attrs[op.static_names.index(name)]
    value = getattr(self, name)
    if type(value) is Packed:
        return wrap(value.array())
    if name in op.extras:
        return wrap(arrays.as_result(value)) if arrays.is_array(value) else value
    return getattr(GraphSaved(self), name)


Node.register_hook = _register_hook  # type: ignore[attr-defined]
Node.register_prehook = _register_prehook  # type: ignore[attr-defined]
inspectors.append(_add_saved)
AccumulateGrad.register_hook = _leaf_hook  # type: ignore[attr-defined]
AccumulateGrad.register_prehook = _leaf_prehook  # type: ignore[attr-defined]
