"""`torch.autograd.functional`: Jacobians, Hessians and their products, of functions of one tensor or of several.

Older than `func`: inputs are one tensor or a tuple of them, results have the same form, and `strict=True` makes an output that does
not depend on an input an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynograd import arrays
from dynograd.autograd.modes import enable_grad
from dynograd.interpreter.differentiation import grad
from dynograd.tensor.methods import public_function
from dynograd.tensor.tensor import Tensor, wrap
from dynograd.transforms.derivatives import jacfwd, jacrev
from dynograd.transforms.jvp import jvp as forward_jvp

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]


@enable_grad()
def vjp(
    func: Callable[..., Any],
    inputs: Tensor | tuple[Tensor, ...],
    v: Tensor | tuple[Tensor, ...] | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> Any:
    """`v` times the Jacobian of `func` at `inputs`.

    Args:
        func: a function of tensors that gives a tensor or a tuple of them.
        inputs: a tensor or a tuple of them.
        v: one tensor per output, in its shape; may be left out for a single one-element output.
        create_graph: results can be differentiated.
        strict: an output that does not depend on an input is an error; otherwise the result is 0 there.
    Returns:
        (`func(inputs)`, one tensor per input in its shape).
    Raises:
        RuntimeError: `v` does not fit the outputs, or `strict` and no dependence.

    >>> x = tensor([1.0, 2.0])
    >>> dynograd.autograd.functional.vjp(lambda x: x * x, x, dynograd.ones(2))
    (tensor([1., 4.]), tensor([2., 4.]))
    """
    call = _Call("vjp", func, inputs, create_graph)
    ways = call.directions(v, call.outputs, "output")
    gradients = call.gradients(call.outputs, ways, strict)
    return call.outside(call.outputs, call.many_outputs), call.outside(gradients, call.many_inputs)


@enable_grad()
def jvp(
    func: Callable[..., Any],
    inputs: Tensor | tuple[Tensor, ...],
    v: Tensor | tuple[Tensor, ...] | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> Any:
    """The Jacobian of `func` at `inputs` times `v`.

    Args:
        func: a function of tensors that gives a tensor or a tuple of them.
        inputs: a tensor or a tuple of them.
        v: one tensor per input, in its shape; may be left out for a single one-element input.
        create_graph: results can be differentiated.
        strict: an output that does not depend on an input is an error; otherwise the result is 0 there.
    Returns:
        (`func(inputs)`, one tensor per output in its shape).
    Raises:
        RuntimeError: `v` does not fit the inputs, or `strict` and no dependence.

    >>> x = tensor([1.0, 2.0])
    >>> dynograd.autograd.functional.jvp(lambda x: x * x, x, dynograd.ones(2))
    (tensor([1., 4.]), tensor([2., 4.]))
    """
    call = _Call("jvp", func, inputs, create_graph, run=False)
    ways = call.directions(v, call.inputs, "input")
    outputs, moved = forward_jvp(lambda *inputs: tuple(call.listed_outputs(*inputs)), tuple(call.inputs), tuple(ways))
    if strict:
        call.check_independent(outputs)
    return call.outside(outputs, call.many_outputs), call.outside(moved, call.many_outputs)


@enable_grad()
def jacobian(
    func: Callable[..., Any],
    inputs: Tensor | tuple[Tensor, ...],
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian of `func`: for each output and each input a tensor of the output's shape followed by the input's.

    Args:
        func: a function of tensors that gives a tensor or a tuple of them.
        inputs: a tensor or a tuple of them.
        create_graph: results can be differentiated.
        strict: an output that does not depend on an input is an error; otherwise the result is 0 there.
        vectorize: all rows in one backward; otherwise one backward for each element of the output.
        strategy: "reverse-mode", or "forward-mode" (with `vectorize=True`): a column for each element of the input.
    Returns:
        A tensor; for several inputs a tuple, for several outputs a tuple of these.

    >>> dynograd.autograd.functional.jacobian(lambda x: x * x, tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if strategy not in ("forward-mode", "reverse-mode"):
        raise ValueError(
            f'jacobian: Expected strategy to be either "forward-mode" or "reverse-mode", got {strategy!r}. Hint: If your function '
            f'has more outputs than inputs, "forward-mode" tends to be more performant. Otherwise, prefer to use "reverse-mode".'
        )
    if strict and vectorize:
        raise RuntimeError(
            "jacobian: strict=True and vectorize=True are not supported together. Please either set strict=False or vectorize=False."
        )
    if strategy == "forward-mode":
        return _forward_jacobian(func, inputs, create_graph, strict, vectorize)
    call = _Call("jacobian", func, inputs, create_graph)
    rows = [
        [
            _reshaped(part, out, operand)
            for part, operand in zip(call.rows(out, vectorize, strict), call.inputs, strict=True)
        ]
        for out in call.outputs
    ]
    table = [call.outside(row, call.many_inputs) for row in rows]
    return tuple(table) if call.many_outputs else table[0]


@enable_grad()
def hessian(
    func: Callable[..., Any],
    inputs: Tensor | tuple[Tensor, ...],
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The second derivatives of `func`, which must give one element.

    Args:
        func: a function of tensors.
        inputs: a tensor or a tuple of them.
        create_graph: results can be differentiated.
        strict: an output that does not depend on an input is an error; otherwise the result is 0 there.
        vectorize: all rows in one backward.
        outer_jacobian_strategy: "reverse-mode", or "forward-mode" (with `vectorize=True`).
    Returns:
        A tensor of the input's shape, twice; for a tuple of inputs a tuple of tuples, each entry of the shape of the one input
        followed by that of the other.

    >>> dynograd.autograd.functional.hessian(lambda x: (x**3).sum(), tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    if outer_jacobian_strategy not in ("forward-mode", "reverse-mode"):
        raise ValueError('hessian: Expected strategy to be either "forward-mode" or "reverse-mode".')
    many = isinstance(inputs, (tuple, list))
    if outer_jacobian_strategy == "forward-mode":
        return _forward_hessian(func, inputs, create_graph, strict, vectorize)

    def slopes(*inputs: Any) -> Any:
        out = func(*inputs)
        _check_one_element("hessian", out)

        def scalar(*values: Any) -> Any:
            return func(*values).reshape(())

        return jacobian(scalar, inputs if many else inputs[0], strict=strict, create_graph=True)

    return jacobian(slopes, inputs, create_graph, strict, vectorize)


@enable_grad()
def vhp(
    func: Callable[..., Any],
    inputs: Tensor | tuple[Tensor, ...],
    v: Tensor | tuple[Tensor, ...] | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> Any:
    """`v` times the Hessian of `func` at `inputs`: a backward through the backward.

    Args:
        func: a function of tensors that gives one element.
        inputs: a tensor or a tuple of them.
        v: one tensor per input, in its shape.
        create_graph: results can be differentiated.
        strict: an output that does not depend on an input is an error; otherwise the result is 0 there.
    Returns:
        (`func(inputs)`, one tensor per input in its shape).

    >>> dynograd.autograd.functional.vhp(lambda x: (x**3).sum(), tensor([1.0, 2.0]), dynograd.ones(2))
    (tensor(9.), tensor([ 6., 12.]))
    """
    call = _Call("vhp", func, inputs, create_graph)
    _check_one_element("vhp", call.outputs[0], len(call.outputs))
    ways = call.directions(v, call.inputs, "input")
    slopes = call.gradients(call.outputs, [wrap(arrays.ones_like(call.outputs[0].array))], strict, again=True)
    gradients = call.gradients(slopes, ways, strict)
    return call.outside(call.outputs, call.many_outputs), call.outside(gradients, call.many_inputs)


@enable_grad()
def hvp(
    func: Callable[..., Any],
    inputs: Tensor | tuple[Tensor, ...],
    v: Tensor | tuple[Tensor, ...] | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> Any:
    """The Hessian of `func` at `inputs` times `v`: the same as `vhp`, since second derivatives are symmetric.

    Args:
        func: a function of tensors that gives one element.
        inputs: a tensor or a tuple of them.
        v: one tensor per input, in its shape.
        create_graph: results can be differentiated.
        strict: an output that does not depend on an input is an error; otherwise the result is 0 there.
    Returns:
        (`func(inputs)`, one tensor per input in its shape).

    >>> dynograd.autograd.functional.hvp(lambda x: (x**3).sum(), tensor([1.0, 2.0]), dynograd.ones(2))
    (tensor(9.), tensor([ 6., 12.]))
    """
    return vhp(func, inputs, v, create_graph, strict)


# --- one call ----------------------------------------------------------------------------------------------------------------


class _Call:
    """One call of `func` on inputs with places of their own on the tape."""

    def __init__(self, who: str, func: Callable[..., Any], inputs: Any, create_graph: bool, run: bool = True) -> None:
        self.who, self.func, self.create_graph = who, func, create_graph
        self.many_inputs = isinstance(inputs, (tuple, list))
        operands = list(inputs) if self.many_inputs else [inputs]
        self.inputs = []
        for place, tensor in enumerate(operands):
            if not isinstance(tensor, Tensor):
                raise TypeError(
                    f"The inputs given to {who} must be either a Tensor or a tuple of Tensors but the value at index {place} has type "
                    f"{type(tensor).__name__}."
                )
            if create_graph:
                self.inputs.append(
                    tensor.view(tensor.shape) if tensor.requires_grad else tensor.detach().requires_grad_()
                )
            else:
                self.inputs.append(tensor.detach().requires_grad_())
        self.many_outputs = False
        if run:
            self.outputs = self.listed_outputs(*self.inputs)

    def listed_outputs(self, *inputs: Any) -> list[Any]:
        result = self.func(*inputs)
        self.many_outputs = isinstance(result, (tuple, list))
        outputs = list(result) if self.many_outputs else [result]
        for place, output in enumerate(outputs):
            if not isinstance(output, Tensor):
                raise TypeError(
                    f"The outputs of the user-provided function given to {self.who} must be either a Tensor or a tuple of Tensors but the "
                    f"value at index {place} has type {type(output).__name__}."
                )
        return outputs

    def directions(self, v: Any, like: list[Any], what: str) -> list[Any]:
        """The user's `v`, one per tensor of `like`."""
        if v is None:
            if len(like) != 1 or like[0].numel() != 1:
                raise RuntimeError(
                    f"{self.who}: The vector v can only be None if the user-provided function "
                    + (
                        "returns a single Tensor with a single element."
                        if what == "output"
                        else "has a single one-element input."
                    )
                )
            return [wrap(arrays.ones_like(like[0].array))]
        operands = list(v) if isinstance(v, (tuple, list)) else [v]
        if len(operands) != len(like):
            raise RuntimeError(
                f"{self.who}: v is a tuple of invalid length: should be {len(like)} but got {len(operands)}."
            )
        for place, (tensor, like_tensor) in enumerate(zip(operands, like, strict=True)):
            if tensor.shape != like_tensor.shape:
                raise RuntimeError(
                    f"{self.who}: Entry {place} of v has invalid size: should be {tuple(like_tensor.shape)} but got {tuple(tensor.shape)}."
                )
        return operands if self.create_graph else [tensor.detach() for tensor in operands]

    def gradients(self, outputs: list[Any], ways: list[Any], strict: bool, again: bool = False) -> list[Any]:
        """Gradients of the inputs, zeros where nothing depends on one."""
        if strict:
            for place, output in enumerate(outputs):
                if not output.requires_grad:
                    raise RuntimeError(
                        f"{self.who}: Output {place} of the user-provided function does not require gradients. The outputs must be "
                        f"computed in a differentiable manner from the input when running in strict mode."
                    )
        pairs = [(output, way) for output, way in zip(outputs, ways, strict=True) if output.requires_grad]
        results: Any = [None] * len(self.inputs)
        if pairs:
            results = grad(
                [output for output, _ in pairs],
                self.inputs,
                [way for _, way in pairs],
                retain_graph=True,
                create_graph=self.create_graph or again,
                allow_unused=True,
            )
        return [
            self._filled(part, operand, place, strict)
            for place, (part, operand) in enumerate(zip(results, self.inputs))
        ]

    def _filled(self, part: Any, tensor: Any, place: int, strict: bool) -> Any:
        if part is not None:
            return part
        if strict:
            raise RuntimeError(
                f"{self.who}: The output of the user-provided function is independent of input {place}. This is not allowed in strict mode."
            )
        return wrap(arrays.zeros_like(tensor.array))

    def rows(self, out: Any, at_once: bool, strict: bool) -> list[Any]:
        """For each input the gradients of all elements of `out`, stacked along dim 0."""
        count = out.numel()
        if not count:
            return [wrap(arrays.zeros((0, *operand.shape), operand.dtype, operand.device)) for operand in self.inputs]
        units = wrap(arrays.zeros((count, count), out.dtype, out.device))
        units.array.reshape(-1)[:: count + 1] = 1
        units = units.reshape((count, *out.shape))
        if at_once and out.requires_grad:
            gradients = grad(out, self.inputs, units, True, self.create_graph, allow_unused=True, is_grads_batched=True)
            return [
                part if part is not None else wrap(arrays.zeros((count, *operand.shape), operand.dtype, operand.device))
                for part, operand in zip(gradients, self.inputs, strict=True)
            ]
        rows = [self.gradients([out], [units[place]], strict) for place in range(count)]
        return [public_function("stack")(list(parts), 0) for parts in zip(*rows, strict=True)]

    def check_independent(self, outputs: Any) -> None:
        for place, output in enumerate(outputs):
            if not output.requires_grad:
                raise RuntimeError(
                    f"{self.who}: Output {place} of the user-provided function is independent of the inputs. This is not allowed in "
                    f"strict mode."
                )

    def outside(self, listed: Any, many: bool) -> Any:
        """Results in the form that the user's tensors had, without history unless `create_graph`."""
        result = tuple(tensor if self.create_graph else tensor.detach() for tensor in listed)
        return result if many else result[0]


