"""`gradcheck` and `gradgradcheck`: the gradients that backward gives, against differences of the function's values.

Central differences are accurate to about `eps` squared only in float64; that is why the inputs should be doubles.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dynograd import arrays
from dynograd.autograd.modes import enable_grad
from dynograd.base import dtypes
from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.errors import GradientError, user_level
from dynograd.interpreter.differentiation import grad
from dynograd.tensor.methods import public_function
from dynograd.tensor.tensor import Tensor, wrap
from dynograd.transforms.jvp import jvp
from dynograd.transforms.vmap import vmap

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class GradcheckError(GradientError):
    """A gradient differs from the differences of the function's values; the message says where and by how much.

    >>> issubclass(dynograd.gradcheck.GradcheckError, dynograd.errors.GradientError)
    True
    """


def gradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Whether the gradients of `func` agree with central differences, for every input that requires grad.

    Each entry must satisfy `|analytic - numeric| <= atol + rtol * |numeric|`. Outputs that do not require grad are left out; when
    none does, the differences must be 0.

    Args:
        func: takes `inputs` and gives a Tensor or a tuple of Tensors.
        inputs: a Tensor or a tuple; those that require grad should be float64 or complex128 and must not repeat memory. Complex
            inputs and outputs are checked as functions of (and to) their real and imaginary parts.
        eps: step of the differences.
        atol, rtol: how far they may lie apart.
        raise_exception: False gives False instead of the error.
        nondet_tol: how much two runs of the same backward may differ.
        check_undefined_grad: kept for compatibility; outputs without a gradient are always tried, one output at a time.
        check_grad_dtypes: gradients must have the dtype of their input.
        check_batched_grad: also several backwards at once, in `vmap`, against one after the other.
        check_batched_forward_grad: the same of forward mode.
        check_forward_ad: also `func.jvp` against the differences.
        check_backward_ad: False leaves out backward.
        fast_mode: compares one random combination of all entries instead of each.
        masked: kept for compatibility (it concerns sparse tensors).
    Returns:
        True; False only without `raise_exception`.
    Raises:
        GradcheckError: they disagree.
        ValueError: no input requires grad, or an option that is not supported.
        NotImplementedError: an input is sparse.

    >>> x = tensor([1.0, 2.0], dtype=dynograd.float64, requires_grad=True)
    >>> gradcheck(lambda x: x * x, (x,))
    True
    """
    func, operands = _as_real(func, (inputs,) if isinstance(inputs, Tensor) else tuple(inputs))
    if check_batched_forward_grad and not check_forward_ad:
        raise ValueError(
            "gradcheck: Setting check_batched_forward_grad=True requires check_forward_ad to be True as well."
        )
    if check_batched_grad and not check_backward_ad:
        raise ValueError("gradcheck: Setting check_batched_grad=True requires check_backward_ad to be True.")
    if not (check_backward_ad or check_forward_ad):
        raise ValueError(
            "gradcheck: expected check_backward_ad or check_forward_ad to be True, nothing is left to check."
        )
    chosen = _checked_inputs(operands)
    try:
        with enable_grad():
            outputs = _differentiable(func(*operands))
            if not outputs:
                _check_no_slope(func, operands, chosen, eps)
                return True
            if check_backward_ad:
                _check_stable(outputs, operands, chosen, nondet_tol, check_grad_dtypes)
            methods = [_backward_rows] * check_backward_ad + [_forward_rows] * check_forward_ad
            for method in methods:
                if fast_mode and method is _backward_rows:
                    _check_combination(func, operands, chosen, outputs, eps, atol, rtol)
                else:
                    _check_entries(method, func, operands, chosen, outputs, eps, atol, rtol)
            if check_batched_grad:
                _check_batched(outputs, operands, chosen)
            if check_batched_forward_grad:
                _check_batched_forward(func, operands, chosen)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    grad_outputs: Tensor | Sequence[Tensor] | None = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Whether the gradients of the gradients of `func` agree with central differences.

    Checks the function (inputs, grad_outputs) -> gradients of the inputs, recorded with `create_graph=True`, as `gradcheck` does.

    Args:
        func, inputs, eps, atol, rtol, raise_exception, nondet_tol: as in `gradcheck`.
        grad_outputs: what the outputs' gradients are; random when left out. Those that require grad are differentiated too.
        gen_non_contig_grad_outputs: random `grad_outputs` are strided views.
        check_fwd_over_rev: forward mode through the backward pass.
        check_rev_over_rev: backward through the backward pass.
        check_undefined_grad, check_grad_dtypes, check_batched_grad, fast_mode, masked: as in `gradcheck`.
    Returns:
        True; False only without `raise_exception`.
    Raises:
        GradcheckError: they disagree.

    >>> x = tensor([1.0, 2.0], dtype=dynograd.float64, requires_grad=True)
    >>> gradgradcheck(lambda x: x * x * x, (x,))
    True
    """
    func, operands = _as_real(func, (inputs,) if isinstance(inputs, Tensor) else tuple(inputs))
    chosen = _checked_inputs(operands)
    with enable_grad():
        outputs = _differentiable(func(*operands))
    if grad_outputs is not None:
        grad_outputs = [_real_leaf(tensor) for tensor in _as_tuple(grad_outputs)]
    if grad_outputs is None:
        seeds = [_random_like(out, number, gen_non_contig_grad_outputs) for number, out in enumerate(outputs)]
    else:
        seeds = [grad_outputs] if isinstance(grad_outputs, Tensor) else list(grad_outputs)

    def gradients(*values: Any) -> Any:
        inner = [
            value.detach().requires_grad_() if place in chosen and not value.requires_grad else value
            for place, value in enumerate(values[: len(operands)])
        ]
        differentiable = _differentiable(func(*inner))
        chosen_inputs = [inner[place] for place in chosen]
        parts = grad(differentiable, chosen_inputs, values[len(operands) :], create_graph=True, allow_unused=True)
        return tuple(part for part in parts if part is not None)

    return gradcheck(
        gradients,
        (*operands, *seeds),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
        masked=masked,
    )


# --- inputs and outputs ------------------------------------------------------------------------------------------------------


def _checked_inputs(inputs: tuple) -> list[int]:
    """Places of the inputs that require grad."""
    chosen = []
    for place, value in enumerate(inputs):
        if not isinstance(value, Tensor) or not value.requires_grad:
            continue
        if value.is_sparse:
            raise NotImplementedError(
                f"gradcheck: input {place} is sparse ({value.layout}); the differences need dense inputs. Check a function of its values, "
                f"lambda values: function(dynograd.sparse_coo_tensor(indices, values, size))."
            )
        if value.dtype is not dtypes.float64:
            import warnings

            warnings.warn(
                f"gradcheck: input {place} requires gradient and is not a double precision floating point ({value.dtype}). "
                f"This check will likely fail if all the inputs are not of double precision. Use x.double().",
                stacklevel=user_level(),
            )
        strides = arrays.strides_in_elements(value.array)
        if any(stride == 0 and size > 1 for stride, size in zip(strides, value.array.shape, strict=True)):
            raise RuntimeError(
                f"gradcheck: input {place} has a dimension with stride 0; the differences need inputs that do not repeat memory. "
                f"Call .contiguous() on it first."
            )
        chosen.append(place)
    if not chosen:
        raise ValueError(
            "gradcheck: expects at least one input tensor to require gradient, but none of them have requires_grad=True."
        )
    return chosen


def _as_tuple(result: Any) -> tuple:
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def _differentiable(result: Any) -> list[Tensor]:
    return [tensor for tensor in _as_tuple(result) if isinstance(tensor, Tensor) and tensor.requires_grad]


def _real_leaf(value: Any) -> Any:
    """A complex tensor that requires grad as a real one of twice as many elements; everything else as it is."""
    if not (isinstance(value, Tensor) and value.requires_grad and value.dtype.is_complex):
        return value
    tensor = wrap(arrays.copy(_op("view_as_real", value.detach()).array))
    tensor._requires_grad = True
    return tensor


def _as_real(func: Callable[..., Any], inputs: tuple) -> tuple[Callable[..., Any], tuple]:
    """The function on the real and imaginary parts of its complex inputs, which gives those of its complex outputs."""
    places = [
        place
        for place, tensor in enumerate(inputs)
        if isinstance(tensor, Tensor) and tensor.requires_grad and tensor.dtype.is_complex
    ]

    def real(*values: Any) -> Any:
        full = list(values)
        for place in places:
            full[place] = _op("view_as_complex", full[place])
        result = func(*full)
        outputs_real = [
            _op("view_as_real", tensor) if isinstance(tensor, Tensor) and tensor.dtype.is_complex else tensor
            for tensor in _as_tuple(result)
        ]
        return tuple(outputs_real) if isinstance(result, (tuple, list)) else outputs_real[0]

    return real, tuple(_real_leaf(tensor) for tensor in inputs)


def _op(name: str, *args: Any) -> Any:
    return public_function(name)(*args)


def _random_like(out: Tensor, number: int, strided: bool) -> Tensor:
    """Reproducible values in [-1, 1) from a small counter-based mix, whatever the global generator is at."""
    shape = tuple(out.array.shape)
    values = [_mixed(number * 1009 + place) for place in range(out.array.size)]
    if strided and shape:
        result = arrays.zeros((*shape, 2), out.dtype)[..., 0]
    else:
        result = arrays.zeros(shape, out.dtype)
    arrays.write(result, arrays.from_python(values, out.dtype).reshape(shape))
    tensor = wrap(result)
    tensor._requires_grad = True
    return tensor


def _mixed(number: int) -> float:
    state = (number + 1) * 0x9E3779B97F4A7C15 % 2**64
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    return (state >> 11) / 2**52 - 1.0


# --- the two ways to a Jacobian ----------------------------------------------------------------------------------------------


def _indices(array: Any) -> Iterator[tuple[int, ...]]:
    return itertools.product(*map(range, array.shape))


def _values(func: Callable[..., Any], inputs: tuple, count: int) -> list[Any]:
    differentiable = _differentiable(func(*inputs))
    if len(differentiable) != count:
        raise GradcheckError(
            f"gradcheck: the function gave {count} differentiable outputs first and {len(differentiable)} later."
        )
    return [arrays.copy(tensor.array) for tensor in differentiable]


def _slopes(func: Callable[..., Any], inputs: tuple, array: Any, index: tuple, eps: float, count: int) -> list[Any]:
    """d(outputs)/d(array[index]) by central differences."""
    value_there = array[index]
    try:
        array[index] = value_there + eps
        above = _values(func, inputs, count)
        array[index] = value_there - eps
        below = _values(func, inputs, count)
    finally:
        array[index] = value_there
    return [(up - down) / (2 * eps) for up, down in zip(above, below, strict=True)]


def _numeric_columns(func: Callable[..., Any], inputs: tuple, place: int, eps: float, count: int) -> list[list[Any]]:
    """For each element of the input, the slopes of every output."""
    array = inputs[place].array
    return [_slopes(func, inputs, array, index, eps, count) for index in _indices(array)]


def _backward_rows(
    func: Any, inputs: tuple, chosen: Sequence[int], outputs: list[Tensor]
) -> dict[tuple[int, int], list[Any]]:
    """By (output, input): for each element of the output, its gradient in the input's shape."""
    rows: dict[tuple[int, int], list[Any]] = {(number, place): [] for number in range(len(outputs)) for place in chosen}
    chosen_inputs = [inputs[place] for place in chosen]
    for number, out in enumerate(outputs):
        for index in _indices(out.array):
            seed = arrays.zeros_like(out.array)
            seed[index] = 1
            parts = grad(out, chosen_inputs, wrap(seed), retain_graph=True, allow_unused=True)
            for place, part in zip(chosen, parts, strict=True):
                rows[number, place].append(arrays.zeros_like(inputs[place].array) if part is None else part.array)
    return rows


