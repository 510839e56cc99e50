"""`cuda.make_graphed_callables`: functions and modules whose forward and backward are each one replay of a CUDA graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dynograd import cuda
from dynograd.autograd import no_grad
from dynograd.errors import DeviceError
from dynograd.interpreter import differentiation
from dynograd.tensor.custom_function import Function
from dynograd.tensor.tensor import Tensor

__all__ = ["make_graphed_callables"]

_WHO = "make_graphed_callables"


def make_graphed_callables(
    callables: Any,
    sample_args: Any,
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: Any = None,
) -> Any:
    """Callables that do what the given ones do by replaying recorded work: arguments are copied in, a graph is started.

    Args:
        callables: a function or module, or several that are called in this order in each step. Work must be the same in every call:
            shapes, and no decision by values. A module's own `forward` is replaced (it records while in the mode, training or not,
            that it is in now), and the module is returned.
        sample_args: its arguments, tensors on the GPU, or one tuple for each callable; `requires_grad` as in real calls. They become
            the memory that arguments are copied to.
        num_warmup_iters: calls before recording, in which kernels are compiled and loaded.
        allow_unused_input: whether an argument may have no gradient although it asks for one.
        pool: memory to share with another graph, its `pool()`.

    Raises:
        TypeError: an argument is not a tensor.
        DeviceError: no GPU can be used, or an argument lies elsewhere.
    """
    cuda.init()
    single = callable(callables)
    functions: Sequence[Callable[..., Any]] = (callables,) if single else tuple(callables)
    given: Sequence[Any] = (sample_args,) if single else tuple(sample_args)
    given = [(one,) if isinstance(one, Tensor) else tuple(one) for one in given]
    if len(given) != len(functions):
        raise ValueError(
            f"{_WHO}: {len(functions)} callables but {len(given)} tuples of sample arguments. Give one tuple for each callable."
        )
    for number, arguments in enumerate(given):
        for place, one in enumerate(arguments):
            _check(one, f"argument {place} of callable {number}")
    side = cuda.Stream()
    side.wait_stream(cuda.current_stream())
    recorded = [_Recorded(function, arguments, allow_unused_input) for function, arguments in zip(functions, given)]
    with cuda.stream(side):
        for one in recorded:
            for _ in range(num_warmup_iters):
                one.warm_up()
    cuda.current_stream().wait_stream(side)
    shared = cuda.graph_pool_handle() if pool is None else pool
    for one in recorded:
        one.record_forward(shared)
    for one in reversed(recorded):  # gradients come in this order: so memory of a graph is not used again too early
        one.record_backward(shared)
    made = [one.installed() for one in recorded]
    return made[0] if single else tuple(made)


def _check(one: Any, what: str) -> None:
    if not isinstance(one, Tensor):
        raise TypeError(f"{_WHO}: {what} is of type {type(one).__name__}. Only positional tensors can be copied in.")
    if one.device.type != "cuda":
        raise DeviceError(f"{_WHO}: {what} is on {one.device}. Put the sample arguments on the GPU.")


class _Recorded:
    """A callable, the tensors that its graphs read and write, and the graphs."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Tensor, ...], allow_unused: bool) -> None:
        self.function, self.arguments, self.allow_unused = function, arguments, allow_unused
        parameters = getattr(function, "parameters", None)
        self.parameters = tuple(parameters()) if parameters is not None else ()
        if any([True for one in getattr(function, "buffers", tuple)() if one.requires_grad]):
            raise ValueError(f"{_WHO}: buffers of modules may not require gradients. Make them parameters.")
        self.inputs = (*arguments, *self.parameters)
        self.wanting = tuple([one for one in self.inputs if one.requires_grad])
        self.forward, self.backward = cuda.CUDAGraph(), cuda.CUDAGraph()

    def run(self) -> tuple[Tensor, ...]:
        found = self.function(*self.arguments)
        self.many = not isinstance(found, Tensor)
        outputs = tuple(found) if self.many else (found,)
        for place, one in enumerate(outputs):
            _check(one, f"output {place}")
        return outputs

    def gradients(self, outputs: tuple[Tensor, ...], given: tuple[Any, ...]) -> tuple[Any, ...]:
        """Of the inputs that want one, for gradients of the outputs that have one."""
        differentiable = [(one, g) for one, g in zip(outputs, given, strict=True) if one.requires_grad]
        if not differentiable or not self.wanting:
            return (None,) * len(self.wanting)
        ends, starts = zip(*differentiable, strict=True)
        return differentiation.grad(ends, self.wanting, starts, allow_unused=self.allow_unused)

    def warm_up(self) -> None:
        outputs = self.run()
        self.gradients(outputs, tuple([one.detach() for one in outputs]))

    def record_forward(self, pool: Any) -> None:
        with cuda.graph(self.forward, pool=pool):
            self.outputs = self.run()

    def record_backward(self, pool: Any) -> None:
        with no_grad():
            self.given = tuple([one.detach().clone() if one.requires_grad else None for one in self.outputs])
        with cuda.graph(self.backward, pool=pool):
            found = iter(self.gradients(self.outputs, self.given))
        self.found = tuple([next(found) if one.requires_grad else None for one in self.inputs])
        self.outputs = tuple([one.detach() for one in self.outputs])  # the history is in the graph now

    def call(self, *arguments: Any) -> Any:
        if len(arguments) != len(self.arguments):
            raise TypeError(f"{_WHO}: expected {len(self.arguments)} arguments as recorded, got {len(arguments)}.")
        outputs = _Replay.apply(self, *arguments, *self.parameters)
        return outputs if self.many else outputs[0]

    def installed(self) -> Any:
        if not hasattr(self.function, "parameters"):
            return self.call
        module: Any = self.function
        plain, training = module.forward, module.training

        def forward(*arguments: Any) -> Any:
            return self.call(*arguments) if module.training == training else plain(*arguments)

        module.forward = forward
        return module


class _Replay(Function):
    @staticmethod
    def forward(ctx: Any, recorded: _Recorded, *inputs: Tensor) -> Any:
        ctx.recorded = recorded
        for kept, one in zip(recorded.arguments, inputs, strict=False):
            if kept.data_ptr() != one.data_ptr():
                with no_grad():
                    kept.detach().copy_(one)
        recorded.forward.replay()
        return tuple([one.detach() for one in recorded.outputs])

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        recorded = ctx.recorded
        for kept, one in zip(recorded.given, gradients, strict=True):
            if kept is not None and one is not None:
                kept.copy_(one)
        recorded.backward.replay()
        return None, *[None if one is None else one.detach() for one in recorded.found]
