"""`checkpoint`: a part of the forward whose intermediate results are not kept but computed again when backward needs them.

`use_reentrant=False` goes through the hooks of saved tensors: each saved tensor of the part becomes a note, and the first note that
is asked for runs the part again, until everything noted is there. `use_reentrant=True` is one node that runs the part, and a
backward through it, inside the backward.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from dynograd.amp import autocasting
from dynograd.autograd.modes import MODES, enable_grad, no_grad
from dynograd.base.random_streams import default_generator
from dynograd.errors import user_level
from dynograd.interpreter import TENSORS
from dynograd.interpreter.differentiation import backward
from dynograd.tensor.custom_function import Function
from dynograd.tensor.graphs import active_hooks, saved_tensors_hooks
from dynograd.tensor.tensor import Tensor, wrap

__all__ = [
    "CheckpointError",
    "CheckpointFunction",
    "checkpoint",
    "checkpoint_sequential",
    "detach_variable",
    "noop_context_fn",
    "set_checkpoint_early_stop",
]


class RunsAsWritten(BaseException):
    """A checkpointed function in a step that is compiled does what has to be done twice."""


class CheckpointError(RuntimeError):
    """The part did something else when it was run again, so that its gradients would be wrong.

    >>> issubclass(dynograd.utils.checkpoint.CheckpointError, RuntimeError)
    True
    """


def noop_context_fn() -> tuple[AbstractContextManager, AbstractContextManager]:
    """Two contexts that do nothing: the default `context_fn`.

    Returns:
        A pair of context managers.

    >>> len(dynograd.utils.checkpoint.noop_context_fn())
    2
    """
    return nullcontext(), nullcontext()


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[AbstractContextManager, AbstractContextManager]] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """`function(*args, **kwargs)`, whose intermediate results are not kept for backward but computed again there.

    Modes are as they were in the forward when the function runs again: autocast, and random numbers too, on every device.

    Args:
        function: what to run; its result is a tensor or a tuple, list or dict of tensors.
        *args, **kwargs: for the function.
        use_reentrant: False (the better one) takes keyword arguments, nests, and works with `autograd.grad`; True (what PyTorch
            does when it is left out, with a warning) gives gradients only if a tensor among `args` requires grad.
        context_fn: gives two context managers, for the forward and for running again. use_reentrant=False only.
        determinism_check: "default" compares number, shapes and dtypes of what is saved in both runs; "none" does not.
        debug: kept for compatibility; the error tells which tensor differs anyway.
        early_stop: stop running again as soon as everything needed is there.
        preserve_rng_state: False: random numbers may differ the second time.
    Returns:
        What the function returns.
    Raises:
        CheckpointError: the second run saved other tensors than the first.
    Source: Chen et al., Training deep nets with sublinear memory cost, 2016 (arXiv:1604.06174).

    >>> x = tensor([1.0, 2.0], requires_grad=True)
    >>> y = dynograd.utils.checkpoint.checkpoint(lambda x: x.exp().sin().sum(), x, use_reentrant=False)
    >>> y.backward()
    >>> x.grad
    tensor([-2.4784,  3.3129])
    """
    if use_reentrant is None:
        warnings.warn(
            "utils.checkpoint: the use_reentrant parameter should be passed explicitly. use_reentrant=False is recommended; left out "
            "it is True, as in PyTorch.",
            stacklevel=user_level(),
        )
        use_reentrant = True
    if determinism_check not in ("default", "none"):
        raise ValueError(f"checkpoint: determinism_check should be 'default' or 'none', got {determinism_check!r}.")
    if not use_reentrant:
        return _without_reentry(function, args, kwargs, context_fn, determinism_check, early_stop, preserve_rng_state)
    if kwargs:
        raise ValueError(
            f"checkpoint: Unexpected keyword arguments: {','.join(kwargs)}. With use_reentrant=True arguments are positional; "
            f"use_reentrant=False takes them."
        )
    if context_fn is not noop_context_fn or debug:
        raise ValueError("checkpoint: Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
    if preserve_rng_state and MODES.grad == 1 and MODES.plan is not None:
        whole = MODES.plan.in_part(lambda: _once(function, args))
        if whole is not None:
            return whole[0]
    return CheckpointFunction.apply(function, preserve_rng_state, *args)


def checkpoint_sequential(
    functions: Iterable[Callable[..., Any]],
    segments: int,
    input: object,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
) -> Any:
    """Runs a list of functions (or a `Sequential`) one after the other, in `segments` parts of which all but the last are checkpointed.

    Args:
        functions: a list of functions of one argument, or a `Sequential`.
        segments: how many parts, at most as many as there are functions; about the square root of their number takes the least memory.
        input: for the first function.
        use_reentrant, preserve_rng_state: as in `checkpoint`.
    Returns:
        What the last function returns.

    >>> layers = [dynograd.sin, dynograd.exp, dynograd.cos]
    >>> dynograd.utils.checkpoint.checkpoint_sequential(layers, 2, tensor([1.0]), use_reentrant=False)
    tensor([-0.6809])
    """
    if use_reentrant is None:
        warnings.warn(
            "utils.checkpoint.checkpoint_sequential: the use_reentrant parameter should be passed explicitly. use_reentrant=False is "
            "recommended; left out it is True, as in PyTorch.",
            stacklevel=user_level(),
        )
        use_reentrant = True
    steps = list(functions)
    if not 1 <= segments <= max(1, len(steps)):
        raise ValueError(
            f"checkpoint_sequential: expected 1 to {len(steps)} segments for {len(steps)} functions, got {segments}."
        )
    size = len(steps) // segments

    def part(start: int, stop: int) -> Callable[[Any], Any]:
        def run(value: Any) -> Any:
            for step in steps[start:stop]:
                value = step(value)
            return value

        return run

    start = 0
    for start in range(0, size * (segments - 1), size):
        input = checkpoint(
            part(start, start + size), input, use_reentrant=use_reentrant, preserve_rng_state=preserve_rng_state
        )
    return part(size * (segments - 1), len(steps))(input)


# --- the state of modes ------------------------------------------------------------------------------------------------------


class _Surroundings:
    """Autocast and the random stream, as they were in the forward."""

    def __init__(self, with_random: bool) -> None:
        self.random = default_generator.state() if with_random else None
        self.autocast = [
            (kind, autocasting.is_autocast_enabled(kind), autocasting.get_autocast_dtype(kind))
            for kind in ("cpu", "cuda")
        ]
        self.cache = autocasting.is_autocast_cache_enabled()

    @contextmanager
    def again(self) -> Iterator[None]:
        """Inside, they are so again."""
        now = default_generator.state()
        if self.random is not None:
            default_generator.set_plain_state(self.random)
        try:
            with self._casting(0):
                yield
        finally:
            if self.random is not None:
                default_generator.set_plain_state(now)

    @contextmanager
    def _casting(self, place: int) -> Iterator[None]:
        if place == len(self.autocast):
            yield
            return
        kind, enabled, dtype = self.autocast[place]
        if enabled == autocasting.is_autocast_enabled(kind):
            with self._casting(place + 1):
                yield
        else:
            with (
                autocasting.autocast(kind, dtype=dtype, enabled=enabled, cache_enabled=self.cache),
                self._casting(place + 1),
            ):
                yield


# --- use_reentrant=False -----------------------------------------------------------------------------------------------------


class _Enough(Exception):
    """Everything needed has been computed again."""


_early_stop: list[bool | None] = [None]


@contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Inside, `checkpoint` stops running again early, or does not, whatever its argument says.

    Args:
        enable: whether it stops as soon as everything needed is there.
    Returns:
        A context manager.

    >>> x = tensor([1.0], requires_grad=True)
    >>> with dynograd.utils.checkpoint.set_checkpoint_early_stop(False):
    ...     y = dynograd.utils.checkpoint.checkpoint(dynograd.exp, x, use_reentrant=False)
    """
    before = _early_stop[0]
    _early_stop[0] = enable
    try:
        yield
    finally:
        _early_stop[0] = before


