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
    operands: Sequence[Any] = (sample_args,) if single else tuple(sample_args)
    operands = [(tensor,) if isinstance(tensor, Tensor) else tuple(tensor) for tensor in operands]
    if len(operands) != len(functions):
        raise ValueError(
            f"{_WHO}: {len(functions)} callables but {len(operands)} tuples of sample arguments. Give one tuple for each callable."
        )
    for number, arguments in enumerate(operands):
        for place, argument in enumerate(arguments):
            _check(argument, f"argument {place} of callable {number}")
    side = cuda.Stream()
    side.wait_stream(cuda.current_stream())
    recorded = [_Recorded(function, arguments, allow_unused_input) for function, arguments in zip(functions, operands)]
    with cuda.stream(side):
        for callable_ in recorded:
            for _ in range(num_warmup_iters):
                callable_.warm_up()
    cuda.current_stream().wait_stream(side)
    shared = cuda.graph_pool_handle() if pool is None else pool
    for callable_ in recorded:
        callable_.record_forward(shared)
    for callable_ in reversed(
        recorded
    ):  # gradients come in this order: so memory of a graph is not used again too early
        callable_.record_backward(shared)
    installed = [callable_.installed() for callable_ in recorded]
    return installed[0] if single else tuple(installed)


def _check(callable_: Any, what: str) -> None:
    if not isinstance(callable_, Tensor):
        raise TypeError(
            f"{_WHO}: {what} is of type {type(callable_).__name__}. Only positional tensors can be copied in."
        )
    if callable_.device.type != "cuda":
        raise DeviceError(f"{_WHO}: {what} is on {callable_.device}. Put the sample arguments on the GPU.")


class _Recorded:
    """A callable, the tensors that its graphs read and write, and the graphs."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Tensor, ...], allow_unused: bool) -> None:
        self.function, self.arguments, self.allow_unused = function, arguments, allow_unused
        parameters = getattr(function, "parameters", None)
        self.parameters = tuple(parameters()) if parameters is not None else ()
        if any([True for buffer in getattr(function, "buffers", tuple)() if buffer.requires_grad]):
            raise ValueError(f"{_WHO}: buffers of modules may not require gradients. Make them parameters.")
        self.inputs = (*arguments, *self.parameters)
        self.wanting = tuple([operand for operand in self.inputs if operand.requires_grad])
        self.forward, self.backward = cuda.CUDAGraph(), cuda.CUDAGraph()

    def run(self) -> tuple[Tensor, ...]:
        function = self.function(*self.arguments)
        self.many = not isinstance(function, Tensor)
        outputs = tuple(function) if self.many else (function,)
        for place, output in enumerate(outputs):
            _check(output, f"output {place}")
        return outputs

    def gradients(self, outputs: tuple[Tensor, ...], gradients_of_outputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """Of the inputs that want one, for gradients of the outputs that have one."""
        differentiable = [
            (output, g) for output, g in zip(outputs, gradients_of_outputs, strict=True) if output.requires_grad
        ]
        if not differentiable or not self.wanting:
            return (None,) * len(self.wanting)
        ends, starts = zip(*differentiable, strict=True)
        return differentiation.grad(ends, self.wanting, starts, allow_unused=self.allow_unused)

    def warm_up(self) -> None:
        outputs = self.run()
        self.gradients(outputs, tuple([output.detach() for output in outputs]))

    def record_forward(self, pool: Any) -> None:
        with cuda.graph(self.forward, pool=pool):
            self.outputs = self.run()

    def record_backward(self, pool: Any) -> None:
        with no_grad():
            self.given = tuple([output.detach().clone() if output.requires_grad else None for output in self.outputs])
        with cuda.graph(self.backward, pool=pool):
            result = iter(self.gradients(self.outputs, self.given))
        self.found = tuple([next(result) if operand.requires_grad else None for operand in self.inputs])
        self.outputs = tuple([output.detach() for output in self.outputs])  # the history is in the graph now

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
        for kept, operand in zip(recorded.arguments, inputs, strict=False):
            if kept.data_ptr() != operand.data_ptr():
                with no_grad():
                    kept.detach().copy_(operand)
        recorded.forward.replay()
        return tuple([output.detach() for output in recorded.outputs])

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        recorded = ctx.recorded
        for kept, gradient in zip(recorded.given, gradients, strict=True):
            if kept is not None and gradient is not None:
                kept.copy_(gradient)
        recorded.backward.replay()
        return None, *[None if tensor is None else tensor.detach() for tensor in recorded.found]
