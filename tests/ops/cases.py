"""What a row of `harness.py` becomes: for each thing worth trying, a name and a function that fails or does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy

import dynograd
from dynograd.arrays.meta_arrays import NoValuesError
from dynograd.base import dtypes
from dynograd.gradcheck import gradcheck
from dynograd.interpreter.differentiation import grad
from dynograd.tensor.tensor import Tensor, wrap
from tests.ops.arguments import (
    BOOL,
    COMPLEX,
    FLOATS,
    INTEGERS,
    Arguments,
    Subject,
    as_tuple,
    compare,
    converted,
    draw,
    run_with,
    strided_arguments,
    tensors_of,
    wants_of,
)
from tests.ops.derivatives import gradient_cases, gradients_of, same_gradients

__all__ = ["BOOL", "COMPLEX", "FLOATS", "INTEGERS", "cases_of"]

# Shapes of two operands that broadcast, each tried both ways.
STRETCHED = [((3, 1), (1, 4)), ((4,), (2, 3, 4)), ((), (2, 3)), ((2, 1, 3), (4, 1)), ((1, 0), (3, 1))]
# Dtypes of two operands, and what arithmetic gives.
MIXED = [
    ("float32", "float64", "float64"),
    ("int64", "float32", "float32"),
    ("float16", "float32", "float32"),
    ("bfloat16", "float16", "float32"),
    ("float16", "int64", "float16"),
]


def cases_of(row: Any) -> Iterator[tuple[str, Callable[[], None]]]:
    """(name, check) of every case of a row."""
    try:
        subject = Subject(row)
    except LookupError as missing:
        yield "exists", partial(fail, missing)
        return
    for name in row.dtypes:
        yield f"forward-{name}", partial(check_forward, subject, name)
    first = next((name for name in row.dtypes if name in FLOATS), row.dtypes[0] if row.dtypes else "float32")
    if row.reference is not None and subject.has_tensors and row.strided:
        yield "strided", partial(check_strided, subject, first)
    if subject.has_tensors and row.dtypes:
        yield "meta", partial(check_meta, subject, first)
    for what, choice in (("ones", row.ones), ("empty", row.empty)):
        for number, shapes in enumerate(small_shapes(row, what, choice)):
            yield f"{what}{number or ''}", partial(check_shapes, subject, first, shapes)
    if row.shapes and (subject.elementwise if row.scalars is None else row.scalars):
        yield "scalars", partial(check_shapes, subject, first, [() for _ in row.shapes])
    if row.broadcast:
        for element, two in STRETCHED:
            yield (
                f"broadcast-{element}-{two}",
                partial(check_shapes, subject, first, [element, two, *row.shapes[2:]], True),
            )
            yield (
                f"broadcast-{two}-{element}",
                partial(check_shapes, subject, first, [two, element, *row.shapes[2:]], True),
            )
        yield "number", partial(check_number, subject, first)
        if (
            subject.elementwise
            and subject.inner.promote in ("arithmetic", "float", "compare")
            and set(FLOATS) <= set(row.dtypes)
        ):
            yield "mixed-dtypes", partial(check_mixed, subject)
    if row.reference is not None and subject.method_name():
        yield "method", partial(check_method, subject, first)
    if row.reference is not None and subject.inplace_name():
        yield "inplace", partial(check_inplace, subject, first)
    yield from gradient_cases(subject)
    for number, failure in enumerate(row.errors):
        yield f"error{number}", partial(check_error, subject, failure)


def fail(error: Exception) -> None:
    raise error


def small_shapes(row: Any, what: str, choice: Any) -> list[Any]:
    if choice is False or not row.shapes:
        return []
    if choice not in (None, True):
        return list(choice)
    if what == "ones":
        return [
            [
                [(1,) * len(element) for element in shape] if isinstance(shape, list) else (1,) * len(shape)
                for shape in row.shapes
            ]
        ]
    if len({str(shape) for shape in row.shapes}) > 1 or isinstance(row.shapes[0], list) or not row.shapes[0]:
        return []
    return [[(0, *shape[1:]) for shape in row.shapes]]


def check_forward(subject: Subject, name: str) -> None:
    arrays = draw(subject.row).map(lambda array: converted(array, name))
    tensors = tensors_of(arrays)
    before = [leaf.array.tobytes() for leaf in tensors.leaves()]
    result = subject.run(tensors)
    assert before == [leaf.array.tobytes() for leaf in tensors.leaves()], "the op wrote into its inputs"
    if subject.row.reference is not None:
        compare(result, subject.expected(arrays), name, subject.row, subject.result_names(name, len(as_tuple(result))))
    else:
        for element, expected in zip(as_tuple(result), subject.result_names(name, len(as_tuple(result))), strict=True):
            assert expected is None or element.dtype is getattr(dtypes, expected), (
                f"{element.dtype}, expected {expected}"
            )


def check_meta(subject: Subject, name: str) -> None:
    """On tensors without values: the same shapes and dtypes, or an error where they hang on the values; never others."""
    arrays = draw(subject.row).map(lambda array: converted(array, name))
    expected = as_tuple(subject.run(tensors_of(arrays)))
    try:
        results = as_tuple(subject.run(tensors_of(arrays).map(lambda tensor: tensor.to("meta"))))
    except (NoValuesError, ValueError, IndexError):
        return
    for result, element in zip(results, expected, strict=True):
        if isinstance(element, dynograd.Tensor):
            assert result.is_meta and result.shape == element.shape and result.dtype is element.dtype


def check_strided(subject: Subject, name: str) -> None:
    arrays = draw(subject.row).map(lambda array: converted(array, name))
    expected = subject.expected(arrays)
    for strided in strided_arguments(arrays):
        compare(subject.run(strided.map(wrap)), expected, name, subject.row)


def check_shapes(subject: Subject, name: str, shapes: Sequence[Any], gradients: bool = False) -> None:
    """Forward on other shapes; backward gives gradients of the inputs' shapes."""
    row = subject.row
    arrays = draw(row, shapes).map(lambda array: converted(array, name))
    result = subject.run(tensors_of(arrays))
    if row.reference is not None:
        compare(result, subject.expected(arrays), name, row, subject.result_names(name, len(as_tuple(result))))
    if row.reference is None or not subject.differentiable or name not in FLOATS or not any(wants_of(row, arrays)):
        return
    doubles = draw(row, shapes)
    tensors = tensors_of(doubles, wants_of(row, doubles))
    leaves = [leaf for leaf in tensors.leaves() if leaf.requires_grad]
    outputs = [
        element for element in as_tuple(subject.run(tensors)) if isinstance(element, Tensor) and element.requires_grad
    ]
    parts = (
        grad(outputs, leaves, [wrap(numpy.ones(output.array.shape)) for output in outputs], allow_unused=True)
        if outputs
        else []
    )
    for leaf, part in zip(leaves, parts, strict=bool(outputs)):
        assert part is None or part.array.shape == leaf.array.shape, f"gradient {part.shape} for input {leaf.shape}"
    if gradients and all(leaf.array.size for leaf in leaves):
        rtol, atol = row.gradient_tolerance
        gradcheck(lambda *values: run_with(subject, tensors, leaves, values), tuple(leaves), rtol=rtol, atol=atol)