class _Argument:
    """A tensor argument without its history; outer hooks of saved tensors have it in their keeping."""

    def __init__(self, tensor: Tensor) -> None:
        hooks = active_hooks()
        self.packed = None if hooks is None else hooks.packed(tensor.array)
        self.array = tensor.array if hooks is None else None
        self.leaf = tensor if tensor.is_leaf else None  # a parameter stays what it is
        self.requires_grad = tensor.requires_grad

    def tensor(self) -> Tensor:
        if self.leaf is not None:
            return self.leaf
        tensor = wrap(self.array if self.packed is None else self.packed.array())
        tensor._requires_grad = self.requires_grad
        return tensor


class _Part:
    """One checkpointed call: its notes, and how to compute what they stand for."""

    def __init__(self, run: Callable[[], Any], check: bool, early_stop: bool) -> None:
        self.run, self.check = run, check
        self.early_stop = early_stop if _early_stop[0] is None else _early_stop[0]
        self.outlines: list[tuple[Any, Any]] = []  # shape and dtype of each note
        self.task: Any = None
        self.found: dict[int, Any] = {}
        self.asked: set[int] = set()

    def pack(self, tensor: Tensor) -> int:
        self.outlines.append((tensor.array.shape, tensor.array.dtype))
        return len(self.outlines) - 1

    def unpack(self, number: int) -> Tensor:
        task = MODES.task
        if task is not self.task or number in self.asked or number not in self.found:
            self.task, self.asked = task, set()
            self.compute_again()
        self.asked.add(number)
        return wrap(self.found.pop(number))

    def compute_again(self) -> None:
        by_key: dict[int, Any] = {}
        count = 0

        def keep(tensor: Tensor) -> int:
            nonlocal count
            number, count = count, count + 1
            if number < len(self.outlines):
                by_key[number] = tensor.array
                self._compare(number, tensor)
            if self.early_stop and count == len(self.outlines):
                raise _Enough
            return number

        try:
            with saved_tensors_hooks(keep, lambda number: wrap(by_key[number])), enable_grad():
                self.run()
        except _Enough:
            pass
        if self.check and count != len(self.outlines):
            raise CheckpointError(
                f"checkpoint: A different number of tensors was saved during the original forward and recomputation. Number of tensors "
                f"saved during forward: {len(self.outlines)}. Number of tensors saved during recomputation: {count}. The function must "
                f"do the same both times."
            )
        self.found = by_key

    def _compare(self, number: int, tensor: Tensor) -> None:
        shape, kind = self.outlines[number]
        if self.check and (tensor.array.shape != shape or tensor.array.dtype != kind):
            raise CheckpointError(
                f"checkpoint: Recomputed values for the following tensors have different metadata than during the forward pass. tensor "
                f"at position {number}: saved {tuple(shape)} {kind}, recomputed {tuple(tensor.array.shape)} {tensor.array.dtype}. "
                f"The function must do the same both times."
            )


