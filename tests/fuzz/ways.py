"""Ways to run a program that must agree: row by row, ragged, in a scope of autobatch, under vmap, compiled, in float64, with one thread and two, and
in PyTorch where it is installed. Each gives the results of the rows and the gradients of the weights and of the rows.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

import numpy as np

import dynograd as dg
from dynograd import func
from tests.fuzz.programs import WEIGHTS, D, Program, make

HAS_TORCH = importlib.util.find_spec("torch") is not None
Result = tuple[list[np.ndarray], dict[str, np.ndarray], list[np.ndarray]]


def data(seed: int, equal: bool = False) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    """Rows of a batch, and weights."""
    draw = np.random.default_rng(seed)
    lengths = [3] * 4 if equal else draw.integers(1, 6, 4)
    rows = [draw.normal(size=(int(n), D)) * 0.7 for n in lengths]
    return rows, {name: draw.normal(size=shape) * 0.4 for name, shape in WEIGHTS.items()}


def tensors(T, arrays, dtype, grad=True):
    return [T.tensor(array, dtype=getattr(T, dtype), requires_grad=grad) for array in arrays]


def collected(T, results, weights, rows) -> Result:
    total = sum(result.sum() for result in results)
    total.backward()

    def gradient(x):
        return (np.zeros(tuple(x.shape)) if x.grad is None else x.grad.detach().numpy()).astype(np.float64)

    values = [result.detach().numpy().astype(np.float64) for result in results]
    return values, {name: gradient(weight) for name, weight in weights.items()}, [gradient(row) for row in rows]


def by_row(program: Program, rows, weights, T=dg, dtype="float32") -> Result:
    function = program.function()
    xs = tensors(T, rows, dtype)
    w = dict(zip(weights, tensors(T, weights.values(), dtype)))
    return collected(T, [function(T, x, w) for x in xs], w, xs)


def ragged(program: Program, rows, weights) -> Result:
    function = program.function()
    xs = tensors(dg, rows, "float32")
    w = dict(zip(weights, tensors(dg, weights.values(), "float32")))
    batch = function(dg, dg.ragged_tensor(xs), w)
    return collected(dg, list(batch.unbind()), w, xs)


def in_a_scope(program: Program, rows, weights) -> Result:
    function = program.function()
    xs = tensors(dg, rows, "float32")
    w = dict(zip(weights, tensors(dg, weights.values(), "float32")))
    with dg.autobatch():
        results = [function(dg, x, w) for x in xs]
    return collected(dg, results, w, xs)


def under_vmap(program: Program, rows, weights) -> Result:
    function = program.function()
    xs = tensors(dg, rows, "float32")
    w = dict(zip(weights, tensors(dg, weights.values(), "float32")))
    batch = func.vmap(lambda x: function(dg, x, w))(dg.stack(xs))
    return collected(dg, list(batch.unbind()), w, xs)


def compiled(program: Program, rows, weights, mode=None) -> Result:
    """Several calls with other rows first: the last one goes along the record, if there is one."""
    function = program.function()
    w = dict(zip(weights, tensors(dg, weights.values(), "float32")))

    @dg.compile(mode=mode)
    def step(*xs):
        results = [function(dg, x, w) for x in xs]
        total = sum(result.sum() for result in results)
        total.backward()
        return results

    for number in range(5):
        other, _ = data(1000 + number) if number % 2 else (rows, None)
        step(*tensors(dg, other, "float32"))
        for weight in w.values():
            weight.grad = None
    xs = tensors(dg, rows, "float32")
    results = step(*xs)
    values = [result.detach().numpy().astype(np.float64) for result in results]

    def gradient(x):
        return (np.zeros(tuple(x.shape)) if x.grad is None else x.grad.numpy()).astype(np.float64)

    return values, {name: gradient(weight) for name, weight in w.items()}, [gradient(x) for x in xs]


def with_two_threads(program: Program, rows, weights) -> Result:
    before = dg.get_num_threads()
    dg.set_num_threads(1 if before > 1 else 2)
    try:
        return by_row(program, rows, weights)
    finally:
        dg.set_num_threads(before)


def in_float64(program: Program, rows, weights) -> Result:
    return by_row(program, rows, weights, dtype="float64")


def in_torch(program: Program, rows, weights) -> Result:
    import torch

    return by_row(program, rows, weights, T=torch)


WAYS: dict[str, Callable[..., Result]] = {
    "ragged": ragged,
    "autobatch": in_a_scope,
    "compile": compiled,
    "replay": lambda program, rows, weights: compiled(program, rows, weights, "replay"),
    "float64": in_float64,
    "threads": with_two_threads,
} | ({"torch": in_torch} if HAS_TORCH else {})
EQUAL_ROWS: dict[str, Callable[..., Result]] = {"vmap": under_vmap}


def differences(ours: Result, other: Result, tolerance: float) -> list[str]:
    """What two ways do not agree in."""
    lines = []
    pairs = [(f"result {number}", a, b) for number, (a, b) in enumerate(zip(ours[0], other[0], strict=True))]
    pairs += [(f"gradient of {name}", ours[1][name], other[1][name]) for name in ours[1]]
    pairs += [(f"gradient of row {number}", a, b) for number, (a, b) in enumerate(zip(ours[2], other[2], strict=True))]
    for name, a, b in pairs:
        if a.shape != b.shape:
            lines.append(f"{name}: shape {a.shape} and {b.shape}")
        elif not np.allclose(a, b, rtol=tolerance, atol=tolerance * (1 + np.abs(a).max(initial=0)), equal_nan=True):
            lines.append(f"{name}: differs by {np.abs(a - b).max():.3g} of {np.abs(a).max():.3g}")
    return lines


def problems(seed: int, names: list[str] | None = None) -> list[str]:
    """What goes wrong with the program of a seed, a line each; none, if all ways agree."""
    program, told = make(seed), []
    for ways, equal in ((WAYS, False), (EQUAL_ROWS, True)):
        rows, weights = data(seed, equal)
        expected = by_row(program, rows, weights)
        for name, way in ways.items():
            if names and name not in names:
                continue
            try:
                result = way(program, rows, weights)
            except RuntimeError as error:
                if name != "torch" or "modified by an inplace operation" not in str(
                    error
                ):  # PyTorch refuses what is computed here
                    told.append(f"{name}: {type(error).__name__}: {str(error)[:300]}")
                continue
            except Exception as error:
                told.append(f"{name}: {type(error).__name__}: {str(error)[:300]}")
                continue
            told += [f"{name}: {line}" for line in differences(expected, result, 2e-4)]
    again = by_row(program, *data(seed))  # whatever ran before
    first = by_row(program, *data(seed))
    told += [f"again: {line}" for line in differences(again, first, 0.0)]
    return told
