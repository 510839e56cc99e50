"""Every op of PyTorch's database on arguments of random dtypes, with special values among the numbers.

An entry's float32 samples are cast: each floating tensor to a dtype drawn for it. Where PyTorch takes the arguments, so do we, and the
results have its dtypes and values. `mixed_dtypes_known.txt` names what differs. From the top folder:

    python -m tests.parity.mixed_dtypes NAME...            what differs in these entries (`linalg.%`: all whose names start so)
    python -m tests.parity.mixed_dtypes --write            runs everything and writes mixed_dtypes_known.txt anew
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch.testing._internal.opinfo.core import BinaryUfuncInfo, SampleInput, UnaryUfuncInfo

import dynograd
from tests.parity.database import Database, error_text
from tests.parity.op_database import ENTRIES, TIES, UNINITIALISED, dtypes_of, is_random, samples_of
from tests.parity.op_database_twins import Missing, converted, differences, tolerance_of, twin

__all__ = ["DATABASE"]

FULL = bool(os.environ.get("DYNOGRAD_OP_DATABASE_FULL"))
DRAWS = 40 if FULL else 6  # for each sample
SECONDS = 600 if FULL else 60
INTEGERS = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
HALVES = (torch.float16, torch.bfloat16)
DTYPES = (*INTEGERS, *HALVES, torch.float32, torch.float64, torch.complex64, torch.complex128)
SPECIAL = (float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3e4, -7.0, 1e-6)
STRIDED = ("torch.strided", "dynograd.strided")
NUMBERS = (True, 0, 2, -3, 0.5, -1.5, 2.0, float("inf"), float("nan"), 1 + 2j)
# What infinity or NaN become in these is a matter of the order of sums, and PyTorch's LAPACK crashes.
SUMS_OF_PRODUCTS = ("fft.", "linalg.", "nn.functional.conv", "stft", "istft", "svd", "matrix_exp")


def _cast(value: torch.Tensor, dtype: torch.dtype, draw: random.Random, special: bool) -> torch.Tensor:
    """A copy in `dtype`; in a quarter of its places special values."""
    value = value.detach().clone()
    if special and value.numel():
        flat = value.view(-1)
        for place in draw.sample(range(flat.numel()), max(1, flat.numel() // 4)) if flat.numel() < 500 else ():
            flat[place] = draw.choice(SPECIAL)
    if dtype in INTEGERS:
        value = value.nan_to_num(1.0, 3.0, -3.0).clamp(0 if dtype is torch.uint8 else -100, 100)
    return value.to(dtype)


def _variants(entry: Any) -> Iterator[tuple[str, Any]]:
    """Samples with the tensors' dtypes drawn anew; of elementwise ops also one element's tensors and numbers as the second operand."""
    draw = random.Random(entry.name)
    elementwise = isinstance(entry, (UnaryUfuncInfo, BinaryUfuncInfo))
    factorizes = "skipCPUIfNoLapack" in {getattr(element, "__name__", "") for element in entry.decorators or ()}
    ordinary = factorizes or entry.name.startswith(SUMS_OF_PRODUCTS)
    for sample in samples_of(entry, torch.float32, most=4 if elementwise else 2):
        leaves, spec = torch.utils._pytree.tree_flatten((sample.input, tuple(sample.args), dict(sample.kwargs)))
        floating = [
            number
            for number, leaf in enumerate(leaves)
            if isinstance(leaf, torch.Tensor) and leaf.dtype is torch.float32 and leaf.layout is torch.strided
        ]
        if not floating or not min(leaves[number].numel() for number in floating):
            continue
        for count in range(DRAWS):
            shared = draw.choice(DTYPES)
            cast, words = list(leaves), []
            for number in floating:
                dtype = shared if not elementwise and count % 2 else draw.choice(DTYPES)
                if leaves[number].is_contiguous():
                    cast[number] = _cast(leaves[number], dtype, draw, not ordinary and bool(count % 3))
                else:
                    cast[number] = leaves[number].to(dtype)
                words.append(f"{str(dtype)[6:]}{list(leaves[number].shape)}")
            argument, args, kwargs = torch.utils._pytree.tree_unflatten(cast, spec)
            if isinstance(entry, BinaryUfuncInfo) and args and count % 3 == 2:
                if draw.random() < 0.5:
                    args = (draw.choice(NUMBERS), *args[1:])
                elif isinstance(args[0], torch.Tensor) and args[0].numel():
                    args = (args[0].reshape(-1)[0].clone(), *args[1:])
                words[-1] = repr(args[0])
            created = SampleInput(
                argument, args=args, kwargs=kwargs, output_process_fn_grad=sample.output_process_fn_grad
            )
            yield f"({', '.join(words)}, {_options(kwargs)})", created


def _options(kwargs: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in kwargs.items() if not isinstance(value, torch.Tensor))


def mixed(entry: Any) -> Iterator[str]:
    """Results of arguments whose dtypes are drawn."""
    if is_random(entry) or entry.name in UNINITIALISED or torch.float32 not in dtypes_of(entry, (torch.float32,)):
        return
    function, tolerance = twin(entry.op, entry.name), _wide(tolerance_of(entry))
    for words, sample in _variants(entry):
        try:
            expected = entry.op(sample.input, *sample.args, **sample.kwargs)
        except Exception:
            continue
        met: dict[int, Any] = {}
        try:
            value, args, kwargs = (converted(element, met) for element in (sample.input, sample.args, sample.kwargs))
            got = function(value, *args, **kwargs)
            if (
                differences(got, expected, {}, False) == ""
            ):  # eigenvectors are unique up to what the entry takes out of them
                process = sample.output_process_fn_grad
                got, expected = twin(process)(got), process(expected)
            wrong = differences(_plain(got), _plain(expected), tolerance, entry.name not in TIES)
            if wrong.startswith("values") and not _of_doubles(entry, sample, got, expected, tolerance):
                wrong = ""  # what PyTorch rounds on the way may overflow or cancel
        except Missing as error:
            wrong = str(error)
        except Exception as error:
            wrong = error_text(error)
        if wrong:
            yield f"{words}: {wrong}"


def _plain(result: Any) -> Any:
    """Complex numbers of which a part is infinite or NaN as NaN: which part it is differs between PyTorch's own loops."""
    if isinstance(result, (list, tuple)):
        return [_plain(element) for element in result]
    if not getattr(getattr(result, "dtype", None), "is_complex", False):
        return result
    if str(result.layout) not in STRIDED:
        result = result.to_dense()
    library = torch if isinstance(result, torch.Tensor) else dynograd
    result = result.detach().resolve_conj()
    return library.where(library.isfinite(result), result, complex("nan+nanj"))