def check_number(subject: Subject, name: str) -> None:
    """A Python number for argument 1."""
    row = subject.row
    arrays = draw(row).map(lambda array: converted(array, name))
    domain = row.domain[1] if isinstance(row.domain, list) else row.domain
    number = 1.5 if callable(domain) else round((domain[0] + 3 * domain[1]) / 2) / 2
    for value in (number, int(number) or 1) if name in FLOATS else (int(number) or 1,):
        changed = Arguments([arrays.positional[0], value, *arrays.positional[2:]], arrays.keywords)
        compare(subject.run(changed.map(wrap)), subject.expected(changed), name, row, subject.result_names(name, 1))


def check_mixed(subject: Subject) -> None:
    """Two operands of different dtypes: the result has the promoted dtype, each gradient its operand's."""
    row = subject.row
    for element, two, promoted in MIXED:
        for names in ((element, two), (two, element)):
            drawn = draw(row)
            arrays = drawn.with_leaves(
                [converted(array, name) for array, name in zip(drawn.leaves(), names, strict=True)]
            )
            expected_name = "bool" if subject.inner.promote == "compare" else promoted
            tensors = tensors_of(arrays, subject.differentiable)
            result = subject.run(tensors)
            assert result.dtype is getattr(dtypes, expected_name), (
                f"{names} gave {result.dtype}, expected {expected_name}"
            )
            coarsest = "bfloat16" if "bfloat16" in names else "float16" if "float16" in names else promoted
            compare(result.detach(), subject.expected(arrays), coarsest, row)
            leaves = [leaf for leaf in tensors.leaves() if leaf.requires_grad]
            if result.requires_grad:
                for leaf, part in zip(leaves, grad(result.sum(), leaves, allow_unused=True), strict=True):
                    assert part is None or part.dtype is leaf.dtype, f"gradient {part.dtype} for an input {leaf.dtype}"


def check_method(subject: Subject, name: str) -> None:
    arrays = draw(subject.row).map(lambda array: converted(array, name))
    expected = subject.run(tensors_of(arrays))
    tensors = tensors_of(arrays)
    first, *rest = tensors.positional
    assert isinstance(first, Tensor), "the method form needs a Tensor as argument 0 (or method=False in the row)"
    same_bits(getattr(first, subject.method_name())(*rest, **tensors.keywords), expected)


def same_bits(result: Any, expected: Any) -> None:
    for element, other in zip(as_tuple(result), as_tuple(expected), strict=True):
        if isinstance(other, Tensor):
            assert element.dtype is other.dtype and element.shape == other.shape
            numpy.testing.assert_array_equal(element.detach().array, other.detach().array)
        else:
            assert element == other


def check_inplace(subject: Subject, name: str) -> None:
    """`name_` returns its tensor, with the values and the gradients of the out-of-place form."""
    row, method = subject.row, subject.inplace_name()
    arrays = draw(row).map(lambda array: converted(array, name))
    tensors = tensors_of(arrays)
    expected = subject.run(tensors_of(arrays))
    first, *rest = tensors.positional
    memory = first.array
    assert getattr(first, method)(*rest, **tensors.keywords) is first, f"{method} must return its tensor"
    assert first.array is memory, f"{method} must keep its memory"
    numpy.testing.assert_array_equal(first.array, expected.array.astype(first.array.dtype))
    if not subject.differentiable or row.grad is False or name not in FLOATS:
        return

    def inside(*values: Any, **keywords: Any) -> Any:
        copied = values[0] * 1
        getattr(copied, method)(*values[1:], **keywords)
        return copied

    same_gradients(gradients_of(subject, draw(row), inside), gradients_of(subject, draw(row)))


def check_error(subject: Subject, failure: Any) -> None:
    try:
        failure.call(subject.function)
    except failure.kind as raised:
        message = str(raised)
        missing = [word for word in failure.words if word not in message]
        assert not missing, f"the message lacks {missing}: {message}"
    else:
        raise AssertionError(f"expected {failure.kind.__name__}, nothing was raised")
