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

    Raises:
        OpCheckError: a test failed.
        NotImplementedError: a test of PyTorch's compiler was asked for.
    """
    found = op_of(op)
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
            tests[name](found, args, kwargs or {})
            results[name] = "SUCCESS"
        except Exception as error:
            results[name] = error
            if raise_exception:
                raise OpCheckError(f"opcheck(op, ...): {name} failed with {error}") from error
    return results


def _tensors_of(values: Iterable[Any]) -> list[Tensor]:
    return [
        each
        for one in values
        for each in (one if isinstance(one, (list, tuple)) else (one,))
        if isinstance(each, Tensor)
    ]


def _copied(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)([_copied(one, change) for one in value])
    return change(value) if isinstance(value, Tensor) else value


def _own(one: Tensor) -> Tensor:
    return one.detach().clone().requires_grad_(one.requires_grad)  # type: ignore[attr-defined]


def _check_schema(op: OpOverload, args: Any, kwargs: Any) -> None:
    given = (
        [_copied(one, lambda each: each.detach().clone()) for one in args],
        {name: _copied(one, lambda each: each.detach().clone()) for name, one in kwargs.items()},
    )
    bound, named = op._schema.bound(*given)
    values = dict(zip([one.name for one in op._schema.arguments], bound)) | named
    before = {name: [each.clone() for each in _tensors_of([one])] for name, one in values.items()}  # type: ignore[attr-defined]
    op(*bound, **named)
    for one in op._schema.arguments:
        for old, new in zip(before.get(one.name, ()), _tensors_of([values.get(one.name)])):
            if not one.is_write and not (old.array.tobytes() == new.detach().contiguous().array.tobytes()):  # type: ignore[attr-defined]
                raise RuntimeError(
                    f"Argument {one.name} is not defined as mutable but was mutated. Schema: {op._schema}"
                )


def _check_registration(op: OpOverload, args: Any, kwargs: Any) -> None:
    if any([one.requires_grad for one in _tensors_of((*args, *kwargs.values()))]):
        if op.backward is None and not {"autograd", "all"}.intersection(op.kernels):
            raise RuntimeError(
                f"{op._name}: an input requires grad, and no gradient is registered. Use register_autograd."
            )


def _check_fake(op: OpOverload, args: Any, kwargs: Any) -> None:
    real = op(*[_copied(one, _own) for one in args], **{name: _copied(one, _own) for name, one in kwargs.items()})

    def on_meta(one: Tensor) -> Tensor:
        return one.detach().to("meta")  # type: ignore[attr-defined]

    fake = op(*[_copied(one, on_meta) for one in args], **{name: _copied(one, on_meta) for name, one in kwargs.items()})
    real, fake = (_tensors_of(one if isinstance(one, (list, tuple)) else (one,)) for one in (real, fake))
    said, made = ([(tuple(one.shape), one.dtype) for one in each] for each in (fake, real))
    if said != made:
        raise RuntimeError(f"{op._name}: the fake impl gives {said}, the operator {made}.")
