"""Ways to run a program over tensors that must agree: as it is written, in PyTorch where it is installed, in float32, compiled, in a scope of autobatch,
under vmap, with two threads, on a GPU if there is one. Each gives the results and the gradients of the inputs.

A program whose numbers jump when its inputs move in their last digits (a comparison of what rounding leaves, an order of equal numbers) tells nothing
in ways that round otherwise: those are compared where small changes make small differences.
"""

from __future__ import annotations

import importlib.util
import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import dynograd as dg
from dynograd import func
from tests.fuzz.tensor_programs import TensorProgram, make

HAS_TORCH = importlib.util.find_spec("torch") is not None
Arrays = dict[str, np.ndarray]
# What PyTorch refuses and dynograd computes.
REFUSED_BY_TORCH = (
    "input must have 2 dimensions, got 3",
    "modified by an inplace operation",
    "is being modified inplace",
    "Only zero batch",
    "view size is not compatible",
    "expected dtype",
    "and other non-zero dimensions",
    "non-zero size for non-batch dimensions",
    "the unspecified dimension size -1",
    "with optional 0 dim batch size",
    "MKL FFT error",
    "index 0 out of range for tensor of size [0]",
    "missing 1 required positional",
    "is not differentiable with respect to",
    "is not implemented for",
    "derivative for",
    "not implemented",
    "NotImplementedError",
)


def inputs_of(T: Any, program: TensorProgram, dtype: str, device: str = "cpu", shift: float = 0.0) -> list[Any]:
    tensors = []
    for name, array in zip("xyzim", program.inputs, strict=True):
        if name in "im":
            tensors.append(T.tensor(array, device=device))
            continue
        moved = array * (1 + shift * np.cos(np.arange(array.size)).reshape(array.shape))
        tensors.append(T.tensor(moved, dtype=getattr(T, dtype), device=device, requires_grad=name in "xy"))
    return tensors


def total_of(T: Any, results: list[Any]) -> Any:
    """One number of all results, in which each element counts otherwise."""
    total = 0.0
    for result in results:
        weights = T.arange(result.numel(), dtype=result.dtype, device=result.device).cos().reshape(result.shape)
        total = total + (result * (weights + 1.25)).sum().double()
    return total


def array_of(tensor: Any) -> np.ndarray:
    return tensor.detach().cpu().double().numpy().copy()


def collected(T: Any, outputs: Any, x: Any, y: Any) -> Arrays:
    results, kept, leaves = outputs
    total = total_of(T, results)
    if total.requires_grad:
        total.backward()
    arrays = {f"result {number}": array_of(result) for number, result in enumerate(results)}
    return arrays | gradients_of(x, y, kept, leaves)


def gradients_of(x: Any, y: Any, kept: list[Any], leaves: list[Any]) -> Arrays:
    """What is missing counts as 0."""
    arrays = {f"gradient of a hook {number}": array_of(g) for number, g in enumerate(kept)}
    named = [("x", x), ("y", y), *((f"of a kept tensor {number}", leaf) for number, leaf in enumerate(leaves))]
    for name, leaf in named:
        arrays[f"gradient {name}"] = np.zeros(tuple(leaf.shape)) if leaf.grad is None else array_of(leaf.grad)
    return arrays


@contextmanager
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def as_written(
    program: TensorProgram, T: Any = dg, dtype: str = "float64", device: str = "cpu", shift: float = 0.0
) -> Arrays:
    tensors = inputs_of(T, program, dtype, device, shift)
    outputs = program.function()(T, T.nn.functional, *tensors)
    return collected(T, outputs, *tensors[:2])


def compiled(program: TensorProgram, mode: str, dtype: str) -> Arrays:
    """Several calls first, one of them with other numbers: the last goes along the record, if there is one."""
    function = program.function()

    @dg.compile(mode=mode)
    def step(*tensors):
        results, kept, leaves = function(dg, dg.nn.functional, *tensors)
        total = total_of(dg, results)
        if total.requires_grad:
            total.backward()
        return results, kept, leaves

    for number in range(5):
        step(*inputs_of(dg, program, dtype, shift=0.3 * (number == 3)))
    tensors = inputs_of(dg, program, dtype)
    results, kept, leaves = step(*tensors)
    arrays = {f"result {number}": array_of(result) for number, result in enumerate(results)}
    return arrays | gradients_of(*tensors[:2], kept, leaves)


