"""What a row becomes as far as derivatives go: backward, backward of backward, and forward mode, against central differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy
from numpy.testing import assert_allclose

from dynograd.autograd.modes import no_grad
from dynograd.base import dtypes
from dynograd.gradcheck import gradcheck, gradgradcheck
from dynograd.interpreter.differentiation import grad
from dynograd.tensor.tensor import Tensor, wrap
from dynograd.transforms.jvp import jvp
from tests.ops.arguments import (
    Arguments,
    Subject,
    as_tuple,
    converted,
    draw,
    floating,
    run_with,
    strided_arguments,
    tensors_of,
    wants_of,
)


def gradient_cases(subject: Subject) -> Iterator[tuple[str, Callable[[], None]]]:
    row = subject.row
    if row.reference is None or not any(floating(leaf) for leaf in draw(row).leaves()):
        return
    if not subject.differentiable or not any(wants_of(row, draw(row))):
        if "float32" in row.dtypes:
            yield "no-gradient", partial(check_no_gradient, subject)
        return
    yield "gradient", partial(check_gradient, subject)
    if row.second:
        yield "second-gradient", partial(check_second_gradient, subject)
    yield "both-backwards", partial(check_both_backwards, subject)
    yield "recording", partial(check_recording, subject)
    if row.strided:
        yield "strided-gradient", partial(check_strided_gradient, subject)
    if row.jvp:
        yield "jvp", partial(check_jvp, subject)
        if row.second:
            yield "jvp-gradient", partial(check_jvp_gradient, subject)


def gradients_of(subject: Subject, arrays: Arguments, function: Any = None, create_graph: bool = False) -> list[Any]:
    """Gradients of a fixed random combination of all outputs, one per floating input that wants one."""
    tensors = tensors_of(arrays, wants_of(subject.row, arrays))
    leaves = [leaf for leaf in tensors.leaves() if leaf.requires_grad]
    found = tensors.call(function or subject.function)
    outputs = [one for one in as_tuple(found) if isinstance(one, Tensor) and one.requires_grad]
    if not outputs:
        return [None] * len(leaves)
    rng = numpy.random.default_rng(3)
    seeds = [wrap(rng.uniform(-1, 1, one.array.shape).astype(one.array.dtype)) for one in outputs]
    return list(grad(outputs, leaves, seeds, create_graph=create_graph, allow_unused=True))


def same_gradients(found: list[Any], expected: list[Any], rtol: float = 1e-7, atol: float = 1e-9) -> None:
    for number, (one, other) in enumerate(zip(found, expected, strict=True)):
        if one is None or other is None:
            present = one if other is None else other
            assert present is None or not present.detach().array.any(), (
                f"only one way gives a gradient of input {number}"
            )
            continue
        assert_allclose(
            one.detach().array, other.detach().array, rtol=rtol, atol=atol, err_msg=f"gradient of input {number}"
        )


def floating_outputs(found: Any) -> tuple:
    return tuple(one for one in as_tuple(found) if isinstance(one, Tensor) and floating(one))


def prepared(subject: Subject) -> tuple[Callable[..., Any], tuple]:
    """The op as a function of the float64 inputs that want gradients, and those inputs."""
    arrays = draw(subject.row)
    tensors = tensors_of(arrays, wants_of(subject.row, arrays))
    leaves = tuple(leaf for leaf in tensors.leaves() if leaf.requires_grad)
    return lambda *values: floating_outputs(run_with(subject, tensors, leaves, values)), leaves


def check_gradient(subject: Subject) -> None:
    function, leaves = prepared(subject)
    rtol, atol = subject.row.gradient_tolerance
    assert gradcheck(function, leaves, rtol=rtol, atol=atol, check_grad_dtypes=True)


def check_second_gradient(subject: Subject) -> None:
    function, leaves = prepared(subject)
    if not any(one.requires_grad for one in function(*leaves)):
        return
    rtol, atol = subject.row.gradient_tolerance
    assert gradgradcheck(
        function, leaves, rtol=rtol, atol=atol, fast_mode=True
    )  # all entries at once, each with a weight


def check_both_backwards(subject: Subject) -> None:
    """backward on arrays (or fast_backward) equals the recorded backward; in float32 gradients are float32."""
    same_gradients(
        gradients_of(subject, draw(subject.row)), gradients_of(subject, draw(subject.row), create_graph=True)
    )
    if "float32" not in subject.row.dtypes:
        return
    singles = draw(subject.row).map(lambda array: converted(array, "float32"))
    for create_graph in (False, True):
        for number, part in enumerate(gradients_of(subject, singles, create_graph=create_graph)):
            assert part is None or part.dtype is dtypes.float32, (
                f"gradient of input {number} is {part.dtype} for float32"
            )


def check_recording(subject: Subject) -> None:
    """A result requires grad when an input does, except under no_grad."""
    arrays = draw(subject.row)
    wants = wants_of(subject.row, arrays)
    with no_grad():
        for one in as_tuple(subject.run(tensors_of(arrays, wants))):
            assert not isinstance(one, Tensor) or one.grad_fn is None, "no_grad() was not obeyed"
    for one in as_tuple(subject.run(tensors_of(arrays, False))):
        assert not isinstance(one, Tensor) or not one.requires_grad, "a result requires grad though no input does"
    tensors = tensors_of(arrays, wants)
    found = as_tuple(subject.run(tensors))
    assert any(isinstance(one, Tensor) and one.requires_grad for one in found), (
        "no result requires grad though an input does"
    )


def check_no_gradient(subject: Subject) -> None:
    """An op that is not differentiable gives results without history."""
    arrays = draw(subject.row).map(lambda array: converted(array, "float32"))
    for one in as_tuple(subject.run(tensors_of(arrays, subject.row.grad is True or not subject.differentiable))):
        assert not isinstance(one, Tensor) or not one.requires_grad, (
            "the result requires grad, but the op is not differentiable"
        )


def check_strided_gradient(subject: Subject) -> None:
    arrays = draw(subject.row)
    expected = gradients_of(subject, arrays)
    for strided in strided_arguments(arrays):
        same_gradients(gradients_of(subject, strided), expected)


def check_jvp(subject: Subject) -> None:
    """Forward mode in one random direction against central differences."""
    function, leaves = prepared(subject)
    primals = tuple(leaf.detach() for leaf in leaves)
    rng = numpy.random.default_rng(5)
    directions = [rng.uniform(-1, 1, one.array.shape) for one in primals]
    outputs, tangents = jvp(function, primals, tuple(wrap(one) for one in directions))
    values = function(*primals)
    step = 1e-6
    above = function(*[wrap(one.array + step * way) for one, way in zip(primals, directions, strict=True)])
    below = function(*[wrap(one.array - step * way) for one, way in zip(primals, directions, strict=True)])
    rtol, atol = subject.row.gradient_tolerance
    for number, (value, out, tangent, up, down) in enumerate(zip(values, outputs, tangents, above, below, strict=True)):
        assert_allclose(out.array, value.array, rtol=1e-9, atol=1e-12, err_msg=f"output {number} under jvp")
        numeric = (up.array - down.array) / (2 * step)
        assert tangent.dtype is out.dtype and tangent.shape == out.shape, (
            f"tangent {number}: {tangent.dtype} {tangent.shape}"
        )
        assert_allclose(tangent.array, numeric, rtol=rtol, atol=atol * 10, err_msg=f"tangent of output {number}")


def check_jvp_gradient(subject: Subject) -> None:
    """Backward through forward mode, for the primals and for the tangents."""
    function, leaves = prepared(subject)
    rng = numpy.random.default_rng(5)
    directions = tuple(wrap(rng.uniform(-1, 1, one.array.shape)) for one in leaves)
    for direction in directions:
        direction._requires_grad = True

    def slopes(*values: Any) -> Any:
        return jvp(function, values[: len(leaves)], values[len(leaves) :])[1]

    rtol, atol = subject.row.gradient_tolerance
    assert gradcheck(slopes, (*leaves, *directions), rtol=rtol, atol=atol, fast_mode=True)