def _of_doubles(entry: Any, sample: Any, got: Any, wanted: Any, tolerance: Any) -> str:
    """What distinguishes a result from PyTorch's of float64 arguments, rounded."""

    def double(one: Any) -> Any:
        if not isinstance(one, torch.Tensor) or not (one.is_floating_point() or one.is_complex()):
            return one
        return one.to(torch.complex128 if one.is_complex() else torch.float64)

    arguments = torch.utils._pytree.tree_map(double, (sample.input, tuple(sample.args), dict(sample.kwargs)))
    try:
        exact = entry.op(arguments[0], *arguments[1], **arguments[2])
    except Exception as error:
        return error_text(error)
    exact = sample.output_process_fn_grad(exact)
    rounded = torch.utils._pytree.tree_map(
        lambda one, as_it_was: one.to(as_it_was.dtype) if isinstance(one, torch.Tensor) else one, exact, wanted
    )
    return differences(_plain(got), _plain(rounded), tolerance)


def _wide(tolerance: dict[torch.dtype, tuple[float, float]]) -> dict[torch.dtype, tuple[float, float]]:
    """Half types add up in another order: their last bits differ."""
    return tolerance | {torch.float16: (4e-3, 1e-3), torch.bfloat16: (3e-2, 1e-2), torch.float32: (1e-4, 2e-5)}


DATABASE = Database(__file__, ENTRIES, [mixed], SECONDS)


if __name__ == "__main__":
    sys.exit(DATABASE.main(__doc__))