def _reshaped(part: Any, out: Any, tensor: Any) -> Any:
    return part.reshape((*out.shape, *tensor.shape))


def _check_one_element(who: str, out: Any, count: int = 1) -> None:
    if not isinstance(out, Tensor) or count != 1:
        raise RuntimeError(f"{who}: The function given to {who} should return a single Tensor.")
    if out.numel() != 1:
        raise RuntimeError(
            f"{who}: The Tensor returned by the function given to {who} should contain a single element, got shape {tuple(out.shape)}."
        )


def _forward_hessian(func: Callable[..., Any], inputs: Any, create_graph: bool, strict: bool, vectorize: bool) -> Any:
    _check_forward(strict, vectorize)
    call = _Call("hessian", func, inputs, create_graph, run=False)

    def scalar(*inputs: Any) -> Any:
        out = func(*inputs)
        _check_one_element("hessian", out)
        return out.reshape(())

    places = tuple(range(len(call.inputs)))
    table = jacfwd(jacrev(scalar, places), places)(*call.inputs)
    rows = tuple(call.outside(row, call.many_inputs) for row in table)
    return rows if call.many_inputs else rows[0]


def _check_forward(strict: bool, vectorize: bool) -> None:
    if strict:
        raise RuntimeError('jacobian: strict=True is not supported with strategy="forward-mode". Use "reverse-mode".')
    if not vectorize:
        raise NotImplementedError(
            'jacobian: Computing Jacobian using forward-AD is only implemented for vectorize=True. Use strategy="reverse-mode", '
            "or vectorize=True."
        )


def _forward_jacobian(func: Callable[..., Any], inputs: Any, create_graph: bool, strict: bool, vectorize: bool) -> Any:
    _check_forward(strict, vectorize)
    call = _Call("jacobian", func, inputs, create_graph, run=False)
    places = tuple(range(len(call.inputs)))
    result = jacfwd(lambda *inputs: tuple(call.listed_outputs(*inputs)), places)(*call.inputs)
    table = [call.outside(row, call.many_inputs) for row in result]
    return tuple(table) if call.many_outputs else table[0]
