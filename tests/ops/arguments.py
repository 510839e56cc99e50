"""The arguments that a row describes, the op that it is about, and comparisons with its reference."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy
from numpy.testing import assert_allclose

import dynograd
from dynograd.base import dtypes
from dynograd.ops.op import registry
from dynograd.tensor.methods import public_functions
from dynograd.tensor.tensor import Tensor, wrap

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int64", "int32", "uint8")
BOOL = ("bool",)
COMPLEX = ("complex64", "complex128")

TOLERANCES = {
    "float64": (1e-9, 1e-10),
    "float32": (2e-5, 2e-6),
    "float16": (4e-3, 2e-3),
    "bfloat16": (3e-2, 1e-2),
    "complex128": (1e-9, 1e-10),
    "complex64": (2e-5, 2e-6),
}


def numpy_dtype(name: str) -> numpy.dtype:
    return numpy.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


# --- arguments ---------------------------------------------------------------------------------------------------------------


class Arguments:
    """A call's positional and keyword arguments, with NumPy arrays where Tensors go."""

    def __init__(self, positional: Sequence[Any], keywords: dict[str, Any]) -> None:
        self.positional, self.keywords = list(positional), dict(keywords)

    def map(self, change: Callable[[Any], Any]) -> Arguments:
        """The same with `change(array)` in place of each array, or of each Tensor."""

        def walk(value: Any) -> Any:
            if isinstance(value, (numpy.ndarray, Tensor)):
                return change(value)
            if isinstance(value, (list, tuple)) and any(
                isinstance(element, (numpy.ndarray, Tensor)) for element in value
            ):
                return type(value)(walk(element) for element in value)
            return value

        return Arguments(
            [walk(element) for element in self.positional],
            {key: walk(element) for key, element in self.keywords.items()},
        )

    def leaves(self) -> list[Any]:
        """All arrays (or Tensors), in order."""
        result: list[Any] = []

        def note(value: Any) -> Any:
            result.append(value)
            return value

        self.map(note)
        return result

    def with_leaves(self, leaves: Sequence[Any]) -> Arguments:
        remaining = iter(leaves)
        return self.map(lambda _: next(remaining))

    def call(self, function: Callable[..., Any]) -> Any:
        return function(*self.positional, **self.keywords)


def draw(row: Any, shapes: Any = None) -> Arguments:
    """Arguments of a row in float64; the same ones each time."""
    rng = numpy.random.default_rng(7)
    keywords = row.kwargs(rng) if callable(row.kwargs) else row.kwargs
    if row.args is not None and shapes is None:
        return Arguments(row.args(rng), keywords)
    expected = row.shapes if shapes is None else shapes
    domains = row.domain if isinstance(row.domain, list) else [row.domain] * len(expected)
    positional: list[Any] = []
    for shape, domain in zip(expected, domains, strict=True):
        if isinstance(shape, list):
            positional.append([sample(rng, domain, element, row.avoid) for element in shape])
        else:
            positional.append(sample(rng, domain, shape, row.avoid))
    return Arguments(positional, keywords)


def sample(rng: Any, domain: Any, shape: tuple[int, ...], avoid: Sequence[float]) -> Any:
    if callable(domain):
        return numpy.asarray(domain(rng, shape), numpy.float64)
    low, high = domain
    values = rng.uniform(low, high, shape)
    for kink in avoid:
        close = numpy.abs(values - kink) < 0.1
        values = numpy.where(close, kink + numpy.where(values < kink, -0.1, 0.1) + (values - kink), values)
    return numpy.asarray(values)


def converted(array: Any, name: str) -> Any:
    """A floating array as it is tried in dtype `name`; index and bool arrays are left alone."""
    if array.dtype.kind != "f":
        return array
    kind = numpy_dtype(name)
    if kind.kind in "iu":
        whole = numpy.floor(array * 3)
        return numpy.asarray((numpy.abs(whole) if kind.kind == "u" else whole).astype(kind))
    if kind.kind == "b":
        return numpy.asarray(array > (numpy.median(array) if array.size else 0))
    if kind.kind == "c":
        return numpy.asarray(array + 1j * array[..., ::-1] / 2 if array.ndim else array + 0.5j, kind)
    return array.astype(kind)


def widened(array: Any) -> Any:
    """What the reference gets: the same values in the widest dtype of their kind."""
    kind = {"f": numpy.float64, "V": numpy.float64, "c": numpy.complex128, "b": numpy.bool_}.get(
        array.dtype.kind, numpy.int64
    )
    return array.astype(kind)


def floating(tensor: Any) -> bool:
    return tensor.array.dtype.kind in "fV" if isinstance(tensor, Tensor) else tensor.dtype.kind in "fV"


# --- the op of a row ---------------------------------------------------------------------------------------------------------


