"""`autograd.Function`s as programs have them, each with what calls it on rows of features: straight-through estimators, losses, gates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dynograd as torch
from dynograd import nn
from dynograd.autograd.function import once_differentiable

Function = torch.autograd.Function
F = nn.functional
FUNCTIONS: dict[str, Callable[[Any], Any]] = {}


def used(call: Callable[[Any], Any]) -> Any:
    """Enters what calls a Function; the class stands in front of it."""

    def enter(function: Any) -> Any:
        FUNCTIONS[function.__name__] = lambda x: call(function)(x)
        return function

    return enter


@used(lambda function: lambda x: function.apply(4 * x) / 4)
class Rounded(Function):
    """Straight through: the gradient that comes is the one that goes."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.round()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g


@used(lambda function: lambda x: function.apply(x, 0.5))
class Reversed(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, alpha: float) -> Any:
        ctx.alpha = alpha
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g.neg() * ctx.alpha, None


@used(lambda function: lambda x: function.apply(x))
class Same(Function):
    """Gives its argument itself."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return 2 * g


@used(lambda function: lambda x: function.apply(x, -0.5, 0.5))
class Clamped(Function):
    """Straight through where nothing was cut off: the mask is an attribute of the context."""

    @staticmethod
    def forward(ctx: Any, x: Any, least: float, most: float) -> Any:
        ctx.inside = (x >= least) & (x <= most)
        return x.clamp(least, most)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.inside, None, None


@used(lambda function: lambda x: function.apply(x))
class MaskedRelu(Function):
    """As in tutorials, with a write in place into a clone."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        result = g.clone()
        result[x < 0] = 0
        return result


@used(lambda function: lambda x: function.apply(0.3 * x))
class Exp(Function):
    """Saves its result."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        result = x.exp()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Any) -> Any:
        (result,) = ctx.saved_tensors
        return g * result


@used(lambda function: lambda x: function.apply(x, 0.1))
class Scaled(Function):
    """In the form with `setup_context`."""

    @staticmethod
    def forward(x: Any, scale: float) -> Any:
        return x * 1

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        _, ctx.scale = inputs

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return (g * ctx.scale if ctx.needs_input_grad[0] else None), None


@used(lambda function: lambda x: function.apply(x))
class Sparsemax(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ordered = x.sort(-1, descending=True)[0]
        places = torch.arange(1, x.shape[-1] + 1, dtype=x.dtype)
        sums = ordered.cumsum(-1) - 1
        count = (ordered * places > sums).sum(-1, keepdim=True)
        bound = sums.gather(-1, count - 1) / count.to(x.dtype)
        result = (x - bound).clamp(min=0)
        ctx.save_for_backward(result > 0)
        return result

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (support,) = ctx.saved_tensors
        g = g * support
        return (g - g.sum(-1, keepdim=True) / support.sum(-1, keepdim=True)) * support


@used(lambda function: lambda x: function.apply(x))
class Binarized(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return torch.where(x >= 0, 1.0, -1.0)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return torch.where(x.abs() <= 1, g, torch.zeros_like(g))


@used(lambda function: lambda x: function.apply(x.softmax(-1)))
class Softmax(Function):
    """Of scores, with a backward of its own."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        raised = (x - x.amax(-1, keepdim=True)).exp()
        ctx.result = raised / raised.sum(-1, keepdim=True)
        return ctx.result

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        result = ctx.result
        return result * (g - (g * result).sum(-1, keepdim=True))


class _Quantized(Function):
    """The nearest row of a table, its number, and what the table moves by."""

    @staticmethod
    def forward(ctx: Any, x: Any, table: Any) -> Any:
        number = torch.cdist(x, table).argmin(-1)
        result = table[number]
        ctx.save_for_backward(x, number)
        ctx.rows = len(table)
        ctx.mark_non_differentiable(number)
        return result, number

    @staticmethod
    def backward(ctx: Any, g: Any, g_number: Any) -> Any:
        x, number = ctx.saved_tensors
        moved = torch.zeros((ctx.rows, g.shape[-1])).index_add(0, number, g - 0.1 * x)
        return g, moved


TABLE = torch.linspace(-1, 1, 30).reshape(5, 6).clone().requires_grad_()
FUNCTIONS["quantized"] = lambda x: _Quantized.apply(x, TABLE)[0]


class _LinearLoss(Function):
    """A linear layer and a loss in one: the gradients are computed in forward."""

    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, aim: float) -> Any:
        scores = x @ weight.t()
        error = scores - aim
        ctx.gradients = 2 * error @ weight / error.numel(), 2 * error.t() @ x / error.numel()
        return error.square().mean()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        of_x, of_weight = ctx.gradients
        return g * of_x, g * of_weight, None


FUNCTIONS["loss_of_a_linear_layer"] = lambda x: x * 0.5 + _LinearLoss.apply(x, TABLE, 0.3)


class _Split(Function):
    """Several results, of which one is not used: its gradient is None."""

    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, None, y)
        return x * y, x + y, x - y

    @staticmethod
    def backward(ctx: Any, first: Any, second: Any, third: Any) -> Any:
        x, nothing, y = ctx.saved_tensors
        assert nothing is None and third is None
        return first * y + second, first * x + second


@lambda call: FUNCTIONS.setdefault("several_results", call)
def several_results(x: Any) -> Any:
    first, second, _ = _Split.apply(x, x.detach() * 0.5 + 0.5 * x)
    return first + second


class _Pair(Function):
    """Missing gradients come as zeros."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return [x.sin(), x.cos()]

    @staticmethod
    def backward(ctx: Any, first: Any, second: Any) -> Any:
        return first + 0.5 * second


FUNCTIONS["zeros_for_what_is_missing"] = lambda x: _Pair.apply(x)[0]


class _Again(Function):
    """As a checkpoint: runs its part again in backward, with a pass of its own."""

    @staticmethod
    def forward(ctx: Any, run: Any, x: Any) -> Any:
        ctx.run = run
        ctx.save_for_backward(x)
        return run(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            result = ctx.run(x)
        return None, torch.autograd.grad(result, x, g)[0]


FUNCTIONS["run_again"] = lambda x: _Again.apply(lambda x: (x * x).tanh() + x, x)


class _Within(Function):
    """Calls another one in forward and backward."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return Exp.apply(-x.abs())

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        with torch.enable_grad():
            inner = x.detach().requires_grad_()
            result = Exp.apply(-inner.abs())
            result.backward(g)
        return inner.grad


FUNCTIONS["one_within_another"] = lambda x: _Within.apply(x)