def forward_compiled(program: TensorProgram, mode: str, dtype: str) -> Arrays:
    """The program compiled, its backward called outside."""
    step = dg.compile(program.function(), mode=mode)
    for number in range(5):
        tensors = inputs_of(dg, program, dtype, shift=0.3 * (number == 3))
        collected(dg, step(dg, dg.nn.functional, *tensors), *tensors[:2])
    tensors = inputs_of(dg, program, dtype)
    return collected(dg, step(dg, dg.nn.functional, *tensors), *tensors[:2])


def in_a_scope(program: TensorProgram, dtype: str) -> Arrays:
    """Beside a run with other numbers, of which nothing is told."""
    function = program.function()
    tensors, others = inputs_of(dg, program, dtype), inputs_of(dg, program, dtype, shift=0.3)
    with dg.autobatch():
        outputs = function(dg, dg.nn.functional, *tensors)
        function(dg, dg.nn.functional, *others)
    return collected(dg, outputs, *tensors[:2])


def under_vmap(program: TensorProgram, dtype: str) -> Arrays:
    """The first of two that are run together."""
    function = program.function()
    tensors, others = inputs_of(dg, program, dtype), inputs_of(dg, program, dtype, shift=0.3)
    results = func.vmap(lambda *stacked: tuple(function(dg, dg.nn.functional, *stacked)[0]))(
        *(dg.stack(list(pair)) for pair in zip(tensors, others, strict=True))
    )
    return collected(dg, ([result[0] for result in results], [], []), *tensors[:2])


def with_two_threads(program: TensorProgram, dtype: str) -> Arrays:
    before = dg.get_num_threads()
    dg.set_num_threads(1 if before > 1 else 2)
    try:
        return as_written(program, dtype=dtype)
    finally:
        dg.set_num_threads(before)


def in_torch(program: TensorProgram, dtype: str) -> Arrays:
    import torch

    return as_written(program, torch, dtype)


# Ways that give the bits of the program as it is written, and those that may round otherwise.
SAME_BITS: dict[str, Callable[[TensorProgram], Arrays]] = {
    "again": lambda program: as_written(program),
    "exact": lambda program: compiled(program, "exact", "float64"),
    "exact forward": lambda program: forward_compiled(program, "exact", "float64"),
}
ROUNDED: dict[str, Callable[[TensorProgram], Arrays]] = {
    "compile": lambda program: compiled(program, "default", "float64"),
    "replay": lambda program: compiled(program, "replay", "float64"),
    "compiled forward": lambda program: forward_compiled(program, "default", "float64"),
    "autobatch": lambda program: in_a_scope(program, "float64"),
    "vmap": lambda program: under_vmap(program, "float64"),
    "threads": lambda program: with_two_threads(program, "float64"),
} | ({"torch": lambda program: in_torch(program, "float64")} if HAS_TORCH else {})
IN_FLOAT32: dict[str, Callable[[TensorProgram], Arrays]] = {
    "float32": lambda program: as_written(program, dtype="float32"),
    "compile float32": lambda program: compiled(program, "default", "float32"),
    "forward float32": lambda program: forward_compiled(program, "default", "float32"),
} | ({"torch float32": lambda program: in_torch(program, "float32")} if HAS_TORCH else {})
if dg.cuda.is_available():
    IN_FLOAT32["cuda"] = lambda program: as_written(program, dtype="float32", device="cuda")
    ROUNDED["cuda float64"] = lambda program: as_written(program, device="cuda")
ON_VALUES = ("view size is not compatible", "item", "data-dependent", "bool(", "vmap")  # what vmap refuses


def differences(ours: Arrays, other: Arrays, tolerance: float, only: set[str] | None = None) -> list[str]:
    """What two ways do not agree in."""
    lines = []
    for name, array in ours.items():
        if only is not None and name not in only:
            continue
        if name not in other:
            lines.append(f"{name}: missing")
            continue
        theirs = other[name]
        if array.shape != theirs.shape:
            lines.append(f"{name}: shape {array.shape} and {theirs.shape}")
        elif tolerance == 0.0:
            if not np.array_equal(array, theirs, equal_nan=True):
                lines.append(f"{name}: other bits, {np.abs(array - theirs).max():.3g} of {np.abs(array).max():.3g}")
        elif not np.allclose(
            array, theirs, rtol=tolerance, atol=tolerance * (1 + np.nanmax(np.abs(array), initial=0)), equal_nan=True
        ):
            lines.append(f"{name}: differs by {np.abs(array - theirs).max():.3g} of {np.abs(array).max():.3g}")
    return lines


def steady(program: TensorProgram, expected: Arrays, shift: float, tolerance: float) -> set[str]:
    """Names of what moves little when the inputs move little."""
    names = set(expected)
    for factor in (1, -1, 0.37, -0.61):
        moved = as_written(program, shift=factor * shift)
        names = {name for name in names if not differences({name: expected[name]}, moved, tolerance)}
    return names