class Subject:
    """A row with what the registry knows about its op."""

    def __init__(self, row: Any) -> None:
        self.row = row
        last = row.name.rpartition(".")[2]
        self.inner = registry.get(last)
        self.face = registry.get(f"{last}.public", self.inner)
        self.function = row.function or find_function(row.name)
        self.elementwise = self.inner is not None and self.inner.kind == "elementwise"
        self.differentiable = self.inner is None or self.inner.differentiable
        self.has_tensors = bool(draw(row).leaves())

    def run(self, arguments: Arguments) -> Any:
        return arguments.call(self.function)

    def expected(self, arguments: Arguments) -> Any:
        return arguments.map(widened).call(self.row.reference)

    def method_name(self) -> str | None:
        row, face = self.row, self.face
        if row.method is not None:
            return row.method or None
        if face is None or not face.method or row.function is not None:
            return None
        return face.method if isinstance(face.method, str) else face.name

    def inplace_name(self) -> str | None:
        if self.row.inplace is False or self.row.function is not None or self.inner is None:
            return None
        declared = self.inner.inplace or (self.face is not None and self.face.inplace)
        return f"{self.inner.name}_" if declared or self.row.inplace else None

    def result_names(self, name: str, count: int) -> list[str | None]:
        """The dtypes expected of the outputs for inputs of dtype `name`."""
        rule = self.row.result
        rules = list(rule) if isinstance(rule, (tuple, list)) else [rule] * count
        return [self._result_name(rule, name) for rule in rules]

    def _result_name(self, rule: Any, name: str) -> str | None:
        if callable(rule):
            return rule(name)
        if rule is None and self.elementwise:
            promote = self.inner.promote
            if promote in ("compare", "logical"):
                return "bool"
            if promote == "float" and name in INTEGERS + BOOL:
                return "float32"
            return name
        if rule is None:
            return name if name in FLOATS + COMPLEX else None
        return name if rule == "same" else rule


def find_function(name: str) -> Callable[..., Any]:
    known = public_functions()
    if name in known:
        return known[name]
    if name.rpartition(".")[2] in known and not hasattr(dynograd, name.partition(".")[0]):
        return known[name.rpartition(".")[2]]
    result: Any = dynograd
    for part in name.split("."):
        result = getattr(result, part, None)
        if result is None:
            raise LookupError(
                f"a row is called {name!r}, but there is no dynograd.{name} and no registered op of that name"
            )
    return result


def as_tuple(result: Any) -> tuple:
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def compare(result: Any, expected: Any, name: str, row: Any, names: Sequence[str | None] | None = None) -> None:
    """Values within the row's tolerance for dtype `name`, shapes, and dtypes when they are given."""
    outputs, reference = as_tuple(result), as_tuple(expected)
    assert len(outputs) == len(reference), f"{len(outputs)} outputs, the reference gives {len(reference)}"
    if isinstance(row.tolerance, dict):
        rtol, atol = row.tolerance.get(name, TOLERANCES.get(name, (0, 0)))
    else:
        rtol, atol = (part * row.tolerance for part in TOLERANCES.get(name, TOLERANCES["float32"]))
    for place, (element, want) in enumerate(zip(outputs, reference, strict=True)):
        if want is None:
            continue
        if not isinstance(element, Tensor):
            assert element == want, f"output {place} is {element!r}, the reference gives {want!r}"
            continue
        want = numpy.asarray(want)
        assert tuple(element.shape) == want.shape, (
            f"output {place} has shape {tuple(element.shape)}, the reference {want.shape}"
        )
        if names is not None and names[place] is not None:
            assert element.dtype is getattr(dtypes, names[place]), (
                f"output {place} is {element.dtype}, expected {names[place]}"
            )
        got = element.array
        assert_allclose(widened(got), want, rtol=rtol, atol=atol, err_msg=f"output {place}")


def tensors_of(arguments: Arguments, wants: Sequence[bool] | bool = False) -> Arguments:
    """Tensors on copies of the arrays; `wants` says which floating ones require grad."""
    leaves = []
    flags = itertools.repeat(wants) if isinstance(wants, bool) else iter(wants)
    for array in arguments.leaves():
        tensor = wrap(array.copy() if array.flags.c_contiguous else array)
        if floating(tensor) and next(flags):
            tensor._requires_grad = True
        leaves.append(tensor)
    return arguments.with_leaves(leaves)


def wants_of(row: Any, arguments: Arguments) -> list[bool]:
    count = sum(floating(array) for array in arguments.leaves())
    if isinstance(row.grad, bool):
        return [row.grad] * count
    flags = list(row.grad)
    assert len(flags) == count, f"{row.name}: grad has {len(flags)} entries for {count} floating arguments"
    return flags


def strided_forms(array: Any) -> Iterator[Any]:
    """The same values, spaced out among NaN (or 99), in Fortran order, and backwards in memory."""
    if array.ndim == 0:
        yield array
        return
    spaced = numpy.full([2 * size for size in array.shape], 99, array.dtype)
    if array.dtype.kind in "fcV":
        spaced.fill(numpy.nan)
    view = spaced[tuple(slice(None, None, 2) for _ in array.shape)]
    view[...] = array
    yield view
    yield numpy.asfortranarray(array) if array.ndim > 1 else array.repeat(3)[::3]
    yield array[..., ::-1].copy()[..., ::-1]


def strided_arguments(arrays: Arguments) -> Iterator[Arguments]:
    forms = [list(strided_forms(array)) for array in arrays.leaves()]
    for number in range(3):
        yield arrays.with_leaves([form[min(number, len(form) - 1)] for form in forms])


def run_with(subject: Subject, arguments: Arguments, leaves: Sequence[Any], values: Sequence[Any]) -> Any:
    """The op with `values` in place of the Tensors `leaves`."""
    replaced = {id(leaf): value for leaf, value in zip(leaves, values, strict=True)}
    return subject.run(arguments.map(lambda tensor: replaced.get(id(tensor), tensor)))