def _without_reentry(
    function: Callable[..., Any],
    args: tuple,
    kwargs: dict[str, Any],
    context_fn: Callable[[], tuple[AbstractContextManager, AbstractContextManager]],
    determinism_check: str,
    early_stop: bool,
    with_random: bool,
) -> Any:
    if with_random and context_fn is noop_context_fn and MODES.grad == 1 and MODES.plan is not None:
        whole = MODES.plan.in_part(lambda: function(*args, **kwargs))
        if whole is not None:
            return whole[0]
    here, later = context_fn()
    if not MODES.grad or any(
        isinstance(argument, Tensor) and type(argument) not in TENSORS for argument in (*args, *kwargs.values())
    ):
        with here:
            return function(*args, **kwargs)
    surroundings = _Surroundings(with_random)
    kept = [_Argument(argument) if isinstance(argument, Tensor) else argument for argument in args]
    kept_by_name = {name: _Argument(value) if isinstance(value, Tensor) else value for name, value in kwargs.items()}

    def again() -> None:
        operands = [value.tensor() if type(value) is _Argument else value for value in kept]
        named = {name: value.tensor() if type(value) is _Argument else value for name, value in kept_by_name.items()}
        with surroundings.again(), later:
            function(*operands, **named)

    part = _Part(again, determinism_check == "default", early_stop)
    with saved_tensors_hooks(part.pack, part.unpack), here:
        return function(*args, **kwargs)