def problems(seed: int, names: list[str] | None = None, program: TensorProgram | None = None) -> list[str]:
    """What goes wrong with the program of a seed, a line each; none, if all ways agree."""
    with quiet():
        return _problems(program or make(seed), names)


def _problems(program: TensorProgram, names: list[str] | None) -> list[str]:
    told: list[str] = []
    try:
        expected = as_written(program)
    except Exception as error:
        if HAS_TORCH:
            try:
                in_torch(program, "float64")
            except Exception:
                return []
        return [f"as written: {type(error).__name__}: {str(error)[:300]}"]
    groups: list[tuple[dict[str, Callable[[TensorProgram], Arrays]], float, set[str] | None]] = [
        (SAME_BITS, 0.0, None),
        (ROUNDED, 1e-7, steady(program, expected, 1e-12, 1e-8)),
        (IN_FLOAT32, 2e-3, steady(program, expected, 3e-6, 3e-4)),
    ]
    for ways, tolerance, only in groups:
        for name, way in ways.items():
            if names and name not in names:
                continue
            try:
                arrays = way(program)
            except Exception as error:
                words = f"{type(error).__name__}: {str(error)[:300]}"
                if name == "vmap" and any(word in words for word in ON_VALUES):
                    continue
                if name.startswith("torch") and any(word in words for word in REFUSED_BY_TORCH):
                    continue
                told.append(f"{name}: {words}")
                continue
            told += [
                f"{name}: {line}"
                for line in differences(expected, arrays, tolerance, only)
                if name != "vmap" or ("hook" not in line and "kept" not in line)
            ]
    if HAS_TORCH and (not names or "refused" in names):
        told += refusals(program)
    if HAS_TORCH and (not names or "dtypes" in names):
        told += promotions(program)
    return told


# What has other dtypes than PyTorch's for a reason: no complex halves, products of one dtype throughout, minima of numbers that have no order.
OTHER_DTYPES = (
    "complex: Expected both",
    "to have the same dtype",
    "which have no order",
    "not implemented for dynograd",
)
DTYPES = ("float32", "float64", "bfloat16", "float16", "int64", "bool", "uint8", "complex64")


def promotions(program: TensorProgram) -> list[str]:
    """Where results of inputs of several dtypes have other dtypes than PyTorch's, and what PyTorch takes and dynograd refuses."""
    import torch

    if (
        "with_logits" in program.text or "block_diag" in program.text
    ):  # PyTorch's are those of the target, and of the first
        return []
    draw = random.Random(program.seed)
    kinds = [draw.choices(DTYPES, [8, 4, 3, 3, 2, 1, 1, 2])[0] for _ in range(3)]
    if "complex64" in kinds and "float16" in kinds:  # of both PyTorch makes complex halves
        return []

    def run(T: Any) -> list[tuple]:
        tensors = inputs_of(T, program, "float64")
        for number, kind in enumerate(kinds):
            tensors[number] = tensors[number].detach().to(getattr(T, kind))
            if kind[0] in "fbc" and kind != "bool" and number < 2:
                tensors[number].requires_grad_()
        results, _, _ = program.function()(T, T.nn.functional, *tensors)
        return [(str(result.dtype).rpartition(".")[2], tuple(result.shape), result.requires_grad) for result in results]

    try:
        expected = run(torch)
    except Exception:
        return []
    try:
        ours = run(dg)
    except Exception as error:
        if any(word in str(error) for word in OTHER_DTYPES):
            return []
        return [f"dtypes of {kinds}: {type(error).__name__}: {str(error)[:300]}"]
    return [
        f"dtypes of {kinds}: result {number} is {a}, PyTorch's {b}"
        for number, (a, b) in enumerate(zip(ours, expected, strict=True))
        if a != b and (a[:2] != b[:2] or 0 not in a[1])  # second derivatives of nothing have no history here
    ]


def refusals(program: TensorProgram) -> list[str]:
    """Lines that dynograd refuses and PyTorch takes."""
    import torch

    lines = []
    for before, text, error in program.refused:
        if "index_fill" in text and "out of bounds" in error:  # PyTorch does not look at places in nothing
            continue
        name = text.rpartition("\n")[2].partition(" = ")[0]
        whole = program.text_of([*program.lines[:before], *text.split("\n")], [name])
        try:
            results, _, _ = program.function(whole)(torch, torch.nn.functional, *inputs_of(torch, program, "float64"))
            if not isinstance(results[0], torch.Tensor):
                continue
        except Exception:
            continue
        lines.append(f"refused: {text!r}: {error[:300]}")
    return lines
