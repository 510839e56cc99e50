"""PyTorch's own database of ops, run against dynograd: what the tests of `test_op_database.py` ask of an entry.

An entry (`OpInfo`) has a function of torch, sample inputs and inputs that must be refused. Six things are asked of it, each a function
that yields what went wrong: see `DATABASE`. From the top folder:

    python -m tests.parity.op_database NAME...            what fails in these entries (`linalg.%`: all whose names start so)
    python -m tests.parity.op_database --write            runs everything and writes op_database_known.txt anew
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import sys
from collections.abc import Iterator
from typing import Any

import numpy
import torch
from torch.testing._internal.common_methods_invocations import op_db

import dynograd
from tests.parity.database import Database, error_text
from tests.parity.op_database_twins import Missing, converted, differences, of_torch, seedless, tolerance_of, twin

__all__ = ["DATABASE", "ENTRIES", "entry_name"]

FULL = bool(os.environ.get("DYNOGRAD_OP_DATABASE_FULL"))  # every sample instead of a few of each entry
SAMPLES = 400 if FULL else 16
SECONDS = 600 if FULL else 60
LARGEST = 2**20  # elements of a sample
FORWARD_DTYPES = (torch.float32, torch.int64, torch.bool, torch.complex64)
GRADIENT_DTYPES = (torch.float64, torch.complex128)
UNINITIALISED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
TIES = {
    "argsort",
    "kthvalue",
    "median",
    "mode",
    "nanmedian",
    "sort",
    "topk",
}  # which of equal values: not said, but for stable=True
REFUSALS = (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError)


def entry_name(entry: Any) -> str:
    return entry.name + (f".{entry.variant_test_name}" if entry.variant_test_name else "")


ENTRIES = {entry_name(entry): entry for entry in op_db}


# --- samples -----------------------------------------------------------------------------------------------------------


def samples_of(entry: Any, dtype: torch.dtype, requires_grad: bool = False, most: int = SAMPLES) -> list[Any]:
    """A few samples that differ in shapes or options, spread over all that the entry has."""
    torch.manual_seed(0)
    found: dict[str, Any] = {}
    for sample in itertools.islice(entry.sample_inputs("cpu", dtype, requires_grad=requires_grad), 400):
        if FULL or _elements(sample) <= LARGEST:
            found.setdefault(described(sample), sample)
    every = list(found.values())
    if len(every) <= most:
        return every
    return [every[int(place)] for place in numpy.linspace(0, len(every) - 1, most)]


def _elements(sample: Any) -> int:
    leaves = torch.utils._pytree.tree_leaves((sample.input, sample.args, sample.kwargs))
    return sum(one.numel() for one in leaves if isinstance(one, torch.Tensor) and one.layout is torch.strided)


def described(sample: Any) -> str:
    named = [f"{key}={_text(value)}" for key, value in sample.kwargs.items()]
    return f"({', '.join([_text(sample.input), *map(_text, sample.args), *named])})"


def _text(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        strides = "" if value.layout is not torch.strided or value.is_contiguous() else f" by {value.stride()}"
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}{strides}"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}({', '.join(map(_text, value))})"
    return repr(value)


def _arguments(sample: Any) -> tuple[Any, tuple, dict]:
    met: dict[int, Any] = {}
    return converted(sample.input, met), converted(tuple(sample.args), met), converted(dict(sample.kwargs), met)


def dtypes_of(entry: Any, wanted: tuple) -> list[torch.dtype]:
    supported = entry.supported_dtypes("cpu")
    return [dtype for dtype in wanted if dtype in supported] or sorted(supported, key=str)[-1:]


def is_random(entry: Any) -> bool:
    """Whether torch's own results differ with the seed."""
    return _is_random(entry_name(entry))


@functools.cache
def _is_random(name: str) -> bool:
    entry = ENTRIES[name]
    if entry.name in UNINITIALISED:
        return True
    function = seedless(entry.op)
    if function is entry.op and "dropout" not in entry.name:
        return False
    for sample in samples_of(entry, dtypes_of(entry, FORWARD_DTYPES)[0]):
        results = []
        for seed in range(4):
            torch.manual_seed(seed)
            arguments = torch.utils._pytree.tree_map(
                lambda one: one.clone() if isinstance(one, torch.Tensor) else one,
                (sample.input, sample.args, sample.kwargs),
            )
            with contextlib.suppress(Exception):
                results.append(function(arguments[0], *arguments[1], **arguments[2]))
        leaves = [[_dense(one) for one in torch.utils._pytree.tree_leaves(result)] for result in results]
        for same in zip(*leaves, strict=True):
            if any(isinstance(one, torch.Tensor) and repr(one.tolist()) != repr(same[0].tolist()) for one in same):
                return True
    return False


def _dense(value: Any) -> Any:
    return value.to_dense() if isinstance(value, torch.Tensor) and value.layout is not torch.strided else value


# --- what is asked -----------------------------------------------------------------------------------------------------


