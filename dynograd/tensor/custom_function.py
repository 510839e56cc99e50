"""`autograd.Function`: an op written by the user, with its own forward and backward.

The context `ctx` is the node itself, as in PyTorch: what `save_for_backward` keeps is checked for in-place writes and freed like
everything else on the tape.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from dynograd import arrays
from dynograd.arrays import Array
from dynograd.autograd.modes import MODES, no_grad, show
from dynograd.autograd.nodes import FREED, Node, OutputNode, Partial, next_seq
from dynograd.autograd.packing import Packed
from dynograd.base import devices, dtypes, layouts
from dynograd.base.shapes import Size
from dynograd.errors import GradientError, ShapeError
from dynograd.interpreter import with_history
from dynograd.interpreter.view_history import edge_of, follow_base, rebase
from dynograd.tensor.creation import zeros
from dynograd.tensor.inplace import check_writable
from dynograd.tensor.tensor import Tensor, wrap

__all__ = ["Function", "FunctionCtx", "InplaceFunction", "once_differentiable"]


class FunctionNode(Node):
    """The node and `ctx` of one call of a user's Function."""

    __slots__ = (
        "__dict__",
        "dirty",
        "edge_positions",
        "function",
        "input_count",
        "inputs_like",
        "kept",
        "materialize",
        "needs_input_grad",
        "non_differentiable",
        "output_rows",
        "outputs_like",
        "saved_rows",
        "to_save",
    )
    saved_names = ("kept",)
    dirty: set[int]  # the ids of inputs that were changed in place
    edge_positions: list[int]  # of the arguments of forward that are tensors
    function: type[Function]
    input_count: int
    inputs_like: dict[int, tuple[Size, dtypes.dtype, devices.device]]  # of the tensors among the arguments, by position
    kept: tuple[Array, ...]
    materialize: bool
    needs_input_grad: tuple[bool, ...]
    non_differentiable: set[int]  # the ids of outputs
    output_rows: dict[
        int, Callable[[Tensor], Tensor]
    ]  # of the outputs with rows of different lengths, by position: puts elements into them
    outputs_like: list[tuple[Size, dtypes.dtype, devices.device] | None]  # None of what is no tensor
    saved_rows: dict[int, Callable[[Tensor], Tensor]]  # the same of the saved ones
    to_save: Any  # tensors; after forward, pairs of an array and the edge its gradient goes along

    if TYPE_CHECKING:  # forward keeps on it what it likes

        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...

    def save_for_backward(self, *tensors: Any) -> None:
        """Keeps tensors for backward; read them there as `ctx.saved_tensors`."""
        self.to_save = tensors

    save_for_forward = save_for_backward

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Says that these outputs have no gradient."""
        self.non_differentiable = {id(tensor) for tensor in tensors}

    def mark_dirty(self, *tensors: Any) -> None:
        """Says that these inputs were changed in place."""
        self.dirty = {id(tensor) for tensor in tensors}

    def set_materialize_grads(self, value: bool) -> None:
        """Whether missing output gradients arrive as zeros (default) or None."""
        self.materialize = value

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What `save_for_backward` kept, with its history."""
        if self.attrs is FREED:
            raise GradientError(
                f"backward of {self.op_name()}: Trying to backward through the graph a second time, but the saved tensors were "
                f"freed. Pass retain_graph=True to the first backward."
            )
        if MODES.plan is not None and (saved := MODES.plan.saved_by(self)) is not None:
            return saved
        tensors: list[Tensor | None] = []
        for place, (array, edge) in enumerate(self.to_save):
            if type(array) is Packed:
                array = array.array()
            if array is None or isinstance(array, Tensor):
                tensors.append(array)
                continue
            tensor = with_history(array, OutputNode(self, edge) if isinstance(edge, int) else edge)
            tensors.append(self.saved_rows[place](tensor) if place in self.saved_rows else tensor)
        return tuple(tensors)

    def release(self) -> None:
        if any([array is not None for array, _ in self.to_save]):
            self.kept = ()
            self.to_save = ()
            self.attrs = FREED

    def pack_saved(self, pack: Any) -> None:
        """For hooks of saved tensors: what `save_for_backward` kept is packed."""
        self.to_save = tuple(
            (array if array is None or isinstance(array, Tensor) else pack(array), edge) for array, edge in self.to_save
        )
        self.kept = _arrays(self.to_save)

    def op_name(self) -> str:
        return self.function.__name__

    def name(self) -> str:
        return f"{self.function.__name__}Backward"

    def __repr__(self) -> str:
        return f"<{self.name()}>"

    def apply(self, g: Any) -> Any:
        grads = self._run(g, False)
        return [grad if grad is None or grad.is_sparse else grad.array for grad in grads]

    def apply_graph(self, g: Any) -> list[Tensor | None]:
        return self._run(g, True)

    def _run(self, g: Partial, recording: bool) -> list[Any]:
        arguments: list[Any] = []
        for number, like in enumerate(self.outputs_like):
            part = g.parts.get(number)
            if part is None:
                if self.materialize and like is not None and (like[1].is_floating_point or like[1].is_complex):
                    shape, kind, device = like
                    part = zeros(shape, dtype=kind, device=device)
            elif not isinstance(part, Tensor):
                part = wrap(arrays.as_result(part))
            rows = self.output_rows.get(number)
            arguments.append(part if rows is None or part is None else rows(part))
        if MODES.task is not None:
            MODES.task.settle()
        before = MODES.grad
        MODES.grad = before if recording else 0
        try:
            result = self.function.backward(self, *arguments)
        finally:
            MODES.grad = before
        result = result if isinstance(result, tuple) else (result,)
        if len(result) > self.input_count and all(gradient is None for gradient in result[self.input_count :]):
            result = result[: self.input_count]
        if len(result) != self.input_count:
            raise GradientError(
                f"function {self.name()} returned an incorrect number of gradients (expected {self.input_count}, got {len(result)}): "
                f"one per argument of forward, None for those that are not tensors."
            )
        grads = []
        for edge, position in zip(self.edges, self.edge_positions, strict=True):
            gradient = result[position]
            if gradient is not None and not isinstance(gradient, Tensor):
                raise TypeError(
                    f"function {self.name()}: expected a Tensor or None as gradient {position}, got {type(gradient).__name__}."
                )
            grads.append(None if edge is None or gradient is None else self._checked(gradient, position))
        return grads

    def _checked(self, gradient: Tensor, position: int) -> Tensor:
        shape, kind, device = self.inputs_like[position]
        if gradient.shape != shape:
            try:
                gradient = gradient.sum_to_size(shape)
            except (RuntimeError, ValueError):
                raise ShapeError(
                    f"function {self.name()} returned an invalid gradient at index {position} - got {tuple(gradient.shape)} but "
                    f"expected shape compatible with {tuple(shape)}."
                ) from None
        if gradient.device != device:
            raise GradientError(
                f"function {self.name()} returned an invalid gradient at index {position} - expected device {device} but got "
                f"{gradient.device}. Move it there, e.g. grad.to({str(device)!r})."
            )
        if gradient.dtype is not kind:
            if gradient.dtype.is_complex and not kind.is_complex:
                raise GradientError(
                    f"function {self.name()} returned an invalid gradient at index {position} - expected {kind} but got {gradient.dtype}. "
                    f"The input is real: return grad.real."
                )
            gradient = gradient.to(kind)
        return elements_of(gradient)