def _forward_rows(
    func: Any, inputs: tuple, chosen: Sequence[int], outputs: list[Tensor]
) -> dict[tuple[int, int], list[Any]]:
    """The same from forward mode: for each element of the input a column, turned into rows."""
    rows: dict[tuple[int, int], list[Any]] = {
        (number, place): [arrays.zeros_like(inputs[place].array) for _ in range(out.array.size)]
        for number, out in enumerate(outputs)
        for place in chosen
    }
    chosen_inputs = tuple(inputs[place] for place in chosen)

    def of_chosen(*values: Tensor) -> Any:
        full = list(inputs)
        for place, value in zip(chosen, values, strict=True):
            full[place] = value
        return tuple(_differentiable(func(*full)))

    for place in chosen:
        for index in _indices(inputs[place].array):
            directions = tuple(wrap(arrays.zeros_like(tensor.array)) for tensor in chosen_inputs)
            directions[list(chosen).index(place)].array[index] = 1
            _, tangents = jvp(of_chosen, chosen_inputs, directions)
            for number, tangent in enumerate(tangents):
                for row, value in zip(rows[number, place], tangent.array.reshape(-1), strict=True):
                    row[index] = value
    return rows


# --- comparisons -------------------------------------------------------------------------------------------------------------


def _check_entries(
    method: Any,
    func: Any,
    inputs: tuple,
    chosen: list[int],
    outputs: list[Tensor],
    eps: float,
    atol: float,
    rtol: float,
) -> None:
    rows = method(func, inputs, chosen, outputs)
    kind = "analytical" if method is _backward_rows else "forward mode"
    for place in chosen:
        columns = _numeric_columns(func, inputs, place, eps, len(outputs))
        for number, out in enumerate(outputs):
            wrong = []
            for row, to_index in zip(rows[number, place], _indices(out.array), strict=True):
                for column, from_index in zip(columns, _indices(inputs[place].array), strict=True):
                    numeric, analytic = float(column[number][to_index]), float(row[from_index])
                    if not abs(analytic - numeric) <= atol + rtol * abs(numeric):
                        wrong.append((to_index, from_index, numeric, analytic))
            if wrong:
                to_index, from_index, numeric, analytic = max(wrong, key=_size_of_difference)
                raise GradcheckError(
                    f"gradcheck: Jacobian mismatch for output {number} with respect to input {place}: worst at element {to_index} "
                    f"of the output and element {from_index} of the input, numerical: {numeric:.9g}, {kind}: {analytic:.9g} "
                    f"({len(wrong)} of {out.array.size * inputs[place].array.size} entries differ by more than "
                    f"{atol:g} + {rtol:g} * |numerical|). Look at the backward of the ops in between, or away from a kink."
                )