# --- use_reentrant=True ------------------------------------------------------------------------------------------------------


def detach_variable(inputs: tuple) -> tuple:
    """The tensors among `inputs` without history, requiring grad as before.

    Args:
        inputs: a tuple of anything.
    Returns:
        A tuple; what is no tensor stays as it is.
    Raises:
        RuntimeError: `inputs` is no tuple.

    >>> dynograd.utils.checkpoint.detach_variable((tensor(1.0, requires_grad=True) * 2, 3))
    (tensor(2., requires_grad=True), 3)
    """
    results = []
    for tensor in inputs:
        if isinstance(tensor, Tensor):
            alone = tensor.detach()
            alone._requires_grad = tensor.requires_grad
            tensor = alone
        results.append(tensor)
    return tuple(results)


def _warn_of_no_gradient() -> None:
    warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=user_level())


def _once(function: Callable[..., Any], args: tuple) -> object:
    """The same function where a compiled step sees to what is computed again."""
    if not any([isinstance(argument, Tensor) and argument.requires_grad for argument in args]):
        _warn_of_no_gradient()
        with no_grad():
            return function(*args)
    result = function(*args)
    for tensor in result if isinstance(result, (tuple, list)) else (result,):
        if isinstance(tensor, Tensor) and tensor.is_floating_point() and not tensor.requires_grad:
            raise RunsAsWritten
    return result


class CheckpointFunction(Function):
    """The `autograd.Function` behind `checkpoint(..., use_reentrant=True)`; programs call that.

    Args:
        *args: a function takes none of these itself; see `apply`.

    >>> x = tensor([2.0], requires_grad=True)
    >>> dynograd.utils.checkpoint.CheckpointFunction.apply(lambda x: x * x, True, x).sum().backward()
    >>> x.grad
    tensor([4.])
    """

    @staticmethod
    def forward(ctx: Any, run_function: Callable[..., Any], preserve_rng_state: bool, *args: Any) -> Any:
        """Runs the function without recording.

        Args:
            ctx: the context.
            run_function: the function.
            preserve_rng_state: whether random numbers are the same the second time.
            *args: for the function.
        Returns:
            What it returns.
        """
        if MODES.grad == 0 and not any(isinstance(argument, Tensor) and argument.requires_grad for argument in args):
            _warn_of_no_gradient()
        ctx.run_function = run_function
        ctx.surroundings = _Surroundings(preserve_rng_state)
        ctx.others = [None if isinstance(argument, Tensor) else argument for argument in args]
        ctx.places = [place for place, argument in enumerate(args) if isinstance(argument, Tensor)]
        ctx.save_for_backward(*[args[place] for place in ctx.places])
        return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Runs it again with recording, and backward through it.

        Args:
            ctx: the context.
            *grads: gradients of the outputs.
        Returns:
            A gradient for each argument of `forward`, None for the first two.
        """
        if MODES.task is not None and MODES.task.gives:
            raise RuntimeError(
                "checkpoint: When use_reentrant=True, checkpoint is incompatible with .grad() or passing an `inputs` parameter to "
                ".backward(). To resolve this error, you can either set use_reentrant=False, or call .backward() without passing the "
                "`inputs` argument."
            )
        operands = list(ctx.others)
        for place, tensor in zip(ctx.places, ctx.saved_tensors, strict=True):
            operands[place] = tensor
        inner = detach_variable(tuple(operands))
        with ctx.surroundings.again(), enable_grad():
            outputs = ctx.run_function(*inner)
        listed = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
        pairs = [
            (tensor, g)
            for tensor, g in zip(listed, grads, strict=True)
            if isinstance(tensor, Tensor) and tensor.requires_grad
        ]
        if not pairs:
            raise RuntimeError("checkpoint: none of output has requires_grad=True, this checkpoint() is not necessary.")
        backward([tensor for tensor, _ in pairs], [g for _, g in pairs])
        return (None, None, *[tensor.grad if isinstance(tensor, Tensor) else None for tensor in inner])