def forward(entry: Any) -> Iterator[str]:
    """Values, shapes and dtypes of the results, for real, integer, boolean and complex arguments."""
    function, random = twin(entry.op, entry.name), is_random(entry)
    for dtype in dtypes_of(entry, FORWARD_DTYPES):
        for sample in samples_of(entry, dtype):
            yield from _compared(entry, entry.op, function, sample, dtype, not random)


def _compared(
    entry: Any, of_theirs: Any, of_ours: Any, sample: Any, dtype: torch.dtype, values: bool = True
) -> Iterator[str]:
    try:
        value, args, kwargs = _arguments(sample)
    except Missing as error:
        yield str(error)
        return
    try:
        wanted = of_theirs(sample.input, *sample.args, **sample.kwargs)
    except Exception:
        return
    try:
        got = of_ours(value, *args, **kwargs)
        process = sample.output_process_fn_grad
        if values and differences(got, wanted, tolerance_of(entry)) and not differences(got, wanted, {}, False):
            # eigenvectors and the like are unique only up to what the entry's own function takes out of them
            got, wanted = twin(process)(got), process(wanted)
        if entry.name in TIES and not sample.kwargs.get("stable"):
            got, wanted = _without_indices(got), _without_indices(wanted)
        wrong = differences(got, wanted, tolerance_of(entry), values)
        if wrong.startswith("values") and dtype is torch.float32 and not _of_doubles(entry, of_theirs, sample, got):
            wrong = ""
    except Missing as error:
        wrong = str(error)
    except Exception as error:
        wrong = error_text(error)
    if wrong:
        yield f"{described(sample)}: {wrong}"


def _of_doubles(entry: Any, of_theirs: Any, sample: Any, got: Any) -> str:
    """What distinguishes a result from torch's in float64, rounded: where torch's float32 is off, ours may be nearer."""

    def double(one: Any) -> Any:
        return one.double() if isinstance(one, torch.Tensor) and one.dtype is torch.float32 else one

    def single(one: Any) -> Any:
        return one.float() if isinstance(one, torch.Tensor) and one.dtype is torch.float64 else one

    given = torch.utils._pytree.tree_map(double, (sample.input, tuple(sample.args), dict(sample.kwargs)))
    wanted = torch.utils._pytree.tree_map(single, of_theirs(given[0], *given[1], **given[2]))
    return differences(got, wanted, tolerance_of(entry))


def _without_indices(result: Any) -> Any:
    """Results with zeros in the place of indices, which stand last."""
    if isinstance(result, (list, tuple)):
        return [*result[:-1], result[-1] * 0]
    return result if result.dtype not in (torch.int64, dynograd.int64) else result * 0


def gradient(entry: Any) -> Iterator[str]:
    """Gradients of all results with respect to all arguments, in float64 and complex128."""
    function = twin(entry.op, entry.name)
    if is_random(entry) or not entry.supports_autograd:
        return
    for dtype in GRADIENT_DTYPES:
        if dtype in entry.supported_backward_dtypes("cpu"):
            for sample in samples_of(entry, dtype, True, SAMPLES):
                yield from _gradients_compared(entry, entry.op, function, sample, dtype)


def _gradients_compared(entry: Any, of_theirs: Any, of_ours: Any, sample: Any, dtype: torch.dtype) -> Iterator[str]:
    wrapper, process = entry.gradcheck_wrapper, sample.output_process_fn_grad
    leaves = [
        one
        for one in torch.utils._pytree.tree_leaves((sample.input, sample.args, sample.kwargs))
        if isinstance(one, torch.Tensor) and one.requires_grad
    ]
    met: dict[int, Any] = {}
    try:
        wanted = process(wrapper(of_theirs, sample.input, *sample.args, **sample.kwargs))
        results = [one for one in torch.utils._pytree.tree_leaves(wanted) if isinstance(one, torch.Tensor)]
        chosen = [number for number, one in enumerate(results) if one.requires_grad]
        if not chosen:
            return
        cotangents = [torch.randn_like(_dense(results[number])) for number in chosen]
        expected = torch.autograd.grad([results[number] for number in chosen], leaves, cotangents, allow_unused=True)
    except Exception:
        return
    try:
        value, args, kwargs = (converted(one, met) for one in (sample.input, tuple(sample.args), sample.kwargs))
        got = twin(process)(twin(wrapper)(of_ours, value, *args, **kwargs))
        found = [one for one in torch.utils._pytree.tree_leaves(got) if isinstance(one, dynograd.Tensor)]
        lacking = [number for number in chosen if not found[number].requires_grad]
        if lacking:
            yield f"{described(sample)}: result {lacking[0]} has no gradient"
            return
        gradients = dynograd.autograd.grad(
            [found[number] for number in chosen],
            [met[id(leaf)] for leaf in leaves],
            [converted(one, {}) for one in cotangents],
            allow_unused=True,
        )
        wrong = ""
        for number, (ours, theirs) in enumerate(zip(gradients, expected, strict=True)):
            if ours is None and theirs is not None:
                wrong = "" if not theirs.any() else "no gradient"
            elif theirs is None:
                wrong = "" if ours is None or not of_torch(ours).any() else "a gradient where torch has none"
            else:
                wrong = differences(
                    ours if theirs is _dense(theirs) else ours.to_dense(), _dense(theirs), tolerance_of(entry)
                )
            if wrong:
                wrong = f"gradient {number}: {wrong}"
                break
    except Missing as error:
        wrong = str(error)
    except Exception as error:
        wrong = error_text(error)
    if wrong:
        yield f"{described(sample)}: {wrong}"