def _size_of_difference(entry: tuple) -> float:
    difference = abs(entry[2] - entry[3])
    return difference if difference == difference else float("inf")


def _check_combination(
    func: Any, inputs: tuple, chosen: list[int], outputs: list[Tensor], eps: float, atol: float, rtol: float
) -> None:
    """One number per (output, input): a random row times the Jacobian times a random column."""
    for place in chosen:
        array = inputs[place].array
        direction = _random_like(inputs[place], 7 + place, False).array
        start = arrays.copy(array)
        try:
            arrays.write(array, start + eps * direction)
            above = _values(func, inputs, len(outputs))
            arrays.write(array, start - eps * direction)
            below = _values(func, inputs, len(outputs))
        finally:
            arrays.write(array, start)
        for number, out in enumerate(outputs):
            weights = _random_like(out, 31 + number, False).array
            numeric = float(((above[number] - below[number]) / (2 * eps) * weights).sum())
            (part,) = grad(out, inputs[place], wrap(weights), retain_graph=True, allow_unused=True)
            analytic = 0.0 if part is None else float((part.array * direction).sum())
            allowed = (atol + rtol * abs(numeric)) * max(1.0, (array.size * out.array.size) ** 0.5)
            if not abs(analytic - numeric) <= allowed:
                _check_entries(_backward_rows, func, inputs, chosen, outputs, eps, atol, rtol)
                raise GradcheckError(
                    f"gradcheck: Jacobian mismatch for output {number} with respect to input {place} in fast mode: a random "
                    f"combination of all entries is numerical: {numeric:.9g}, analytical: {analytic:.9g}, though each entry is "
                    f"within its tolerance. Use fast_mode=False, or larger tolerances."
                )


