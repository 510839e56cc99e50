"""`opcheck`: whether a registered operator does what was said of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dynograd.compat.operators.registry import OpOverload, op_of
from dynograd.tensor.tensor import Tensor

__all__ = ["OpCheckError", "opcheck"]


class OpCheckError(Exception):
    """`opcheck` found something wrong."""


def opcheck(
    op: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    test_utils: str | Sequence[str] = ("test_schema", "test_autograd_registration", "test_faketensor"),
    raise_exception: bool = True,
    atol: float | None = None,
    rtol: float | None = None,
) -> dict[str, str]:
    """Runs the operator on these arguments and tells by test whether it does what was said of it: "SUCCESS" or the error.

    `test_schema`: it writes to no argument but those marked. `test_autograd_registration`: what needs a gradient has a formula.
    `test_faketensor`: the function for meta gives the shapes and dtypes of the real one. That gradients are right, `gradcheck` tells.

    Args:
        op: the operator.
        args, kwargs: its arguments.
        test_utils: which tests, one or several.
        raise_exception: False gives the errors instead of raising the first one.
        atol, rtol: the tolerances of comparisons, as in `testing.assert_close`.
    Returns:
        A dict from tests to "SUCCESS" or an error.
    Raises:
        OpCheckError: a test failed.
        NotImplementedError: a test of PyTorch's compiler was asked for.

    >>> @dynograd.library.custom_op("mylib::eleven", mutates_args=())
    ... def eleven(x: Tensor) -> Tensor:
    ...     return 11 * x
    >>> dynograd.library.opcheck(eleven, (tensor([1.0]),), test_utils="test_schema")
    {'test_schema': 'SUCCESS'}
    """
    overload = op_of(op)
    tests = {
        "test_schema": _check_schema,
        "test_autograd_registration": _check_registration,
        "test_faketensor": _check_fake,
    }
    results: dict[str, Any] = {}
    for name in [test_utils] if isinstance(test_utils, str) else test_utils:
        if name not in tests:
            raise NotImplementedError(f"opcheck: there is no test {name!r}; there are {', '.join(tests)}.")
        try:
            tests[name](overload, args, kwargs or {})
            results[name] = "SUCCESS"
        except Exception as error:
            results[name] = error
            if raise_exception:
                raise OpCheckError(f"opcheck(op, ...): {name} failed with {error}") from error
    return results


def _tensors_of(values: Iterable[Any]) -> list[Tensor]:
    return [
        part
        for value in values
        for part in (value if isinstance(value, (list, tuple)) else (value,))
        if isinstance(part, Tensor)
    ]


def _copied(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)([_copied(entry, change) for entry in value])
    return change(value) if isinstance(value, Tensor) else value


def _own(tensor: Tensor) -> Tensor:
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)


def _check_schema(op: OpOverload, args: Any, kwargs: Any) -> None:
    copies = (
        [_copied(value, lambda tensor: tensor.detach().clone()) for value in args],
        {name: _copied(value, lambda tensor: tensor.detach().clone()) for name, value in kwargs.items()},
    )
    bound, named = op._schema.bound(*copies)
    values = dict(zip([argument.name for argument in op._schema.arguments], bound)) | named
    before = {name: [tensor.clone() for tensor in _tensors_of([value])] for name, value in values.items()}
    op(*bound, **named)
    for argument in op._schema.arguments:
        for old, new in zip(before.get(argument.name, ()), _tensors_of([values.get(argument.name)])):
            if not argument.is_write and not (old.array.tobytes() == new.detach().contiguous().array.tobytes()):
                raise RuntimeError(
                    f"Argument {argument.name} is not defined as mutable but was mutated. Schema: {op._schema}"
                )


def _check_registration(op: OpOverload, args: Any, kwargs: Any) -> None:
    if any([tensor.requires_grad for tensor in _tensors_of((*args, *kwargs.values()))]):
        if op.backward is None and not {"autograd", "all"}.intersection(op.kernels):
            raise RuntimeError(
                f"{op._name}: an input requires grad, and no gradient is registered. Use register_autograd."
            )


def _check_fake(op: OpOverload, args: Any, kwargs: Any) -> None:
    real = op(
        *[_copied(value, _own) for value in args], **{name: _copied(value, _own) for name, value in kwargs.items()}
    )

    def on_meta(value: Tensor) -> Tensor:
        return value.detach().to("meta")

    fake = op(
        *[_copied(value, on_meta) for value in args],
        **{name: _copied(value, on_meta) for name, value in kwargs.items()},
    )
    real, fake = (
        _tensors_of(outputs if isinstance(outputs, (list, tuple)) else (outputs,)) for outputs in (real, fake)
    )
    said, computed = ([(tuple(tensor.shape), tensor.dtype) for tensor in outputs] for outputs in (fake, real))
    if said != computed:
        raise RuntimeError(f"{op._name}: the fake impl gives {said}, the operator {computed}.")