def method(entry: Any) -> Iterator[str]:
    """The method of Tensor and the other names of the same op."""
    if entry.method_variant is not None and entry.method_variant is not entry.op:
        yield from _of_variant(entry, entry.method_variant, entry.name.split(".")[-1])
    for alias in entry.aliases:
        yield from _of_variant(entry, alias.op, alias.name)


def _of_variant(entry: Any, theirs: Any, name: str) -> Iterator[str]:
    dtype = dtypes_of(entry, FORWARD_DTYPES)[0]
    function = twin(theirs, name)
    for sample in samples_of(entry, dtype, most=3):
        if isinstance(sample.input, torch.Tensor) or theirs is not entry.method_variant:
            yield from (
                f"{name}{text}" for text in _compared(entry, theirs, function, sample, dtype, not is_random(entry))
            )


def inplace(entry: Any) -> Iterator[str]:
    """The in-place method: its result, the changed tensor and gradients through it; refused where the result does not fit."""
    if entry.inplace_variant is None:
        return
    names = [alias.inplace_variant for alias in entry.aliases if alias.inplace_variant is not None]
    for variant in [entry.inplace_variant, *names]:
        yield from _of_inplace_variant(entry, variant, twin(variant))


def _of_inplace_variant(entry: Any, theirs: Any, ours: Any) -> Iterator[str]:
    def changed(function: Any) -> Any:
        def call(value: Any, *args: Any, **kwargs: Any) -> Any:
            held = value.clone()
            result = function(held, *args, **kwargs)
            return [held, result]

        return call

    for dtype in dtypes_of(entry, (torch.float32, torch.int64)):
        for sample in samples_of(entry, dtype, most=5):
            if isinstance(sample.input, torch.Tensor):
                yield from _compared(entry, changed(theirs), changed(ours), sample, dtype, not is_random(entry))
                if sample.broadcasts_input:
                    yield from _refused(changed(theirs), changed(ours), sample)
    if (
        entry.supports_inplace_autograd
        and torch.float64 in entry.supported_backward_dtypes("cpu")
        and not is_random(entry)
    ):
        for sample in samples_of(entry, torch.float64, True, 3):
            if isinstance(sample.input, torch.Tensor):
                yield from _gradients_compared(
                    entry,
                    lambda *a, **k: changed(theirs)(*a, **k)[0],
                    lambda *a, **k: changed(ours)(*a, **k)[0],
                    sample,
                    torch.float64,
                )


def out(entry: Any) -> Iterator[str]:
    """Results written into tensors given as `out=`, which come back."""
    if not entry.supports_out:
        return
    function, dtype = twin(entry.op, entry.name), dtypes_of(entry, FORWARD_DTYPES)[0]
    random = is_random(entry)

    def filled(library: Any, call: Any) -> Any:
        def into(value: Any, *args: Any, **kwargs: Any) -> Any:
            made = call(value, *args, **kwargs)
            many = isinstance(made, (list, tuple))
            places = [library.zeros_like(one) for one in made] if many else library.zeros_like(made)
            result = call(value, *args, **kwargs, out=type(made)(places) if type(made) in (list, tuple) else places)
            given = list(result) if many else [result]
            if [one is place for one, place in zip(given, places if many else [places], strict=True)].count(False):
                raise AssertionError("the result is not the tensor given as out=")
            return places

        return into

    for sample in samples_of(entry, dtype, most=3):
        yield from _compared(entry, filled(torch, entry.op), filled(dynograd, function), sample, dtype, not random)


def errors(entry: Any) -> Iterator[str]:
    """Arguments that torch refuses are refused."""
    if entry.error_inputs_func is None:
        return
    function = twin(entry.op, entry.name)
    torch.manual_seed(0)
    for refused in entry.error_inputs("cpu"):
        yield from _refused(entry.op, function, refused.sample_input)


def _refused(theirs: Any, ours: Any, sample: Any) -> Iterator[str]:
    try:
        theirs(sample.input, *sample.args, **sample.kwargs)
        return
    except Exception as error:
        expected = error
    try:
        value, args, kwargs = _arguments(sample)
        ours(value, *args, **kwargs)
        yield f"{described(sample)}: no {error_text(expected)}"
    except Missing:
        return
    except REFUSALS:
        return
    except Exception as error:
        if not isinstance(error, type(expected)):
            yield f"{described(sample)}: {error_text(error)} instead of {error_text(expected)}"


DATABASE = Database(__file__, ENTRIES, [forward, gradient, method, inplace, out, errors], SECONDS)


if __name__ == "__main__":
    sys.exit(DATABASE.main(__doc__))