_AT_ONCE = 3


def _rows_of(tensor: Tensor, number: int) -> Tensor:
    """A few random tensors like `tensor`, along a new dim 0."""
    rows = [_random_like(tensor, 101 + _AT_ONCE * number + place, False).detach() for place in range(_AT_ONCE)]
    return _op("stack", rows, 0)


def _compare_rows(who: str, result: Sequence[Any], expected: Sequence[Sequence[Any]]) -> None:
    for place, many in enumerate(result):
        for row in range(_AT_ONCE):
            first, other = None if many is None else many.array[row], expected[row][place]
            expected_array = None if other is None else other.array
            if first is None or expected_array is None:
                wrong = first is not expected_array
            else:
                wrong = (
                    bool(first.size)
                    and not abs(first - expected_array).max() <= 1e-7 + 1e-5 * abs(expected_array).max()
                )
            if wrong:
                raise GradcheckError(
                    f"gradcheck: {who} inside vmap gave something else than one after the other, for result {place} and row {row}: "
                    f"vmap gave {first}, the loop {expected_array}. Look at the batch rules of the ops in the backward."
                )


def _check_batched(outputs: list[Tensor], inputs: tuple, chosen: list[int]) -> None:
    """Several backwards in vmap."""
    chosen_inputs = [inputs[place] for place in chosen]
    for number, out in enumerate(outputs):
        rows = _rows_of(out, number)
        gradients = grad(out, chosen_inputs, rows, retain_graph=True, allow_unused=True, is_grads_batched=True)
        expected = [
            grad(out, chosen_inputs, wrap(rows.array[row]), retain_graph=True, allow_unused=True)
            for row in range(_AT_ONCE)
        ]
        _compare_rows("backward", gradients, expected)