class Function:
    """Subclass with static `forward(ctx, *args)` and `backward(ctx, *grads)` (or, under its other name, `vjp`), and call `apply`.

    `forward` runs without recording; `backward` gets one gradient per output and returns one per argument of forward (None for
    arguments that are not tensors). Written with tensor operations, it differentiates again.

    >>> class Cube(dynograd.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x**3
    ...
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         (x,) = ctx.saved_tensors
    ...         return grad * 3 * x**2
    >>> x = tensor(2.0, requires_grad=True)
    >>> Cube.apply(x).backward()
    >>> x.grad
    tensor(12.)
    """

    setup_context: Any = None
    _backward_cls: type[FunctionNode] = FunctionNode
    generate_vmap_rule = False

    jvp: Any = None
    """A static `jvp(ctx, *tangents)` of a subclass gives the tangents of the outputs; without one, backward is run twice for them."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._backward_cls = type(f"{cls.__name__}Backward", (FunctionNode,), {"__slots__": ()})
        if "vjp" not in vars(cls):
            return
        if "backward" in vars(cls):
            raise RuntimeError(
                f"{cls.__name__}: Implementing both 'backward' and 'vjp' for a custom Function is not allowed: they are two names of one "
                f"function. Write one of them."
            )
        cls.backward = staticmethod(cls.vjp)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(
            f"{type(self).__name__}: call {type(self).__name__}.apply(...) instead of making an instance."
        )

    if TYPE_CHECKING:  # a subclass writes them with parameters of its own
        forward: Callable[..., Any]
        backward: Callable[..., Any]
        vjp: Callable[..., Any]
    else:

        @staticmethod
        def forward(*args: Any, **kwargs: Any) -> Any:
            """Computes the result, without recording; a subclass writes it.

            Args:
                ctx: the context, which keeps what backward needs (`ctx.save_for_backward(...)`, `ctx.attribute = ...`). A subclass that
                    defines `setup_context(ctx, inputs, output)` leaves it out.
                *args: those of `apply`.
            Returns:
                A tensor, or a tuple of them.
            Raises:
                NotImplementedError: the subclass does not define it.
            """
            raise NotImplementedError("Function: write a static forward(ctx, *args) in the subclass.")

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            """Computes the gradients of the arguments; a subclass writes it.

            Args:
                ctx: the context.
                *grads: the gradient of each output, in its shape.
            Returns:
                The gradient of each argument of forward, None for those that are no tensors or need none.
            Raises:
                NotImplementedError: the subclass does not define it.
            """
            raise NotImplementedError(
                "Function: write a static backward(ctx, *grads) in the subclass to get gradients through it."
            )

        vjp = backward

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Tensor | Any:
        """Runs `forward` and records the node.

        Args:
            *args, **kwargs: for `forward`. With a `setup_context` all of them have gradients, defaults and keywords included.
        Returns:
            What `forward` returns, as part of the graph when an argument requires grad.

        >>> class Double(dynograd.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         return x * 2
        ...
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         return grad * 2
        >>> Double.apply(tensor([1.0, 2.0]))
        tensor([2., 4.])
        """
        if cls.setup_context is not None and (kwargs or getattr(cls.forward, "__defaults__", None)):
            bound = inspect.signature(cls.forward).bind(*args, **kwargs)
            bound.apply_defaults()
            args, kwargs = bound.args, bound.kwargs
        for argument in args:
            if isinstance(argument, Tensor) and argument._meta is not None:
                follow_base(argument)
            handler = getattr(type(argument), "__dynograd_function__", None)
            if handler is not None:
                return handler(cls, args, kwargs)
        return cls.applied(args, kwargs, True)[0]

    @classmethod
    def applied(cls, args: tuple, kwargs: dict[str, Any], in_plan: bool = False) -> tuple[Any, FunctionNode]:
        """What `apply` gives for plain tensors, and the node (which is the context), recorded or not.

        Args:
            in_plan: a compiled step may note it.
        """
        node = cls._backward_cls()
        node.function, node.hooks, node.attrs = cls, None, None
        node.kept, node.to_save, node.dirty, node.non_differentiable = (), (), set(), set()
        node.saved_rows, node.output_rows = {}, {}
        node.materialize = True
        needs = tuple(isinstance(argument, Tensor) and argument.requires_grad for argument in args)
        node.needs_input_grad = needs
        node.input_count = len(args)
        recording = any(needs) and MODES.grad != 0
        before = MODES.grad
        MODES.grad = 0
        node.edges, node.seq = (), 0
        try:
            if cls.setup_context is not None:
                result = cls.forward(*args, **kwargs)
                cls.setup_context(node, args, result)
            else:
                result = cls.forward(node, *args, **kwargs)
        finally:
            MODES.grad = before
        many = isinstance(result, (tuple, list))
        outputs = list(result) if many else [result]
        if recording and node.dirty:
            for argument in args:
                if id(argument) in node.dirty:
                    check_writable(argument, cls.__name__)
        if not recording:
            keep(node, [None] * len(node.to_save))
            return result, node
        if in_plan and MODES.plan is not None:
            attached = MODES.plan.join_function(node, args, outputs)
        else:
            attached = join(node, args, outputs)
        return tuple(attached) if many else attached[0], node


class InplaceFunction(Function):
    """A `Function` that remembers whether it works in place, of PyTorch's old days.

    Args:
        inplace: what the attribute of that name says.

    >>> dynograd.autograd.function.InplaceFunction(True).inplace
    True
    """

    def __init__(self, inplace: bool = False) -> None:
        self.inplace = inplace


def join(node: FunctionNode, args: Sequence[Any], outputs: list[Any]) -> list[Any]:
    """Makes a node, with what its forward has given, a part of the graph. Gives the outputs, with their history."""
    describe_inputs(node, args)
    node.edges = tuple(edge_of(elements_of(args[place])) for place in node.edge_positions)
    node.seq = next_seq()
    inputs = {id(argument): argument for argument in args if isinstance(argument, Tensor)}
    attached = _attach(node, outputs, inputs)
    if MODES.grad > 1:
        show(node)
    return attached


def describe_inputs(node: FunctionNode, args: Sequence[Any]) -> None:
    """Notes of the tensors among the arguments what their gradients have to be like."""
    positions = [place for place, argument in enumerate(args) if isinstance(argument, Tensor)]
    node.edge_positions = positions
    node.inputs_like = {place: _like(args[place]) for place in positions}


def takes_part(node: FunctionNode, output: Any) -> bool:
    """Whether an output gets a history."""
    return isinstance(output, Tensor) and id(output) not in node.non_differentiable and output.array.dtype.kind in "fcV"


def outputs_like(outputs: list[Any]) -> list[tuple[Any, Any, Any] | None]:
    """What the gradients of the outputs are like."""
    return [_like(elements_of(output)) if isinstance(output, Tensor) else None for output in outputs]


def _like(tensor: Tensor) -> tuple[Any, Any, Any]:
    return tensor.shape, tensor.dtype, tensor.device


FunctionCtx = FunctionNode


def _attach(node: FunctionNode, outputs: list[Any], inputs: dict[int, Any]) -> list[Any]:
    """Gives the outputs their history and resolves what was saved to arrays and edges."""
    numbers: dict[int, int] = {}
    outputs_attached: list[Any] = []
    for number, output in enumerate(outputs):
        if isinstance(output, Tensor):
            numbers[id(output)] = number
        if not takes_part(node, output):
            outputs_attached.append(output)
            continue
        fresh = output
        if id(output) in inputs and id(output) not in node.dirty:
            fresh = wrap(elements_of(output).array)
            fresh = rows(fresh) if (rows := rows_of(output)) else fresh
        outputs_attached.append(fresh)
    node.outputs_like = outputs_like(outputs)
    node.output_rows = _rows_among(outputs)
    keep(node, [_edge_of_saved(tensor, inputs, numbers) for tensor in node.to_save])
    node.kept = _arrays(node.to_save)
    for number, output in enumerate(outputs_attached):
        if takes_part(node, output):
            if id(output) in node.dirty and id(output) in inputs:
                written = wrap(elements_of(output).array)
                written.node, written._requires_grad = OutputNode(node, number), True
                rebase(elements_of(output), written)
                continue
            output.node = OutputNode(node, number)
            output._requires_grad = True
    return outputs_attached


def _edge_of_saved(tensor: Any, inputs: dict[int, Any], numbers: dict[int, int]) -> Node | Tensor | int | None:
    if tensor is None:
        return None
    if id(tensor) not in inputs and id(tensor) in numbers:
        return numbers[id(tensor)]
    return edge_of(elements_of(tensor))


def keep(node: FunctionNode, edges: Sequence[Any]) -> None:
    """What `save_for_backward` was given becomes arrays, each with the edge that its gradient goes along; sparse tensors, which have none, stay."""
    node.saved_rows = _rows_among(node.to_save)
    node.to_save = tuple(
        [
            (tensor if tensor is None or tensor.layout in _SPARSE else elements_of(tensor).array, edge)
            for tensor, edge in zip(node.to_save, edges)
        ]
    )


_SPARSE = (layouts.sparse_coo, layouts.sparse_csr, layouts.sparse_csc)


def _arrays(saved: Iterable[tuple[Any, Any]]) -> tuple[Any, ...]:
    return tuple([array for array, _ in saved if array is not None and not isinstance(array, Tensor)])


def elements_of(tensor: Any) -> Tensor:
    """The tensor that holds the elements: of rows of different lengths the packed one, else the tensor."""
    return tensor.innermost if hasattr(type(tensor), "__dynograd_rows__") else tensor


def rows_of(tensor: Any) -> Callable[[Tensor], Tensor] | None:
    """What puts elements into the rows of a tensor of rows of different lengths; None of other tensors."""
    return tensor.rows_around() if hasattr(type(tensor), "__dynograd_rows__") else None


def _rows_among(tensors: Sequence[Any]) -> dict[int, Callable[[Tensor], Tensor]]:
    return {place: rows for place, tensor in enumerate(tensors) if (rows := rows_of(tensor)) is not None}


def once_differentiable(backward: Any) -> Callable[..., Any]:
    """Decorates a Function's backward whose result must not be differentiated again.

    Args:
        backward: the method, under `staticmethod`.
    Returns:
        The method; its results are computed outside the tape, and differentiating them is an error.

    >>> class Double(dynograd.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    ...
    ...     @staticmethod
    ...     @dynograd.autograd.function.once_differentiable
    ...     def backward(ctx, grad):
    ...         return grad * 2
    >>> x = tensor(1.0, requires_grad=True)
    >>> dynograd.autograd.grad(Double.apply(x), x)
    (tensor(2.),)
    """
    import functools

    @functools.wraps(backward)
    def once(ctx: Any, *grads: Any) -> Any:
        recording = MODES.grad
        with no_grad():
            result = backward(ctx, *grads)
        needed = [grad for grad in grads if isinstance(grad, Tensor) and grad.requires_grad]
        if not recording or not needed:
            return result
        results = result if isinstance(result, tuple) else (result,)
        return tuple([_Once.apply(ctx.op_name(), part, *needed) if _is_dense(part) else part for part in results])

    return once


def _is_dense(part: Any) -> bool:
    return isinstance(part, Tensor) and not part.is_sparse


class _Once(Function):
    """Passes on what a backward gave that must not be differentiated again."""

    @staticmethod
    def forward(ctx: Any, name: str, part: Tensor, *grads: Tensor) -> Tensor:
        ctx.once = name
        return part

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> NoReturn:
        raise GradientError(
            f"{ctx.once}: trying to differentiate twice a function that was marked with @once_differentiable. "
            f"Write its backward with tensor operations and drop the decorator."
        )