def _check_batched_forward(func: Callable[..., Any], inputs: tuple, chosen: list[int]) -> None:
    """Several tangents in vmap."""
    chosen_inputs = tuple(inputs[place] for place in chosen)

    def of_chosen(*values: Tensor) -> Any:
        full = list(inputs)
        for place, value in zip(chosen, values, strict=True):
            full[place] = value
        return tuple(_differentiable(func(*full)))

    rows = [_rows_of(tensor, number) for number, tensor in enumerate(chosen_inputs)]
    result = vmap(lambda *ways: jvp(of_chosen, chosen_inputs, ways)[1])(*rows)
    expected = [
        jvp(of_chosen, chosen_inputs, tuple(wrap(tensor.array[row]) for tensor in rows))[1] for row in range(_AT_ONCE)
    ]
    _compare_rows("forward mode", result, expected)


def _check_no_slope(func: Any, inputs: tuple, chosen: list[int], eps: float) -> None:
    """No output requires grad: then none of the floating ones may change with the inputs."""

    def values(array: Any, index: tuple, value: Any) -> list[Any]:
        array[index] = value
        return [
            arrays.copy(tensor.array)
            for tensor in _as_tuple(func(*inputs))
            if isinstance(tensor, Tensor) and tensor.dtype.is_floating_point
        ]

    for place in chosen:
        array = inputs[place].array
        for index in _indices(array):
            value_there = array[index]
            try:
                above, below = values(array, index, value_there + eps), values(array, index, value_there - eps)
            finally:
                array[index] = value_there
            for number, (up, down) in enumerate(zip(above, below, strict=True)):
                if (up != down).any():
                    raise GradcheckError(
                        f"gradcheck: Numerical gradient for function expected to be zero, because no output requires grad, but "
                        f"output {number} changes with element {index} of input {place}. Look for detach() or no_grad() in it."
                    )


def _check_stable(outputs: list[Tensor], inputs: tuple, chosen: list[int], nondet_tol: float, dtypes_too: bool) -> None:
    """Twice the same backward, a backward of zeros, shapes and dtypes of the gradients."""
    chosen_inputs = [inputs[place] for place in chosen]

    def run(seeds: list[Any]) -> tuple:
        return grad(outputs, chosen_inputs, [wrap(seed) for seed in seeds], retain_graph=True, allow_unused=True)

    seeds = [_random_like(out, number, False).array for number, out in enumerate(outputs)]
    first, second = run(seeds), run(seeds)
    nothing = run([arrays.zeros_like(out.array) for out in outputs])
    for place, first_value, other, none in zip(chosen, first, second, nothing, strict=True):
        if first_value is None:
            continue
        array = inputs[place].array
        if first_value.array.shape != array.shape:
            raise GradcheckError(
                f"gradcheck: grad is incorrect size for input {place}: expected {tuple(array.shape)}, got {tuple(first_value.array.shape)}."
            )
        if dtypes_too and first_value.array.dtype != array.dtype:
            raise GradcheckError(
                f"gradcheck: grad has dtype {first_value.dtype} for input {place}, expected {inputs[place].dtype}."
            )
        if array.size and float(abs(first_value.array - other.array).max()) > nondet_tol:
            raise GradcheckError(
                f"gradcheck: Backward is not reentrant: running backward twice with the same grad_output gave different gradients "
                f"of input {place} (by {float(abs(first_value.array - other.array).max()):.3g}, nondet_tol={nondet_tol:g})."
            )
        if none is not None and none.array.size and (none.array != 0).any():
            raise GradcheckError(
                f"gradcheck: backward not multiplied by grad_output: the gradient of input {place} is not zero for a zero grad_output."
            )


_show_plainly(globals())
